"""`binlake index`: what it writes, and what it leaves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from binlake.cli.main import main


@pytest.fixture
def logs(golden: Path, tmp_path: Path) -> Path:
    for path in sorted((golden / "mysql-9.7/rotation").glob("binlog.0*")):
        shutil.copy(path, tmp_path / path.name)
    return tmp_path


def test_every_log_gets_one_once(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", str(logs)]) == 0
    assert capsys.readouterr().out.count(".index.parquet: ") == 5
    assert main(["index", str(logs)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "5 logs had an index already" in said.err
    rows = pq.read_table(logs / "binlog.000001.index.parquet").to_pylist()
    assert {"pos", "end_pos", "gtid", "commit_us", "tables", "inserts"} <= rows[0].keys()
    assert any(row["tables"] and row["inserts"] for row in rows)


def test_a_log_that_has_grown_is_indexed_again(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logs / "binlog.000001"
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.rindex(b"binlog.000002") - 19 - 8])  # without its ROTATE
    assert main(["index", str(log)]) == 0
    log.write_bytes(whole)
    capsys.readouterr()
    assert main(["rows", str(log), "--table", "no.such"]) == 0
    assert main(["index", str(log)]) == 0
    assert "binlog.000001.index.parquet" in capsys.readouterr().out


def test_a_damaged_log_gets_no_index(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logs / "binlog.000001"
    data = bytearray(log.read_bytes())
    data[1000] ^= 1
    log.write_bytes(data)
    assert main(["index", str(log)]) == 1
    message = capsys.readouterr().err
    assert "bad checksum" in message
    assert "--on-error" not in message  # this command has no such option
    assert not log.with_name("binlog.000001.index.parquet").exists()
