"""Positions in logs, as values.

Each class has the base name of a log and a 64-bit offset in it, computed and never the 32-bit
position of an event header:

- a `LogPosition` has nothing else;
- a `ChainPosition` also has the ordinal of the log in its chain, so that positions can be compared;
- a `Position` also has the server and the GTIDs before it, so that a reader can continue on another
  server;
- a `FilePosition` is a position as a user types it in an option, where the log may be left out.

`follow.offsets.StreamOffset` is a `Position` with the facts that identify the log.
`source.ibb_records.RecordPosition` is a position in MariaDB's InnoDB binlog, whose records refer to
files by number.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from binlake.values.builds import PickledByName

_OF_MARIADB = "server-"


class LogPosition(NamedTuple):
    """A byte of a log: base name of the file, and offset."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


#: The position of a reader or an archive that has no log yet.
NO_POSITION = LogPosition("", 0)


class ChainPosition(NamedTuple):
    """A byte of a chain: the file's ordinal in it, its base name, and offset. They compare in the order of the logs."""

    ordinal: int
    file: str
    offset: int

    @property
    def in_log(self) -> LogPosition:
        """The position in the log, without its chain."""
        return LogPosition(self.file, self.offset)

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True)
class FilePosition(PickledByName):
    """FILE:POS as a user types it.

    `file` is a base name; "" stands for the first file (option `start`), the last (`stop`), or
    the only one (`at`) of all that are read. `directory` is the directory before it, or "". It
    distinguishes logs of the same name.
    """

    file: str
    offset: int
    directory: str = field(default="", compare=False)

    def __str__(self) -> str:
        path = f"{self.directory}/{self.file}" if self.directory else self.file
        return f"{path}:{self.offset}" if path else str(self.offset)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a reader: it has read everything before this position and nothing after.

    `gtid_set` is the text of all GTIDs up to here as the flavour spells them, "" when the source
    has none. `server_uuid` "" when it is not known (files).
    """

    server_uuid: str
    file: str
    offset: int
    gtid_set: str = ""

    def to_json(self) -> str:
        """One line of JSON, the same for equal positions."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Parse the output of `to_json`. Raises ValueError."""
        try:
            made = cls(**json.loads(text))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not a position: {error}") from None
        texts = (made.server_uuid, made.file, made.gtid_set)
        if not all(isinstance(value, str) for value in texts) or type(made.offset) is not int:
            raise ValueError("not a position: a field has another type")
        return made

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


def is_log_of(identity: str, server: str) -> bool:
    """Whether logs may be those of a server: the identity of the logs is "" if nothing records it, and an archive adds
    a part to the identity of a MariaDB server.
    """
    identity, server = identity.lower(), server.lower()
    return identity in ("", server) or (
        server.startswith(_OF_MARIADB) and identity.startswith(f"{server}-")
    )
