"""Make the key index of a log (`stream/index/key_index.py`): one pass that decodes the primary keys only."""

from __future__ import annotations

from array import array as machine_array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.format.event_types import (
    BINLOG_CHECKPOINT_EVENT,
    FORMAT_DESCRIPTION_EVENT,
    GTID_LIST_EVENT,
    PREVIOUS_GTIDS_LOG_EVENT,
    ROTATE_EVENT,
    STOP_EVENT,
)
from binlake.format.magic import ENCRYPTED_MAGIC, FIRST_EVENT
from binlake.source.access import Access
from binlake.source.arrays import array, scalar
from binlake.source.bytes import open_reader
from binlake.source.chain import Chain, LogPath
from binlake.source.log_file import LogFile
from binlake.stream.index.key_blocks import MOST_BLOCKS, KeyBlocks
from binlake.stream.index.key_forms import BYTES, INTEGER, hashes, text_form
from binlake.stream.index.key_index import MOST_SHARE, KeyIndex, KeyTable
from binlake.stream.index.key_pairs import BLOCK_BITS
from binlake.stream.index.log_index import LogIndex
from binlake.stream.log_reader import LogReader
from binlake.table.batches import Changes, TableChanges
from binlake.table.decode import ChangeDecoder
from binlake.table.schema.history import SchemaHistory
from binlake.table.types.base import ColumnType, Target
from binlake.table.types.enum_set import EnumType
from binlake.table.types.integer import IntegerType
from binlake.table.where.collations import rules_of
from binlake.table.where.images import Rows
from binlake.table.where.texts import collation_of, is_bytes, is_text
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.plan import NameSource, TableDefinition

#: Passing over fewer bytes than these saves nothing.
LEAST_BLOCK_BYTES = 256 << 10

_PAIR_BYTES = 4
_HEAD_TYPES = (
    FORMAT_DESCRIPTION_EVENT,
    PREVIOUS_GTIDS_LOG_EVENT,
    GTID_LIST_EVENT,
    BINLOG_CHECKPOINT_EVENT,
)
_TAIL_TYPES = (ROTATE_EVENT, STOP_EVENT)


