"""The state of a mirror on the machine of its driver: the row indexes, and a lock."""

from __future__ import annotations

import fcntl
import hashlib
import os
import uuid
from pathlib import Path
from typing import IO

from binlake.errors import OptionError, SourceError
from binlake.mirror.control import NAMESPACE
from binlake.mirror.table_rules import LOCK
from binlake.source.bytes import file_system_for, is_uri, keep_from_others, refuse_secrets, writing
from binlake.source.reader import without_secrets
from binlake.source.replica.url import is_server_url
from binlake.source.stores.errors import needs_hadoop

_STOP_IT = "stop it first, or wait until it has ended"


def lake_location(lake: str | os.PathLike[str]) -> str:
    """The URI of a lake, or its directory as an absolute path: the metadata of tables contain paths of their files."""
    place = os.fspath(lake)
    return place if "://" in place else str(Path(place).absolute())


def is_same_lake(one: str, other: str) -> bool:
    """Whether two directories or URIs are the same place."""
    return _in_one_form(one) == _in_one_form(other)


def _in_one_form(lake: str) -> str:
    place = lake if "://" in lake else os.path.realpath(lake.removeprefix("file:"))
    scheme, separator, path = place.removeprefix("file://").rstrip("/").partition("://")
    return f"s3://{path}" if scheme in ("s3a", "s3n") else f"{scheme}{separator}{path}"


def check_lake(lake: str) -> None:
    """Refuse a text that contains a password, before Spark's process gets it in its arguments.

    Raises OptionError for the URL of a server, SourceError for credentials in the URI of a store.
    """
    if is_server_url(lake):
        raise OptionError(
            f"{without_secrets(lake)} is a live server, not a place for a lake", name="lake"
        )
    refuse_secrets(lake)


def check_store(lake: str) -> None:
    """Raise SourceError if this machine lacks the library with which tasks write to the lake.

    Spark has Hadoop's classes, and would create the first tables of a lake that no task can write to.
    """
    if needs_hadoop(lake):
        file_system_for(lake)


def index_directory(lake: str, state: str | None) -> Path:
    """The directory of a lake's row indexes: in the lake, or in the user's cache if the lake is in an object store."""
    if state is not None:
        return Path(state)
    if not is_uri(lake):
        return Path(lake) / NAMESPACE / "index"
    name = hashlib.sha256(lake.rstrip("/").encode()).hexdigest()[:16]
    return Path.home() / ".cache" / "binlake" / "mirror" / name


def lock(indexes: Path, lake: str) -> IO[bytes]:
    """Keep other mirrors of this machine out of a lake until the file is closed. Raises SourceError."""
    file = lock_if_free(indexes)
    if file is None:
        message, hint = f"another process mirrors into {lake}", _STOP_IT
        if indexes != index_directory(lake, None):  # it may be the mirror of another lake
            message = f"another process uses {indexes}, the state directory for {lake}"
            hint = f"{_STOP_IT}; each lake needs a --state of its own"
        raise SourceError(message, hint=hint)
    return file


def lock_if_free(indexes: Path) -> IO[bytes] | None:
    """Lock the row indexes of a lake until the file is closed; None if another process has locked them. Raises SourceError."""
    with writing(str(indexes)):
        keep_from_others(indexes)  # keys are data
        file = (indexes / LOCK).open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:  # for example, NFS without a lock service
        file.close()
        raise SourceError(
            f"cannot lock {indexes}: {error.strerror}",
            hint="--state names another directory for it, on a disk of this machine",
        ) from error
    return file


def identity_of(locked: IO[bytes]) -> str:
    """The identity of a locked state directory, wherever it is mounted. Raises SourceError.

    It is a random text in its lock file, with the number of the file: a copy of the directory has the same text.
    """
    with writing(locked.name):
        locked.seek(0)
        text = locked.read().decode("utf-8", "replace")
        if not text:
            text = uuid.uuid4().hex
            locked.write(text.encode())
            locked.flush()
        return f"{text} {os.fstat(locked.fileno()).st_ino}"


def boot_id() -> str | None:
    """A text that changes when this machine starts, and that no other machine has; None if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
