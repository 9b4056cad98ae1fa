"""Present a file of MariaDB's InnoDB binlog as a log, so that other code knows nothing of pages.

The log of a file consists of the event groups whose *commit record* begins in it, in that order,
each with its out-of-band events, wherever these lie (`ibb_records`). Before them come the magic
and two events that the file does not have: a FORMAT_DESCRIPTION, and a GTID_LIST of the GTID state
at the beginning of the file. So a position counts in this log, as the position of a compressed log
counts in the inflated log. It is the same in every reading, and grows with the file.

Unreadable places become a *hole* of zero bytes between whole events, which `damage_at` explains
and `rejoin` leaves. The records on a damaged page are lost: reading continues at the next record
that begins after it.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator

from binlake.errors import BinlogError, FormatError, MalformedError, TruncatedError
from binlake.events.body.encoding import encode_event
from binlake.events.common.format_description import SERVER_VERSION_BYTES, FormatDescriptionEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.format import event_types as types
from binlake.format.event_header import HEADER_BYTES, LENGTH_AT, TYPE_AT, U32
from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F, LOG_EVENT_BINLOG_IN_USE_F
from binlake.format.magic import BINLOG_MAGIC
from binlake.source.ibb_pages import PageFile, PageFiles
from binlake.source.ibb_records import (
    COMMIT,
    DUMMY,
    EMPTY,
    GTID_STATE,
    XA_COMPLETE,
    Record,
    RecordChunk,
    RecordPosition,
    group_pieces,
    page_chunks,
)
from binlake.source.reader import TORN_TAIL, ByteReader, WrappedReader
from binlake.source.streams import StreamReader
from binlake.values.frame import Frame
from binlake.values.gtid import MariaGtid

#: The first server that writes such files; they do not record which server wrote them.
_SERVER_VERSION = "12.3.0-MariaDB"
# server_id of the header, and seq_no and domain_id of a GTID event
_GTID = struct.Struct("<5xI10xQI")
# A longer event must look like an event before memory is allocated for it.
_LONG_EVENT_BYTES = 64 << 20


class IbbReader(WrappedReader):
    """The log of one .ibb file (docstring above); `pages` is the file.

    Raises FormatError for a header that is cut or damaged, UnsupportedError for one of another
    version, SourceError.
    """

    sequential = True

    def __init__(self, inner: ByteReader, name: str) -> None:
        self.pages = PageFile(inner, name)
        self._files = PageFiles(inner.name, self.pages)
        self._holes: dict[int, tuple[FormatError, int]] = {}
        super().__init__(StreamReader(inner.name, lambda: _Stream(self._log()), reopenable=True))

    @property
    def damages(self) -> list[tuple[int, FormatError]]:
        """Every place that could not be read so far, and the reason."""
        return [(offset, error) for offset, (error, _) in sorted(self._holes.items())]

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._inner.read_at(offset, size)
        self._follow()
        return data

    def pinned(self, size: int) -> int | None:
        return None  # how much of its pages holds so many bytes is not known

    def damage_at(self, offset: int) -> BinlogError | None:
        hole = self._holes.get(offset)
        return None if hole is None else hole[0]

    def rejoin(self, offset: int) -> int | None:
        hole = self._holes.get(offset)
        return None if hole is None else hole[1]

    def close(self) -> None:
        super().close()
        self._files.close()

    def _log(self) -> Iterator[bytes]:
        """Yield the log from its beginning, in pieces. Raises the error that ends it before its
        end.
        """
        at = 0
        for piece in self._pieces():
            if isinstance(piece, bytes):
                at += len(piece)
                if piece:
                    yield piece
            else:
                hole = bytes(self.pages.page_bytes)
                self._holes[at] = (piece, at + len(hole))
                at += len(hole)
                yield hole

    def _pieces(self) -> Iterator[bytes | FormatError]:
        """Yield whole events, and the errors where there are none."""
        yield BINLOG_MAGIC + _format_event(LOG_EVENT_BINLOG_IN_USE_F if self._in_use() else 0)
        if self.pages.header is None:
            return
        if state := self._gtid_state():
            yield state
        yield from _Walk(self._files, self.pages).pieces()

    def _in_use(self) -> bool:
        """Whether no other file follows yet: nothing else shows that a file is finished."""
        if self.pages.header is None:
            return True
        try:
            return self._files.file(self.pages.number + 1) is None
        except FormatError:
            return False

    def _gtid_state(self) -> bytes:
        """The GTID state at the beginning of the file, as a GTID_LIST; empty if it is damaged."""
        number, size = self.pages.number, self.pages.page_bytes
        try:
            record = Record(self._files, RecordPosition(number, size), GTID_STATE)
            count = record.number("number of GTIDs")
            record.number("file with prepared XA transactions")
            gtids = []
            for _ in range(count):
                domain_id, server_id = record.number("domain id"), record.number("server id")
                gtids.append(MariaGtid(domain_id, server_id, record.number("sequence number")))
        except FormatError:
            return b""  # the walk gets there
        return _gtid_list(self._without_first(gtids))

    def _without_first(self, gtids: list[MariaGtid]) -> list[MariaGtid]:
        """Return the state before the first group of the file.

        The server counts a group that begins with the file among those before it.
        """
        try:
            first = self._first_gtid()
        except FormatError:
            first = None
        if first is None or first not in gtids:
            return gtids
        before = first._replace(seq_no=first.seq_no - 1)
        kept = [before if gtid == first else gtid for gtid in gtids]
        return [gtid for gtid in kept if gtid.seq_no]

    def _first_gtid(self) -> MariaGtid | None:
        """Return the GTID of a commit record right after the state, with at most an XA record
        between.
        """
        page = self.pages.page(1)
        assert page is not None, "the state was in it"
        for chunk in page_chunks(self.pages, page, 1):
            if chunk.kind == COMMIT and not chunk.continues:
                head = b""
                for piece in group_pieces(
                    self._files, RecordPosition(self.pages.number, chunk.offset)
                ):
                    head += piece
                    if len(head) >= _GTID.size:
                        server_id, seq_no, domain_id = _GTID.unpack_from(head)
                        return (
                            MariaGtid(domain_id, server_id, seq_no)
                            if head[TYPE_AT] == types.GTID_EVENT
                            else None
                        )
            if chunk.kind not in (GTID_STATE, DUMMY, XA_COMPLETE):
                break
        return None


class _Walk:
    """The walk over the records of one file."""

    def __init__(self, files: PageFiles, file: PageFile) -> None:
        self._files = files
        self._file = file
        assert file.header is not None
        self._minor = file.header.minor
        self._open: int | None = None  # the type of the record that the next chunk continues
        # continuations of a record whose beginning is not seen may come: it lies in the file
        # before, or on a damaged page
        self._loose = True
        self._cut: FormatError | None = (
            None  # the reason why the last group is incomplete, if it is the end
        )
        self._reported: set[object] = set()

    def pieces(self) -> Iterator[bytes | FormatError]:
        """Yield the groups whose commit record begins in the file. Raises TruncatedError at a torn
        tail.
        """
        number = 1
        while True:
            try:
                page = self._file.page(number)
            except FormatError as error:
                if isinstance(error, TruncatedError):
                    raise self._torn(error.message) from None
                if not self._is_reported(error):
                    yield error
                self._lost()
                number += 1
                continue
            if page is None:
                if self._cut is not None:
                    raise self._cut
                return
            chunk = yield from self._of_page(page, number)
            if chunk is None:
                number += 1
                continue
            used = number if any(page[chunk.start : -4]) else self._file.next_used(number + 1)
            if used is None:
                self._end(chunk)
                return
            yield MalformedError(
                f"{self._file.place(chunk.offset)}: nothing was written here, but there is data "
                f"after it, on page {used}"
            )
            self._lost()
            number = max(used, number + 1)

    def _of_page(
        self, page: bytes, number: int
    ) -> Generator[bytes | FormatError, None, RecordChunk | None]:
        """Yield the content of the chunks of a page; return the EMPTY chunk that ends them, if
        any.
        """
        ready: list[bytes] = []
        end = None
        try:
            for chunk in page_chunks(self._file, page, number):
                if chunk.kind == EMPTY:
                    end = chunk
                    break
                if small := self._small_group(page, chunk):
                    ready.append(small)
                    continue
                yield b"".join(ready)
                ready.clear()
                yield from self._chunk(chunk)
        except MalformedError as error:
            yield b"".join(ready)
            if not self._is_reported(error):
                yield error
            self._lost()
            return None
        yield b"".join(ready)
        return end

    def _small_group(self, page: bytes, chunk: RecordChunk) -> bytes:
        """Return the events of a group that is one chunk, as most are; nothing for all others."""
        start, end = chunk.start + 1, chunk.end
        if chunk.kind != COMMIT or chunk.continues or not chunk.last or self._open is not None:
            return b""
        if start >= end or page[chunk.start]:  # with records out of band
            return b""
        at = start
        while end - at >= HEADER_BYTES:
            (length,) = U32.unpack_from(page, at + LENGTH_AT)
            if length < HEADER_BYTES:
                return b""
            at += length
        self._loose = False
        return page[start:end] if at == end else b""

    def _is_reported(self, error: FormatError) -> bool:
        """Whether the damaged page of an error has been reported: a group reads it first."""
        return error.page is not None and error.page in self._reported

    def _chunk(self, chunk: RecordChunk) -> Iterator[bytes | FormatError]:
        """Take a chunk: a commit record yields its group. Raises MalformedError."""
        if chunk.kind in (GTID_STATE, DUMMY):
            return
        if chunk.continues:
            if chunk.kind != self._open and not (self._loose and self._open is None):
                raise self._malformed(chunk, "continues a record that did not begin")
        else:
            if self._open is not None:
                yield self._malformed(chunk, "begins a record inside another")
            if chunk.kind > XA_COMPLETE and not self._minor:
                raise self._malformed(chunk, "has an unknown type")
            self._loose = False
            self._open = chunk.kind
            if chunk.kind == COMMIT:
                yield from self._group(RecordPosition(self._file.number, chunk.offset))
        if chunk.last:
            self._open = None

    def _group(self, position: RecordPosition) -> Iterator[bytes | FormatError]:
        events = _WholeEvents(f"{self._files.name(position.number)}, byte {position.offset}")
        try:
            for piece in group_pieces(self._files, position):
                if whole := events.feed(piece):
                    yield whole
            events.finish()
        except FormatError as error:
            if error.kind == TORN_TAIL:  # unless the walk finds that the file goes on
                self._cut = error
                return
            self._reported.add(error.page)
            yield error

    def _lost(self) -> None:
        """Continue after damage."""
        self._open = None
        self._cut = None
        self._loose = True

    def _end(self, chunk: RecordChunk) -> None:
        """Check that the data may end at an EMPTY chunk: only in the last file, between records."""
        place = self._file.place(chunk.offset)
        if self._open is not None:
            raise self._torn(f"{place}: the data ends inside a record")
        after = self._files.file(self._file.number + 1)
        if after is not None:
            raise self._torn(
                f"{place}: the data ends before the end of the file, although {after.name} follows"
            )

    def _torn(self, message: str) -> TruncatedError:
        return TruncatedError(message, kind=TORN_TAIL)

    def _malformed(self, chunk: RecordChunk, what: str) -> MalformedError:
        return MalformedError(f"{self._file.place(chunk.offset)}: this chunk {what}")


class _WholeEvents:
    """Joins pieces of a group to whole events, and holds back what damage cuts."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._held = bytearray()
        self._need = HEADER_BYTES  # number of held bytes from which another look is worthwhile

    def feed(self, piece: memoryview) -> bytes:
        """Take a piece; return the events that are whole. Raises MalformedError."""
        held = self._held
        held += piece
        if len(held) < self._need:
            return b""
        at, size = 0, len(held)
        while size - at >= HEADER_BYTES:
            (length,) = U32.unpack_from(held, at + LENGTH_AT)
            if length < HEADER_BYTES or (
                length > _LONG_EVENT_BYTES and held[at + TYPE_AT] not in types.EVENT_TYPES
            ):
                raise MalformedError(
                    f"{self._place}: the group contains bytes that are not an event: its length "
                    f"would be {length}"
                )
            if length > size - at:
                self._need = length
                break
            at += length
        else:
            self._need = HEADER_BYTES
        whole = bytes(held[:at])
        del held[:at]
        return whole

    def finish(self) -> None:
        """End the group. Raises MalformedError if an event is incomplete."""
        if self._held:
            raise MalformedError(f"{self._place}: the group ends inside an event")


