"""Commands that read a log from a named pipe: each opens it once, and prints what it prints for the file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlake.source.resolve import resolve
from binlake.stream.log_ddl import LogDdl
from binlake.values.options import ReadOptions
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import ALL, INSERT, UPDATE, Log, image, rows_body, table_map

ROTATION = Path(__file__).parents[1] / "golden/mysql-9.7/rotation/binlog.000001"
SID = "7aef6be2-e595-11f1-81fc-02fc00000001"
KEYED = table_map() + bytes([8, 1, 0])  # SIMPLE_PRIMARY_KEY


@contextmanager
def pipe(folder: Path, log: Path) -> Iterator[Path]:
    """A named pipe that yields a log once. A second opening waits."""
    path = folder / log.name
    os.mkfifo(path)
    feeder = subprocess.Popen(["cp", log, path])
    try:
        yield path
    finally:
        feeder.kill()
        feeder.wait()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "binlake.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [
    ["rows", "{}", "--start", "1523"],
    ["rows", "{}", "--start", "binlog.000001:1600", "--table", "golden.r"],
    ["sql", "{}", "--start", "3139"],
    ["sql", "{}", "--undo", "--start", "3139"],
    ["stats", "{}", "--gtid", f"{SID}:4-6", "--json"],
    ["history", "golden.r", "1", "{}", "--json"],
    ["gtid", "locate", f"{SID}:5", "{}"],
    ["gtid", "union", "{}"],
], ids=lambda arguments: " ".join(arguments[:2]))  # fmt: skip
def test_a_pipe_is_opened_once(tmp_path: Path, arguments: list[str]) -> None:
    expected = run(*(argument.format(ROTATION) for argument in arguments))
    with pipe(tmp_path, ROTATION) as path:
        found = run(*(argument.format(path) for argument in arguments))
    assert found.returncode == expected.returncode == 0
    assert found.stdout.replace(str(path), str(ROTATION)) == expected.stdout


def test_what_would_need_a_second_reading_is_reported(tmp_path: Path) -> None:
    log = Log()
    log.commit((TABLE_MAP, KEYED), (INSERT, rows_body(image((1, "a", None)))))
    moved = rows_body(image((1, "a", None)), image((2, "a", None)), bitmaps=(ALL, ALL))
    log.commit((TABLE_MAP, KEYED), (UPDATE, moved))
    saved = log.save(tmp_path)
    folder = tmp_path / "pipes"
    folder.mkdir()
    with pipe(folder, saved) as path:
        found = run("history", "shop.t", "2", str(path))
    assert f"cannot follow them: {path} can be read only once" in found.stderr
    assert run("history", "shop.t", "2", str(path), "--undo", "1").returncode == 2
    path.unlink()
    with pipe(folder, ROTATION) as path:
        found = run("sql", str(path), "--undo", "--start", "1523", "--stop", "1882")
    assert f"cannot check for later changes: {path} can be read only once" in found.stderr
    path.unlink()
    with pipe(folder, ROTATION) as path:
        found = run("gtid", "locate", f"{SID}:99", str(path))
    assert (found.returncode, f"is not in {path}" in found.stdout + found.stderr) == (1, True)


def test_a_pipe_is_left_to_the_tasks(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    os.mkfifo(path)
    assert not LogDdl.of_chains(resolve([str(path)]), ReadOptions.parse({}), 1 << 20).chains


@pytest.mark.parametrize("arguments", [
    ["verify", "--reencode", "{}"],
    ["state", "golden.r", "{}", "--from", "{}.sql", "--as-of", "2026-01-01"],
    ["index", "{}"],
    ["query", "SELECT 1", "{}"],
], ids=lambda arguments: arguments[0])  # fmt: skip
def test_a_command_that_reads_a_log_several_times_refuses_a_pipe(
    tmp_path: Path, arguments: list[str]
) -> None:
    """It does not open the pipe, for which it would wait here."""
    path = tmp_path / "binlog.000001"
    os.mkfifo(path)
    Path(f"{path}.sql").write_text("CREATE TABLE r (id INT PRIMARY KEY);\n")
    found = run(*(argument.format(path) for argument in arguments))
    assert found.returncode == 2
    assert str(path) in found.stderr
    assert found.stdout == ""
