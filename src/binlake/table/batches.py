"""Decoded row changes as Arrow record batches: the typed view of one table, the generic view.

`Changes` is the result of one flush of the decoder: the row changes of each table as arrays. Facts
that many of them share are stored once and referenced by index: GTID and commit time per
transaction, file and statement per row_origin of successive changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array
from binlake.table.images import Image, names_type
from binlake.table.metadata import SEQUENCE_TYPE, check_names, metadata_columns, metadata_fields
from binlake.table.plan import TableTypes
from binlake.table.text.json_text import join
from binlake.table.text.shared_texts import spread_texts
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

OPERATIONS = ("insert", "update", "delete")  # by the number that the core gives them

#: Their names as an array.
OPERATION_NAMES = array(OPERATIONS, pa.string())


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """Facts that are stored once per transaction, as arrays indexed by `RowFacts.transaction`."""

    ts: pa.Array  # timestamp[us, UTC]: commit time
    gtid: pa.Array  # string, null where the log has none
    thread_id: pa.Array  # int64, null if the log does not contain it
    start: pa.Array  # int64: offset of the first event in its file

    def ts_text(self) -> pa.Array:
        """Commit times as `2026-11-21T07:09:00.123456Z`."""
        text = self.ts.cast(pa.timestamp("us")).cast(pa.large_string())
        return join(pc.replace_substring(text, " ", "T"), "Z")


class RowOrigin(NamedTuple):
    """Facts that successive row changes share beside their transaction.

    `first_sequence`: of its first row change. `file` is the base name, `ordinal` the file's place
    in its chain. `decided` is only set for an XA transaction that a later group committed: the
    ordinal and offset of that group, and the position from which the transaction's own are
    counted. `query` is the statement, if wanted and known. In a relay log, `source_file` and
    `source_pos` are the position of the event at the source.
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
    """Facts about each row change, as arrays.

    `sequence` orders the row changes of all tables; `transaction` is an index into
    TransactionFacts, `row_origin` into the row_origins; `pos` and `end_pos` are the position of
    the top-level event, in which `row` counts. In the event's body, inflated if it is compressed, the images of the row
    begin at `start`.
    """

    op: pa.Array  # uint8, index into OPERATIONS
    pos: pa.Array  # int64
    end_pos: pa.Array  # int64
    row: pa.Array  # int32
    server_id: pa.Array  # int64
    transaction: pa.Array  # int32
    row_origin: pa.Array  # int32
    sequence: pa.Array  # int64
    start: pa.Array  # uint32

    def filter(self, kept: pa.Array) -> RowFacts:
        """Only the rows where `kept` (bool) is true."""
        return RowFacts(*(getattr(self, one.name).filter(kept) for one in fields(self)))


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Row changes of one definition of one table.

    For the text target `before` and `after` are the two images. For the typed target `after`
    is the row itself (the after-image, of a delete the before-image), and `before` the before-image
    of updates, None unless it was requested.
    """

    types: TableTypes
    count: int
    facts: RowFacts
    before: Image | None
    after: Image

    def filter(self, kept: pa.Array) -> TableChanges:
        """Only the rows where `kept` (bool) is true."""
        before = None if self.before is None else self.before.filter(kept)
        facts, after = self.facts.filter(kept), self.after.filter(kept)
        return TableChanges(self.types, after.count, facts, before, after)


@dataclass(frozen=True, slots=True)
class TableBatch:
    """A batch of the typed view, and the definition under which its rows were written."""

    definition: TableDefinition
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Changes:
    """All row changes of one flush, by table, and the facts that they refer to.

    `is_full`: the decoder held enough for a flush, so the last transaction may continue in the
    next.
    """

    tables: Sequence[TableChanges]
    transactions: TransactionFacts
    row_origins: Sequence[RowOrigin]
    is_full: bool = False

    @property
    def count(self) -> int:
        """How many row changes there are."""
        return sum(table.count for table in self.tables)

    def newest_last(self) -> list[TableChanges]:
        """The tables in the order of their last rows: the newest definition of a table comes last, also if an
        older one was used in between.
        """
        return sorted(self.tables, key=lambda table: table.facts.sequence[-1].as_py())

    def per_row_origin(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a field of the row_origins, as an array to be indexed by `RowFacts.row_origin`."""
        return array([getattr(row_origin, name) for row_origin in self.row_origins], kind)

    def table_batches(
        self, options: ReadOptions, metadata: Container[str] | None = None
    ) -> list[TableBatch]:
        """The typed view's batches, one for each definition of each table, in the order of `newest_last`.

        `metadata`: only these metadata columns, named without prefix; default all of the options.
        Raises SchemaError when a column has the name of a metadata column.
        """
        schemas = _Schemas(options)
        return [
            TableBatch(table.types.definition, self._typed(table, schemas, metadata))
            for table in self.newest_last()
        ]

    def metadata_values(
        self, table: TableChanges, names: Iterable[str]
    ) -> dict[str, pa.Array | None]:
        """Values of metadata columns, by their names without a prefix, for each row of a table."""
        facts, transactions = table.facts, self.transactions
        of, row_origin = facts.transaction, facts.row_origin
        make: dict[str, Callable[[], pa.Array | None]] = {
            "op": lambda: spread_texts(OPERATION_NAMES, facts.op),
            "ts": lambda: transactions.ts.take(of),
            "gtid": lambda: spread_texts(transactions.gtid, of),
            "server_id": lambda: facts.server_id,
            "file": lambda: spread_texts(self.per_row_origin("file", pa.string()), row_origin),
            "pos": lambda: facts.pos,
            "row": lambda: facts.row,
            "seq": lambda: self.sequence(facts),
            "absent": table.after.absent,
            "before": lambda: None if table.before is None else table.before.struct(),
            "query": lambda: self.per_row_origin("query", pa.string()).take(row_origin),
            "thread_id": lambda: transactions.thread_id.take(of),
        }
        return {name: make[name]() for name in names}

    def _typed(
        self, table: TableChanges, schemas: _Schemas, wanted: Container[str] | None
    ) -> pa.RecordBatch:
        schema = schemas.of(table.types)
        names, first = [], len(table.after.columns)
        for column in metadata_columns(schemas.options):
            if wanted is None or column.name in wanted:
                names.append(column.name)
            else:
                schema = schema.remove(first + len(names))
        arrays = [*table.after.columns, *self.metadata_values(table, names).values()]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def sequence(self, facts: RowFacts) -> pa.Array:
        """The struct that sorts in commit order."""
        of = facts.row_origin
        file, pos = self.per_row_origin("ordinal", pa.int32()).take(of), facts.pos
        row = facts.row.cast(pa.int64())
        decided = [row_origin.decided or (None, None, None) for row_origin in self.row_origins]
        if any(entry[0] is not None for entry in decided):
            files, offsets, origins = (
                array(values, pa.int64()).take(of) for values in zip(*decided, strict=True)
            )
            file = pc.coalesce(files.cast(pa.int32()), file)
            # The rows of all events of such a transaction share one position. Their order must not
            # depend on which tables are read: every row image has a byte at least, so an event's
            # offset in its transaction leaves room for its row ordinals.
            row = pc.coalesce(pc.add(pc.subtract(facts.pos, origins), row), row)
            pos = pc.coalesce(offsets, pos)
        return pa.StructArray.from_arrays([file, pos, row], fields=list(SEQUENCE_TYPE))


class _Schemas:
    """The schemas of the typed view's batches of one flush; tables with the same columns share them."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._known: dict[int, pa.Schema] = {}  # by the identity of types that the flush holds

    def of(self, types: TableTypes) -> pa.Schema:
        """Return the schema of a table's batches."""
        model = types.model or types
        known = self._known.get(id(model))
        if known is None:
            known = self._known[id(model)] = typed_schema(model, self.options)
        return known if model is types else known.with_metadata(types.schema.metadata)


def typed_schema(types: TableTypes, options: ReadOptions) -> pa.Schema:
    """Return the schema of the typed view's batches of one table definition.

    Raises SchemaError when a column has the name of a metadata column.
    """
    check_names(types.definition.full_name, types.names, options)
    fields = metadata_fields(types.fields, options, names_type(types.target))
    return pa.schema([*types.fields, *fields], metadata=types.schema.metadata)
