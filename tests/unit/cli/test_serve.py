"""`binlake serve` as a program: what it wants, what it says, how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest

from binlake.cli.main import main
from support.logs.log_builder import LogBuilder


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "binlog.000001").write_bytes(LogBuilder().bytes())
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"the password with which replicas log in is missing; use --password-file FILE or \$BINLAKE_SERVE_PASSWORD"),
        (["--password-file", "missing"], "cannot read the password file missing: No such file"),
        (["--password-file", os.devnull], "the password is empty"),
        (["--password-file", "pw", "--server-uuid", "x"], "'x' is not a UUID"),
        (["--password-file", "pw", "--ssl-cert", "pw"], "--ssl-cert and --ssl-key must be given together"),
        (["--password-file", "pw", "--ssl-cert", "pw", "--ssl-key", "pw"], "not a certificate and its private key"),
        (["--password-file", "pw", "--max-connections", "100001"], "100001 is not in the range 1<=x<=100000"),
        (["--password-file", "pw", "--bind", "192.0.2.1"], r"cannot listen on 192\.0\.2\.1:3307"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line(
    logs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(logs)
    monkeypatch.delenv("BINLAKE_SERVE_PASSWORD", raising=False)
    monkeypatch.setattr(sys, "stdin", None)
    (logs / "pw").write_text("secret\n")
    assert main(["serve", str(logs), *arguments]) == 2
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert said.count("\n") == 1
    assert "secret" not in said


def test_a_wrong_path_is_an_error_before_binlake_asks_for_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BINLAKE_SERVE_PASSWORD", raising=False)
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["serve", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err == f"binlake: {tmp_path / 'missing'} does not exist\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_a_signal(logs: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "binlake.cli.main", "serve", str(logs), "--port", "0"],
        env={**os.environ, "BINLAKE_SERVE_PASSWORD": "secret"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        found = re.search(r"binlog\.000001 .* at 127\.0\.0\.1:(\d+) as", process.stderr.readline())
        assert found
        assert "SHA-256" in process.stderr.readline()
        connection = pymysql.connect(
            host="127.0.0.1",
            port=int(found[1]),
            user="replica",
            password="secret",
            ssl_disabled=True,
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            assert cursor.fetchall() == (("8.0.36",),)
        process.send_signal(number)
        rest = process.communicate(timeout=120)[1]
        connection._force_close()
    finally:
        process.kill()
    assert process.returncode == 0
    assert "stopping" in rest
    assert "Traceback" not in rest
    assert "secret" not in rest
