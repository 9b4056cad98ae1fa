"""A window: a part of an open log whose events are whole, verified and of one format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from binlake.core.events.checksum import event_crc32, first_bad, stored_crc32
from binlake.core.events.frames import FrameBlock
from binlake.errors import BinlogError, ChecksumError, MalformedError
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT, ROTATE_EVENT, event_name
from binlake.source.reader import ByteReader
from binlake.values.closing import Closing
from binlake.values.frame import EventFormat, Frame


class OpenLog(Closing):
    """An open log, as its windows and those who walk over it know it; `LogFile` opens one.

    `path` as opened, `name` its base name (no directory, no .gz), `ordinal` its place in its
    chain. `reader` has its bytes, decrypted if they are encrypted. `format` is the first
    EventFormat, None if the file ends before the end of its FORMAT_DESCRIPTION event (empty files;
    `windows` then yields nothing but the torn tail). `in_use`: its flag shows that the server has
    not closed the file. `created`: the time of that event, seconds since 1970, which distinguishes
    it from other logs of its name (RESET BINARY LOGS AND GTIDS); None if `format` is None, and
    before version 4. `is_relay`: a relay log, whose events' log_pos is a position in the source's
    log. `at_startup`: the server had just started when it began the log; None if `format` is None, and before version 4.
    `encrypted_from` is where the encrypted events of a MariaDB log begin, None if there are none;
    `locked` is the reason why they cannot be read, if any. `source` is that of its LogPath: the name of its chain if there
    are several, else "". `before` opens the file before it in its chain; None for the first, or without a chain.
    """

    before: Callable[[], OpenLog] | None

    def __init__(self, reader: ByteReader, name: str, ordinal: int, source: str) -> None:
        self.path = reader.name
        self.name = name
        self.source = source
        self.ordinal = ordinal
        self.reader = reader
        self.format: EventFormat | None = None
        self.is_relay = False
        self.in_use = False
        self.closed = False
        self.created: int | None = None
        self.at_startup: bool | None = None
        self.encrypted_from: int | None = None
        self.locked: BinlogError | None = None

    @property
    def shown(self) -> str:
        """The name, after the name of its chain if there are several: `source/binlog.000001`."""
        return f"{self.source}/{self.name}" if self.source else self.name

    @property
    def size(self) -> int | None:
        """Length in bytes, of the inflated log if the file is compressed; None: not known yet."""
        return self.reader.size

    @property
    def is_splittable(self) -> bool:
        """Whether transactions can be found from any byte on: each event contains its end
        position.

        In relay logs that is a position in the source's log; before version 4 it is the start, or
        missing. Encrypted events of MariaDB can be found from the first one on only.
        """
        if self.format is None or self.is_relay or self.format.binlog_version < 4:
            return False
        return self.reader.seekable and not self.reader.sequential

    @abstractmethod
    def reopen(self, size: int | None = None) -> Self:
        """Open the same file again, as far as byte `size` of its log."""

    @abstractmethod
    def windows(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        verify: bool = True,
        format: EventFormat | None = None,
        window_bytes: int | None = None,
    ) -> Iterator[Window]:
        """The events that start in [start, stop), in windows of whole events of one format (see `LogFile.windows`)."""

    @abstractmethod
    def read_format(self, frame: Frame, raw: bytes | memoryview) -> EventFormat:
        """Return the format that the FORMAT_DESCRIPTION event `raw` sets. Raises FormatError."""


@dataclass(frozen=True, slots=True)
class Window:
    """Events `block[0] … block[len - 1]` of `file`, back to back, whole, in one format.

    `data[0]` is byte `base` of the file, so event i is
    `data[block.offset[i] - base :][: block.length[i]]`.
    """

    file: OpenLog
    data: bytes
    base: int
    block: FrameBlock
    format: EventFormat

    def __len__(self) -> int:
        return self.block.count

    @property
    def start(self) -> int:
        """File offset of the first event."""
        return int(self.block.offset[0])

    @property
    def end(self) -> int:
        """File offset of the byte after the last event."""
        return self.block.end(self.block.count - 1)

    def frame(self, index: int) -> Frame:
        """Return the header of event `index`. Raises IndexError."""
        return self.block.frame(index)

    def raw(self, index: int) -> memoryview:
        """Return all bytes of event `index`."""
        frame = self.block.frame(index)
        return memoryview(self.data)[frame.offset - self.base : frame.end - self.base]

    def body(self, index: int) -> memoryview:
        """Return the bytes between the common header and the checksum of event `index`.

        FORMAT_DESCRIPTION and ROTATE always have the minimal header of 19 bytes (13 in logs of
        version 1). In FORMAT_DESCRIPTION the checksum is part of the body, since it is there even
        if all others have none. Raises MalformedError if the event is shorter than its header.
        """
        raw = self.raw(index)
        type_code = self.block.type_code[index]
        if type_code == FORMAT_DESCRIPTION_EVENT:
            return raw[HEADER_BYTES:]
        header = self.format.header_length
        if type_code == ROTATE_EVENT:
            header = min(header, HEADER_BYTES)
        end = len(raw) - self.format.checksum_bytes
        if end < header:
            raise MalformedError(
                f"an event of {len(raw)} bytes has no room for a header of {header}",
                **_where(self.file, self.frame(index)),
            )
        return raw[header:end]

    def verify(self, first: int, last: int) -> None:
        """Verify the checksums of events [first, last), of a window read without verification.

        Raises ChecksumError; does nothing if the log has no checksums.
        """
        if not self.format.checksum_bytes:
            return
        bad = first_bad(self.data, self.base, self.block, first, last)
        if bad >= 0:
            raise checksum_error(self.file, self.frame(bad), self.raw(bad))


def checksum_error(file: OpenLog, frame: Frame, raw: bytes | memoryview) -> ChecksumError:
    """Return the error for an event whose bytes `raw` do not match the CRC32 at their end."""
    stored, computed = stored_crc32(raw), event_crc32(raw)
    return ChecksumError(
        f"bad checksum: stored {stored:08x}, computed {computed:08x}",
        expected=stored,
        actual=computed,
        **_where(file, frame),
    )


def _where(file: OpenLog, frame: Frame) -> dict[str, Any]:
    return {
        "file": file.name,
        "event_pos": frame.offset,
        "event_type": event_name(frame.type_code),
    }
