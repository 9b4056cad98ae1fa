"""The progress of the copy of a table, in a file on the driver's machine.

A copy that was interrupted continues with the chunks that are not in the file. Without the file, or with one of another
copy, all chunks are read again: nothing else depends on it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from binlake.errors import SourceError
from binlake.mirror.table_rules import COPY_SUFFIX
from binlake.mirror.tables.data_files import file_system, reading
from binlake.source.bytes import writing


def state_path(indexes: Path, full_name: str) -> Path:
    """The state file of the copy of a table, which is there from the beginning of a copy until it is committed or given up."""
    name = hashlib.sha256(full_name.encode()).hexdigest()[:32]
    return indexes / f"{name}{COPY_SUFFIX}"


def columns_begun(path: Path) -> tuple[str, ...]:
    """The names of the columns that a table had when the copy of a state file began; () if the file does not have them."""
    try:
        with path.open(encoding="utf-8") as file:
            return tuple(json.loads(file.readline())["columns"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return ()


class CopyState:
    """The chunks of one copy, as JSON texts, and what the finished ones answered, by number.

    `columns`: the names of the table's columns. `identity` says which copy of which table this is; `other` is the identity of the
    copy whose chunks the file has instead, "" if it has none. Raises SourceError where the file cannot be written, or the store of the answers' files fails.
    """

    def __init__(self, path: Path, identity: str, columns: Sequence[str] = ()) -> None:
        self.path = path
        self.columns = list(columns)
        self.identity = identity
        self.chunks: list[str] = []
        self.answers: dict[int, dict[str, Any]] = {}
        self.other = ""
        self._load()

    def _load(self) -> None:
        """Read the state of an earlier run of this copy; all files of its answers must exist."""
        try:
            text = self.path.read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error
        is_cut = not text.endswith("\n")  # by a kill
        lines = text.splitlines()
        try:
            head = json.loads(lines[0])
            if head["identity"] != self.identity:
                self.other = str(head["identity"]) if len(lines) > 1 else ""
                return
            self.chunks = list(head["chunks"])
            for line in lines[1:]:
                answer = json.loads(line)
                if all(_exists(file["file-path"]) for file in answer["files"]):
                    self.answers[int(answer["number"])] = answer
        except (IndexError, KeyError, TypeError, ValueError, RecursionError):
            is_cut = True
        if is_cut and self.chunks:
            self._write("w", [self._head(), *self.answers.values()])

    def _head(self) -> dict[str, Any]:
        return {"identity": self.identity, "columns": self.columns, "chunks": self.chunks}

    def begin(self, chunks: Sequence[str]) -> None:
        """Start again with these chunks."""
        self.chunks = list(chunks)
        self.answers = {}
        self.other = ""
        self._write("w", [self._head()])

    def add(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """More chunks have been read, each with its `number` and its `files`."""
        for answer in answers:
            self.answers[int(answer["number"])] = dict(answer)
        self._write("a", answers)

    def remove(self) -> None:
        """The copy is committed, or of no use."""
        self.chunks, self.answers = [], {}
        self.path.unlink(missing_ok=True)

    def _write(self, mode: str, entries: Sequence[Mapping[str, Any]]) -> None:
        with writing(str(self.path)):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open(mode, encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)
                file.flush()
                os.fsync(file.fileno())


def _exists(path: str) -> bool:
    from pyarrow import fs as pafs

    store, inner = file_system(path)
    with reading(path):
        return bool(store.get_file_info(inner).type == pafs.FileType.File)
