"""The records of MariaDB's InnoDB binlog: chunks, commit records, and out-of-band data.

Source: MariaDB Docs/replication/binlog.md, client/mysqlbinlog-engine.cc,
storage/innobase/handler/innodb_binlog.cc.

**Chunks.** A page after the first holds chunks: type u8, length u16, data. Bit 7 of the type: the
chunk continues a record; bit 6: it is the record's last. Fewer than four bytes at the end of a
page are filled with 0xFF. Type 0: nothing was written from here on. A record's chunks follow one
another over pages and files (the first page of a file left out); only GTID states and padding may
lie between.

**Records** by type: 1 a commit, 2 a GTID state, 3 out-of-band data, 4 padding, 5 XA PREPARE, 6 XA
COMMIT or ROLLBACK. Events are in commit records and out-of-band data only. Numbers in records are
*compressed*: the low 3 bits of the first byte say how many more bytes follow (7: eight), the value
is the rest, little-endian.

**A commit record** is one event group: number of its out-of-band records; if there are any, file
and offset of the first, file and offset of the last, and the same of a second set, whose number
follows; then events, of which the first is the GTID. The events out of band follow these: those of
the first set, then of the second.

**Out-of-band records** of a transaction were written while it ran, between those of others: index,
left file, left offset, right file, right offset, then a piece of the events, cut anywhere. They
are a forest of perfect binary trees whose nodes were written in post-order: a node without a left
one is a leaf, and the right one of a tree's leftmost leaf is the root of the tree before. From the
last node, which the commit record names, a reader finds all of them in order. No commit record
refers to data that was never committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from binlake.errors import FormatError, MalformedError, TruncatedError
from binlake.source.ibb_pages import CRC_BYTES, PageFile, PageFiles
from binlake.source.reader import TORN_TAIL

EMPTY = 0
COMMIT = 1
GTID_STATE = 2
OOB_DATA = 3
DUMMY = 4
XA_PREPARE = 5
XA_COMPLETE = 6

_CONTINUES = 0x80
_LAST = 0x40
_TYPE_MASK = 0x3F
_FILLER = 0xFF
_CHUNK_HEADER = 3
_MIN_CHUNK = 4
# These may lie between the chunks of another record.
_NESTED = (GTID_STATE, DUMMY)
# A path to a node never has more nodes than this: trees of 2**64 nodes have 64 levels.
_MAX_DEPTH = 64 * 65 // 2


class RecordPosition(NamedTuple):
    """A byte of an InnoDB binlog: the number of the file, and the offset in it.

    Records refer to one another this way. `values.position.LogPosition` has the name of the file.
    """

    number: int
    offset: int


class RecordChunk(NamedTuple):
    """A chunk at `offset` of its file; its data are bytes [start, end) of its page."""

    offset: int
    kind: int
    continues: bool
    last: bool
    start: int
    end: int


def page_chunks(file: PageFile, page: bytes, number: int, at: int = 0) -> Iterator[RecordChunk]:
    """Yield the chunks of page `number` from byte `at` of it on; one of type EMPTY where they end
    early.

    Raises MalformedError for one that is longer than the page.
    """
    base = number * len(page)
    limit = len(page) - CRC_BYTES
    while limit - at >= _MIN_CHUNK:
        byte = page[at]
        if byte == _FILLER:
            return
        if byte == EMPTY:
            yield RecordChunk(base + at, EMPTY, False, True, at, at)
            return
        start = at + _CHUNK_HEADER
        end = start + (page[at + 1] | page[at + 2] << 8)
        if end > limit:
            raise MalformedError(
                f"{file.place(base + at)}: a chunk of {end - start} bytes is longer than its page",
                page=(file.number, number),
            )
        kind = byte & _TYPE_MASK
        yield RecordChunk(base + at, kind, byte & _CONTINUES != 0, byte & _LAST != 0, start, end)
        at = end


def read_compressed(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a compressed number at `at`, and where it ends. Raises TruncatedError."""
    if at < len(data):
        more = data[at] & 7
        end = at + (9 if more == 7 else more + 1)
        if end <= len(data):
            return int.from_bytes(data[at:end], "little") >> 3, end
    raise TruncatedError("the record ends inside a compressed number")