class _Stream:
    """Makes an iterator of pieces readable: `read(n)` returns at most n bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._ready = bytearray()
        self._error: BinlogError | None = None

    def read(self, size: int) -> bytes:
        ready = self._ready
        while len(ready) < size and self._error is None:
            try:
                piece = next(self._pieces, None)
            except BinlogError as error:  # the pieces before it go first
                self._error = error
                break
            if piece is None:
                break
            ready += piece
        if not ready and self._error is not None:
            raise self._error
        data = bytes(ready[:size])
        del ready[:size]
        return data

    def close(self) -> None:
        self._ready.clear()


def _format_event(flags: int) -> bytes:
    """Return the FORMAT_DESCRIPTION that the files do not have: that of the first server that
    writes them. `flags` are those of its header, beside ARTIFICIAL.
    """
    lengths = bytearray(types.PARTIAL_ROW_DATA_EVENT)
    for code in range(1, len(lengths) + 1):
        known = types.EVENT_TYPES.get(code)
        if known is not None and known.flavour != "mysql":
            lengths[code - 1] = known.post_header_length
    lengths[types.FORMAT_DESCRIPTION_EVENT - 1] = 56 + len(lengths)
    event = FormatDescriptionEvent(
        frame=Frame(4, types.FORMAT_DESCRIPTION_EVENT, 0, 0, 0, 0, LOG_EVENT_ARTIFICIAL_F | flags),
        binlog_version=4,
        server_version_raw=_SERVER_VERSION.encode().ljust(SERVER_VERSION_BYTES, b"\0"),
        created=0,
        header_length=HEADER_BYTES,
        post_header_lengths=bytes(lengths),
        checksum_alg=0,
        checksum=None,
    )
    return encode_event(event, None)


def _gtid_list(gtids: list[MariaGtid]) -> bytes:
    event = GtidListEvent(Frame(0, types.GTID_LIST_EVENT, 0, 0, 0, 0, 0), 0, tuple(gtids))
    return encode_event(event, None)
