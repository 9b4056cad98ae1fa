"""A log in parts is the log read as a whole, with the history that `binlake schema` wrote, or its DDL."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from binlake.cli.main import main
from binlake.source.chain import resolve
from binlake.spark.log_part import TaskSize, plan_parts, with_ddl
from binlake.stream.log_ddl import LogDdl
from binlake.stream.positions.splits import plan_splits
from binlake.table.row_json import json_lines
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.oracles.reading import row_lines, split_lines

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
#: Logs whose row events lack something: names, signs, digits of old temporal values.
LACKING = ("mysql-5.6.24/*", "mysql-9.7/schema", "mariadb-*/schema", "*/types-unsaid", "*/types-old-temporals")  # fmt: skip
CASES = sorted(folder for pattern in LACKING for folder in GOLDEN.glob(pattern))


def history_of(*files: Path | str, **flags: str) -> str:
    text = io.StringIO()
    arguments = [word for name, value in flags.items() for word in (f"--{name}", value)]
    with redirect_stdout(text):
        assert main(["schema", *arguments, *map(str, files)]) == 0
    return text.getvalue()


def logs_of(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("binlog.0*"))]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_rows_of_splits(folder: Path, tmp_path: Path) -> None:
    files = logs_of(folder)
    history = tmp_path / "history.sql"
    history.write_text(history_of(*files))
    whole = list(row_lines(*files))
    size = sum(Path(file).stat().st_size for file in files)
    splits = plan_splits(files, ReadOptions(), max(1500, size // 9))
    assert len(splits) > 1
    given = {"schema": str(history)} if "CREATE TABLE" in history.read_text() else {}
    assert list(split_lines(splits, Ledger(), **given)) == whole


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_parts_with_the_ddl_before_them(folder: Path) -> None:
    """The rows that tasks of Spark read, if the driver has read the DDL of the logs."""
    files = logs_of(folder)
    options = ReadOptions()
    size = sum(Path(file).stat().st_size for file in files)
    parts = plan_parts(files, options, TaskSize(max(1500, size // 9)))
    parts = with_ddl(parts, LogDdl.of(files, options, size))
    found = [
        json.loads(line)
        for part in parts
        for changes in part.changes(options, Target.TEXT, Ledger())
        for line in bytes(json_lines(changes, options)).splitlines()
    ]
    assert found == list(row_lines(*files))
    assert not LogDdl.of(files, options, size - 1).chains


@pytest.mark.parametrize("server", ["mysql-5.6.24", "mariadb-10.11", "mariadb-11.8"])
def test_a_read_that_starts_behind_the_ddl(server: str, tmp_path: Path) -> None:
    """The reason for the file: what was before `start` is not read."""
    files = logs_of(GOLDEN / server / "schema")
    history = tmp_path / "history.sql"
    history.write_text(history_of(*files))
    whole = list(row_lines(*files))
    counts = set()
    for line in whole:
        start = f"{line['file']}:{line['pos']}"
        rest = list(row_lines(*files, start=start, schema=str(history)))
        assert rest == whole[len(whole) - len(rest) :]
        counts.add(len(rest))
    assert len(counts) > 5


def test_a_history_is_gone_on_with(tmp_path: Path) -> None:
    folder = GOLDEN / "mysql-5.6.24" / "rotation"
    files = logs_of(folder)
    assert len(files) > 1
    first = tmp_path / "first.sql"
    first.write_text(history_of(files[0]))
    longer = history_of(*files[1:], schema=str(first))
    at_once = history_of(*files)
    versions = [block for block in at_once.split("\n\n") if "from binlog" in block]
    assert [block for block in longer.split("\n\n") if "from binlog" in block] == versions


def test_the_same_base_name_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = logs_of(GOLDEN / "mysql-5.6.24" / "schema")[0]
    (tmp_path / "binlog.000001").write_bytes(Path(file).read_bytes())
    assert len(resolve([file, str(tmp_path)])) == 2
    assert main(["schema", file, str(tmp_path)]) == 2
    assert "write one schema for each" in capsys.readouterr().err
