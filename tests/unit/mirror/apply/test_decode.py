"""A range that tasks decode into files has the changes, in the order, of one that is decoded here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
from binlake.lake.engine import Engine, Progress, Task
from binlake.mirror.apply.decode import Decoded, Wanted, decode_range
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.options import MirrorOptions
from binlake.stream.positions.splits import plan_splits

LOGS = Path(__file__).resolve().parents[4] / "demo" / "mysql-9.7"
TABLES = ("products", "orders", "order_lines", "customers")


class HereEngine(Engine):
    """Runs tasks in this process."""

    @property
    def cores(self) -> int:
        return 1

    def check_paths(self, paths: Sequence[str]) -> None:
        """All are here."""

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        return [task.run() for task in tasks]


def decoded(task_files: TaskFiles, task_bytes: int = 32 << 20) -> Decoded:
    read = MirrorOptions().read_options([("shop", table) for table in TABLES])
    splits = plan_splits([str(LOGS / "binlog.00000?")], read, 50_000)
    wanted = Wanted({("shop", table): () for table in TABLES}, "")
    return decode_range(splits, read, wanted, HereEngine(), task_files, task_bytes=task_bytes)


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("is_cluster", [False, True])
def test_by_tasks_into_files(tmp_path: Path, is_cluster: bool) -> None:
    task_files = TaskFiles(str(tmp_path) if is_cluster else None)
    here = decoded(task_files)
    by_tasks = decoded(task_files, task_bytes=1)
    assert by_tasks.rows == here.rows > 2000
    assert by_tasks.changes.keys() == here.changes.keys() == {("shop", table) for table in TABLES}
    for name, batches in here.changes.items():
        found = by_tasks.changes[name]
        assert rows_of(found) == rows_of(batches)
        assert {str(batch.schema) for batch in found} == {str(batch.schema) for batch in batches}
    assert [ddl.sql for ddl in by_tasks.ddl] == [ddl.sql for ddl in here.ddl]
    assert [path for path in Path(task_files.directory).rglob("*") if path.is_file()] == []
    task_files.close()
    assert not Path(task_files.directory).exists()
