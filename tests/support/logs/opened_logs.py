"""Logs in memory, opened as files and as streams."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from binlake.errors import (
    BinlogError,
)
from binlake.source.log_file import LogFile
from binlake.source.streams import StreamReader
from binlake.source.window import Window
from support.logs.log_builder import (
    ARTIFICIAL,
    QUERY,
    RELAY,
    ROTATE,
    XID,
    LogBuilder,
)
from support.logs.memory_reader import MemoryReader


def open_bytes(data: bytes) -> LogFile:
    return LogFile(MemoryReader(data), "binlog.000001")


def stream_of(data: bytes) -> LogFile:
    reader = StreamReader("-", lambda: io.BytesIO(data), reopenable=False)
    return LogFile(reader, "binlog.000001")


def offsets_of(windows: Iterator[Window]) -> list[int]:
    return [window.frame(i).offset for window in windows for i in range(len(window))]


def shop_log(alg: int | None = 1, flags: int = 0, version: str = "8.0.36") -> LogBuilder:
    log = LogBuilder(version, alg, flags)
    for n in range(4):
        log.transaction(bytes([n]) * 30, bytes(100 * n))
    log.add(ROTATE, struct.pack("<Q", 4) + b"binlog.000002")
    return log


def read(log: LogFile, **options: object) -> tuple[list[int], BinlogError | None]:
    """Offsets of the events delivered, and the error that ended them."""
    offsets: list[int] = []
    try:
        for window in log.windows(**options):  # type: ignore[arg-type]
            offsets += offsets_of(iter([window]))
    except BinlogError as error:
        return offsets, error
    return offsets, None


def relay_log() -> LogBuilder:
    """The replica's own format, then the source's: other server, no checksums, and back."""
    log = LogBuilder("8.0.36", 1, RELAY)
    log.add(ROTATE, struct.pack("<Q", 4) + b"source.000001", log_pos=0, flags=ARTIFICIAL)
    log.add_format("5.5.62", None, log_pos=107)
    log.add(QUERY, b"BEGIN", log_pos=200)
    log.add(XID, bytes(8), log_pos=300)
    log.add_format("8.0.36", 1, log_pos=126)
    log.transaction(b"abc")
    log.add(ROTATE, struct.pack("<Q", 4) + b"relay.000002", flags=RELAY)
    return log
