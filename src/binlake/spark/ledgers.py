"""Bring the ledgers of a read's tasks to the user.

Spark offers a Python data source no way back from its tasks to the driver except rows. So every
task leaves its ledger in a directory, and the task that finds the ledgers of all tasks there adds
them up. Two directories serve:

- the option `ledger_path`: the sum of a read or micro-batch stays there, as one line of JSON in a
  file of its own; it must be a path or URI that all executors and the driver see;
- the scratch directory of Spark's driver, where the tasks run in the driver's JVM (`local[…]`, also
  of a Connect server): the last task prints the summary on stderr, which is the driver's.

On a cluster each task prints on its executor's stderr what it left out. The driver prints the sum
as well, if binlake has prepared the session (`ledger_collector.py`), or with `ledger_path`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from binlake.errors import BinlogError, SourceError
from binlake.source.bytes import (
    LOG_DIRECTORY_MODE,
    create_new,
    file_system_for,
    is_uri,
    local_path,
    write_whole,
)
from binlake.source.locations import check_visible
from binlake.spark.ledger_collector import CollectorAddress, ReadPart
from binlake.values.ledger import Ledger

_TASKS = "_tasks"
_SCRATCH = "binlake-ledgers"
_SHOWN_LINES = 12


@dataclass(frozen=True)
class ReadLedger:
    """The destination of the ledgers of one read, or of one micro-batch; every task carries it.

    `name` is that of the collected file, without its suffix. `directory` is the option
    `ledger_path`, or None. `facts` begin the collected JSON; `label` begins each line of the
    summary. `awaited`: the driver looks for the sum (`collected_ledger`). `task` counts from 0 to
    `tasks`. `driver_dirs` are the scratch directories of the driver: a task that has the same ones
    runs in the driver's JVM. `collector` is where tasks that do not run there send their ledgers.
    """

    name: str
    label: str
    directory: str | None
    awaited: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    task: int = 0
    tasks: int = 1
    driver_dirs: str = field(default_factory=lambda: os.environ.get("SPARK_LOCAL_DIRS", ""))
    collector: CollectorAddress | None = None

    def for_task(self, task: int, tasks: int) -> ReadLedger:
        """Return the same read in the form that one of its tasks carries."""
        return replace(self, task=task, tasks=tasks)

    def create_directory(self) -> None:
        """Create the directory, on the driver. Raises SourceError."""
        if self.directory is not None:
            _folder(self.directory).create()

    def expect_directory(self) -> None:
        """Raise SourceError if the host of a task does not see the directory of the driver: the ledgers
        would go to a directory of that host, where the sum is never found.
        """
        if self.directory is not None:
            check_visible(self.directory)

    def deliver(self, ledger: Ledger) -> None:
        """Store the ledger of a finished task for the sum. Raises SourceError."""
        if self.directory is not None:
            folder = _folder(self.directory)
            whole = folder.sum(self, ledger)
            if whole is not None:
                folder.write(self, whole)
        if self.driver_dirs and self.driver_dirs == os.environ.get("SPARK_LOCAL_DIRS"):
            scratch = _LocalFolder(_scratch(self.driver_dirs))
            whole = scratch.sum(self, ledger)
            if whole is not None:
                if self.awaited:
                    scratch.write(self, whole)
                print_remarks(self.label, whole)
        else:
            print_remarks(self.label, ledger)
            if self.collector is not None:
                part = ReadPart(self.name, self.label, self.task, self.tasks)
                self.collector.send(part, ledger)

    def failed(self, ledger: Ledger, error: BinlogError) -> None:
        """Store the ledger of a failed task in `ledger_path`, with the error."""
        if self.directory is not None:
            with contextlib.suppress(SourceError):  # the error that stops the read takes precedence
                content = {"error": str(error), **ledger.to_json()}
                _folder(self.directory).add(
                    self.name, f"failed-{self.task:05d}", _json_line(content)
                )

    def deliver_nothing(self) -> None:
        """Handle a read without tasks: there was nothing to read. Raises SourceError."""
        if self.directory is not None:
            _folder(self.directory).write(self, Ledger())


def name_of_read() -> str:
    """Return a name for a batch read: the time and something unique."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:12]}"


