"""The files that tasks of a cluster share."""

from __future__ import annotations

from pathlib import Path

from binlake.mirror.apply.task_files import TaskFiles, task_output


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
