"""Decoded row changes as Arrow record batches: the typed view of one table, the generic view.

`Changes` is what one flush of the decoder holds: the row changes of each table as arrays, and
the transactions that they belong to. Per-transaction facts (GTID, commit time, file) are kept
once per transaction and spread over the rows by index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from binlake.table.images import Image
from binlake.table.json_text import join
from binlake.table.metadata import SEQUENCE_TYPE, metadata_fields
from binlake.table.plan import TableTypes
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

__all__ = ["OPERATIONS", "Changes", "RowFacts", "TableBatch", "TableChanges", "TransactionFacts"]

OPERATIONS = ("insert", "update", "delete")  # by the number that the core gives them

_OPERATIONS = pa.array(OPERATIONS, pa.string())


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """What is known once per transaction, as arrays indexed by a row's `transaction`.

    `ts` is the commit time, `file` the base name and `ordinal` the place in its chain of the
    file that holds the rows. `decided_file`, `decided_pos` and `first_sequence` differ from
    null only for XA transactions that a later group committed: they sort where it stands.
    """

    ts: pa.Array  # timestamp[us, UTC]
    gtid: pa.Array  # string
    thread_id: pa.Array  # int64
    file: pa.Array  # string
    ordinal: pa.Array  # int32
    decided_file: pa.Array  # int32
    decided_pos: pa.Array  # int64
    first_sequence: pa.Array  # int64

    def ts_text(self) -> pa.Array:
        """Commit times as `2026-11-21T07:09:00.123456Z`."""
        text = self.ts.cast(pa.timestamp("us")).cast(pa.large_string())
        return join(pc.replace_substring(text, " ", "T"), "Z")


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What is known of each row change, as arrays.

    `sequence` orders the row changes of all tables; `transaction` is an index into
    TransactionFacts; `pos` and `end_pos` are the top-level event's place, `row` counts in it.
    """

    op: pa.Array  # uint8, index into OPERATIONS
    pos: pa.Array  # int64
    end_pos: pa.Array  # int64
    row: pa.Array  # int32
    server_id: pa.Array  # int64
    transaction: pa.Array  # int32
    sequence: pa.Array  # int64
    query: pa.Array | None = None  # string


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Row changes of one definition of one table.

    For the text target `before` and `after` are the two images. For the typed target `after`
    is the row itself (the after-image, of a delete the before-image), and `before` the
    before-image of updates, where it was asked for.
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
    """All row changes of one flush, by table, and their transactions."""

    tables: Sequence[TableChanges]
    transactions: TransactionFacts

    def table_batches(self, options: ReadOptions) -> list[TableBatch]:
        """The typed view's batches, one for each definition of each table."""
        return [
            TableBatch(table.types.definition, self._typed(table, options)) for table in self.tables
        ]

    def _typed(self, table: TableChanges, options: ReadOptions) -> pa.RecordBatch:
        facts, transactions = table.facts, self.transactions
        of = facts.transaction
        made = {
            "op": _OPERATIONS.take(facts.op),
            "ts": transactions.ts.take(of),
            "gtid": transactions.gtid.take(of),
            "server_id": facts.server_id,
            "file": transactions.file.take(of),
            "pos": facts.pos,
            "row": facts.row,
            "seq": self._sequence(facts),
            "absent": table.after.absent(),
        }
        if options.before and table.before is not None:
            made["before"] = table.before.struct()
        if options.query:
            made["query"] = facts.query
        if options.thread_id:
            made["thread_id"] = transactions.thread_id.take(of)
        schema = table.types.schema
        fields = metadata_fields(schema, options)
        return pa.RecordBatch.from_arrays(
            [*table.after.columns, *made.values()],
            schema=pa.schema([*schema, *fields], metadata=schema.metadata),
        )

    def _sequence(self, facts: RowFacts) -> pa.Array:
        """The struct that sorts in commit order."""
        transactions, of = self.transactions, facts.transaction
        file, pos, row = transactions.ordinal.take(of), facts.pos, facts.row
        if transactions.decided_pos.null_count < len(transactions.decided_pos):
            decided = transactions.decided_pos.take(of)
            file = pc.coalesce(transactions.decided_file.take(of), file)
            # the rows of all events of such a transaction share one position: number them on
            own = pc.subtract(facts.sequence, transactions.first_sequence.take(of))
            row = pc.if_else(decided.is_valid(), own.cast(pa.int32()), row)
            pos = pc.coalesce(decided, pos)
        return pa.StructArray.from_arrays([file, pos, row], fields=list(SEQUENCE_TYPE))
