"""The output contract of `binlake rows`: one JSON object per row change.

`core.text_rows` writes lines from the columns of a batch, in commit order, into one buffer that is
ready for output. `change_batch` returns the same rows as columns: the generic view of Spark and of
`to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_output import TextBuffer
from binlake.core.text.text_rows import RowTemplate, ValueColumn, write_rows
from binlake.errors import UnsupportedError
from binlake.source.arrays import scalar
from binlake.table.batches import OPERATION_NAMES, Changes, TableChanges
from binlake.table.images import Image
from binlake.table.text.json_values import integers, plain_strings, row_index, strings
from binlake.table.text.shared_texts import spread_texts
from binlake.values.options import ReadOptions


def change_schema(options: ReadOptions) -> pa.Schema:
    """Schema of `change_batch`: the keys of a line of `binlake rows`, images as JSON text.

    It does not depend on the log: `source_file` and `source_pos` are null except in a relay log.
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


def change_batch(
    changes: Changes, options: ReadOptions, columns: Sequence[str] = ()
) -> pa.RecordBatch:
    """All row changes of a flush as columns, in commit order; a missing image is null.

    `columns`: only these, in this order; default all of `change_schema`.
    """
    schema = change_schema(options)
    if columns:
        schema = pa.schema([schema.field(name) for name in columns])
    parts = [
        pa.RecordBatch.from_arrays(_change_columns(table, changes, schema.names), schema=schema)
        for table in changes.tables
    ]
    rows = pa.Table.from_batches(parts, schema)
    if len(parts) > 1:
        rows = rows.take(_order(changes.tables))
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _change_columns(table: TableChanges, changes: Changes, names: Sequence[str]) -> list[pa.Array]:
    facts, transactions = table.facts, changes.transactions
    of, row_origin = facts.transaction, facts.row_origin
    definition = table.types.definition
    make: dict[str, Callable[[], pa.Array]] = {
        "op": lambda: spread_texts(OPERATION_NAMES, facts.op),
        "database": lambda: pa.repeat(scalar(definition.database), table.count),
        "table": lambda: pa.repeat(scalar(definition.table), table.count),
        "ts": lambda: transactions.ts.take(of),
        "gtid": lambda: spread_texts(transactions.gtid, of),
        "server_id": lambda: facts.server_id,
        "file": lambda: spread_texts(changes.per_row_origin("file", pa.string()), row_origin),
        "pos": lambda: facts.pos,
        "end_pos": lambda: facts.end_pos,
        "row": lambda: facts.row,
        "source_file": lambda: changes.per_row_origin("source_file", pa.string()).take(row_origin),
        "source_pos": lambda: changes.per_row_origin("source_pos", pa.int64()).take(row_origin),
        "query": lambda: changes.per_row_origin("query", pa.string()).take(row_origin),
        "thread_id": lambda: transactions.thread_id.take(of),
        **{side: partial(_json_column, image) for side, image in _images(table)},
    }
    return [make[name]() for name in names]


def _json_column(image: Image) -> pa.Array:
    try:
        return image.to_json().cast(pa.string())  # the limit for Spark; lines have none
    except pa.ArrowInvalid:
        raise UnsupportedError(
            "one batch would hold more than 2 GiB of JSON",
            hint="lower batch_bytes, or exclude large columns with the option columns",
        ) from None


def _images(table: TableChanges) -> tuple[tuple[str, Image], tuple[str, Image]]:
    assert table.before is not None, "the text target decodes both images"
    return ("before", table.before), ("after", table.after)


def json_lines(changes: Changes, options: ReadOptions, limit: int | None = None) -> TextBuffer:
    """Return row changes of a flush as lines of JSON, in commit order, each with its newline; at
    most `limit` of them.
    """
    shared = _SharedPieces(changes, options)
    templates = [_template(table, shared) for table in changes.tables]
    order = None
    if len(templates) > 1:
        order = memoryview(_order(changes.tables).buffers()[1])
    return write_rows(templates, order, limit)


class _SharedPieces:
    """The parts that the lines of one transaction, or of one row_origin, share: made once for
    each.
    """

    def __init__(self, changes: Changes, options: ReadOptions) -> None:
        facts = changes.transactions
        self.ts = plain_strings(facts.ts_text())
        self.gtid = strings(facts.gtid)
        self.file = strings(changes.per_row_origin("file", pa.string()))
        #: by row_origin: the parts that options and relay logs add before the images
        self.extra: list[tuple[bytes, ValueColumn]] = []
        self.thread_id: ValueColumn | None = None
        if any(row_origin.source_pos is not None for row_origin in changes.row_origins):
            file = strings(changes.per_row_origin("source_file", pa.string()))
            pos = integers(changes.per_row_origin("source_pos", pa.int64()))
            self.extra += [(b',"source_file":', file), (b',"source_pos":', pos)]
        if options.query:
            query = strings(changes.per_row_origin("query", pa.string()))
            self.extra.append((b',"query":', query))
        if options.thread_id:
            self.thread_id = integers(facts.thread_id)


def _template(table: TableChanges, shared: _SharedPieces) -> RowTemplate:
    """Return how the lines of one table are written."""
    facts, definition = table.facts, table.types.definition
    transaction, row_origin = row_index(facts.transaction), row_index(facts.row_origin)
    database, name = (
        json.dumps(part, ensure_ascii=False).encode()
        for part in (definition.database, definition.table)
    )
    template = RowTemplate(table.count)
    template.add(b'{"op":', plain_strings(OPERATION_NAMES), row_index(facts.op))
    template.add(b',"database":' + database + b',"table":' + name)
    template.add(b',"ts":', shared.ts, transaction)
    template.add(b',"gtid":', shared.gtid, transaction)
    template.add(b',"server_id":', integers(facts.server_id))
    template.add(b',"file":', shared.file, row_origin)
    template.add(b',"pos":', integers(facts.pos))
    template.add(b',"end_pos":', integers(facts.end_pos))
    template.add(b',"row":', integers(facts.row))
    for key, values in shared.extra:
        template.add(key, values, row_origin)
    if shared.thread_id is not None:
        template.add(b',"thread_id":', shared.thread_id, transaction)
    for side, image in _images(table):
        image.add_json(template, f',"{side}":'.encode())
    template.add(b"}\n")
    return template


def _order(tables: Sequence[TableChanges]) -> pa.Array:
    return pc.sort_indices(pa.concat_arrays([table.facts.sequence for table in tables]))
