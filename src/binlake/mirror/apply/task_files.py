"""The files in which tasks pass decoded rows to the driver.

Tasks of this machine use a temporary directory. Tasks on a cluster share only the lake with the
driver, which may be an object store: they write there, and the driver fetches their files.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from binlake.mirror.control import NAMESPACE
from binlake.mirror.tables.data_files import file_system, remove_file

_FOLDER = "staging"  # below the lake


def task_output(directory: str) -> tuple[str, pa.NativeFile]:
    """A new file in the directory of a `TaskFiles`: its path, and what to write it to."""
    fs, inner = file_system(directory)
    name = f"{uuid.uuid4().hex}.arrow"
    return f"{directory}/{name}", fs.open_output_stream(f"{inner}/{name}")


class TaskFiles:
    """A directory for the files of tasks: of this machine, or below `lake`, which all machines see."""

    def __init__(self, lake: str | None = None) -> None:
        self._here = tempfile.TemporaryDirectory(prefix="binlake-mirror-")
        self.directory = self._here.name if lake is None else f"{lake}/{NAMESPACE}/{_FOLDER}"
        self._is_shared = lake is not None
        if self._is_shared:
            self._empty()  # remove the files of a killed run
            fs, inner = file_system(self.directory)
            fs.create_dir(inner, recursive=True)

    def take(self, path: str) -> Iterator[pa.RecordBatch]:
        """The rows of a file, which is removed."""
        local = self._fetched(path) if self._is_shared else path
        with pa.memory_map(local) as source:
            reader = pa.ipc.open_file(source)
            for at in range(reader.num_record_batches):
                yield reader.get_batch(at)
        with suppress(FileNotFoundError):
            os.unlink(local)  # the mapping keeps what it holds  # noqa: PTH108

    def _fetched(self, path: str) -> str:
        fs, inner = file_system(path)
        local = str(Path(self._here.name) / inner.rpartition("/")[2])
        pafs.copy_files(inner, local, fs, pafs.LocalFileSystem())
        remove_file(path)
        return local

    def close(self) -> None:
        """Remove what is left."""
        self._here.cleanup()
        if self._is_shared:
            self._empty()

    def _empty(self) -> None:
        fs, inner = file_system(self.directory)
        with suppress(OSError):
            fs.delete_dir(inner)