def name_of_batch(file: str, offset: int, *identity: Any) -> str:
    """Return a name for the micro-batch that ends at a position; the same when the batch is
    repeated.
    """
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:12]
    return f"batch-{file}-{offset:012d}-{digest}"


def print_remarks(label: str, ledger: Ledger) -> None:
    """Print what a read left out on stderr; nothing if it left out nothing."""
    lines = ledger.remarks()
    shown = lines[:_SHOWN_LINES]
    if len(lines) > len(shown):
        shown.append(
            f"and {len(lines) - len(shown)} more; the view ledger and the option ledger_path "
            "have all of them"
        )
    text = "".join(f"binlake: {label}: {line}\n" for line in shown)
    if text:  # in one piece, so that the lines of two tasks do not mix
        os.write(2, text.encode(errors="backslashreplace"))


def batch_sums(ledger: Ledger) -> dict[str, int]:
    """Return the numbers of a micro-batch for a stream's progress, which can be summed up."""
    total = ledger.total
    return {
        "batches": 1,
        "bytes": total.bytes,
        "events": total.events,
        "transactions": ledger.transactions["committed"],
        "rows": sum(counts.total() for counts in ledger.rows.values()),
        "unshown": ledger.unshown.total(),
        "skipped_ranges": len(ledger.skipped),
        "skipped_bytes": sum(lost.end - lost.start for lost in ledger.skipped),
        "zero_dates": ledger.zero_dates.total(),
        "warnings": len(ledger.warnings),
    }


def collected_ledger(read: ReadLedger) -> tuple[Ledger | None, bool]:
    """Return the sum of a read's ledgers, None if it is not there, and whether it was printed
    already.

    The driver's scratch directory keeps the sum only until this call.
    """
    dirs = os.environ.get("SPARK_LOCAL_DIRS", "")
    found = _LocalFolder(_scratch(dirs)).pop(read.name) if dirs else None
    if found is not None:
        return found, True
    return (_folder(read.directory).read(read.name) if read.directory else None), False


# -- directories --------------------------------------------------------------------------------


def _scratch(driver_dirs: str) -> str:
    return str(Path(driver_dirs.partition(",")[0], _SCRATCH))


def _folder(directory: str) -> _Folder:
    return _RemoteFolder(directory) if is_uri(directory) else _LocalFolder(directory)


