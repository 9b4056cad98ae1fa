"""The pages of MariaDB's InnoDB binlog: files `binlog-NNNNNN.ibb` (12.3, binlog_storage_engine=innodb).

Source: MariaDB Docs/replication/binlog.md, storage/innobase/fsp/fsp_binlog.cc. Numbers are
little-endian. A file is a sequence of pages of one size, each with a CRC-32C of the rest in its
last four bytes. Page 0 begins with the file's header:

    at  size  field
    0   4     magic 0x010dfefe
    4   4     log2 of the page size (14 so far)
    8   4     major version (1): others cannot be read
    12  4     minor version (0): higher ones can
    16  8     number of the file, as in its name
    24  8     pages that the file was made for; FLUSH BINARY LOGS makes it shorter
    32  8     InnoDB's LSN at the start of the file
    40  8     state interval
    48  8     earliest file that commit records of this file may refer to
    56  8     earliest file with XA transactions that may still be prepared
    508 4     CRC-32C of bytes 0 to 507, so that a reader can trust the page size

Files are allocated ahead, full of zero bytes: a page of nothing else is unused.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass

from binlake.core.events.crc32c import crc32c
from binlake.errors import ChecksumError, MalformedError, TruncatedError, UnsupportedError
from binlake.source.bytes import open_reader
from binlake.source.locations import location
from binlake.source.reader import ByteReader
from binlake.values.log_names import LogName

IBB_MAGIC = b"\xfe\xfe\x0d\x01"
#: Bytes at the end of a page that hold its checksum.
CRC_BYTES = 4
_HEADER = struct.Struct("<4sIIIQ")
_HEADER_PAGE_BYTES = 512
_MAJOR = 1
_PAGE_SHIFTS = range(9, 17)
# Pages that are kept: the nodes of a tree lie in any order.
_KEPT_PAGES = 64
_OPEN_FILES = 8


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The content of the first page of a file that reading needs."""

    page_bytes: int
    minor: int
    number: int

    @classmethod
    def decode(cls, head: bytes) -> FileHeader:
        """Read the first 512 bytes of a file. Raises ChecksumError, UnsupportedError."""
        stored = int.from_bytes(head[_HEADER_PAGE_BYTES - CRC_BYTES :], "little")
        computed = crc32c(head, 0, _HEADER_PAGE_BYTES - CRC_BYTES)
        if stored != computed:
            raise ChecksumError(
                f"the header of the file has a bad checksum: stored {stored:08x}, "
                f"computed {computed:08x}",
                expected=stored,
                actual=computed,
                event_pos=0,
            )
        _, shift, major, minor, number = _HEADER.unpack_from(head)
        if major != _MAJOR:
            raise UnsupportedError(f"an InnoDB binlog of version {major} is unknown")
        if shift not in _PAGE_SHIFTS:
            raise UnsupportedError(f"an InnoDB binlog cannot have pages of 2**{shift} bytes")
        return cls(1 << shift, minor, number)


