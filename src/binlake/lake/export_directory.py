"""The directory of an export: names, earlier content, staging and commit.

    DIR/<database>/<table>/*.parquet     the result
    DIR/_ledger.json                     written last: its presence shows that the result is complete
    DIR/_staging-<run>/run.json          the plan of an unfinished run
    DIR/_staging-<run>/attempts/*        files that tasks write; only those that the driver
                                         got back from finished tasks are ever moved on
    DIR/_staging-<run>/tables/…          whole tables, each moved into place by one rename

After a kill at any moment, each table is complete or absent, and there is no `_ledger.json`. (An
object store cannot rename directories: there only the ledger shows what is complete.)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyarrow import fs as pafs

from binlake.errors import BinlogError, OptionError, SourceError
from binlake.source.bytes import file_system_for, is_uri, local_path
from binlake.source.stores.errors import hint_of_store
from binlake.values.quantities import counted

IfExists = Literal["error", "replace"]

LEDGER_NAME = "_ledger.json"
STAGING_PREFIX = "_staging-"
RUN_NAME = "run.json"
#: The hint of an error before the commit.
NOTHING_KEPT = "this export has no result"
# pyarrow's wording of an error of the system
_ERRNO = re.compile(r".*\[errno \d+\] ", re.IGNORECASE | re.DOTALL)

# ASCII characters without a meaning to file systems, Hadoop paths or globs; all above ASCII are
# kept
_UNSAFE = re.compile(r"[^A-Za-z0-9_.$ ~!^&()'`;\x80-\U0010ffff-]")

_encode = json.JSONEncoder(ensure_ascii=False).encode


def encode_name(name: str) -> str:
    """A database or table name as a directory name, percent-encoded where it must be.

    Also encoded: a leading `_` or `.` (Spark hides such directories), a trailing `.` or space
    (Windows drops them) and `@`, which marks the set-aside rows of an older definition.
    """
    safe = _UNSAFE.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), name)
    if safe[:1] in ("_", "."):
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if safe[-1:] in (".", " "):
        safe = f"{safe[:-1]}%{ord(safe[-1]):02X}"
    return safe


def table_path(database: str, table: str, version: int | None = None) -> str:
    """Return `<database>/<table>`, or `<database>/<table>@<version>` for rows that were set aside."""
    suffix = "" if version is None else f"@{version}"
    return f"{encode_name(database)}/{encode_name(table)}{suffix}"


@dataclass(frozen=True)
class Findings:
    """The content of a directory to which an export is to write."""

    ledger: Mapping[str, Any] | None = None
    runs: tuple[Mapping[str, Any], ...] = ()
    tables: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    staging: tuple[str, ...] = field(default=(), repr=False)

    @property
    def empty(self) -> bool:
        """Whether the directory is empty."""
        return not (self.ledger or self.staging or self.tables or self.foreign)

    def describe(self) -> str:
        """Describe the content in one line."""
        if self.foreign:
            some = ", ".join(self.foreign[:3]) + (", …" if len(self.foreign) > 3 else "")
            return f"contains files that no export wrote ({some})"
        if self.ledger is not None:
            found = self.ledger.get("export")
            made = found if isinstance(found, dict) else {}
            left = ", and remains of one that did not finish" if self.staging else ""
            rows = f", {counted(made['rows'], 'row')}" if "rows" in made else ""
            when = f" of {made['finished']}" if "finished" in made else ""
            return f"contains a finished export{when}: {counted(len(self.tables), 'table')}{rows}{left}"
        started = self.runs[0].get("started") if self.runs else None
        when = f"was started {started} and " if started else ""
        whole = f", {counted(len(self.tables), 'table')} of it already whole" if self.tables else ""
        return f"contains an export that {when}did not finish{whole}"


def _tables(made: Mapping[str, Any]) -> Iterable[str]:
    """The tables that a ledger or a run names, if it is one of binlake's."""
    named = made.get("tables", ())
    names = list(named) if isinstance(named, list | dict) else []
    return [name for name in names if isinstance(name, str)]


