"""Where results go and what may happen to them there: full disks, pipes, links, other encodings."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlake.cli.common.output_file import growing_file, output_file
from binlake.cli.main import main

LOG = "mysql-9.7/transactions/binlog.000001"
DEMO = Path(__file__).resolve().parents[4] / "demo"
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


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_becomes_full_within_a_write(
    golden: Path, tmp_path: Path, unbuffered: str
) -> None:
    with (tmp_path / "out").open("wb") as file:
        done = run(
            "rows", str(golden / LOG), capture_output=False, stdout=file, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        )  # fmt: skip
    assert (tmp_path / "out").stat().st_size == 1000
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1].startswith("binlake: cannot write the output: ")


@pytest.mark.parametrize("command", [("inspect",), ("stats",), ("rows",)], ids=" ".join)
def test_results_are_utf8_in_every_locale(command: tuple[str, ...]) -> None:
    log = str(DEMO / "mysql-9.7/binlog.000001")
    other = run(*command, log, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert other.returncode == 0, other.stderr
    assert other.stdout == run(*command, log).stdout
    assert not other.stdout.isascii()


def test_a_name_that_is_no_text_is_escaped(golden: Path, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/bad\xff.000001"
    shutil.copy(os.fsencode(golden / LOG), path)
    for command in (("rows", "-n", "1"), ("inspect", "-n", "1"), ("stats",)):
        done = run(*command, os.fsdecode(path))
        assert done.returncode == 0, done.stderr
        assert rb"bad\xff.000001" in done.stdout.replace(rb"\\", b"\\")
    html = tmp_path / "page.html"
    assert run("stats", os.fsdecode(path), "--html", str(html)).returncode == 0
    assert r"bad\\xff.000001" in html.read_text(encoding="utf-8")  # as JSON


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
    reader.join(timeout=120)
    assert pipe.is_fifo()
    assert got[0]


def test_output_through_a_link_keeps_the_link(golden: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert main(["rows", str(golden / LOG), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").startswith('{"op"')
    assert sorted(tmp_path.iterdir()) == [link, real]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "all.json", "link.json"])
@pytest.mark.parametrize("write", [output_file, growing_file])
def test_standard_output_appends_to_its_file(
    tmp_path: Path, name: str, write: Callable[[Path, str], Any]
) -> None:
    """`-o /dev/stdout >> all.json`, and `-o all.json >> all.json`."""
    there = tmp_path / "all.json"
    there.write_text("old\n")
    (tmp_path / "link.json").symlink_to("/dev/stdout")
    code = (
        "import pathlib, sys; from binlake.cli.common.output_file import growing_file,"
        " output_file\n"
        f"with {write.__name__}(pathlib.Path(sys.argv[1]), 'output') as file: file.write(b'new')"
    )
    with there.open("ab") as stdout:
        command = [sys.executable, "-c", code, name]
        subprocess.run(command, cwd=tmp_path, stdout=stdout, check=True)
    assert there.read_text() == "old\nnew"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_own_descriptor_is_written_in_place(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"old")
        file.flush()
        with output_file(Path(f"/dev/fd/{file.fileno()}"), "output") as output:
            output.write(b"new")
        file.seek(0)
        assert file.read() == b"oldnew"


def test_two_write_one_file_and_the_users_files_stay(tmp_path: Path) -> None:
    target, users = tmp_path / "out", tmp_path / "out.partial"
    users.write_text("of the user")
    with output_file(target, "output") as one, output_file(target, "output") as other:
        one.write(b"one")
        other.write(b"another")
        assert not target.exists()
    assert target.read_text() == "one", "who ended last"
    assert users.read_text() == "of the user"
    assert sorted(tmp_path.iterdir()) == [target, users]


def test_an_error_of_reading_is_no_error_of_writing(tmp_path: Path) -> None:
    with (
        pytest.raises(PermissionError, match="the log"),
        output_file(tmp_path / "out", "output"),
    ):
        raise PermissionError("the log")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("form", ["json", "csv", "arrow", "parquet"])
def test_a_write_error_names_the_file(
    golden: Path, form: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["rows", str(golden / LOG), "-f", form, "-o", str(FULL)]) == 1
    assert "cannot write /dev/full: No space left on device" in capfd.readouterr().err
    missing = tmp_path / "missing" / "out"
    assert main(["rows", str(golden / LOG), "-f", form, "-o", str(missing)]) == 2
    assert f"cannot write {missing}: No such file or directory" in capfd.readouterr().err


def test_a_growing_file_keeps_written_bytes_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("what was there before")
    with pytest.raises(ValueError, match="lost"), growing_file(path, "output") as file:  # noqa: PT012
        file.write(b"what came")
        file.flush()
        assert path.read_bytes() == b"what came"
        file.write(b", and more")
        raise ValueError("lost")
    assert path.read_bytes() == b"what came, and more"


@pytest.mark.parametrize("command", ["rows", "mysqlbinlog"])
def test_a_time_that_no_clock_here_shows(
    golden: Path, command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    assert main([command, str(golden / LOG), "--start-datetime", "0001-01-01"]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "0001-01-01" in error


def test_advice_about_damage_names_only_options_of_the_command(
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
    assert error == f"{log} cannot have an index: it is empty or has no complete beginning\n"
