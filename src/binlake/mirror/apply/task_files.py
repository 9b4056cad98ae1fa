"""The files in which tasks pass rows and keys to other tasks and to the driver.

Tasks of this machine use a directory of the mirror's state. Tasks on a cluster share only the lake with the
driver, which may be an object store: they write there.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from binlake.errors import SourceError
from binlake.lake.engine import Engine
from binlake.mirror.control import NAMESPACE
from binlake.mirror.table_rules import STAGING
from binlake.mirror.tables.data_files import file_system
from binlake.source.bytes import keep_from_others, writing
from binlake.source.reader import what, without_secrets

_FOLDER = "staging"
_COPIED_BYTES = 8 << 20


def task_output(directory: str) -> tuple[str, pa.NativeFile]:
    """A new file in the directory of a `TaskFiles`: its path, and what to write it to."""
    fs, inner = file_system(directory)
    name = f"{uuid.uuid4().hex}.arrow"
    return f"{directory}/{name}", fs.open_output_stream(f"{inner}/{name}")


def opened(path: str) -> pa.NativeFile:
    """A file of a task, to be read."""
    fs, inner = file_system(path)
    return (
        pa.memory_map(inner) if isinstance(fs, pafs.LocalFileSystem) else fs.open_input_file(inner)
    )


@contextmanager
def reading_task_file(path: str) -> Iterator[None]:
    """Raise SourceError if a file of a task cannot be read, or is not whole. It is no file of a table, so no table is quarantined."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        reason = f"cannot read {without_secrets(path)}, a file of a task: {what(error, path)}"
        raise SourceError(reason) from error


def batches_of(path: str, chosen: Callable[[int], Iterable[int]]) -> Iterator[pa.RecordBatch]:
    """Batches of a file of a task: those whose places `chosen` returns for the number of all. Raises SourceError."""
    with reading_task_file(path), opened(path) as source, pa.ipc.open_file(source) as reader:
        for at in chosen(reader.num_record_batches):
            yield reader.get_batch(at)


class TaskFiles:
    """A directory for the files of tasks: in `state`, a directory of this machine that no other process uses, or below `lake`, which
    all machines see. A process that has lost the lease of the lake does not know that, so each has a directory of its own there.
    """

    def __init__(self, state: Path, lake: str | None = None) -> None:
        self._here = state / STAGING
        self._of_all = f"{lake}/{NAMESPACE}/{_FOLDER}"
        self._is_shared = lake is not None
        self._directory = (
            f"{self._of_all}/{uuid.uuid4().hex}" if self._is_shared else str(self._here)
        )
        self._is_empty = False  # a killed run may have left files

    @classmethod
    def of(cls, engine: Engine, state: Path, lake: str) -> TaskFiles:
        """The directory for tasks of an engine. No file is made or removed here."""
        return cls(state, None if engine.is_here else lake)

    def begin(self) -> None:
        """Remove the files of a killed run, and make the directory now, so that no later round meets its error. To be called with
        the lease of the lake. Raises SourceError.
        """
        self._remove(self._of_all)
        self.for_tasks()

    def for_tasks(self) -> str:
        """The directory, for tasks that will write into it. Raises SourceError."""
        with writing(self._directory):
            keep_from_others(self._here)
            if self._is_shared:
                fs, inner = file_system(self._directory)
                fs.create_dir(inner, recursive=True)
        self._is_empty = False
        return self._directory

    def local(self, path: str) -> str:
        """A file of a task as a file of this machine, until `clear`. Raises SourceError."""
        if not self._is_shared:
            return path
        fs, inner = file_system(path)
        local = self._here / inner.rpartition("/")[2]
        if not local.exists():
            part = local.with_suffix(".part")
            try:
                with reading_task_file(path), fs.open_input_stream(inner) as source:
                    _copy(source, part)
                part.replace(local)
            finally:
                part.unlink(missing_ok=True)
        return str(local)

    def clear(self) -> None:
        """Remove the directory and its files. On this machine, what is mapped into memory stays readable."""
        if not self._is_empty:
            self._remove(self._directory)

    def _remove(self, shared: str) -> None:
        shutil.rmtree(self._here, ignore_errors=True)
        if self._is_shared:
            fs, inner = file_system(shared)
            with suppress(OSError):  # names are unique: what stays does no harm
                fs.delete_dir(inner)
        self._is_empty = True


def _copy(source: pa.NativeFile, target: Path) -> None:
    """Copy a file. Raises SourceError if `target` cannot be written, OSError if the source cannot be read."""
    with writing(str(target)):
        out = pafs.LocalFileSystem().open_output_stream(str(target))
    with out:
        while chunk := source.read(_COPIED_BYTES):
            with writing(str(target)):
                out.write(chunk)
