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
    has been read. The options start, stop and at apply to the start of the follower, not here.
    """

    def __init__(
        self,
        follower: Follower,
        options: ReadOptions,
        ledger: Ledger,
        on_idle: Callable[[], None],
    ) -> None:
        self._follower = follower
        self._on_idle = on_idle
        filters = TransactionFilter.of_chains(
            replace(options, start=None, stop=None, at=None), [[]]
        )
        self._reader = TransactionReader(options, ledger, filters=filters[0])
        self._max_memory = options.max_memory
        self._spool = _Spool()

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
    """Where the bytes of blocks wait: in memory, or in a file if there are many."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._file: IO[bytes] | None = None
        self._users = 0

    def put(self, data: bytes) -> tuple[IO[bytes], int] | None:
        """Write bytes to the file; return None while memory suffices."""
        self.held_bytes += len(data)
        if self.held_bytes <= HELD_BYTES:
            return None
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="binlake-")  # noqa: SIM115 - `drop` closes it
        self._users += 1
        at = self._file.seek(0, os.SEEK_END)
        self._file.write(data)
        self._file.flush()
        return self._file, at

    def drop(self, size: int, *, in_file: bool) -> None:
        """Discard `size` bytes that were stored here."""
        self.held_bytes -= size
        self._users -= in_file
        if self._file is not None and not self._users:
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
        file, at = self._place
        return os.pread(file.fileno(), size, at + low)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._data = b""
            self._spool.drop(self._bytes, in_file=self._place is not None)
