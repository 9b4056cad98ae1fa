"""Read the transactions of a live server as they commit, from the blocks of a follower.

    live = LiveReader(follower, options, ledger, on_idle)
    for changes in decoder.read(live): …

Every block is a range of the server's file, with the file's name and positions; the readers of
files do the rest. A transaction may continue in the next block. A temporary file holds a
transaction that is too large for memory until it has ended.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO

from binlake.errors import SourceError
from binlake.format.magic import BINLOG_MAGIC
from binlake.source.log_file import LogFile
from binlake.source.reader import ByteReader
from binlake.source.replica.follower import Block, Follower
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.transaction_frames import HELD_BYTES
from binlake.stream.groups.transactions import FileRange, TransactionReader
from binlake.stream.runs import Run
from binlake.stream.sql.ddl import DdlStatement, TakesDdl, ignore_ddl
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


class LiveReader:
    """Yields the committed transactions that `follower` delivers, until it ends.

    The reader calls `on_idle` when there is nothing more for now, so that the caller can show what
    has been read. The options start, stop and at apply to the start of the follower, not here. Blocks of more than
    `most_held` bytes together wait in a temporary file.
    """

    def __init__(
        self,
        follower: Follower,
        options: ReadOptions,
        ledger: Ledger,
        on_idle: Callable[[], None],
        *,
        most_held: int = HELD_BYTES,
    ) -> None:
        self._follower = follower
        self._on_idle = on_idle
        filters = TransactionFilter.of(replace(options, start=None, stop=None, at=None), ())
        self._reader = TransactionReader(options, ledger, filters=filters)
        self._max_memory = options.max_memory
        self._spool = _Spool(most_held)

    def runs(self, on_ddl: TakesDdl = ignore_ddl) -> Iterator[Run]:
        """Yield plain runs and single transactions without an end. Raises BinlogError."""
        return self._reader.runs(self._ranges(), on_ddl)

    def ddl_before(self) -> Iterable[DdlStatement]:
        """Return no statements: the server knows its tables."""
        return ()

    def _ranges(self) -> Iterator[FileRange]:
        log, ordinal, head = ("", ""), -1, b""
        for item in self._follower:
            if not isinstance(item, Block):
                self._on_idle()
                continue
            name = item.file
            if (item.source, name) != log:  # another server may have a log of the same name
                log, ordinal = (item.source, name), ordinal + 1
                head = BINLOG_MAGIC + self._follower.format_description
            reader = _BlockReader(name, head, item, self._spool)
            yield FileRange(
                LogFile(reader, name, ordinal, max_memory=self._max_memory), item.start, item.end
            )


class _Spool:
    """Where the bytes of blocks wait: in memory, or in a file if they are more than `most_held`.

    A prepared XA transaction may keep its blocks for days while other blocks come and go. These take the gaps in the
    file, and the file ends with the last block that is kept.
    """

    def __init__(self, most_held: int) -> None:
        self._most_held = most_held
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._ends: dict[int, int] = {}  # of the blocks in the file, by their starts

    def put(self, data: bytes) -> int | None:
        """Write bytes to the file, and return their place; None while memory suffices, or if there are none."""
        self._held_bytes += len(data)
        if self._held_bytes <= self._most_held or not data:  # a place is known by its start
            return None
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="binlake-")  # noqa: SIM115 - `drop` closes it
        at = self._gap(len(data))
        self._ends[at] = at + len(data)
        self._file.seek(at)
        self._file.write(data)
        self._file.flush()
        return at

    def _gap(self, size: int) -> int:
        """The first place with so many free bytes, which may be the end of the file."""
        free = 0
        for start, end in sorted(self._ends.items()):
            if start - free >= size:
                break
            free = end
        return free

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the file."""
        assert self._file is not None, "a block is in it"
        return os.pread(self._file.fileno(), size, at)

    def drop(self, size: int, at: int | None) -> None:
        """Discard the `size` bytes of a block, which are at a place of the file, or in memory."""
        self._held_bytes -= size
        if at is None or self._file is None:
            return
        del self._ends[at]
        if self._ends:
            self._file.truncate(max(self._ends.values()))
        else:
            self._file.close()
            self._file = None


class _BlockReader(ByteReader):
    """A server's file of which only the beginning and one block are available."""

    def __init__(self, name: str, head: bytes, block: Block, spool: _Spool) -> None:
        self.name = name
        self.size: int = block.end
        self._head = head
        self._start = block.start
        self._bytes = len(block.data)
        self._spool = spool
        self._place = spool.put(block.data)
        self._data = block.data if self._place is None else b""
        self._open = True

    def read_at(self, offset: int, size: int) -> bytes:
        if not self._open:
            raise SourceError(f"{self.name} is closed")
        if offset < self._start:
            return self._head[offset : offset + size]
        low = offset - self._start
        size = max(0, min(size, self._bytes - low))
        if self._place is None:
            return self._data[low : low + size]
        return self._spool.read(self._place + low, size)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._data = b""
            self._spool.drop(self._bytes, self._place)
