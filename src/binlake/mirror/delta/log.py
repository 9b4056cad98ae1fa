"""The log of a Delta table, read as its public protocol describes it; only Delta itself writes it.

Reading the log takes milliseconds, but a Spark job takes a second for the same facts: the version, the schema, the data
files with their deletion vectors, and the mirror's own state in the `userMetadata` of its commits.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from binlake.errors import SourceError, UnsupportedError
from binlake.mirror.control import NAMESPACE
from binlake.mirror.tables.damage import DamagedFileError, MissingFileError
from binlake.mirror.tables.data_files import parquet_file

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_ANY_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.(?:parquet|json)")
# The beginning of a path that is not relative to the directory of the table.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)")
_OURS = "binlake"
# Commits that change neither rows nor columns.
_OF_PROPERTIES = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "VACUUM START", "VACUUM END")
_ACTIONS_OF_PROPERTIES = {"commitInfo", "metaData", "protocol"}


@dataclass(frozen=True, slots=True)
class Commit:
    """A version: when it was committed, and the mirror's state in it; None: another program made it.

    `restored`: the version that a RESTORE has brought back; -1 if it is unknown. `is_change`: whether it may have other rows or columns
    than the version before: another program has done more than to set properties or to remove old files.
    """

    version: int
    committed_ms: int
    state: Mapping[str, Any] | None
    restored: int | None = None
    is_change: bool = True


@dataclass
class DeltaLog:
    """The newest version of a table that was read.

    `commits` are those that were read since `forget`, and the newest one with the mirror's state. Raises MissingFileError,
    DamagedFileError, SourceError, UnsupportedError.
    """

    path: Path
    version: int = -1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    # the newest damaged commit before the checkpoint
    _damaged: tuple[int, DamagedFileError] | None = field(default=None, init=False, repr=False)

    @property
    def head(self) -> Commit | None:
        """The newest commit, if its file is still there."""
        return self.commits[-1] if self.commits else None

    @property
    def state(self) -> Mapping[str, Any]:
        """The state of the mirror's newest commit that the log has."""
        return next((c.state for c in reversed(self.commits) if c.state is not None), {})

    def update(self) -> None:
        """Read the new commits."""
        newest = self.version
        try:
            if self.version < 0 or not self._commit_path(self.version).exists():
                newest = max(newest, self._begin())
            while (path := self._commit_path(self.version + 1)).exists():
                self._add(path, self.version + 1)
            if self.version < newest:
                raise MissingFileError(f"{path} is missing")
            self._check_state()
        except (MissingFileError, DamagedFileError) as error:
            hint = "restore the file"
            if self.path.parent.name != NAMESPACE:  # the control table cannot be copied again
                hint += f", or delete the directory {self.path}"
            raise error.hinted(hint) from error.__cause__
        if self.version < 0:
            raise SourceError(f"{self.path} is not a Delta table")

    def _commit_path(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020}.json"

    def _begin(self) -> int:
        """Read the newest checkpoint, and the state of the mirror in it; return the newest version that has a file."""
        self.version, self.metadata, self.files, self.commits = -1, {}, {}, []
        self._damaged = None
        names = self._names()
        known = max(map(_version, _matches(_ANY_CHECKPOINT, names)), default=-1)
        commits = [*map(_version, _matches(_COMMIT, names))]
        newest = max(commits, default=known)
        version, parts = _complete_checkpoint(names)
        # the actions of one that cannot be read are also in the commits since an earlier one
        if version < known and not {*range(version + 1, known + 1)} <= {*commits}:
            raise UnsupportedError(
                f"{self.path}: checkpoint {known} of its Delta log is incomplete, or has a newer format",
                hint="set the table property delta.checkpointPolicy to classic",
            )
        if version < 0:
            return newest
        for part in parts:
            for action in _checkpoint(self.path / "_delta_log" / part):
                self._take({name: _plain(value) for name, value in action.items() if value})
        self._remember_before_checkpoint([number for number in commits if number <= version])
        self.version = version
        return newest

    def _names(self) -> list[str]:
        """The names of the files of the log, sorted."""
        return sorted(path.name for path in (self.path / "_delta_log").glob("*"))

    def _remember_before_checkpoint(self, versions: Sequence[int]) -> None:
        """Read commits whose actions the checkpoint has, from the newest to the first one with the state of the mirror:
        only the state is needed, and the log has those of a month. Delta may have removed one meanwhile.
        """
        for version in reversed(versions):
            try:
                self.commits.append(_commit(_actions(self._commit_path(version)), version))
            except MissingFileError:
                continue
            except DamagedFileError as error:
                self._damaged = version, error
                break
            if self.commits[-1].state is not None:
                break
        self.commits.reverse()

    def history(self) -> Iterator[Commit]:
        """The commits up to this version that the log still has and that can be read, oldest first. Each is read when it is asked for."""
        for version in map(_version, _matches(_COMMIT, self._names())):
            if version <= self.version:
                with suppress(MissingFileError, DamagedFileError):
                    yield _commit(_actions(self._commit_path(version)), version)

    def lineage(self) -> Iterator[Commit]:
        """The commits from this version back to the first one that is missing or damaged. Each is read when it is asked for."""
        known = {commit.version: commit for commit in self.commits}
        for version in range(self.version, -1, -1):
            try:
                yield known.get(version) or _commit(_actions(self._commit_path(version)), version)
            except (MissingFileError, DamagedFileError):
                return

    def has(self, version: int, until_us: int) -> bool:
        """Whether a version can still be read, which was made before a time (Unix time in µs): the log has its commit, and VACUUM has
        removed none of its files. The versions of a table that was removed and created again begin at 0 again.
        """
        if version > self.version:
            return False
        try:
            found = _commit(_actions(self._commit_path(version)), version)
            return found.committed_ms * 1000 <= until_us and self._has_files(version)
        except MissingFileError:
            return False

    def _has_files(self, version: int) -> bool:
        """Whether the files are there that a version needs and the newest one does not. VACUUM removes those first that have not been
        needed for the longest time, so one that is still there is enough.
        """
        new: set[str] = set()
        seen: set[str] = set()
        for number in range(version + 1, self.version + 1):
            actions = _actions(self._commit_path(number))
            added = {action["add"]["path"] for action in actions if "add" in action}
            removed = {a["remove"]["path"]: a["remove"] for a in actions if "remove" in a}
            for path, file in removed.items():
                vector = None if path in new or path in seen else self._vector_file(file)
                if vector is not None and not vector.exists():
                    return False
                seen.add(path)
                data = self.data_file(path)
                if path in added or path in self.files or data is None:
                    continue  # it only has another deletion vector, or a RESTORE has brought it back
                if data.exists():
                    return True
                if path not in new:
                    return False
            new |= added - removed.keys()
        return True

    def forget(self, version: int) -> None:
        """Forget the commits up to a version, except the newest one and the newest one with the state of the mirror: a mirror
        makes millions of them.
        """
        own = next((c for c in reversed(self.commits) if c.state is not None), None)
        self.commits = [
            c for c in self.commits if c.version > version or c is own or c is self.head
        ]

    def _check_state(self) -> None:
        """Raise DamagedFileError if the mirror's newest state may be in a damaged commit."""
        if self._damaged is None:
            return
        version, error = self._damaged
        if not any(c.version > version and c.state is not None for c in self.commits):
            raise error

    def _add(self, path: Path, version: int) -> None:
        actions = _actions(path)
        for action in actions:
            if "remove" in action:
                self.files.pop(action["remove"]["path"], None)
        for action in actions:
            self._take(action)
        self.commits.append(_commit(actions, version))
        self.version = version

    def _take(self, action: Mapping[str, Any]) -> None:
        if "metaData" in action:
            self.metadata = action["metaData"]
        elif "add" in action:
            self.files[action["add"]["path"]] = action["add"]

    def data_file(self, name: str) -> Path | None:
        """The path of a data file, whose name in the log is relative or absolute; None: in another file system."""
        found = _SCHEME.fullmatch(name)
        if found is None:
            return self.path / unquote(name)
        return Path(unquote(found[2])) if found[1].lower() == "file" else None

    def vector(self, file: Mapping[str, Any]) -> bytes | None:
        """The deletion vector of a data file, as `decode_vector` takes it; None: it has none."""
        found = file.get("deletionVector")
        if not found:
            return None
        path = self._vector_file(file)
        if path is None:
            kind = found["storageType"]
            where = "in another file system" if kind == "p" else f"stored as {kind!r}"
            raise UnsupportedError(f"{self.path}: a deletion vector is {where}")
        with table_file(path), path.open("rb") as source:
            source.seek(found.get("offset") or 0)
            vector: bytes = source.read(int(found["sizeInBytes"]) + 8)
            return vector

    def _vector_file(self, file: Mapping[str, Any]) -> Path | None:
        """The path of the file with the deletion vector of a data file; None if it is not in a file that the mirror can read."""
        found = file.get("deletionVector") or {}
        place: str = found.get("pathOrInlineDv", "")
        if found.get("storageType") == "u":
            name = _uuid(base64.b85decode(place[-20:].translate(str.maketrans(_Z85, _B85))))
            return self.path / place[:-20] / f"deletion_vector_{name}.bin"
        return self.data_file(place) if found.get("storageType") == "p" else None


