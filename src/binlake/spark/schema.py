"""Arrow schemas as Spark types, and batches as exactly the Arrow schema that Spark expects.

PySpark 4.1 checks only the names of a task's first batch and takes columns by place, so swapped
columns of one type would silently swap their data. 4.2 and later require the exact schema.
`Conformer` therefore makes every batch exact: order, types, nullability.

Everything is nullable, as in every table that Spark reads back from Parquet, so the data source
and an export of the same log have equal schemas.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from binlake.errors import SchemaError
from binlake.source.arrays import array
from binlake.values.times import time_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Spark turns a batch into rows; beyond this many rows a batch only costs memory.
MAX_BATCH_ROWS = 100_000

# Arrow type -> (Spark's type in its JSON, the Arrow type in which Spark accepts it)
_PLAIN: dict[pa.DataType, tuple[str, pa.DataType]] = {
    pa.bool_(): ("boolean", pa.bool_()),
    pa.int8(): ("byte", pa.int8()),
    pa.int16(): ("short", pa.int16()),
    pa.int32(): ("integer", pa.int32()),
    pa.int64(): ("long", pa.int64()),
    pa.float32(): ("float", pa.float32()),
    pa.float64(): ("double", pa.float64()),
    pa.string(): ("string", pa.string()),
    pa.large_string(): ("string", pa.string()),
    pa.binary(): ("binary", pa.binary()),
    pa.large_binary(): ("binary", pa.binary()),
    pa.date32(): ("date", pa.date32()),
    pa.timestamp("us"): ("timestamp_ntz", pa.timestamp("us")),
    pa.timestamp("us", "UTC"): ("timestamp", pa.timestamp("us", "UTC")),
    pa.duration("us"): ("interval day to second", pa.duration("us")),
    # Spark has no unsigned types: the next wider one holds every value
    pa.uint8(): ("short", pa.int16()),
    pa.uint16(): ("integer", pa.int32()),
    pa.uint32(): ("long", pa.int64()),
    pa.uint64(): ("decimal(20,0)", pa.decimal128(20, 0)),
}


def _spark_type(arrow: pa.DataType, name: str) -> tuple[Any, pa.DataType]:
    """Return Spark's type, as in `_PLAIN`. Raises SchemaError if there is none."""
    plain = _PLAIN.get(arrow)
    if plain is not None:
        return plain
    if pa.types.is_decimal(arrow):
        exact = pa.decimal128(arrow.precision, arrow.scale)
        return f"decimal({arrow.precision},{arrow.scale})", exact
    if pa.types.is_dictionary(arrow):
        return _spark_type(arrow.value_type, name)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element, exact = _spark_type(arrow.value_type, name)
        spark = {"type": "array", "elementType": element, "containsNull": True}
        return spark, pa.list_(pa.field("element", exact))
    if pa.types.is_map(arrow):
        (key, exact_key), (value, exact_value) = (
            _spark_type(kind, name) for kind in (arrow.key_type, arrow.item_type)
        )
        spark = {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        return spark, pa.map_(exact_key, exact_value)
    if pa.types.is_struct(arrow):
        fields = [arrow.field(i) for i in range(arrow.num_fields)]
        spark = {"type": "struct", "fields": [_spark_field(field) for field in fields]}
        return spark, pa.struct([_exact_field(field) for field in fields])
    raise SchemaError(f"column {name}: Spark has no type for Arrow's {arrow}", field=name)


def _spark_field(field: pa.Field) -> dict[str, Any]:
    # keep MySQL's name of the column's type: schema["id"].metadata["mysql.type"]
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    kind, _ = _spark_type(field.type, field.name)
    return {"name": field.name, "type": kind, "nullable": True, "metadata": metadata}


def _exact_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _spark_type(field.type, field.name)[1])


def spark_schema(arrow: pa.Schema) -> StructType:
    """Return the Spark schema of a view's Arrow schema.

    Raises SchemaError when two columns differ only in case: Spark cannot distinguish them.
    """
    from pyspark.sql.types import StructType

    return StructType.fromJson(_spark_struct(arrow))


def spark_schema_json(arrow: pa.Schema) -> str:
    """Return the text `spark_schema(arrow).json()`, made without PySpark. Raises SchemaError."""
    return json.dumps(_spark_struct(arrow), separators=(",", ":"), sort_keys=True)


def _spark_struct(arrow: pa.Schema) -> dict[str, Any]:
    _refuse_twins(arrow)
    return {"type": "struct", "fields": [_spark_field(field) for field in arrow]}


