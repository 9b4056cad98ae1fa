"""A log in parts is the log read as a whole, with the history that `binlake schema` wrote, or its DDL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.oracles.reading import binlog_reader, command, printed_rows, row_lines, task_lines

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
#: Logs whose row events lack something: names, signs, digits of old temporal values.
LACKING = ("mysql-5.6.24/*", "mysql-9.7/schema", "mariadb-*/schema", "*/types-unsaid", "*/types-old-temporals")  # fmt: skip
CASES = sorted(folder for pattern in LACKING for folder in GOLDEN.glob(pattern))


def history_of(*files: Path | str, **flags: str) -> str:
    arguments = [word for name, value in flags.items() for word in (f"--{name}", value)]
    code, text, said = command("schema", *arguments, *map(str, files))
    assert code == 0, said
    return text.decode()


def logs_of(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("binlog.0*"))]


def bytes_of(files: list[str]) -> int:
    return sum(Path(file).stat().st_size for file in files)


def in_parts(files: list[str], **options: str | int) -> dict[str, Any]:
    """The options of a Spark read in several tasks."""
    options["max_partition_bytes"] = max(1500, bytes_of(files) // 9)
    assert len(binlog_reader(*files, **options).partitions()) > 1
    return options


def ddl_of_tasks(*files: str, **options: str | int) -> list[Any]:
    """The DDL that the driver of a Spark read gives to each of its tasks."""
    partitions: list[Any] = list(binlog_reader(*files, **options).partitions())
    return [partition.ddl for partition in partitions]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_rows_of_splits(folder: Path, tmp_path: Path) -> None:
    files = logs_of(folder)
    history = tmp_path / "history.sql"
    history.write_text(history_of(*files))
    given = {"schema": str(history)} if "CREATE TABLE" in history.read_text() else {}
    options = in_parts(files, ddl_scan_bytes=0, **given)
    assert list(task_lines(*files, **options)) == list(row_lines(*files))


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_parts_with_the_ddl_before_them(folder: Path) -> None:
    """The rows that tasks of Spark read, if the driver has read the DDL of the logs."""
    files = logs_of(folder)
    size = bytes_of(files)
    options = in_parts(files, ddl_scan_bytes=size)
    assert list(task_lines(*files, **options)) == list(row_lines(*files))
    assert any(ddl_of_tasks(*files, **options))
    assert not any(ddl_of_tasks(*files, **{**options, "ddl_scan_bytes": size - 1}))


@pytest.mark.parametrize("server", ["mysql-5.6.24", "mariadb-10.11", "mariadb-11.8"])
def test_a_read_that_starts_behind_the_ddl(server: str, tmp_path: Path) -> None:
    """The reason for the file: `binlake rows` does not read what was before `--start`."""
    files = logs_of(GOLDEN / server / "schema")
    history = tmp_path / "history.sql"
    history.write_text(history_of(*files))
    whole = list(printed_rows(*files))
    counts = set()
    for line in whole:
        start = f"{line['file']}:{line['pos']}"
        rest = list(printed_rows(*files, start=start, schema=history))
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


def test_the_same_base_name_twice_is_refused(tmp_path: Path) -> None:
    file = logs_of(GOLDEN / "mysql-5.6.24" / "schema")[0]
    copy = tmp_path / "binlog.000001"
    copy.write_bytes(Path(file).read_bytes())
    both = list(printed_rows(file, tmp_path))
    assert both == [*printed_rows(file), *printed_rows(copy)] != []
    code, _, message = command("schema", file, str(tmp_path))
    assert code == 2
    assert "write one schema for each" in message
