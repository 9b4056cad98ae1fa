"""The files in which tasks pass rows and keys to other tasks and to the driver.

Tasks of this machine use a temporary directory. Tasks on a cluster share only the lake with the
driver, which may be an object store: they write there.
"""

from __future__ import annotations

import tempfile
import uuid
from contextlib import suppress

import pyarrow as pa
import pyarrow.fs as pafs

from binlake.mirror.control import NAMESPACE
from binlake.mirror.tables.data_files import file_system

_FOLDER = "staging"  # below the lake


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


class TaskFiles:
    """A directory for the files of tasks: of this machine, or below `lake`, which all machines see."""

    def __init__(self, lake: str | None = None) -> None:
        self._here = tempfile.TemporaryDirectory(prefix="binlake-mirror-")
        self._directory = self._here.name if lake is None else f"{lake}/{NAMESPACE}/{_FOLDER}"
        self._is_shared = lake is not None
        self._is_empty = lake is None
        self.clear()  # what a killed run has left

    def for_tasks(self) -> str:
        """The directory, for tasks that will write into it."""
        self._is_empty = False
        return self._directory

    def clear(self) -> None:
        """Remove all files. What is mapped into memory stays readable."""
        if self._is_empty:
            return
        fs, inner = file_system(self._directory)
        if self._is_shared:
            with suppress(FileNotFoundError):
                fs.delete_dir(inner)
            fs.create_dir(inner, recursive=True)
        else:
            fs.delete_dir_contents(inner)
        self._is_empty = True

    def close(self) -> None:
        """Remove the directory."""
        self._here.cleanup()
        if self._is_shared:
            fs, inner = file_system(self._directory)
            with suppress(OSError):
                fs.delete_dir(inner)
