"""Decoded row changes as Arrow record batches: the typed view of one table, the generic view.

`Changes` is what one flush of the decoder holds: the row changes of each table as arrays. What
many of them have in common is kept once and spread over the rows by index: GTID and commit
time per transaction, file and statement per stretch of successive changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.table.images import Image
from binlake.table.json_text import join
from binlake.table.metadata import SEQUENCE_TYPE, check_names, metadata_fields
from binlake.table.plan import TableTypes
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

__all__ = [
    "OPERATIONS",
    "Changes",
    "RowFacts",
    "Stretch",
    "TableBatch",
    "TableChanges",
    "TransactionFacts",
    "typed_schema",
]

OPERATIONS = ("insert", "update", "delete")  # by the number that the core gives them

_OPERATIONS = pa.array(OPERATIONS, pa.string())


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """What is known once per transaction, as arrays indexed by `RowFacts.transaction`."""

    ts: pa.Array  # timestamp[us, UTC]: commit time
    gtid: pa.Array  # string, null where the log has none
    thread_id: pa.Array  # int64, null where the log does not tell
    start: pa.Array  # int64: offset of the first event in its file

    def ts_text(self) -> pa.Array:
        """Commit times as `2026-11-21T07:09:00.123456Z`."""
        text = self.ts.cast(pa.timestamp("us")).cast(pa.large_string())
        return join(pc.replace_substring(text, " ", "T"), "Z")


class Stretch(NamedTuple):
    """What successive row changes have in common beside their transaction.

    `first_sequence`: of its first row change. `file` is the base name, `ordinal` the file's
    place in its chain. `decided` is only set for an XA transaction that a later group
    committed: the ordinal and offset of that group, and the position from which the
    transaction's own are counted. `query` is the statement, where wanted and known. In a
    relay log, `source_file` and `source_pos` say where the source has the event.
    """

    first_sequence: int
    file: str
    ordinal: int
    decided: tuple[int, int, int] | None = None
    query: str | None = None
    source_file: str | None = None
    source_pos: int | None = None


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What is known of each row change, as arrays.

    `sequence` orders the row changes of all tables; `transaction` is an index into
    TransactionFacts, `stretch` into the stretches; `pos` and `end_pos` are the top-level
    event's place, `row` counts in it.
    """

    op: pa.Array  # uint8, index into OPERATIONS
    pos: pa.Array  # int64
    end_pos: pa.Array  # int64
    row: pa.Array  # int32
    server_id: pa.Array  # int64
    transaction: pa.Array  # int32
    stretch: pa.Array  # int32
    sequence: pa.Array  # int64


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Row changes of one definition of one table.

    For the text target `before` and `after` are the two images. For the typed target `after`
    is the row itself (the after-image, of a delete the before-image), and `before` the
    before-image of updates, None unless it was asked for.
    """

    types: TableTypes
    count: int
    facts: RowFacts
    before: Image | None
    after: Image


@dataclass(frozen=True, slots=True)
class TableBatch:
    """A batch of the typed view, and the definition that its rows were written under."""

    definition: TableDefinition
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Changes:
    """All row changes of one flush, by table, and what they refer to.

    `is_full`: it was made because enough were held, so its last transaction may go on in the next.
    """

    tables: Sequence[TableChanges]
    transactions: TransactionFacts
    stretches: Sequence[Stretch]
    is_full: bool = False

    def per_stretch(self, name: str, kind: pa.DataType) -> pa.Array:
        """A field of the stretches, as an array to be indexed by `RowFacts.stretch`."""
        return pa.array([getattr(stretch, name) for stretch in self.stretches], kind)

    def table_batches(self, options: ReadOptions) -> list[TableBatch]:
        """The typed view's batches, one for each definition of each table.

        Raises SchemaError when a column has the name of a metadata column.
        """
        return [
            TableBatch(table.types.definition, self._typed(table, options)) for table in self.tables
        ]

    def _typed(self, table: TableChanges, options: ReadOptions) -> pa.RecordBatch:
        facts, transactions = table.facts, self.transactions
        of, stretch = facts.transaction, facts.stretch
        made = {
            "op": _OPERATIONS.take(facts.op),
            "ts": transactions.ts.take(of),
            "gtid": transactions.gtid.take(of),
            "server_id": facts.server_id,
            "file": self.per_stretch("file", pa.string()).take(stretch),
            "pos": facts.pos,
            "row": facts.row,
            "seq": self._sequence(facts),
            "absent": table.after.absent(),
        }
        if table.before is not None:
            made["before"] = table.before.struct()
        if options.query:
            made["query"] = self.per_stretch("query", pa.string()).take(stretch)
        if options.thread_id:
            made["thread_id"] = transactions.thread_id.take(of)
        return pa.RecordBatch.from_arrays(
            [*table.after.columns, *made.values()], schema=typed_schema(table.types, options)
        )

    def _sequence(self, facts: RowFacts) -> pa.Array:
        """The struct that sorts in commit order."""
        of = facts.stretch
        file, pos = self.per_stretch("ordinal", pa.int32()).take(of), facts.pos
        row = facts.row.cast(pa.int64())
        decided = [stretch.decided or (None, None, None) for stretch in self.stretches]
        if any(entry[0] is not None for entry in decided):
            files, offsets, origins = (
                pa.array(values, pa.int64()).take(of) for values in zip(*decided, strict=True)
            )
            file = pc.coalesce(files.cast(pa.int32()), file)
            # The rows of all events of such a transaction share one position. What tells them
            # apart must not depend on which tables are read: every row image has a byte at
            # least, so an event's offset in its transaction leaves room for its row ordinals.
            row = pc.coalesce(pc.add(pc.subtract(facts.pos, origins), row), row)
            pos = pc.coalesce(offsets, pos)
        return pa.StructArray.from_arrays([file, pos, row], fields=list(SEQUENCE_TYPE))


def typed_schema(types: TableTypes, options: ReadOptions) -> pa.Schema:
    """The schema of the typed view's batches of one table definition.

    Raises SchemaError when a column has the name of a metadata column.
    """
    check_names(types.definition.full_name, types.names, options)
    fields = metadata_fields(types.schema, options)
    return pa.schema([*types.schema, *fields], metadata=types.schema.metadata)