class PageFile:
    """One file: `name` is its base name, `header` None if it was only allocated.

    `verified` and `bad` count its pages whose checksum was checked.
    """

    def __init__(self, reader: ByteReader, name: str) -> None:
        self.name = name
        self._reader = reader
        if not reader.seekable:
            reader.retain(0)  # the parts of transactions are fetched from anywhere
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._good: set[int] = set()
        self._bad: set[int] = set()
        self.header = self._read_header()
        self.page_bytes = 0 if self.header is None else self.header.page_bytes

    @property
    def number(self) -> int:
        """Its number, from the header."""
        assert self.header is not None, "an allocated file without data has no number"
        return self.header.number

    @property
    def verified(self) -> int:
        """Pages whose checksum is right."""
        return len(self._good)

    @property
    def bad(self) -> int:
        """Pages whose checksum is wrong."""
        return len(self._bad)

    def page(self, number: int) -> bytes | None:
        """Return a verified page; None after the end of the file. An unused page is all zero.

        Raises ChecksumError, TruncatedError for a cut page, SourceError.
        """
        page = self._kept.get(number)
        if page is not None:
            self._kept.move_to_end(number)
            return page
        size = self.page_bytes
        page = self._reader.read_at(number * size, size)
        if not page:
            if self._reader.damage is not None:
                raise self._reader.damage
            return None
        if len(page) < size:
            raise TruncatedError(
                f"{self.place(number * size)}: the file ends inside this page", have=len(page)
            )
        self._verify(number, page)
        self._kept[number] = page
        if len(self._kept) > _KEPT_PAGES:
            self._kept.popitem(last=False)
        return page

    def next_used(self, number: int) -> int | None:
        """Return the first page from `number` on that is not all zero, or None. Raises
        SourceError.
        """
        size = self.page_bytes
        step = max(1, (1 << 20) // size)
        while data := self._reader.read_at(number * size, step * size):
            if data.count(0) != len(data):
                used = next(i for i, byte in enumerate(data) if byte)
                return number + used // size
            number += step
        return None

    def place(self, offset: int) -> str:
        """Return a place in the form that errors use."""
        return f"{self.name}, byte {offset} (page {offset // self.page_bytes})"

    def close(self) -> None:
        """Close the reader and drop the kept pages."""
        self._kept.clear()
        self._reader.close()

    def _verify(self, number: int, page: bytes) -> None:
        end = len(page) - CRC_BYTES
        stored = int.from_bytes(page[end:], "little")
        computed = crc32c(page, 0, end)
        if stored != computed and page.count(0) != len(page):
            self._bad.add(number)
            raise ChecksumError(
                f"{self.place(number * len(page))}: bad checksum of the page: stored "
                f"{stored:08x}, computed {computed:08x}",
                expected=stored,
                actual=computed,
                page=(self.number, number),
            )
        self._good.add(number)

    def _read_header(self) -> FileHeader | None:
        head = self._reader.read_at(0, _HEADER_PAGE_BYTES)
        if head.count(0) == len(head) and head:
            return None
        if len(head) < _HEADER_PAGE_BYTES:
            if self._reader.damage is not None:
                raise self._reader.damage
            raise TruncatedError("the file ends inside its header", event_pos=0, have=len(head))
        header = FileHeader.decode(head)
        named = LogName.parse(self.name)
        if named is not None and named.is_ibb and named.number != header.number:
            raise MalformedError(
                f"the header has the number {header.number}, which differs from the number in"
                " the name",
                event_pos=0,
                field="file number",
            )
        return header


class PageFiles:
    """A file and those beside it, by number; few are open at a time."""

    def __init__(self, path: str, file: PageFile) -> None:
        self._path = path
        self._file = file
        named = LogName.parse(file.name)
        self._named = named if named is not None and named.is_ibb else None
        self._others: OrderedDict[int, PageFile | None] = OrderedDict()

    def name(self, number: int) -> str:
        """Return the name of the file with this number."""
        if self._named is None:
            return f"the file with number {number}"
        return self._named.numbered(number)

    def file(self, number: int) -> PageFile | None:
        """Return the file of this number; None if it does not exist or is only allocated.

        Raises SourceError, FormatError for one whose header cannot be read.
        """
        if self._file.header is not None and number == self._file.number:
            return self._file
        if number in self._others:
            self._others.move_to_end(number)
            return self._others[number]
        found = self._others[number] = self._open(number)
        if len(self._others) > _OPEN_FILES:
            _, oldest = self._others.popitem(last=False)
            if oldest is not None:
                oldest.close()
        return found

    def close(self) -> None:
        """Close all of them."""
        for file in (self._file, *self._others.values()):
            if file is not None:
                file.close()
        self._others.clear()

    def _open(self, number: int) -> PageFile | None:
        if self._named is None:
            return None
        here = location(self._path)
        beside = here.beside(self.name(number))
        for path in (beside, f"{beside}.gz", f"{beside}.zst"):
            if here.size_of(path) is None:
                continue
            reader = open_reader(path)
            try:
                file = PageFile(reader, self.name(number))
            except BaseException:
                reader.close()
                raise
            if file.header is not None:
                return file
            file.close()
        return None
