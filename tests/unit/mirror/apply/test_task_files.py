"""The files that tasks of a cluster share."""

from __future__ import annotations

import resource
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import SourceError
from binlake.mirror.apply.lake_types import LakeTypes
from binlake.mirror.apply.range_changes import ChangeFile
from binlake.mirror.apply.task_files import TaskFiles, task_output
from binlake.mirror.tables.damage import DAMAGED


def test_a_process_that_has_lost_the_lease_removes_only_its_own(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    first, second = (TaskFiles(tmp_path / name, lake) for name in ("first", "second"))
    first.begin()
    old, out = task_output(first.for_tasks())
    out.close()
    second.begin()  # with the lease
    assert not Path(old).exists()
    new, out = task_output(second.for_tasks())
    with out:
        out.write(b"rows")
    first.clear()
    assert Path(second.local(new)).read_bytes() == b"rows"
    second.clear()
    assert not Path(new).parent.exists()


def shared_file(task_files: TaskFiles, content: bytes) -> str:
    path, out = task_output(task_files.for_tasks())
    with out:
        out.write(content)
    return path


def test_a_file_that_does_not_fit_on_the_disk_is_copied_again(tmp_path: Path) -> None:
    """A part of it would be read as a damaged file."""
    task_files = TaskFiles(tmp_path / "state", str(tmp_path / "lake"))
    content = bytes(100_000)
    path = shared_file(task_files, content)
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(SourceError, match=rf"cannot write {tmp_path}/state/.*too large"):
            task_files.local(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    copied = Path(task_files.local(path))
    assert copied.read_bytes() == content
    assert list(copied.parent.iterdir()) == [copied]


def test_a_file_that_the_store_does_not_return(tmp_path: Path) -> None:
    """It is no file of a table, whose absence would quarantine the table."""
    task_files = TaskFiles(tmp_path / "state", str(tmp_path / "lake"))
    path = shared_file(task_files, b"rows")
    Path(path).unlink()
    with pytest.raises(SourceError, match=rf"cannot read {path}, a file of a task") as failed:
        task_files.local(path)
    assert not isinstance(failed.value, DAMAGED)


def test_changes_in_a_file_that_is_not_whole(tmp_path: Path) -> None:
    task_files = TaskFiles(tmp_path / "state")
    rows = LakeTypes("shop.t", pa.schema([("id", pa.int64())]), ("id",), ("id",), (), "")
    path = shared_file(task_files, b"ARROW1\0\0 and nothing more")
    for parts in (0, 2):
        file = ChangeFile(path, parts, rows.fingerprint, 1, 1, 0)
        with pytest.raises(SourceError, match="a file of a task") as failed:
            list(file.tables(rows))
        assert not isinstance(failed.value, DAMAGED)
        with pytest.raises(SourceError, match="a file of a task"):
            list(file._replace(parts=2).share(0))
