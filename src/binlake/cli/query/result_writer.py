"""Write the results of statements: tables on the terminal, and the formats of `rows`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
from rich.cells import cell_len

from binlake.cli.common.change_writer import FORMATS as ROW_FORMATS
from binlake.cli.common.change_writer import table_writer
from binlake.cli.query.result_text import expressions, json_lines, moments, table_lines
from binlake.errors import OptionError
from binlake.printable import printable
from binlake.query.database import QueryResult
from binlake.table.text.json_text import base64_text, hex_text, join

FORMATS = ("table", *ROW_FORMATS)


def write_result(
    result: QueryResult, form: str, binary: str, limit: int | None, target: BinaryIO
) -> None:
    """Write a result, at most `limit` rows of it. Raises OptionError, and the errors of the read."""
    schema, batches = result.batches(lambda its: expressions(its, form))
    batches = _limited(batches, limit)
    if form == "table":
        target.writelines(
            line.encode(errors="backslashreplace") + b"\n"
            for line in table_lines(batches, schema.names, binary, printable, cell_len)
        )
    elif form == "json":
        target.writelines(json_lines(batch, result.types, binary) for batch in batches)
    else:
        _write_table(schema, batches, form, binary, target)


def _limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        yield batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return


def _write_table(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    form: str,
    binary: str,
    target: BinaryIO,
) -> None:
    is_csv = form.startswith("csv")
    if is_csv:
        schema = pa.schema([_in_csv(one) for one in schema])
    if form == "parquet" and len(set(schema.names)) < len(schema.names):
        raise OptionError(
            "the result has several columns of one name, which Parquet files cannot have",
            name="format",
            hint="name them with AS",
        )
    writer = table_writer(form, target, schema)
    try:
        for batch in batches:
            columns = batch.columns
            if is_csv:
                columns = [_csv_values(column, binary) for column in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    finally:
        writer.close()


def _in_csv(column: pa.Field) -> pa.Field:
    tests = (pa.types.is_binary, pa.types.is_decimal, pa.types.is_timestamp)
    is_text = any(test(column.type) for test in tests)
    return column.with_type(pa.large_string()) if is_text else column


def _csv_values(values: pa.Array, binary: str) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return values.cast(pa.large_string())
    if pa.types.is_timestamp(values.type):
        return moments(values).cast(pa.large_string())
    if not pa.types.is_binary(values.type):
        return values
    return join("0x", hex_text(values)) if binary == "hex" else base64_text(values)
