"""Results as text: the form of a DuckDB column in JSON, in CSV and in a table on the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_output import TextBuffer
from binlake.core.text.text_rows import RowTemplate, ValueColumn, write_rows
from binlake.printable import truncated
from binlake.query.database import QueryResult
from binlake.table.text.json_text import base64_text, hex_text, join
from binlake.table.text.json_values import (
    base64_values,
    hex_values,
    integers,
    plain_strings,
    raw_values,
    reals,
    strings,
)

_TEXT = pa.large_string()
#: Types that leave DuckDB as they are, by format; every other type leaves as text, nested ones as JSON.
_PLAIN = frozenset(
    (
        *("boolean", "tinyint", "smallint", "integer", "bigint"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "hugeint"),
        *("float", "double", "decimal", "varchar", "blob", "date"),
        "timestamp with time zone",
    )
)
_OF_FORMAT = {
    "table": _PLAIN,
    "json": _PLAIN,
    "csv": _PLAIN,
    "csv-guarded": _PLAIN,
    "parquet": _PLAIN | {"timestamp", "time", "list", "struct", "map"},
}
_NESTED = frozenset(("list", "struct", "map", "array", "union", "variant"))
_MOST_CHARACTERS = 100  # of a value in a table


def expressions(result: QueryResult, form: str) -> list[str]:
    """Return SQL that converts a result to the types of its format; [] if no conversion is needed."""
    plain = _OF_FORMAT.get(form)
    if plain is None:
        return []
    made = []
    for place, (name, declared) in enumerate(zip(result.names, result.types, strict=True), 1):
        value, kind = f"#{place}", kind_of(declared)
        if kind not in plain or (kind in _NESTED and "INTERVAL" in declared):
            value = f"to_json({value})" if kind in _NESTED else f"CAST({value} AS VARCHAR)"
        quoted = name.replace('"', '""')
        made.append(f'{value} AS "{quoted}"')
    return made


def kind_of(declared: str) -> str:
    """Return the kind of a type of DuckDB, `DECIMAL(10,2)` or `INTEGER[]`, in lower case."""
    if declared.endswith("]"):
        return "list"
    return declared.partition("(")[0].strip().lower()


# -- JSON -----------------------------------------------------------------------------------------


def json_lines(batch: pa.RecordBatch, types: Sequence[str], binary: str) -> TextBuffer:
    """Return rows as lines of JSON. `types` are DuckDB's; `binary` is hex or base64."""
    template = RowTemplate(batch.num_rows)
    lead = b"{"
    for name, values, declared in zip(batch.schema.names, batch.columns, types, strict=True):
        kind = kind_of(declared)
        key = json.dumps(name, ensure_ascii=False).encode()
        template.add(lead + key + b":", _json_values(values, kind, binary))
        lead = b","
    template.add(b"}\n")
    return write_rows([template], None, None)


def _json_values(values: pa.Array, kind: str, binary: str) -> ValueColumn:
    held = values.type
    if kind in _NESTED:
        return raw_values(values)  # it is JSON already
    if pa.types.is_boolean(held) or pa.types.is_null(held):
        return raw_values(values.cast(_TEXT))
    if pa.types.is_integer(held):
        return integers(values)
    if pa.types.is_floating(held):
        return reals(values)
    if pa.types.is_decimal(held):
        # a reader may take a number for a float: only whole numbers are numbers, as `rows` has it
        text = values.cast(_TEXT)
        return raw_values(text) if held.scale == 0 else plain_strings(text)
    if pa.types.is_binary(held):
        return hex_values(values) if binary == "hex" else base64_values(values)
    if pa.types.is_timestamp(held):
        return plain_strings(moments(values))
    if pa.types.is_date(held):
        return plain_strings(values.cast(_TEXT))
    return strings(values)


def moments(values: pa.Array) -> pa.Array:
    """Return moments with a time zone as text, in UTC."""
    text = values.cast(pa.timestamp("us")).cast(_TEXT)
    return join(pc.replace_substring(text, " ", "T"), "Z")


# -- tables ---------------------------------------------------------------------------------------


def table_lines(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    binary: str,
    shown: Callable[[str], str],
    width: Callable[[str], int],
) -> Iterable[str]:
    """Yield the lines of a table. The first batch determines the widths of the columns.

    `shown` makes a text printable, `width` is its number of cells on a terminal.
    """
    titles = [shown(name) for name in names]
    widths: list[int] = []
    for batch in batches:
        numeric = [_is_number(column.type) for column in batch.columns]
        columns = [_cells(column, binary, shown) for column in batch.columns]
        if not widths:
            widths = [
                max(width(cell) for cell in (title, *cells))
                for title, cells in zip(titles, columns, strict=True)
            ]
            yield _line(titles, widths, numeric, width)
            yield "  ".join("-" * size for size in widths)
        for cells in zip(*columns, strict=True):
            yield _line(cells, widths, numeric, width)
    if not widths:
        yield "  ".join(titles)
        yield "  ".join("-" * width(title) for title in titles)


def _line(
    cells: Sequence[str],
    widths: Sequence[int],
    numeric: Sequence[bool],
    width: Callable[[str], int],
) -> str:
    padded = []
    for cell, size, is_right in zip(cells, widths, numeric, strict=True):
        space = " " * (size - width(cell))
        padded.append(space + cell if is_right else cell + space)
    return "  ".join(padded).rstrip()


def _cells(values: pa.Array, binary: str, shown: Callable[[str], str]) -> list[str]:
    if pa.types.is_binary(values.type):
        text = join("0x", hex_text(values)) if binary == "hex" else base64_text(values)
    elif pa.types.is_timestamp(values.type):
        text = moments(values)
    else:
        text = values.cast(_TEXT)
    return [
        "NULL" if cell is None else truncated(shown(cell), _MOST_CHARACTERS)
        for cell in text.to_pylist()
    ]


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)
