"""A writer of MariaDB's InnoDB binlog (.ibb), made from the format's facts alone.

It shares no code with the reader. No server of 12.3 could be had, so nothing it writes has been
compared with a real file: it shows that reader and writer understand the same description.

    writer = IbbWriter(pages_per_file=4)
    big = writer.begin()
    big.out_of_band(events[:70000])          # while others commit
    writer.commit(gtid_event + other_events)
    big.commit(gtid_event, events[70000:])
    writer.save(directory)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["IbbWriter", "Transaction", "compressed", "crc32c", "groups_of", "page_sums"]

COMMIT, GTID_STATE, OOB, DUMMY, XA_PREPARE, XA_COMPLETE = 1, 2, 3, 4, 5, 6
CONTINUES, LAST = 0x80, 0x40
MAGIC = 0x010DFEFE

_HALF: list[int] = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ 0x82F63B78 * (_byte & 1)
    _HALF.append(_byte)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _HALF[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def compressed(value: int) -> bytes:
    """The number in the fewest bytes: three bits of the first say how many more there are."""
    for more in range(7):
        if value < 1 << (8 * (more + 1) - 3):
            return (value << 3 | more).to_bytes(more + 1, "little")
    return (value << 3 | 7).to_bytes(9, "little")


def numbers(*values: int) -> bytes:
    return b"".join(map(compressed, values))


def xid(gtrid: bytes, format_id: int = 1) -> bytes:
    return struct.pack("<IBB", format_id, len(gtrid), 0) + gtrid


Place = tuple[int, int]


class IbbWriter:
    """Files of pages that grow by records. `files` are their pages, without checksums yet."""

    def __init__(
        self, pages_per_file: int = 64, page_bytes: int = 16384, first: int = 0, minor: int = 0
    ) -> None:
        self.page_bytes = page_bytes
        self.pages_per_file = pages_per_file
        self.minor = minor
        self.number = first
        self.files: dict[int, list[bytearray]] = {}
        self.at = 0
        #: last sequence number by domain and server, as of the record that is being written
        self.state: dict[tuple[int, int], int] = {}
        self._fresh = True

    def begin(self) -> Transaction:
        return Transaction(self)

    def commit(self, events: bytes) -> Place:
        """A group that is committed in one record."""
        return Transaction(self).commit(events)

    def record(self, kind: int, data: bytes) -> Place:
        """Write a record; returns where it begins."""
        begins: Place | None = None
        flag = 0
        while True:
            if self._fresh:
                self._begin_file()
            if self.at == 0:
                self._add_page()
            room = self.page_bytes - 4 - self.at
            page = self.files[self.number][-1]
            if room < 4:
                page[self.at : self.at + room] = b"\xff" * room
                self._end_page()
                continue
            begins = begins or (
                self.number,
                (len(self.files[self.number]) - 1) * self.page_bytes + self.at,
            )
            piece, data = data[: room - 3], data[room - 3 :]
            self._chunk(kind | flag | (0 if data else LAST), piece)
            flag = CONTINUES
            if not data:
                return begins

    def flush(self) -> None:
        """FLUSH BINARY LOGS: padding to the end of the page; the file ends there."""
        if self._fresh:
            return
        if self.at:
            room = self.page_bytes - 4 - self.at
            if room < 4:
                self.files[self.number][-1][self.at : self.at + room] = b"\xff" * room
            else:
                self._chunk(DUMMY | LAST, b"\xff" * (room - 3))
        self.at = 0
        self.number += 1
        self._fresh = True

    def images(self, *, allocated: bool = False) -> dict[str, bytes]:
        """The files by name, with checksums; `allocated`: as long as they were made, and one more."""
        found = {}
        for number, pages in self.files.items():
            data = b"".join(page_sums(page, first=i == 0) for i, page in enumerate(pages))
            if allocated and number == max(self.files):
                data = data.ljust(self.pages_per_file * self.page_bytes, b"\0")
            found[name(number)] = data
        if allocated:
            found[name(max(self.files) + 1)] = bytes(self.pages_per_file * self.page_bytes)
        return found

    def save(self, directory: Path, *, allocated: bool = False) -> list[Path]:
        """Write the files; returns their paths, in order."""
        paths = []
        for file, data in self.images(allocated=allocated).items():
            paths.append(directory / file)
            paths[-1].write_bytes(data)
        return paths

    def _chunk(self, kind: int, data: bytes) -> None:
        page = self.files[self.number][-1]
        page[self.at : self.at + 3 + len(data)] = struct.pack("<BH", kind, len(data)) + data
        self.at += 3 + len(data)
        if self.at == self.page_bytes - 4:
            self._end_page()

    def _add_page(self) -> None:
        self.files[self.number].append(bytearray(self.page_bytes))

    def _end_page(self) -> None:
        self.at = 0
        if len(self.files[self.number]) >= self.pages_per_file:
            self.number += 1
            self._fresh = True

    def _begin_file(self) -> None:
        header = struct.pack(
            "<IIIIQQQQQQ", MAGIC, self.page_bytes.bit_length() - 1, 1, self.minor, self.number,
            self.pages_per_file, 4711, 0, 0, 2**64 - 1,
        )  # fmt: skip
        self.files[self.number] = [bytearray(header.ljust(self.page_bytes, b"\0"))]
        self._fresh = False
        self.at = 0
        state = [n for (domain, server), seq in self.state.items() for n in (domain, server, seq)]
        self.record(GTID_STATE, numbers(len(self.state), 0, *state))


@dataclass
class Transaction:
    """An event group that is written while others are; `roots` are its trees so far."""

    writer: IbbWriter
    roots: list[tuple[Place, int]] = field(default_factory=list)  # and their heights
    nodes: int = 0
    first: Place = (0, 0)

    def out_of_band(self, data: bytes) -> Place:
        """A node of the forest with a piece of the events."""
        left = right = (0, 0)
        height = 1
        if len(self.roots) > 1 and self.roots[-1][1] == self.roots[-2][1]:
            (left, height), (right, _) = self.roots[-2:]
            del self.roots[-2:]
            height += 1
        elif self.roots:
            right = self.roots[-1][0]
        place = self.writer.record(OOB, numbers(self.nodes, *left, *right) + data)
        if not self.nodes:
            self.first = place
        self.roots.append((place, height))
        self.nodes += 1
        return place

    def references(self) -> bytes:
        if not self.nodes:
            return numbers(0)
        return numbers(self.nodes, *self.first, *self.roots[-1][0])

    def prepare(self, name: bytes) -> Place:
        """XA PREPARE: all events are out of band by now."""
        return self.writer.record(XA_PREPARE, b"\x01" + xid(name) + self.references())

    def commit(
        self, events: bytes, others: Transaction | None = None, xa: bytes | None = None
    ) -> Place:
        """The commit record: `events` in it, and a second set of nodes (`others`) after the first."""
        if events[4] == 162:
            server, seq, domain = struct.unpack_from("<5xI10xQI", events)
            self.writer.state[domain, server] = seq
        if xa is not None:
            self.writer.record(XA_COMPLETE, b"\x00" + xid(xa))
        head = self.references()
        if self.nodes:
            head += others.references() if others is not None else numbers(0)
        return self.writer.record(COMMIT, head + events)


def name(number: int) -> str:
    return f"binlog-{number:06d}.ibb"


def page_sums(page: bytes | bytearray, *, first: bool) -> bytes:
    """A page with its checksum; the first page of a file has one for its header too."""
    data = bytes(page)
    if first:
        data = data[:508] + crc32c(data[:508]).to_bytes(4, "little") + data[512:]
    return data[:-4] + crc32c(data[:-4]).to_bytes(4, "little")


def groups_of(log: bytes, checksum_bytes: int = 4) -> Iterator[list[bytes]]:
    """The event groups of a plain MariaDB log, as such a server writes them: no positions, no checksums."""
    at = 4
    group: list[bytes] | None = None
    while at + 19 <= len(log):
        kind, length = log[at + 4], struct.unpack_from("<I", log, at + 9)[0]
        body = log[at + 19 : at + length - checksum_bytes]
        event = (
            log[at : at + 9] + struct.pack("<II", 19 + len(body), 0) + log[at + 17 : at + 19] + body
        )
        if kind == 162:
            if group is not None:
                yield group
            group = []
        if group is not None and kind not in (3, 4, 15, 161, 163):
            group.append(event)
        at += length
    if group:
        yield group


def joined(groups: Iterable[Sequence[bytes]]) -> bytes:
    return b"".join(event for group in groups for event in group)