class _Folder(ABC):
    """A directory with collected ledgers, and with the ledgers of tasks below `_tasks/<read>/`."""

    def sum(self, read: ReadLedger, ledger: Ledger) -> Ledger | None:
        """Add the ledger of a task; return the sum, if all tasks have added theirs. Raises
        SourceError.
        """
        if read.tasks == 1:
            return ledger
        self.add(read.name, f"{read.task:05d}", _json_line(ledger.to_json()))
        parts = self.take(read)
        if parts is None:
            return None
        whole = Ledger()
        for part in parts:
            whole += Ledger.from_json(json.loads(part))
        return whole

    def write(self, read: ReadLedger, ledger: Ledger) -> None:
        """Write the sum of a read. Raises SourceError."""
        content = {
            "read": read.name,
            "finished": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            **read.facts,
            "tasks": read.tasks,
            **ledger.to_json(),
        }
        self.put(f"{read.name}.json", _json_line(content))

    def read(self, name: str) -> Ledger | None:
        """Return the sum of a read, if it is there. Raises SourceError."""
        text = self.get(f"{name}.json")
        return None if text is None else Ledger.from_json(json.loads(text))

    @abstractmethod
    def create(self) -> None:
        """Create the directory. Raises SourceError."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write a file: whole under its name, or not at all."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""

    @abstractmethod
    def add(self, read: str, task: str, data: bytes) -> None:
        """Write the ledger of a task under a unique name."""

    @abstractmethod
    def take(self, read: ReadLedger) -> list[bytes] | None:
        """Take one ledger of each task if all are there; else return None."""


class _LocalFolder(_Folder):
    """A local directory. Directories are renamed in one step, so exactly one task takes the
    ledgers of all.
    """

    def __init__(self, directory: str) -> None:
        self._root = Path(local_path(directory))

    def create(self) -> None:
        with _writing(self._root):
            self._root.mkdir(LOG_DIRECTORY_MODE, parents=True, exist_ok=True)

    def put(self, name: str, data: bytes) -> None:
        self.create()
        with _writing(self._root):
            self._write(self._root / name, data)

    def get(self, name: str) -> bytes | None:
        with _writing(self._root):
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def pop(self, name: str) -> Ledger | None:
        """Read the sum and remove it. Raises SourceError."""
        found = self.read(name)
        if found is not None:
            (self._root / f"{name}.json").unlink(missing_ok=True)
        return found

    def add(self, read: str, task: str, data: bytes) -> None:
        folder = self._root / _TASKS / read
        with _writing(self._root):
            while True:
                self.create()
                try:
                    for made in (folder.parent, folder):
                        made.mkdir(LOG_DIRECTORY_MODE, exist_ok=True)
                    self._write(folder / f"{task}-{uuid.uuid4().hex[:8]}.json", data)
                    return
                except FileNotFoundError:  # another task has just taken the folder
                    continue

    def take(self, read: ReadLedger) -> list[bytes] | None:
        folder = self._root / _TASKS / read.name
        with _writing(self._root):
            try:
                if len(_one_of_each(p.name for p in folder.iterdir())) < read.tasks:
                    return None
                taken = folder.rename(folder.with_name(f".{read.name}.{uuid.uuid4().hex[:8]}"))
            except FileNotFoundError:
                return None
            names = _one_of_each(path.name for path in taken.iterdir())
            parts = [(taken / name).read_bytes() for name in names]
            shutil.rmtree(taken, ignore_errors=True)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()  # if it is empty
            return parts

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        with create_new(partial) as file:
            file.write(data)
        partial.replace(path)


class _RemoteFolder(_Folder):
    """A place in a pyarrow file system. Two tasks may both write the sum: it is the same."""

    def __init__(self, directory: str) -> None:
        self._uri = directory.rstrip("/")
        self._files, root = file_system_for(directory)
        self._root = root.rstrip("/")

    def create(self) -> None:
        """Do nothing: a file there creates its directories."""

    def put(self, name: str, data: bytes) -> None:
        if self._files.type_name != "hdfs":
            write_whole(f"{self._uri}/{name}", data)
            return
        folder, _, last = name.rpartition("/")
        partial = "/".join(filter(None, (folder, f".{last}.{uuid.uuid4().hex[:8]}")))
        write_whole(f"{self._uri}/{partial}", data)
        with _writing(self._uri):
            if self.get(name) is not None:
                self._files.delete_file(f"{self._root}/{name}")
            self._files.move(f"{self._root}/{partial}", f"{self._root}/{name}")

    def get(self, name: str) -> bytes | None:
        with _writing(self._uri):
            try:
                with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                    data: bytes = stream.read()
                    return data
            except FileNotFoundError:
                return None

    def add(self, read: str, task: str, data: bytes) -> None:
        with _writing(self._uri):
            self._files.create_dir(f"{self._root}/{_TASKS}/{read}")
        self.put(f"{_TASKS}/{read}/{task}-{uuid.uuid4().hex[:8]}.json", data)

    def take(self, read: ReadLedger) -> list[bytes] | None:
        from pyarrow import fs

        folder = f"{_TASKS}/{read.name}"
        with _writing(self._uri):
            infos = self._files.get_file_info(
                fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
            )
        names = _one_of_each(info.base_name for info in infos)
        if len(names) < read.tasks:
            return None
        parts = [self.get(f"{folder}/{name}") for name in names]
        if any(part is None for part in parts):  # another task has taken them
            return None
        with contextlib.suppress(OSError):
            self._files.delete_dir(f"{self._root}/{folder}")
        return [part for part in parts if part is not None]


def _one_of_each(names: Iterator[str] | Sequence[str]) -> list[str]:
    """Return one file of each task: Spark may have run a task more than once."""
    by_task = {name.partition("-")[0]: name for name in sorted(names) if name[:1].isdigit()}
    return [by_task[task] for task in sorted(by_task)]


@contextlib.contextmanager
def _writing(directory: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"cannot write the ledger to {directory}: {error}",
            hint="set the option ledger_path to a directory or URI that the driver and all executors "
            "may write to",
        ) from error


def _json_line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
