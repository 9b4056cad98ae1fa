"""Write logs of a server as files, like `mysqlbinlog --read-from-remote-server --raw`.

This is not an archive: it writes files `<prefix><log name>` from scratch, as that tool does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from binlake.archive.growing import GrowingFile
from binlake.archive.layout import checked_name
from binlake.errors import SourceError
from binlake.format.magic import BINLOG_MAGIC, FIRST_EVENT
from binlake.source.bytes import LOG_FILE_MODE, writing
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from binlake.values.quantities import first_to_last

# The server chooses the names: no link may lead the bytes elsewhere.
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class RawOptions:
    """`prefix` precedes the names of the files. `start_position` applies to the first log.
    `to_last_log`: also write the logs after the named one. `stop_never`: also follow new events
    without an end. `replica_id`: binlake's server id as a replica, 0: binlake chooses one.
    """

    prefix: str = ""
    start_position: int = FIRST_EVENT
    to_last_log: bool = False
    stop_never: bool = False
    replica_id: int = 0


def write_raw(
    url: ServerUrl, names: Sequence[str], options: RawOptions, say: Callable[[str], None]
) -> None:
    """Write the logs `names` of a server. Raises ServerError, SourceError."""
    with connect(url) as server:
        there = [log.name for log in server.logs()]
        identity = server.identity
    for name in names:
        if name not in there:
            raise SourceError(
                f"{url.where} has no log {name}", hint=f"it has {first_to_last(there)}"
            )
    wanted = list(names)
    if options.to_last_log or options.stop_never:
        wanted = [names[0]]
    start = options.start_position
    for name in wanted:
        position = Position(identity, name, max(start, FIRST_EVENT))
        _write(url, position, options, say)
        start = FIRST_EVENT


def _write(
    url: ServerUrl, start: Position, options: RawOptions, say: Callable[[str], None]
) -> None:
    """Write one log from a position on, and the following ones if they are wanted."""
    follow = FollowOptions.of(url, until_current=not options.stop_never)
    if options.replica_id:
        follow = replace(follow, replica_id=options.replica_id)
    goes_on = options.to_last_log or options.stop_never
    with Follower(url, start, follow) as follower, closing(_Files(options.prefix)) as files:
        if start.offset > FIRST_EVENT:
            say(f"{start.file}: the file lacks the bytes before {start.offset}")
        for item in follower:
            if item.file != start.file and not goes_on:
                break
            if isinstance(item, Block):
                files.write(item, follower.format_description)
        files.begin_if_none(start.file)
        files.finish()


class _Files:
    """The file that is being written, and those before it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._name = ""
        self._file: GrowingFile | None = None

    def begin_if_none(self, name: str) -> None:
        """Create a file even for a log of which no data came."""
        if self._file is None:
            self._begin(name)

    def _begin(self, name: str) -> GrowingFile:
        """Create a new file that begins with the magic."""
        self.finish()
        path = f"{self._prefix}{checked_name(name)}"
        with writing(path):
            self._file = GrowingFile(os.open(path, _WRITING, LOG_FILE_MODE), 0)
            self._name = name
            self._file.append(BINLOG_MAGIC)
        return self._file

    def write(self, block: Block, format_description: bytes) -> None:
        """Append a block; `format_description` precedes a block from inside a log."""
        is_new = block.file != self._name or self._file is None
        file = self._begin(block.file) if is_new else self._file
        assert file is not None
        with writing(f"{self._prefix}{block.file}"):
            if is_new and block.start > FIRST_EVENT:
                file.append(format_description)
            file.append(block.data)

    def finish(self) -> None:
        """Write everything that was appended. Raises SourceError."""
        if self._file is None:
            return
        with writing(f"{self._prefix}{self._name}"):
            self._file.flush()
        self._file.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
