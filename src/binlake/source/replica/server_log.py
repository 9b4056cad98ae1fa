"""Logs of a live server as files, so that every command that takes a file takes a URL.

    server_logs("mysql://repl@db1/")                        its logs: (URL, name, length)
    open_server_log("mysql://repl@db1/binlog.000012")       the bytes of one

The bytes are those of the server's file as `mysqlbinlog --raw` writes them: an encrypted log
arrives decrypted, and a log in use without its flag. Reading is a dump that goes forward; going
back, or far ahead to the start of an event, is another dump. If the caller names the first event
when it opens a log, one dump starts there. The beginning of the file precedes it: the format
description, and no other event before the start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain

from binlake.errors import (
    AuthError,
    ConnectionLostError,
    PositionLostError,
    ServerError,
    SourceError,
)
from binlake.format.magic import BINLOG_MAGIC, FIRST_EVENT
from binlake.printable import printable
from binlake.source.replica.connection import connect_any
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.url import ServerUrl
from binlake.source.streams import StreamReader
from binlake.values.position import Position
from binlake.values.quantities import first_to_last

# A server that reports its end so often has lost what it listed.
_PATIENCE = 5


def server_logs(text: str) -> list[tuple[str, str, int]]:
    """Return the logs that a URL means, oldest first: (URL without password, name, length in
    bytes).

    If the URL names several servers, the first that answers counts. Raises SourceError if the URL
    names a log that does not exist, ServerError, AuthError, OptionError.
    """
    return _logs_of(*ServerUrl.parse_all(text))


def open_server_log(text: str, size: int | None = None, start: int = 0) -> StreamReader:
    """Return the bytes of one log, up to `size` or its current length. Raises as `server_logs`.

    `start` is the event at which reading will start. The server sends the log from there, if that
    is an event (`begins_at`), else from its beginning.
    """
    url = ServerUrl.parse(text)
    if not url.log_name:
        raise SourceError(f"{url} names a server, not one of its logs")
    if size is None:
        size = _logs_of(url)[0][2]
    return _ServerLogReader(url, size, start)


def _logs_of(*urls: ServerUrl) -> list[tuple[str, str, int]]:
    with connect_any(urls) as server:
        url, logs = server.url, server.logs()
    wanted = [log for log in logs if url.log_name in ("", log.name)]
    if not wanted:
        there = first_to_last([log.name for log in logs]) if logs else "none"
        raise SourceError(f"{url.where} has no log {url.log_name}", hint=f"there are: {there}")
    return [(str(url.log(log.name)), log.name, log.size_bytes) for log in wanted]


def _print_delay(line: str) -> None:
    """Print why a read makes no progress: it may take minutes until it ends with an error."""
    print(f"binlake: {printable(line)}", file=sys.stderr)


class _ServerLogReader(StreamReader):
    """Reads a log forward.

    A request far ahead is the start of an event: the start of the wanted range. So it begins
    another dump, and the bytes before it never cross the network.
    """

    def __init__(self, url: ServerUrl, size: int, start: int = 0) -> None:
        self._url = url
        self._length = size
        self._created: int | None = None
        self._stream: _LogStream | None = None
        self._head = b""
        self.begins_at = start if FIRST_EVENT < start < size else 0
        super().__init__(str(url), self._from_the_start, reopenable=True)

    def _from_the_start(self) -> _LogStream:
        return self._begin(0)

    def _begin(self, offset: int) -> _LogStream:
        """Return a dump from the start of an event on, of the file that was read before."""
        if self._stream is not None:
            self._created = self._stream.created or self._created
        self._stream = _LogStream(self._url, self._length, offset, self._created)
        return self._stream

    def _start(self) -> None:
        if not self.begins_at or not self._start_inside(self.begins_at):
            self.begins_at = 0
            super()._start()

    def _start_inside(self, offset: int) -> bool:
        """Begin at an event; return whether the server has one there."""
        stream = self._begin(offset)
        try:
            self._head = stream.head()
        except (AuthError, ConnectionLostError):
            stream.close()
            raise
        except ServerError:  # the reader of the bytes before reports the error
            self._head = b""
        if not self._head:
            stream.close()
            return False
        self._restart(stream, offset)
        return True

    def _go_back(self, offset: int) -> None:
        if offset < self.begins_at:
            self.begins_at = 0
        super()._go_back(offset)

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._pieces is None:
                raise SourceError(f"{self.name} is closed")
            if self.begins_at and offset + size <= len(self._head):
                return self._head[offset : offset + size]
            if offset >= self._length:
                self.size = self._length
                return b""
            if self._kept.end < offset:
                self._restart(self._begin(offset), offset)
        return super().read_at(offset, size)


class _LogStream:
    """One dump of the bytes [start, size) of a log, as an object with `read` and `close`.

    `start` is 0 or the start of an event. `created` as in FollowOptions.
    """

    def __init__(
        self, url: ServerUrl, size: int, start: int = 0, created: int | None = None
    ) -> None:
        self._url = url
        self._size = size
        self._start = max(start, FIRST_EVENT)
        self._follower = Follower(
            url.log(""),
            Position("", url.log_name, self._start),
            # its readers verify checksums, and report them
            FollowOptions.of(url, verify_checksum=False, attempts=5, created=created),
            _print_delay,
        )
        magic = (BINLOG_MAGIC[start:size],) if start < FIRST_EVENT else ()
        self._pieces: Iterator[bytes] = chain(magic, self._blocks())

    @property
    def created(self) -> int | None:
        """The time of the file's format description, None before it has come."""
        return self._follower.created

    def head(self) -> bytes:
        """Return magic and format description of a log that is sent from a place inside, if the
        server has an event there; else b"". Raises ServerError.
        """
        first = next(self._pieces, b"")
        self._pieces = chain((first,), self._pieces)
        described = self._follower.format_description
        return BINLOG_MAGIC + described if first and described else b""

    def read(self, size: int) -> bytes:
        """Return the next bytes, however many; b"" at the end."""
        return next(self._pieces, b"")

    def close(self) -> None:
        """End the dump."""
        self._follower.close()

    def _blocks(self) -> Iterator[bytes]:
        have, idle = self._start, 0
        if have >= self._size:
            return
        name = self._url.log_name
        for item in self._follower:
            if isinstance(item, Block) and item.file == name:
                idle = 0
                have = item.end
                yield item.data[: self._size - item.start]
                if have >= self._size:
                    break
            elif item.file != name and self._follower.torn == name:
                break
            elif item.file != name or idle >= _PATIENCE:
                raise PositionLostError(
                    f"{name} of {self._url.where} ends at {have}; it had {self._size} bytes",
                    hint="the server's logs were reset, or it lost the end of one in a crash",
                )
            else:
                idle += not isinstance(item, Block) and item.confirmed
        self._follower.close()