@contextmanager
def table_file(path: Path) -> Iterator[None]:
    """Name a file of a table in the errors of reading it. Raises MissingFileError, DamagedFileError, SourceError if the disk fails."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(f"{path} is missing") from None
    except (pa.ArrowInvalid, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error}") from error


def user_metadata(state: Mapping[str, Any]) -> str:
    """The mirror's state as the `userMetadata` of a commit, to be given as a setting of the session."""
    # Spark replaces ${env:NAME} in settings by the environment variable; the state has names and text of the server
    return json.dumps({_OURS: dict(state)}, sort_keys=True).replace("$", r"\u0024")


def _matches(pattern: re.Pattern[str], names: Iterable[str]) -> list[re.Match[str]]:
    return [match for match in map(pattern.fullmatch, names) if match]


def _complete_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """The version of the newest checkpoint of which all files are there, and these files; -1: there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for match in _matches(_CHECKPOINT, names):
        found.setdefault((_version(match), int(match[2] or 1)), []).append(match[0])
    complete = [
        (version, files) for (version, count), files in found.items() if len(files) == count
    ]
    return max(complete, default=(-1, []))


def _version(match: re.Match[str]) -> int:
    return int(match[1])


def _commit(actions: Sequence[Mapping[str, Any]], version: int) -> Commit:
    """The commit with these actions."""
    info: Mapping[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    try:
        state = json.loads(info.get("userMetadata") or "{}").get(_OURS)
    except (ValueError, AttributeError):
        state = None  # text of another program
    kinds = {kind for action in actions for kind in action}
    only_properties = info.get("operation") in _OF_PROPERTIES and kinds <= _ACTIONS_OF_PROPERTIES
    is_change = state is not None or not only_properties
    return Commit(version, int(info.get("timestamp", 0)), state, _restored(info), is_change)


def _restored(info: Mapping[str, Any]) -> int | None:
    """The version that a commit has brought back; -1: it was chosen by a time; None: the commit is no RESTORE."""
    if info.get("operation") != "RESTORE":
        return None
    try:
        return int((info.get("operationParameters") or {})["version"])
    except (KeyError, TypeError, ValueError):
        return -1


def _actions(path: Path) -> list[dict[str, Any]]:
    with table_file(path), path.open(encoding="utf-8") as lines:
        actions = [json.loads(line) for line in lines if line.strip()]
    if not actions:  # Delta writes none of these: the machine has crashed
        raise DamagedFileError(f"{path} is damaged: it is empty")
    return actions


def _checkpoint(path: Path) -> list[dict[str, Any]]:
    with table_file(path), parquet_file(str(path)) as file:
        actions: list[dict[str, Any]] = file.read(columns=["metaData", "add"]).to_pylist()
        return actions


def _plain(value: Any) -> Any:
    """A value of a checkpoint as the JSON of a commit has it: maps are lists of pairs in Parquet."""
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return dict(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def _uuid(of: bytes) -> str:
    return f"{of[:4].hex()}-{of[4:6].hex()}-{of[6:8].hex()}-{of[8:10].hex()}-{of[10:].hex()}"
