"""Schemas of Delta as Arrow's, and the other way round as Spark's DDL and types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from binlake.errors import SchemaError
from binlake.format.sql_names import quoted_name
from binlake.mirror.tables.schema import FIELD_ID, decimal_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ID = "delta.columnMapping.id"
_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int32(),
    "short": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
}
_SQL = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", "UTC"): "TIMESTAMP_LTZ",  # TIMESTAMP depends on spark.sql.timestampType
}


def arrow_schema(schema: str) -> pa.Schema:
    """The Arrow schema, with field ids, of a schema in Delta's log. Raises SchemaError."""
    return pa.schema([_field(field) for field in json.loads(schema)["fields"]])


def _field(field: Mapping[str, Any]) -> pa.Field:
    metadata = {FIELD_ID: str(field["metadata"].get(_ID, 0))}
    return pa.field(field["name"], _type(field["type"], field["name"]), metadata=metadata)


def _type(kind: Any, name: str) -> pa.DataType:
    if isinstance(kind, str):
        if kind in _TYPES:
            return _TYPES[kind]
        if (decimal := decimal_type(kind)) is not None:
            return decimal
    elif kind["type"] == "array":
        return pa.list_(pa.field("element", _type(kind["elementType"], name)))
    elif kind["type"] == "struct":
        return pa.struct([_field(field) for field in kind["fields"]])
    raise SchemaError(
        f"column {name}: the mirror does not write Delta's type {json.dumps(kind)}", field=name
    )


def column_sql(field: pa.Field) -> str:
    """Name and type of a column in SQL."""
    return f"{quoted_name(field.name)} {type_sql(field.type)}"


def type_sql(kind: pa.DataType) -> str:
    """A type of a stored schema in SQL."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{type_sql(kind.value_type)}>"
    if pa.types.is_struct(kind):
        members = (kind.field(i) for i in range(kind.num_fields))
        return f"STRUCT<{', '.join(f'{quoted_name(m.name)}: {type_sql(m.type)}' for m in members)}>"
    return _SQL[kind]


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's types of a stored schema."""
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(", ".join(column_sql(field) for field in schema))
    assert isinstance(found, StructType)
    return found
