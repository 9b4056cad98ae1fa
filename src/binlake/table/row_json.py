"""The output contract of `binlake rows`: one JSON object per row change.

Lines are put together column by column with Arrow kernels, never row by row in Python; the
finished lines of a batch are one buffer, ready to be written. `change_batch` gives the same
rows as columns: the generic view of Spark and of `to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.table.batches import OPERATIONS, Changes, TableChanges
from binlake.table.images import Image
from binlake.table.json_text import join, number, quoted, quoted_plain
from binlake.values.options import ReadOptions

__all__ = ["change_batch", "change_schema", "json_lines"]

_TEXT = pa.large_string()
_NULL = pa.scalar("null", _TEXT)
_OPERATIONS = pa.array(OPERATIONS, pa.string())
_QUOTED_OPERATIONS = pa.array([json.dumps(op) for op in OPERATIONS], _TEXT)


def change_schema(options: ReadOptions) -> pa.Schema:
    """Schema of `change_batch`: the keys of a line of `binlake rows`, images as JSON text.

    It does not depend on the log: `source_file` and `source_pos` are null but in a relay log.
    """
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
        pa.field("source_file", pa.string()),
        pa.field("source_pos", pa.int64()),
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
        pa.RecordBatch.from_arrays(_change_columns(table, changes, options), schema=schema)
        for table in changes.tables
    ]
    rows = pa.Table.from_batches(parts, schema)
    if len(parts) > 1:
        rows = rows.take(_order(changes.tables))
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _change_columns(table: TableChanges, changes: Changes, options: ReadOptions) -> list[pa.Array]:
    facts, transactions = table.facts, changes.transactions
    of, stretch = facts.transaction, facts.stretch
    definition = table.types.definition
    columns = [
        _OPERATIONS.take(facts.op),
        pa.repeat(definition.database, table.count),
        pa.repeat(definition.table, table.count),
        transactions.ts.take(of),
        transactions.gtid.take(of),
        facts.server_id,
        changes.per_stretch("file", pa.string()).take(stretch),
        facts.pos,
        facts.end_pos,
        facts.row,
        changes.per_stretch("source_file", pa.string()).take(stretch),
        changes.per_stretch("source_pos", pa.int64()).take(stretch),
    ]
    if options.query:
        columns.append(changes.per_stretch("query", pa.string()).take(stretch))
    if options.thread_id:
        columns.append(transactions.thread_id.take(of))
    return [*columns, *(_json_column(image.to_json()) for _, image in _images(table))]


def _json_column(text: pa.Array) -> pa.Array:
    try:
        return text.cast(pa.string())  # what Spark reads; lines are not bound by it
    except pa.ArrowInvalid:
        raise UnsupportedError(
            "one batch would hold more than 2 GiB of JSON",
            hint="lower batch_bytes, or leave large columns out with the option columns",
        ) from None


def _images(table: TableChanges) -> tuple[tuple[str, Image], tuple[str, Image]]:
    assert table.before is not None, "the text target decodes both images"
    return ("before", table.before), ("after", table.after)


def json_lines(changes: Changes, options: ReadOptions) -> pa.Buffer:
    """All row changes of a flush as lines of JSON, in commit order, each with its newline."""
    if not changes.tables:
        return pa.py_buffer(b"")
    shared = _SharedPieces(changes, options)
    parts = [_lines(table, shared) for table in changes.tables]
    lines = parts[0]
    if len(parts) > 1:
        lines = pa.concat_arrays(parts).take(_order(changes.tables))
    return lines.buffers()[2]


class _SharedPieces:
    """What the lines of one transaction, or of one stretch, share: made once for each."""

    def __init__(self, changes: Changes, options: ReadOptions) -> None:
        facts = changes.transactions
        gtid = quoted(facts.gtid).fill_null(_NULL)
        self.transaction = join(',"ts":', quoted_plain(facts.ts_text()), ',"gtid":', gtid)
        self.file = join(',"file":', quoted(changes.per_stretch("file", pa.string())))
        #: by transaction, by stretch: what options and relay logs add before the images
        self.thread: pa.Array | None = None
        self.extra: list[pa.Array] = []
        if any(stretch.source_pos is not None for stretch in changes.stretches):
            file = quoted(changes.per_stretch("source_file", pa.string())).fill_null(_NULL)
            pos = number(changes.per_stretch("source_pos", pa.int64())).fill_null(_NULL)
            self.extra.append(join(',"source_file":', file, ',"source_pos":', pos))
        if options.query:
            text = quoted(changes.per_stretch("query", pa.string())).fill_null(_NULL)
            self.extra.append(join(',"query":', text))
        if options.thread_id:
            self.thread = join(',"thread_id":', number(facts.thread_id).fill_null(_NULL))


def _lines(table: TableChanges, shared: _SharedPieces) -> pa.Array:
    facts, definition = table.facts, table.types.definition
    of, stretch = facts.transaction, facts.stretch
    names = (
        f',"database":{json.dumps(definition.database, ensure_ascii=False)}'
        f',"table":{json.dumps(definition.table, ensure_ascii=False)}'
    )
    pieces: list[pa.Array | str] = [
        '{"op":', _QUOTED_OPERATIONS.take(facts.op), names, shared.transaction.take(of),
        ',"server_id":', number(facts.server_id), shared.file.take(stretch),
        ',"pos":', number(facts.pos), ',"end_pos":', number(facts.end_pos), ',"row":', number(facts.row),
        *(piece.take(stretch) for piece in shared.extra),
    ]  # fmt: skip
    if shared.thread is not None:
        pieces.append(shared.thread.take(of))
    for name, image in _images(table):
        pieces += [f',"{name}":', image.to_json().fill_null(_NULL)]
    return join(*pieces, "}\n")


def _order(tables: Sequence[TableChanges]) -> pa.Array:
    return pc.sort_indices(pa.concat_arrays([table.facts.sequence for table in tables]))
