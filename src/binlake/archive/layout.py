"""The files of an archive, and its state file.

    DIR/
      <identity>/                    one directory per server: its UUID; of MariaDB, which has none,
                                     server-<server_id>-<server_uid, eight digits of it>
        binlog.000001.zst            logs, as the server named them, byte for byte
        binlog.000001.index.parquet  what is in them (stream/index/log_index.py)
        binlog.000001.keys.arrow     where key values are in them (stream/index/key_index.py)
        binlog.000002                the one that is being written: whole events only
        binlog.index                 their names, as the server's own index file has them
        archive.json                 whose they are, and how far they are durable (`ArchiveState`)
        archive.lock                 held by the process that writes here
      <identity>.2/                  another history under the same names: the logs were reset

A directory is one history, without gaps: data that does not continue its last byte goes into the
next directory. Names come from servers, so they are checked before they are used on a disk.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from binlake.errors import ServerError, SourceError
from binlake.printable import printable
from binlake.source.resolve import ARCHIVE_STATE, log_name

STATE = ARCHIVE_STATE
LOCK = "archive.lock"
_VERSION = 1

_IDENTITY = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|server-\d{1,10}(?:-[0-9a-f]{8})?", re.IGNORECASE
)
_LOG = re.compile(r"(?P<base>[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,200})\.(?P<number>\d{6,18})")
# The name of a file that is being written and will be renamed.
_PARTIAL = re.compile(
    rf"(?:{re.escape(STATE)}|[^/]+\.index|{_LOG.pattern}(?:\.zst|\.index\.parquet|\.keys\.arrow))\.[0-9a-f]+\.partial"
)


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """The content of `archive.json`: everything before `offset` of log `file` is durable.

    `identity` is the server's (its UUID; `mariadb_identity`), `flavour` "mysql" or "mariadb".
    `generation` counts the histories archived under that identity, from 1. `gtid_set` are the
    GTIDs of the transactions that are whole up to there, in the notation of the flavour; "" if the
    server has none. `written` is the time of writing, in seconds since 1970. `file` is "" before
    the first data. `server_uid` is MariaDB's; `address` is host and port of the last connection.
    """

    identity: str
    flavour: str
    generation: int = 1
    file: str = ""
    offset: int = 0
    gtid_set: str = ""
    written: float = 0.0
    server_uid: str = ""
    address: str = ""

    @property
    def directory(self) -> str:
        """The name of its directory."""
        return directory_name(self.identity, self.generation)

    def to_bytes(self) -> bytes:
        """The file."""
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> ArchiveState:
        """Read the file. Raises SourceError, which names `where`."""
        try:
            values = json.loads(data)
            if values.pop("version") != _VERSION:
                raise ValueError("another version of binlake wrote it")
            state = cls(**values)
            state._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SourceError(
                f"{where} is not the state of an archive: {printable(str(error))}"
            ) from None
        return state

    def _check(self) -> None:
        """Raise ValueError for a field of another type, and for names that lead elsewhere."""
        for name, default in _STATE_DEFAULTS.items():
            value = getattr(self, name)
            kinds = (int, float) if isinstance(default, float) else type(default)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"its {name} is {type(value).__name__}")
        if self.offset < 0 or self.generation < 1:
            raise ValueError("its offset or generation is too small")
        if not is_identity(self.identity):
            raise ValueError(f"its identity {self.identity[:80]!r} is invalid")
        if self.file and not _LOG.fullmatch(self.file):
            raise ValueError(f"its log name {self.file[:80]!r} is invalid")


_STATE_DEFAULTS = asdict(ArchiveState(identity="", flavour=""))


def directory_name(identity: str, generation: int) -> str:
    """Return the name of the directory of a server's history number `generation`."""
    return identity if generation == 1 else f"{identity}.{generation}"


def mariadb_identity(server_id: int, server_uid: str) -> str:
    """Return the identity of a MariaDB server, which distinguishes it from others with the same
    server id.

    A server without `server_uid` ("", old versions) has only its server id.
    """
    if not server_uid:
        return f"server-{server_id}"
    digest = hashlib.sha1(server_uid.encode(), usedforsecurity=False).hexdigest()
    return f"server-{server_id}-{digest[:8]}"


def is_identity(text: str) -> bool:
    """Whether a text is the identity of a server."""
    return _IDENTITY.fullmatch(text) is not None


def checked_identity(identity: str) -> str:
    """Return a server's identity as the name of a directory. Raises ServerError."""
    if not is_identity(identity):
        raise ServerError(f"binlake refuses the server's invalid identity {identity[:80]!r}")
    return identity.lower()


def checked_name(name: str) -> str:
    """Return the name of a log as the name of a file. Raises ServerError."""
    if not _LOG.fullmatch(name):
        raise ServerError(
            f"binlake refuses the server's invalid log name {name[:80]!r}",
            hint="the name of a log in an archive is <base>.<six or more digits>",
        )
    return name


def number_of(name: str) -> int:
    """Return the number in the name of a log."""
    return int(name.rpartition(".")[2])


def index_file(name: str) -> str:
    """Return the name of the index file of a log."""
    return f"{name.rpartition('.')[0]}.index"


def logs_among(names: Iterable[str]) -> list[str]:
    """Return the logs among files, compressed or not, each once, in the order of the chain."""
    found = {log_name(name) for name in names if _LOG.fullmatch(log_name(name))}
    return sorted(found, key=lambda name: (name.rpartition(".")[0], number_of(name)))


def partials_among(names: Iterable[str]) -> list[str]:
    """Return the partly written files of an archive among files, whatever else the folder
    contains.
    """
    return sorted(name for name in names if _PARTIAL.fullmatch(name))
