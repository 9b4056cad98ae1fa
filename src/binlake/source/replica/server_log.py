"""Logs of a live server as if they were files: what lets every command that takes a file take a URL.

    server_logs("mysql://repl@db1/")                        its logs: (URL, name, length)
    open_server_log("mysql://repl@db1/binlog.000012")       the bytes of one

The bytes are those of the server's file as `mysqlbinlog --raw` writes them: an encrypted log
comes decrypted, and a log in use without the flag that says so. Reading is a dump that
goes forward; going back, or far ahead to the start of an event, is another dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from binlake.errors import PositionLostError, SourceError
from binlake.source.replica.connection import ServerConnection, connect, connect_first
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.url import ServerUrl
from binlake.source.streams import StreamReader
from binlake.values.position import Position

__all__ = ["open_server_log", "server_logs"]

_MAGIC = b"\xfebin"
# A server that says so often that it has no more has lost what it listed.
_PATIENCE = 5


def server_logs(text: str) -> list[tuple[str, str, int]]:
    """The logs that a URL means, oldest first: (URL without password, name, length in bytes).

    Of several servers the first that answers counts. Raises SourceError where the URL names a
    log that is not there, ServerError, AuthError, OptionError.
    """
    with connect_first(ServerUrl.parse_all(text)) as server:
        return _logs_of(server)


def open_server_log(text: str, size: int | None = None) -> StreamReader:
    """The bytes of one log, up to `size` or its length now. Raises as `server_logs`."""
    url = ServerUrl.parse(text)
    if not url.log_name:
        raise SourceError(f"{url} names a server, not one of its logs")
    if size is None:
        with connect(url) as server:
            size = _logs_of(server)[0][2]
    return _ServerLogReader(url, size)


def _logs_of(server: ServerConnection) -> list[tuple[str, str, int]]:
    url, logs = server.url, server.logs()
    wanted = [log for log in logs if url.log_name in ("", log.name)]
    if not wanted:
        there = f"{logs[0].name} to {logs[-1].name}" if logs else "none"
        raise SourceError(f"{url.where} has no log {url.log_name}", hint=f"there are: {there}")
    return [(str(url.log(log.name)), log.name, log.size_bytes) for log in wanted]


class _ServerLogReader(StreamReader):
    """Reading goes forward. What is asked for far ahead is the start of an event: of the range
    that is wanted. So it begins another dump, and what lies before it never crosses the network.
    """

    def __init__(self, url: ServerUrl, size: int) -> None:
        self._url = url
        self._length = size
        self._stream = _LogStream(url, size)
        super().__init__(str(url), self._from_the_start, reopenable=True)

    def _from_the_start(self) -> _LogStream:
        return self._begin(0)

    def _begin(self, offset: int) -> _LogStream:
        """A dump from the start of an event on, of the file that was read before."""
        self._stream = _LogStream(self._url, self._length, offset, self._stream.created)
        return self._stream

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._pieces is not None and self._kept.end < offset < self._length:
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
        self._start = max(start, len(_MAGIC))
        self._follower = Follower(
            url.log(""),
            Position("", url.log_name, self._start),
            # its readers verify checksums, and say what they found
            FollowOptions.of(url, verify_checksum=False, attempts=5, created=created),
        )
        self._pieces = chain((_MAGIC[start:size],) if start < len(_MAGIC) else (), self._blocks())

    @property
    def created(self) -> int | None:
        """The time of the file's format description, None while it has not come."""
        return self._follower.created

    def read(self, size: int) -> bytes:
        """The next bytes, however many; b"" at the end."""
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
            elif item.file != name or idle >= _PATIENCE:
                raise PositionLostError(
                    f"{name} of {self._url.where} ends at {have}; it had {self._size} bytes",
                    hint="the server's logs were reset, or it lost the end of one in a crash",
                )
            else:
                idle += not isinstance(item, Block) and item.confirmed
        self._follower.close()
