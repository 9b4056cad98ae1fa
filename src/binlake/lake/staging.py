"""One run's staging area in an export directory, and the commit out of it (see export_directory.py)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from binlake.lake.export_directory import LEDGER_NAME, RUN_NAME, STAGING_PREFIX, Directory, Findings

# Stores without a rename: a move is a copy by the store and a deletion, so files are moved once, and
# several at the same time.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
_MOVES_AT_ONCE = 16


def now() -> str:
    """The present moment, as ledgers spell it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Staging:
    """Where one run writes until it commits."""

    def __init__(self, directory: Directory, inputs: Sequence[str]) -> None:
        self.directory = directory
        self.fs = directory.fs
        self.name = f"{STAGING_PREFIX}{uuid.uuid4().hex[:12]}"
        self.started = now()
        self._run: dict[str, Any] = {"started": self.started, "inputs": list(inputs)}
        self._made = self._missing()
        try:
            self.fs.create_dir(self.attempts, recursive=True)
            self._describe_run()
        except OSError:
            self.abandon()
            raise

    @property
    def attempts(self) -> str:
        """The directory that tasks write their files to, under names of their own."""
        return self.directory.path(self.name, "attempts")

    def _describe_run(self) -> None:
        self.directory.write_json(self.directory.path(self.name, RUN_NAME), self._run)

    def _missing(self) -> list[str]:
        """The export's directory and those above it that this run makes, the innermost first."""
        missing = []
        path = self.directory.root
        while path and self.fs.get_file_info(path).type == pafs.FileType.NotFound:
            missing.append(path)
            path = path.rpartition("/")[0]
        return missing

    def discard(self) -> None:
        """Delete everything that this run wrote and did not commit."""
        self.directory.delete_directories([self.name])

    def abandon(self) -> None:
        """`discard`, and delete the directories that this run made, as far as they are empty."""
        self.discard()
        if self.fs.type_name != "local":  # elsewhere a directory is nothing of its own
            return
        for path in self._made:
            try:
                Path(path).rmdir()
            except OSError:
                return

    def prepare(
        self, tables: Mapping[str, Sequence[str]], ledger: Mapping[str, Any], before: Findings
    ) -> None:
        """Write everything that the commit needs: after this it only moves files, and needs no space."""
        self._run["tables"] = sorted({*tables, *before.tables})
        self._describe_run()
        self.directory.write_json(self._ledger, ledger)

    def commit(self, tables: Mapping[str, Sequence[str]], before: Findings) -> None:
        """Make `tables` (path in the directory -> file names in `attempts`) the only content.

        `before` is what the survey found and this run replaces. From the first move to the
        ledger there is no `_ledger.json`, so a mixture is never a valid result; the run's own
        description lists what is being moved, so a later run knows what it finds.
        """
        directory = self.directory
        if before.ledger is not None:
            self.fs.delete_file(directory.path(LEDGER_NAME))
        for table in before.tables:
            self._move_directory(directory.path(table), directory.path(self.name, "old", table))
        self._delete_empty({table.partition("/")[0] for table in before.tables})
        if self._moves_files:
            self._move_files(
                (f"{self.attempts}/{file}", directory.path(table, file))
                for table, files in tables.items()
                for file in files
            )
        else:
            for table, files in tables.items():
                self._put_in_place(table, files)
        directory.delete_directories(before.staging)
        self.fs.move(self._ledger, directory.path(LEDGER_NAME))
        self.discard()

    @property
    def _ledger(self) -> str:
        return self.directory.path(self.name, LEDGER_NAME)

    def _put_in_place(self, table: str, files: Iterable[str]) -> None:
        whole = self.directory.path(self.name, "tables", table)
        self.fs.create_dir(whole, recursive=True)
        for file in files:
            self.fs.move(f"{self.attempts}/{file}", f"{whole}/{file}")
        self._move_directory(whole, self.directory.path(table))

    @property
    def _moves_files(self) -> bool:
        """Whether directories cannot be moved."""
        return self.fs.type_name in _OBJECT_STORES

    def _move_directory(self, source: str, target: str) -> None:
        if self._moves_files:
            found = self.fs.get_file_info(pafs.FileSelector(source))
            self._move_files((info.path, f"{target}/{info.base_name}") for info in found)
            return
        self.fs.create_dir(target.rpartition("/")[0], recursive=True)
        self.fs.move(source, target)

    def _move_files(self, moves: Iterable[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(_MOVES_AT_ONCE, "binlake-commit") as pool:
            for _ in pool.map(lambda move: self.fs.move(*move), moves):
                pass

    def _delete_empty(self, databases: Iterable[str]) -> None:
        for database in databases:
            path = self.directory.path(database)
            if not self.fs.get_file_info(pafs.FileSelector(path, allow_not_found=True)):
                self.directory.delete_directories([database])
