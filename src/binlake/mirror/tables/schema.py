"""Arrow schemas as Iceberg's, and back as the exact schema of a table's data files.

Every column is optional: the server's NOT NULL may go with the next ALTER, and a required column of
Iceberg cannot be made optional for rows that other engines have written.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from binlake.errors import SchemaError

#: The key of the field id in the metadata of an Arrow field, as Parquet's writer takes it.
FIELD_ID = b"PARQUET:field_id"
# of the value, as Iceberg's JSON, that the rows of files without the column have
_INITIAL_DEFAULT = b"iceberg:initial-default"

# Arrow type -> Iceberg's; unsigned ones are the next wider, which holds every value
_PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20, 0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}
_STORED: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def decimal_type(text: str) -> pa.DataType | None:
    """The type of `decimal(10, 2)`, as Iceberg and Delta write it; None for another text."""
    found = _DECIMAL.fullmatch(text)
    return None if found is None else pa.decimal128(int(found[1]), int(found[2]))


def iceberg_schema(arrow: pa.Schema) -> dict[str, Any]:
    """The schema of a new table as Iceberg's JSON. Raises SchemaError."""
    ids = itertools.count(1)
    return {"type": "struct", "schema-id": 0, "fields": _fields(list(arrow), ids)}


def _fields(fields: list[pa.Field], ids: Iterator[int]) -> list[dict[str, Any]]:
    numbered = [(next(ids), field) for field in fields]
    return [
        {
            "id": number,
            "name": field.name,
            "required": False,
            "type": _type(field.type, field.name, ids),
        }
        for number, field in numbered
    ]


def _type(kind: pa.DataType, name: str, ids: Iterator[int]) -> Any:
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, name, ids)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        number = next(ids)
        return {
            "type": "list",
            "element-id": number,
            "element": _type(kind.value_type, name, ids),
            "element-required": False,
        }
    if pa.types.is_struct(kind):
        members = [kind.field(i) for i in range(kind.num_fields)]
        return {"type": "struct", "fields": _fields(members, ids)}
    raise SchemaError(
        f"column {name}: Iceberg has no type for Arrow's {kind}",
        field=name,
        hint="TIME columns are text (--time text) or numbers (--time micros)",
    )


def storage_schema(iceberg: dict[str, Any]) -> pa.Schema:
    """The Arrow schema, with field ids, of the data files of a table. Raises SchemaError."""
    return pa.schema([_stored_field(field) for field in iceberg["fields"]])


def _stored_field(field: dict[str, Any]) -> pa.Field:
    kind = storage_type(field["type"], field["name"])
    metadata: dict[bytes, str] = {FIELD_ID: str(field["id"])}
    if field.get("initial-default") is not None:
        metadata[_INITIAL_DEFAULT] = json.dumps(field["initial-default"])
    return pa.field(field["name"], kind, metadata=metadata)


def with_initial_default(iceberg: dict[str, Any], value: pa.Scalar | None) -> dict[str, Any]:
    """The schema of one new column, with its value in existing rows, in a type of the server or the lake; None: NULL."""
    if value is None:
        return iceberg
    [field] = iceberg["fields"]
    kind = storage_type(field["type"], field["name"])
    stored = value.cast(kind).as_py()
    if pa.types.is_binary(kind):
        stored = stored.hex().upper()
    elif pa.types.is_decimal(kind):
        stored = f"{stored:f}"
    return {**iceberg, "fields": [{**field, "initial-default": stored}]}


def older_rows(field: pa.Field, rows: int) -> pa.Array:
    """The values of a column, a field of `storage_schema`, in rows of a data file that is older than the column."""
    default = (field.metadata or {}).get(_INITIAL_DEFAULT)
    if default is None:
        return pa.nulls(rows, field.type)
    value = json.loads(default)
    if pa.types.is_binary(field.type):
        value = bytes.fromhex(value)
    # a decimal, a date and a time are text in JSON
    scalar = pa.scalar(value) if isinstance(value, str) else pa.scalar(value, field.type)
    return pa.repeat(scalar.cast(field.type), rows)


def storage_type(kind: Any, name: str) -> pa.DataType:
    """The Arrow type in which a type of Iceberg (as JSON) is written. Raises SchemaError."""
    if isinstance(kind, str):
        if kind in _STORED:
            return _STORED[kind]
        if (decimal := decimal_type(kind)) is not None:
            return decimal
    elif kind["type"] == "list":
        element = storage_type(kind["element"], name)
        metadata = {FIELD_ID: str(kind["element-id"])}
        return pa.list_(pa.field("element", element, metadata=metadata))
    elif kind["type"] == "struct":
        return pa.struct([_stored_field(field) for field in kind["fields"]])
    raise SchemaError(
        f"column {name}: the mirror does not write Iceberg's type {json.dumps(kind)}", field=name
    )


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the form of a table's data files: columns by name, a column without values null.

    Raises SchemaError if the table lacks a column, or if its type cannot represent a value.
    """
    for name in rows.column_names:
        if schema.get_field_index(name) < 0:
            raise SchemaError(f"the lake table has no column {name!r}", field=name)
    columns = []
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
            continue
        try:
            columns.append(_cast(rows.column(at), field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"column {field.name}: the lake table's type {field.type} cannot represent it: {error}",
                field=field.name,
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(kind)
