"""An export reads the end of a log that the server has written while Spark started."""

from __future__ import annotations

import shutil
from pathlib import Path

from binlake.lake.export import Export
from binlake.lake.local import LocalEngine
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions

LOG = Path(__file__).resolve().parents[3] / "demo" / "mysql-9.7" / "binlog.000002"


def exported(export: Export) -> dict[str, int]:
    """The rows of each table."""
    result = export.run(LocalEngine(1), lambda _done, _all: None)
    return {table.path: sum(file.rows for file in table.files) for table in result.tables}


def test_the_log_has_grown_since_the_check(tmp_path: Path) -> None:
    log = tmp_path / LOG.name
    whole = LOG.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    export = Export(LogInput([str(log)], ReadOptions()), str(tmp_path / "lake"))
    export.check()
    shutil.copyfile(LOG, log)
    all_rows = exported(Export(LogInput([str(LOG)], ReadOptions()), str(tmp_path / "other")))
    assert exported(export) == all_rows
    assert sum(all_rows.values()) > 200