def _text(value: Mapping[str, Any]) -> str:
    """The value as JSON: a line for each member, and for each entry of a member that has entries.

    `json` indents with Python code only, which takes longer than writing thousands of tables.
    """
    members = []
    for name, member in value.items():
        if isinstance(member, dict) and member:
            inner = [_encode({key: entry})[1:-1] for key, entry in member.items()]
            text = "{\n  " + ",\n  ".join(inner) + "\n }"
        elif isinstance(member, list) and member:
            text = "[\n  " + ",\n  ".join(map(_encode, member)) + "\n ]"
        else:
            text = _encode(member)
        members.append(f" {_encode(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


class Directory:
    """An export's target: a local path, or any URI that pyarrow.fs knows."""

    def __init__(self, target: str) -> None:
        self.shown = target
        if is_uri(target):
            self.fs, root = file_system_for(target)
        else:
            self.fs, root = pafs.LocalFileSystem(), str(Path(local_path(target)).absolute())
        self.root = root.rstrip("/")

    def __reduce__(self) -> tuple[type[Directory], tuple[str]]:
        # tasks open it again on their hosts: they use the credentials there, which are never sent
        return Directory, (self.shown,)

    def path(self, *parts: str) -> str:
        """A path inside the directory, as the file system wants it."""
        return "/".join((self.root, *parts))

    # What is there

    def survey(self) -> Findings:
        """List the contents. Raises SourceError if it is a file or cannot be read."""
        try:
            info = self.fs.get_file_info(self.root)
            if info.type == pafs.FileType.NotFound:
                return Findings()
            if info.type == pafs.FileType.File:
                raise SourceError(f"{self.shown} is a file", hint="export writes a directory")
            entries = {e.base_name: e for e in self._list(self.root)}
        except OSError as error:
            raise SourceError(f"cannot read {self.shown}: {error}") from None
        ledger = self._json(self.path(LEDGER_NAME)) if LEDGER_NAME in entries else None
        staging = tuple(sorted(n for n in entries if n.startswith(STAGING_PREFIX)))
        runs = tuple(run for n in staging if (run := self._json(self.path(n, RUN_NAME))))
        ours = {table for made in (ledger or {}, *runs) for table in _tables(made)}
        tables, foreign = self._sort_out(entries, ours)
        return Findings(ledger, runs, tables, foreign, staging)

    def _sort_out(
        self, entries: Mapping[str, pafs.FileInfo], ours: set[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the tables of exports, and all other files."""
        tables: list[str] = []
        foreign: list[str] = []
        databases = {table.partition("/")[0] for table in ours}
        for name, entry in sorted(entries.items()):
            if name.startswith((LEDGER_NAME, STAGING_PREFIX)):
                continue
            if entry.type != pafs.FileType.Directory:
                foreign.append(name)
                continue
            inside = [f"{name}/{inner.base_name}" for inner in self._list(entry.path)]
            tables.extend(path for path in inside if path in ours)
            if name in databases:
                foreign.extend(path for path in inside if path not in ours)
            elif inside:
                foreign.append(name)
        return tuple(sorted(tables)), tuple(foreign)

    def _list(self, path: str) -> list[pafs.FileInfo]:
        found: list[pafs.FileInfo] = self.fs.get_file_info(pafs.FileSelector(path))
        return found

    def _json(self, path: str) -> dict[str, Any]:
        try:
            with self.fs.open_input_stream(path) as stream:
                value = json.loads(stream.read())
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    # What may be done with it

    def claim(self, if_exists: IfExists) -> Findings:
        """Survey, and raise OptionError unless an export may write here."""
        found = self.survey()
        if found.foreign:
            hint = "export needs a directory of its own"
        elif found.empty or if_exists == "replace":
            return found
        else:
            hint = "use --overwrite to replace it"
        raise OptionError(f"{self.shown} {found.describe()}", hint=hint)

    def check_writable(self) -> None:
        """Raise SourceError if this process may not write. For a store, only writing shows that."""
        if self.fs.type_name != "local":
            return
        place = Path(self.root)
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise SourceError(f"{self.shown}: {place} is a file")
        if not os.access(place, os.W_OK | os.X_OK):
            raise SourceError(f"cannot write {self.shown}: no permission to write in {place}")

    @contextmanager
    def writing(self, hint: str | None = None) -> Iterator[None]:
        """Report errors of writing as a BinlogError that names this directory."""
        try:
            yield
        except OSError as error:
            reason = _ERRNO.sub("", error.strerror or str(error))
            hints = filter(None, (hint, hint_of_store(self.shown, reason)))
            raise BinlogError(
                f"cannot write {self.shown}: {reason}", hint="; ".join(hints) or None
            ) from None

    def write_json(self, path: str, value: Mapping[str, Any]) -> None:
        """Write a small JSON file in one go: whole under its name, or not at all."""
        text = _text(value)
        unfinished = f"{path}.part"
        with self.fs.open_output_stream(unfinished) as stream:
            stream.write(text.encode())
        self.fs.move(unfinished, path)

    def delete_directories(self, names: Iterable[str]) -> None:
        """Delete directories inside this one, if they are there."""
        for name in names:
            path = self.path(name)
            if self.fs.get_file_info(path).type == pafs.FileType.Directory:
                self.fs.delete_dir(path)