class Record:
    """The record of type `kind` that begins at `position`: numbers first, then the rest.

    `end_kind`: the `kind` of the error for a record that the last file cuts off.
    """

    def __init__(
        self, files: PageFiles, position: RecordPosition, kind: int, end_kind: str | None = None
    ) -> None:
        self.position = position
        self._files = files
        self._kind = kind
        self._end_kind = end_kind
        self._pieces = self._chunk_data()
        self._head = b""
        self._at = 0

    def number(self, field: str) -> int:
        """Return the next compressed number. Raises FormatError, SourceError."""
        while True:
            try:
                value, self._at = read_compressed(self._head, self._at)
            except TruncatedError:
                piece = next(self._pieces, None)
                if piece is None:
                    raise MalformedError(
                        f"{self._shown(self.position)}: the record ends inside a number",
                        field=field,
                    ) from None
                self._head = self._head[self._at :] + bytes(piece)
                self._at = 0
            else:
                return value

    def rest(self) -> Iterator[memoryview]:
        """Yield the bytes after the numbers, piece by piece. Raises FormatError, SourceError."""
        if self._at < len(self._head):
            yield memoryview(self._head)[self._at :]
        self._head, self._at = b"", 0
        yield from self._pieces

    def _chunk_data(self) -> Iterator[memoryview]:
        """Yield the data of the record's chunks, over pages and files."""
        number, offset = self.position
        begun = False
        while True:
            file = self._files.file(number)
            if file is None:
                raise self._missing(number, begun=begun)
            size = file.page_bytes
            page_number, at = divmod(offset, size)
            page = self._page(file, page_number)
            if page is None:
                if not begun:
                    raise self._no_record()
                number, offset = number + 1, size  # the same in all files of a chain
                continue
            for chunk in page_chunks(file, page, page_number, at):
                if begun and chunk.kind in _NESTED:
                    continue
                if chunk.kind == EMPTY and begun:
                    raise self._cut(f"{file.place(chunk.offset)}: the data ends inside a record")
                if chunk.kind != self._kind or chunk.continues != begun:
                    raise self._no_record()
                begun = True
                yield memoryview(page)[chunk.start : chunk.end]
                if chunk.last:
                    return
            offset = (page_number + 1) * size
            if not begun:
                raise self._no_record()

    def _page(self, file: PageFile, number: int) -> bytes | None:
        """Return a page of a file; the first one holds no records."""
        try:
            return file.page(number) if number else None
        except TruncatedError as error:
            raise self._cut(error.message) from None

    def _missing(self, number: int, *, begun: bool) -> FormatError:
        name = self._files.name(number)
        if begun:
            return self._cut(f"a record continues in {name}, which does not exist")
        return TruncatedError(
            f"a part of the transaction is in {name}, which does not exist",
            hint="give the directory that has all files of the server",
        )

    def _cut(self, message: str) -> TruncatedError:
        return TruncatedError(message, kind=self._end_kind)

    def _no_record(self) -> MalformedError:
        return MalformedError(
            f"{self._shown(self.position)}: the whole record of type {self._kind} is not there"
        )

    def _shown(self, position: RecordPosition) -> str:
        return f"{self._files.name(position.number)}, byte {position.offset}"


class _Reference(NamedTuple):
    """A reference of a commit record to a set of out-of-band records (the first is not needed)."""

    records: int
    last: RecordPosition


_NOWHERE = RecordPosition(0, 0)
_NOTHING = _Reference(0, _NOWHERE)


def group_pieces(files: PageFiles, position: RecordPosition) -> Iterator[memoryview]:
    """The events of the commit record at `position`, in order, in pieces that end anywhere.

    Raises FormatError, one of kind TORN_TAIL where the chain ends inside the commit record;
    SourceError.
    """
    record = Record(files, position, COMMIT, TORN_TAIL)
    first = _reference(record)
    second = _reference(record) if first.records else _NOTHING
    yield from record.rest()
    for reference in (first, second):
        if reference.records:
            yield from _out_of_band(files, reference, position)


def _reference(record: Record) -> _Reference:
    count = record.number("number of out-of-band records")
    if not count:
        return _NOTHING
    _position(record, "first record")
    return _Reference(count, _position(record, "last record"))


def _position(record: Record, field: str) -> RecordPosition:
    return RecordPosition(
        record.number(f"file of the {field}"), record.number(f"offset of the {field}")
    )


def _out_of_band(
    files: PageFiles, reference: _Reference, commit: RecordPosition
) -> Iterator[memoryview]:
    """Yield the data of all out-of-band records that a commit record refers to, in order."""
    done = 0
    stack: list[tuple[Record, int] | tuple[RecordPosition, bool]] = [(reference.last, True)]
    before = commit
    while stack:
        top, what = stack.pop()
        if isinstance(top, Record):
            if what != done:
                raise _not_in_order(files, top.position, f"has the index {what}, not {done}")
            done += 1
            yield from top.rest()
            before = commit
            continue
        if top >= before or len(stack) > _MAX_DEPTH:
            raise _not_in_order(files, top, "lies after the record that refers to it")
        record = Record(files, top, OOB_DATA)
        index = record.number("node index")
        left, right = _position(record, "left node"), _position(record, "right node")
        stack.append((record, index))
        before = top
        if left != _NOWHERE:
            stack.append((right, False))
            stack.append((left, bool(what)))
        elif what and right != _NOWHERE:
            stack.append((right, True))
    if done != reference.records:
        raise MalformedError(
            f"{files.name(commit.number)}, byte {commit.offset}: {done} out-of-band records, "
            f"but the commit record counts {reference.records}"
        )


def _not_in_order(files: PageFiles, position: RecordPosition, what: str) -> MalformedError:
    return MalformedError(
        f"{files.name(position.number)}, byte {position.offset}: this out-of-band record {what}"
    )