def _refuse_twins(arrow: pa.Schema) -> None:
    seen: dict[str, str] = {}
    for name in arrow.names:
        twin = seen.setdefault(name.lower(), name)
        if twin is not name:
            raise SchemaError(
                f"Spark cannot distinguish the columns {twin!r} and {name!r}",
                field=name,
                hint="set another metadata_prefix, or exclude one with the option columns",
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark's reader expects of batches for `schema`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters  # 4.2 and later
    zone: dict[str, Any] = {"timezone": "UTC"} if takes_zone else {}
    return to_arrow_schema(schema, **zone)


def exact_schema(arrow: pa.Schema) -> pa.Schema:
    """Return a decoded schema with the types that Spark accepts; metadata of fields and table
    stay.
    """
    _refuse_twins(arrow)
    return pa.schema([_with_exact_type(field) for field in arrow], metadata=arrow.metadata)


def _with_exact_type(field: pa.Field) -> pa.Field:
    plain = _PLAIN.get(field.type)
    if plain is not None and plain[1] == field.type and field.nullable:
        return field  # creating a field takes longer than everything else here
    return _exact_field(field).with_metadata(field.metadata)


def refuse_variant(schema: StructType) -> None:
    """Raise SchemaError for a column of the user's schema with the type variant."""
    from pyspark.sql.types import StructType, VariantType

    for field in schema.fields:
        if isinstance(field.dataType, VariantType):
            raise SchemaError(
                f"column {field.name}: binlake reads JSON as text, not as variant",
                field=field.name,
                hint=f"use string in .schema(…), and parse_json({field.name})",
            )
        if isinstance(field.dataType, StructType):
            refuse_variant(field.dataType)


class Conformer:
    """Converts decoded batches to batches of exactly the schema that Spark asked for.

    Columns are matched by name (Spark's names ignore case). A wanted column that a batch lacks is
    null: an older definition of the table did not have it. A value that the wanted type cannot
    hold is a SchemaError, never a silent change.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def conform(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch in the wanted schema, cut into pieces of a good size for Spark."""
        exact = self.exact(batch)
        for start in range(0, exact.num_rows, MAX_BATCH_ROWS):
            yield exact.slice(start, MAX_BATCH_ROWS)

    def exact(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in the wanted schema."""
        if batch.schema.equals(self.schema):
            return batch
        places = {name.lower(): i for i, name in enumerate(batch.schema.names)}
        columns = [self._column(batch, places, field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, batch: pa.RecordBatch, places: dict[str, int], field: pa.Field) -> pa.Array:
        place = places.get(field.name.lower())
        if place is None:
            return pa.nulls(batch.num_rows, field.type)
        decoded = batch.schema.field(place)
        try:
            return _fitted(batch.column(place), decoded, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"column {field.name} ({decoded.type}) does not fit {field.type}: {error}",
                field=field.name,
                hint=_hint(decoded.type, field.type),
            ) from None


# Casts that Arrow does silently with another meaning: 1 as 1970-01-02, a time as its µs.
_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("number", lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind)),
    ("number", pa.types.is_decimal),
    ("truth", pa.types.is_boolean),
    ("instant", lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None),
    ("time without a zone", lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind)),
    ("span", pa.types.is_duration),
    ("text", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    ("bytes", lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)),
)
_CASTS = {
    *((kind, kind) for kind, _ in _KINDS),
    *(("text", kind) for kind in ("number", "instant", "time without a zone", "bytes")),
    *((kind, "text") for kind in ("number", "instant", "time without a zone", "bytes")),
    ("number", "truth"),
}
# Spark's own cast between these keeps the wall clock of the session's zone, which no task knows.
_OF_ZONES = {
    ("time without a zone", "instant"): "use timestamp_ntz (or date) in .schema(…)",
    ("instant", "time without a zone"): "use timestamp in .schema(…)",
}


def _kind(arrow: pa.DataType) -> str:
    return next((name for name, holds in _KINDS if holds(arrow)), str(arrow))


def _hint(decoded: pa.DataType, wanted: pa.DataType) -> str:
    advice = _OF_ZONES.get((_kind(decoded), _kind(wanted)))
    if advice is None:
        return "use another type in .schema(…)"
    return f"{advice}, and cast the column in Spark, which takes spark.sql.session.timeZone"


def _time_as(column: pa.Array, field: pa.Field, wanted: pa.DataType) -> pa.Array:
    """Return a TIME or duration as microseconds, or as the server's text."""
    micros = column.cast(pa.int64())
    if pa.types.is_int64(wanted):
        return micros
    digits = int((field.metadata or {}).get(b"mysql.fractional_digits", 0))
    texts = [None if us is None else time_text(us, digits) for us in micros.to_pylist()]
    return array(texts, wanted)


def _fitted(column: pa.Array, field: pa.Field, wanted: pa.DataType) -> pa.Array:
    """Return the same values in another type; `field` describes the column. Raises ArrowInvalid if
    the type cannot hold one of them.
    """
    if column.type == wanted:
        return column
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        return _fitted_struct(column, wanted)
    if pa.types.is_duration(column.type) and (
        pa.types.is_int64(wanted) or pa.types.is_string(wanted)
    ):
        return _time_as(column, field, wanted)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kinds = (_kind(column.type), _kind(wanted))
    if kinds not in _CASTS and kinds[0] != kinds[1]:
        raise pa.ArrowInvalid(f"binlake does not convert {kinds[0]} to {kinds[1]}")
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
            decoded = column.type.field(place)
            children.append(_fitted(column.field(place), decoded, field.type))
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
