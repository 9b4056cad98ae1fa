"""`binlake ui` as a program: what it refuses, what it prints, how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from binlake.cli.main import main

DEMO = Path(__file__).resolve().parents[4] / "demo" / "mysql-9.7"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "cannot read standard input; give files"),
        (
            ["mysql://root@127.0.0.1/"],
            "cannot read a live server; give files; binlake archive copies",
        ),
        (["/no/such/log"], "/no/such/log"),
        ([str(DEMO), "--port", "70000"], "--port"),
        ([str(DEMO), "--since", "x"], "--since"),
    ],
)
def test_wrong_use_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["ui", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_file_that_is_no_log_is_reported_before_anything_is_served(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "binlog.000001").write_bytes(b"no log at all, but some text")
    assert main(["ui", str(tmp_path / "binlog.000001"), "--no-browser"]) == 2
    said = capsys.readouterr()
    assert "token" not in said.err
    assert said.err.count("\n") == 1


def test_a_missing_library_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main(["ui", str(DEMO)]) == 1
    said = capsys.readouterr().err
    assert said == "binlake: ui needs the library starlette; pip install 'binlake[ui]'\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_a_signal(number: signal.Signals) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    process = subprocess.Popen(
        [sys.executable, "-m", "binlake.cli.main", "ui", str(DEMO), "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stderr.readline())
        assert found
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with opener.open(found[0]) as page:
            assert b"<main" in page.read()
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "", "stopping\n")


def test_a_pipe_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    os.mkfifo(path)
    assert main(["ui", str(path)]) == 2
    assert f"cannot read {path}; give files" in capsys.readouterr().err
