"""A window: a part of a log whose events are whole, verified and of one format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlake.core.events.checksum import event_crc32, first_bad, stored_crc32
from binlake.core.events.frames import FrameBlock
from binlake.errors import ChecksumError, MalformedError
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT, ROTATE_EVENT, event_name
from binlake.values.frame import EventFormat, Frame

if TYPE_CHECKING:
    from binlake.source.log_file import LogFile


@dataclass(frozen=True, slots=True)
class Window:
    """Events `block[0] … block[len - 1]` of `file`, back to back, whole, in one format.

    `data[0]` is byte `base` of the file, so event i is
    `data[block.offset[i] - base :][: block.length[i]]`.
    """

    file: LogFile
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


def checksum_error(file: LogFile, frame: Frame, raw: bytes | memoryview) -> ChecksumError:
    """Return the error for an event whose bytes `raw` do not match the CRC32 at their end."""
    stored, computed = stored_crc32(raw), event_crc32(raw)
    return ChecksumError(
        f"bad checksum: stored {stored:08x}, computed {computed:08x}",
        expected=stored,
        actual=computed,
        **_where(file, frame),
    )


def _where(file: LogFile, frame: Frame) -> dict[str, Any]:
    return {
        "file": file.name,
        "event_pos": frame.offset,
        "event_type": event_name(frame.type_code),
    }
