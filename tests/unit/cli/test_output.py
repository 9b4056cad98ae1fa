"""Where results go and what may happen to them there: full disks, pipes, links, other encodings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from binlake.cli.main import main

LOG = "mysql-9.7/transactions/binlog.000001"
DEMO = Path(__file__).resolve().parents[3] / "demo"
FULL = Path("/dev/full")
COMMANDS = (
    ("rows",), ("rows", "-f", "arrow"), ("rows", "-f", "parquet"), ("inspect",), ("stats",), ("mysqlbinlog",),
)  # fmt: skip


def run(*argv: str, **settings: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "binlake.cli.main", *argv]
    return subprocess.run(command, check=False, **{"capture_output": True, **settings})  # type: ignore[call-overload,no-any-return]


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(golden: Path, command: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        done = run(
            *command, str(golden / LOG), capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert lines[-1] == "binlake: cannot write the output: No space left on device"
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize("command", [("inspect",), ("stats",), ("rows",)], ids=" ".join)
def test_results_are_utf8_in_every_locale(command: tuple[str, ...]) -> None:
    log = str(DEMO / "mysql-9.7/binlog.000001")
    other = run(*command, log, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert other.returncode == 0, other.stderr
    assert other.stdout == run(*command, log).stdout
    assert not other.stdout.isascii()


def test_a_name_that_is_no_text_is_escaped(golden: Path, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/bad\xff.000001"
    shutil.copy(golden / LOG, path)
    for command in (("rows", "-n", "1"), ("inspect", "-n", "1"), ("stats",)):
        done = run(*command, os.fsdecode(path))
        assert done.returncode == 0, done.stderr
        assert rb"bad\xff.000001" in done.stdout.replace(rb"\\", b"\\")
    html = tmp_path / "page.html"
    assert run("stats", os.fsdecode(path), "--html", str(html)).returncode == 0
    assert r"bad\xff.000001" in html.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("rows", "-o"), ("stats", "--html")], ids=" ".join)
def test_a_pipe_is_written_and_not_replaced(
    golden: Path, tmp_path: Path, command: tuple[str, str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    name, option = command
    assert main([name, str(golden / LOG), option, str(pipe)]) == 0
    reader.join(timeout=10)
    assert pipe.is_fifo()
    assert got[0]


def test_a_link_stays_and_what_it_leads_to_is_written(golden: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert main(["rows", str(golden / LOG), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").startswith('{"op"')
    assert sorted(tmp_path.iterdir()) == [link, real]


@pytest.mark.parametrize("command", ["rows", "mysqlbinlog"])
def test_a_time_that_no_clock_here_shows(
    golden: Path, command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    assert main([command, str(golden / LOG), "--start-datetime", "0001-01-01"]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "0001-01-01" in error


def test_a_damaged_log_advises_only_what_the_command_has(
    golden: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "binlog.000001"
    cut.write_bytes((golden / LOG).read_bytes()[:-20])
    assert main(["mysqlbinlog", str(cut)]) == 1
    assert "--on-error" not in capfd.readouterr().err
    assert main(["sql", str(cut)]) == 1
    assert "--on-error skip" in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\xfebi"])
def test_an_empty_log_has_no_index_and_that_is_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(content)
    assert main(["index", str(log)]) == 1
    error = capfd.readouterr().err
    assert error == f"{log} cannot have an index: it is empty, or cut off at its beginning\n"