def key_index_of(
    path: LogPath,
    index: LogIndex,
    options: ReadOptions | None = None,
    history: SchemaHistory | None = None,
    *,
    least_block_bytes: int = LEAST_BLOCK_BYTES,
) -> KeyIndex:
    """Return the key index of a log, `index` being its other index.

    `options` have keys and schema, and no filter. `history` has the DDL of the logs before it in its chain, and gets
    that of this log; it names the columns of logs that do not (binlog_row_metadata=MINIMAL). Raises BinlogError.
    Raises UnsupportedError for encrypted logs, because the key index would show key values.
    """
    options = options or ReadOptions()
    with Access.of(options).open(path) as log:
        _check(path, log)
        size = index.stamp.bytes
        blocks = _blocks_of(log, index, max(least_block_bytes, -(-size // MOST_BLOCKS)))
    pinned = LogPath(path.path, path.name, path.number, size)
    starts = array(blocks.starts, pa.int64())
    collected: dict[str, _KeysOfTable] = {}
    for changes in _keys_of(Chain(pinned.base, (pinned,)), options, history):
        for table in changes.tables:
            block = _block_of_rows(starts, changes, table)
            name = table.types.definition.full_name
            if name not in collected:
                collected[name] = _KeysOfTable(table, pc.min(block).as_py(), size)
            collected[name].add(table, block)
    columns = [column for keys in collected.values() for column in keys.columns]
    return KeyIndex(
        index.stamp,
        blocks,
        tables={name: keys.table for name, keys in collected.items()},
        rows=KeyIndex.rows_of(_within(columns, int(size * MOST_SHARE), len(blocks.starts))),
    )


def _check(path: LogPath, log: LogFile) -> None:
    """Raise UnsupportedError for a log that cannot have a key index."""
    why = None
    with open_reader(path.path) as reader:
        if log.encrypted_from is not None or reader.read_at(0, FIRST_EVENT) == ENCRYPTED_MAGIC:
            why = "the log is encrypted, and the key index would show key values"
    if log.ibb is not None:
        why = "it is not a log of events"
    if why is not None:
        raise UnsupportedError(f"{path.path} cannot have a key index: {why}")


def _blocks_of(log: LogFile, index: LogIndex, least_bytes: int) -> KeyBlocks:
    """Cut the plain transactions of a log into blocks of `least_bytes` or more. A shorter stretch is a block only
    if there is no other.
    """
    chosen = _stretches(index, least_bytes)
    starts: list[int] = []
    ends: list[int] = []
    counts: list[int] = []
    number = 0
    for pos, end in _plain_transactions(index):
        while number < len(chosen) and chosen[number][1] <= pos:
            number += 1
        if number == len(chosen):
            break
        first, last = chosen[number]
        if pos < first:
            continue
        if pos == first or (pos - starts[-1] >= least_bytes and last - pos >= least_bytes):
            starts.append(pos)
            ends.append(end)
            counts.append(0)
        ends[-1] = end
        counts[-1] += 1
    if not starts:
        return KeyBlocks((), (), (), reads_head=True, reads_tail=True)
    return KeyBlocks(
        starts,
        ends,
        counts,
        reads_head=not _has_only(log, None, starts[0], _HEAD_TYPES),
        reads_tail=not _has_only(log, ends[-1], None, _TAIL_TYPES),
    )


def _stretches(index: LogIndex, least_bytes: int) -> list[tuple[int, int]]:
    """The ranges of plain transactions back to back that have `least_bytes` or more; the first one if none has."""
    first: list[tuple[int, int]] = []
    long: list[tuple[int, int]] = []
    for start, end in _joined(_plain_transactions(index)):
        first = first or [(start, end)]
        if end - start >= least_bytes:
            long.append((start, end))
    return long or first


def _joined(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Put ranges together that are back to back."""
    start, stop = next(ranges, (0, 0))
    for pos, end in ranges:
        if pos != stop:
            yield start, stop
            start = pos
        stop = end
    if stop:
        yield start, stop


def _plain_transactions(index: LogIndex) -> Iterator[tuple[int, int]]:
    """The first byte of each plain transaction of a log, and the byte after it."""
    for part in index.parts(["pos", "end_pos", "plain"]):
        rows = part.filter(part["plain"])
        yield from zip(rows["pos"].to_pylist(), rows["end_pos"].to_pylist(), strict=True)


def _block_of_rows(starts: pa.Array, changes: Changes, table: TableChanges) -> pa.Array:
    """The block of each row change. Transactions that are in no block get the one before, or the first: they are
    read in any case.
    """
    places = changes.transactions.start.take(table.facts.transaction)
    after = pc.search_sorted(starts, places, side="right").cast(pa.int64())
    return pc.max_element_wise(pc.subtract(after, scalar(1)), scalar(0))


def _has_only(log: LogFile, start: int | None, stop: int | None, types: Sequence[int]) -> bool:
    for window in log.windows(start, stop):
        if any(code not in types for code in bytes(window.block.type_code)[: len(window)]):
            return False
    return log.tail is None


def _keys_of(
    chain: Chain, options: ReadOptions, history: SchemaHistory | None
) -> Iterator[Changes]:
    """Decode the primary keys of a log, in both images."""
    ledger = Ledger()
    options = replace(options, threads=1, query=False, invalid="null")
    decoder = ChangeDecoder(options, Target.TEXT, ledger, history=history, columns=_keys_only)
    (reader,) = LogReader.of_chains([chain], options, ledger)
    if history is None:
        return decoder.read(reader)
    return decoder.decode(reader.runs(decoder.on_ddl))


def _keys_only(definition: TableDefinition) -> tuple[str, ...]:
    return tuple(definition.columns[ordinal].name for ordinal in definition.primary_key)


def note_ddl(log: LogPath, history: SchemaHistory, options: ReadOptions) -> None:
    """Give the DDL of a log to a history, for the logs after it; with an index beside it, little is read. Raises
    BinlogError.
    """
    options = replace(options, exclude_table=("*.*",))
    (reader,) = LogReader.of_chains([Chain(log.base, (log,))], options, Ledger())
    for _ in reader.runs(history.note):
        pass


class _KeysOfTable:
    """Collects the key columns of a table."""

    def __init__(self, first: TableChanges, block: int, log_bytes: int) -> None:
        self._name = first.types.definition.full_name
        self._first = block
        self._names = dict.fromkeys(_names_of(first))
        self._key = _keys_only(first.types.definition)
        self._is_described = True
        self._moved: set[int] = set()
        most_pairs = int(log_bytes * MOST_SHARE) // _PAIR_BYTES
        self._forms = _forms_of(first)
        self._collected = [_KeysOfColumn(form, most_pairs) for _, form in self._forms]

    @property
    def table(self) -> KeyTable:
        """The table's entry in the index, with the columns that all definitions have."""
        moved = sum(1 << block for block in self._moved)
        return KeyTable(tuple(self._names), self._key, self._is_described, self._first, moved)

    def add(self, table: TableChanges, block: pa.Array) -> None:
        """Add the rows of one batch. With another key than before, the table has none."""
        definition = table.types.definition
        there = set(_names_of(table))
        self._names = {name: None for name in self._names if name in there}
        self._is_described &= definition.name_source == NameSource.METADATA
        if _forms_of(table) != self._forms:
            self._forms, self._collected = [], []
        if _keys_only(definition) != self._key:
            self._key = ()
        rows = Rows(table)
        self._moved.update(
            pc.unique(block.filter(_moved(rows, len(table.types.columns)))).to_pylist()
        )
        for number, (name, _) in enumerate(self._forms):
            index = table.types.names.index(name)
            for image in ("before", "after"):
                exists = rows.exist(image)
                cells = rows.cells(index, image)
                self._collected[number].add(cells.values, block, exists)

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The key columns, for `KeyIndex.rows_of`."""
        return [
            {"table": self._name, "column": name, "form": form, **collected.fields()}
            for (name, form), collected in zip(self._forms, self._collected, strict=True)
        ]


class _KeysOfColumn:
    """Collects the values of one key column, in either image."""

    def __init__(self, form: str, most_pairs: int) -> None:
        self._form = form
        self._most_pairs = most_pairs
        self._pairs: machine_array[int] | None = machine_array("I")
        self._always: set[int] = set()
        self._low: dict[int, int] = {}
        self._high: dict[int, int] = {}

    def add(self, values: pa.Array, block: pa.Array, exists: pa.Array | None) -> None:
        """Add the values of one image of some rows; `exists` says which rows have it, None for all."""
        if exists is not None:
            values, block = values.filter(exists), block.filter(exists)
        rows = pa.table({"block": block, "value": values})
        grouped = rows.group_by(["block", "value"], use_threads=False).aggregate([])
        known = grouped.filter(pc.is_valid(grouped["value"]))
        unknown = grouped.filter(pc.is_null(grouped["value"]))
        self._always.update(unknown["block"].to_pylist())
        if self._form == INTEGER:
            self._widen(known)
        blocks, found = known["block"].to_pylist(), known["value"].to_pylist()
        for number, hashed in zip(blocks, hashes(self._form, found), strict=True):
            if hashed is None:
                self._always.add(number)
            elif self._pairs is not None:
                self._pairs.append(hashed << BLOCK_BITS | number)
        if self._pairs is not None and len(self._pairs) > 2 * self._most_pairs:
            self._drop_doubles()

    def fields(self) -> dict[str, Any]:
        """The column's entry in the file; `low` and `high` by number of the block."""
        if self._pairs is not None:
            self._drop_doubles()
        is_integer = self._form == INTEGER
        return {
            "always": bytes(sorted(self._always)),
            "low": self._low if is_integer else None,
            "high": self._high if is_integer else None,
            "pairs": None if self._pairs is None else self._pairs.tobytes(),
        }

    def _widen(self, rows: pa.Table) -> None:
        bounds = rows.group_by("block", use_threads=False).aggregate(
            [("value", "min"), ("value", "max")]
        )
        for row in bounds.to_pylist():
            number, low, high = row["block"], row["value_min"], row["value_max"]
            self._low[number] = min(low, self._low.get(number, low))
            self._high[number] = max(high, self._high.get(number, high))

    def _drop_doubles(self) -> None:
        if not self._pairs:
            return
        buffer = pa.py_buffer(memoryview(self._pairs))
        pairs = pc.unique(pa.Array.from_buffers(pa.uint32(), len(self._pairs), [None, buffer]))
        self._pairs = None
        if len(pairs) <= self._most_pairs:
            sorted_pairs = memoryview(pairs.sort().buffers()[1])
            self._pairs = machine_array("I")
            self._pairs.frombytes(sorted_pairs[: len(pairs) * _PAIR_BYTES])


def _names_of(table: TableChanges) -> list[str]:
    return [column.name for column in table.types.definition.columns]


def _moved(rows: Rows, columns: int) -> pa.Array:
    """Which row changes are updates of the key."""
    moved = pa.repeat(scalar(False), rows.count)
    for index in range(columns):
        before, after = (rows.cells(index, image).values for image in ("before", "after"))
        moved = pc.or_(moved, pc.invert(pc.fill_null(pc.equal(before, after), scalar(False))))
    return pc.and_(moved, rows.are_updates)


def _forms_of(table: TableChanges) -> list[tuple[str, str]]:
    """The key columns that can be hashed, in the order of the key, and their forms."""
    definition = table.types.definition
    kinds = {kind.column.ordinal: kind for kind in table.types.columns}
    forms = [(kinds[ordinal], _form_of(kinds[ordinal])) for ordinal in definition.primary_key]
    return [(kind.column.name, form) for kind, form in forms if form is not None]


def _form_of(kind: ColumnType) -> str | None:
    if isinstance(kind, IntegerType):
        return INTEGER
    if is_bytes(kind):
        return BYTES
    if is_text(kind) and not isinstance(kind, EnumType):
        charset, collation = collation_of(kind)
        rules = rules_of(charset, collation)
        if rules is not None:
            return text_form(pads=rules.pads, folds=rules.folds, ascii_only=rules.ascii_only)
    return None


def _within(columns: list[dict[str, Any]], most_bytes: int, blocks: int) -> list[dict[str, Any]]:
    """The columns with as many lists as fit, the shortest ones first; `low` and `high` as lists of all blocks."""
    left = most_bytes
    for column in sorted(columns, key=lambda column: len(column["pairs"] or b"")):
        left -= len(column["pairs"] or b"")
        if left < 0:
            column["pairs"] = None
        for name in ("low", "high"):
            if column[name] is not None:
                column[name] = [column[name].get(number) for number in range(blocks)]
    return columns
