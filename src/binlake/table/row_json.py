"""The output contract of `binlake rows` (design.md §3): one JSON object per row change.

Lines are put together column by column with Arrow kernels, never row by row in Python; the
finished lines of a batch are one buffer, ready to be written. `change_batch` gives the same
rows as columns: the generic view of Spark and of `to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from binlake.table.batches import OPERATIONS, Changes, TableChanges, TransactionFacts
from binlake.table.json_text import join, number, quoted, quoted_plain
from binlake.values.options import ReadOptions

__all__ = ["change_batch", "change_schema", "json_lines"]

_TEXT = pa.large_string()
_OPERATIONS = pa.array(OPERATIONS, pa.string())
_QUOTED_OPERATIONS = pa.array([json.dumps(op) for op in OPERATIONS], _TEXT)


def change_schema(options: ReadOptions) -> pa.Schema:
    """Schema of `change_batch`: the keys of a line of `binlake rows`, images as JSON text."""
    fields = [
        pa.field("op", pa.string()),
        pa.field("database", pa.string()),
        pa.field("table", pa.string()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("gtid", pa.string()),
        pa.field("server_id", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("pos", pa.int64()),
        pa.field("end_pos", pa.int64()),
        pa.field("row", pa.int32()),
    ]
    if options.query:
        fields.append(pa.field("query", pa.string()))
    if options.thread_id:
        fields.append(pa.field("thread_id", pa.int64()))
    return pa.schema([*fields, pa.field("before", pa.string()), pa.field("after", pa.string())])


def change_batch(changes: Changes, options: ReadOptions) -> pa.RecordBatch:
    """All row changes of a flush as columns, in commit order; a missing image is null."""
    schema = change_schema(options)
    parts = [
        pa.RecordBatch.from_arrays(
            _change_columns(table, changes.transactions, options), schema=schema
        )
        for table in changes.tables
    ]
    return _in_order(changes.tables, pa.Table.from_batches(parts, schema))


def _change_columns(
    table: TableChanges, transactions: TransactionFacts, options: ReadOptions
) -> list[pa.Array]:
    facts, of = table.facts, table.facts.transaction
    definition = table.types.definition
    columns = [
        _OPERATIONS.take(facts.op),
        pa.repeat(definition.database, table.count),
        pa.repeat(definition.table, table.count),
        transactions.ts.take(of),
        transactions.gtid.take(of),
        facts.server_id,
        transactions.file.take(of),
        facts.pos,
        facts.end_pos,
        facts.row,
    ]
    if options.query:
        columns.append(facts.query)
    if options.thread_id:
        columns.append(transactions.thread_id.take(of))
    for image in (table.before, table.after):
        assert image is not None, "the generic view decodes both images"
        text = image.to_json().cast(pa.string())
        columns.append(pc.if_else(image.exists(), text, pa.scalar(None, pa.string())))
    return columns


def json_lines(changes: Changes, options: ReadOptions) -> pa.Buffer:
    """All row changes of a flush as lines of JSON, in commit order, each with its newline."""
    prefixes = _TransactionPrefixes(changes.transactions, options)
    parts = [_lines(table, prefixes) for table in changes.tables]
    if not parts:
        return pa.py_buffer(b"")
    lines = parts[0]
    if len(parts) > 1:
        lines = pa.concat_arrays(parts).take(_order(changes.tables))
    return lines.buffers()[2]


class _TransactionPrefixes:
    """What all lines of one transaction share, as JSON, made once per transaction."""

    def __init__(self, transactions: TransactionFacts, options: ReadOptions) -> None:
        gtid = quoted(transactions.gtid).fill_null("null")
        self.head = join(',"ts":', quoted_plain(transactions.ts_text()), ',"gtid":', gtid)
        self.file = join(',"file":', quoted(transactions.file))
        self.options = options
        self.tail: pa.Array | None = None
        if options.thread_id:
            self.tail = join(',"thread_id":', number(transactions.thread_id).fill_null("null"))


def _lines(table: TableChanges, prefixes: _TransactionPrefixes) -> pa.Array:
    assert table.before is not None, "the generic view decodes both images"
    facts, of = table.facts, table.facts.transaction
    definition = table.types.definition
    names = (
        f',"database":{json.dumps(definition.database, ensure_ascii=False)}'
        f',"table":{json.dumps(definition.table, ensure_ascii=False)}'
    )
    pieces: list[pa.Array | str] = [
        '{"op":', _QUOTED_OPERATIONS.take(facts.op), names, prefixes.head.take(of),
        ',"server_id":', number(facts.server_id), prefixes.file.take(of),
        ',"pos":', number(facts.pos), ',"end_pos":', number(facts.end_pos), ',"row":', number(facts.row),
    ]  # fmt: skip
    if prefixes.options.query:
        pieces += [',"query":', quoted(facts.query).fill_null("null")]
    if prefixes.tail is not None:
        pieces.append(prefixes.tail.take(of))
    pieces += [',"before":', table.before.to_json(), ',"after":', table.after.to_json(), "}\n"]
    return join(*pieces)


def _order(tables: Sequence[TableChanges]) -> pa.Array:
    return pc.sort_indices(pa.concat_arrays([table.facts.sequence for table in tables]))


def _in_order(tables: Sequence[TableChanges], rows: pa.Table) -> pa.RecordBatch:
    if len(tables) > 1:
        rows = rows.take(_order(tables))
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
