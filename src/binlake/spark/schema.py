"""Arrow schemas as Spark types, and batches as exactly the Arrow schema that Spark expects.

PySpark 4.1 looks only at the names of a task's first batch and takes columns by place, so
swapped columns of one type would swap their data in silence; 4.2 and later refuse anything but
the exact schema. `Conformer` therefore makes every batch exact: order, types, nullability.

Everything is nullable, as it is in every table that Spark reads back from Parquet: so the
data source and an export of the same log have equal schemas.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from binlake.errors import SchemaError

__all__ = ["Conformer", "arrow_schema", "exact_schema", "spark_schema"]

# Spark turns a batch into rows; beyond this many rows a batch only costs memory.
MAX_BATCH_ROWS = 100_000

_PLAIN: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampNTZType(),
    pa.timestamp("us", "UTC"): TimestampType(),
    pa.duration("us"): DayTimeIntervalType(),
    # Spark has no unsigned types: the next wider one holds every value
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
}


def _spark_type(arrow: pa.DataType, name: str) -> DataType:
    plain = _PLAIN.get(arrow)
    if plain is not None:
        return plain
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_dictionary(arrow):
        return _spark_type(arrow.value_type, name)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return ArrayType(_spark_type(arrow.value_type, name), containsNull=True)
    if pa.types.is_map(arrow):
        return MapType(_spark_type(arrow.key_type, name), _spark_type(arrow.item_type, name), True)
    if pa.types.is_struct(arrow):
        return StructType([_spark_field(arrow.field(i)) for i in range(arrow.num_fields)])
    raise SchemaError(f"column {name}: Spark has no type for Arrow's {arrow}", field=name)


def _spark_field(field: pa.Field) -> StructField:
    # what MySQL calls the column goes along: schema["id"].metadata["mysql.type"]
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return StructField(field.name, _spark_type(field.type, field.name), True, metadata)


def spark_schema(arrow: pa.Schema) -> StructType:
    """The Spark schema of a view's Arrow schema.

    Raises SchemaError when two columns differ only in case: Spark cannot tell them apart.
    """
    seen: dict[str, str] = {}
    for name in arrow.names:
        twin = seen.setdefault(name.lower(), name)
        if twin is not name:
            raise SchemaError(
                f"columns {twin!r} and {name!r} are one name to Spark",
                field=name,
                hint="choose another option metadata_prefix, or leave one out with columns",
            )
    return StructType([_spark_field(field) for field in arrow])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark's reader expects of batches for `schema`."""
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters  # 4.2 and later
    zone: dict[str, Any] = {"timezone": "UTC"} if takes_zone else {}
    return to_arrow_schema(schema, **zone)


def exact_schema(arrow: pa.Schema) -> pa.Schema:
    """A decoded schema with the types that Spark takes; what is said of fields and table stays."""
    wanted = arrow_schema(spark_schema(arrow))
    fields = [w.with_metadata(a.metadata) for w, a in zip(wanted, arrow, strict=True)]
    return pa.schema(fields, metadata=arrow.metadata)


class Conformer:
    """Turns decoded batches into batches of exactly the schema that Spark asked for.

    Columns go by name (Spark's names ignore case). A wanted column that a batch lacks is null:
    an older definition of the table did not have it. A value that the wanted type cannot hold
    is a SchemaError, never a silent change.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def conform(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in the wanted shape, cut into pieces that Spark likes."""
        exact = self.exact(batch)
        for start in range(0, exact.num_rows, MAX_BATCH_ROWS):
            yield exact.slice(start, MAX_BATCH_ROWS)

    def exact(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the wanted shape."""
        if batch.schema.equals(self.schema):
            return batch
        places = {name.lower(): i for i, name in enumerate(batch.schema.names)}
        columns = [self._column(batch, places, field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, batch: pa.RecordBatch, places: dict[str, int], field: pa.Field) -> pa.Array:
        place = places.get(field.name.lower())
        if place is None:
            return pa.nulls(batch.num_rows, field.type)
        try:
            return _fitted(batch.column(place), field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            kind = batch.column(place).type
            raise SchemaError(
                f"column {field.name} ({kind}) does not fit {field.type}: {error}",
                field=field.name,
                hint="ask for another type in .schema(…)",
            ) from None


# What Arrow casts without a word and means something else: 1 as 1970-01-02, a time as its µs.
_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("number", lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind)),
    ("number", pa.types.is_decimal),
    ("truth", pa.types.is_boolean),
    ("moment", lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind)),
    ("span", pa.types.is_duration),
    ("text", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    ("bytes", lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)),
)
_CASTS = {
    *((kind, kind) for kind, _ in _KINDS),
    *(("text", kind) for kind in ("number", "moment", "bytes")),
    *((kind, "text") for kind in ("number", "moment", "bytes")),
    ("number", "truth"),
}


def _kind(arrow: pa.DataType) -> str:
    return next((name for name, holds in _KINDS if holds(arrow)), str(arrow))


def _fitted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values in another type. Raises ArrowInvalid if it cannot hold one of them."""
    if column.type == wanted:
        return column
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        return _fitted_struct(column, wanted)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kinds = (_kind(column.type), _kind(wanted))
    if kinds not in _CASTS and kinds[0] != kinds[1]:
        raise pa.ArrowInvalid(f"a {kinds[0]} is no {kinds[1]}")
    made = column.cast(wanted)
    rounds = pa.types.is_floating(wanted) or pa.types.is_date(wanted) or kinds[1] == "truth"
    if (rounds or kinds[0] == "text") and not made.cast(column.type).equals(column):
        raise pa.ArrowInvalid("it cannot hold all of the values")
    return made


def _fitted_struct(column: pa.Array, wanted: pa.StructType) -> pa.Array:
    places = {column.type.field(i).name.lower(): i for i in range(column.type.num_fields)}
    fields = [wanted.field(i) for i in range(wanted.num_fields)]
    children = []
    for field in fields:
        place = places.get(field.name.lower())
        if place is None:
            children.append(pa.nulls(len(column), field.type))
        else:
            children.append(_fitted(column.field(place), field.type))
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
