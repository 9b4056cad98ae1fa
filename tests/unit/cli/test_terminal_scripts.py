"""Scripts on a terminal: nothing of a log reaches it that it obeys, and files and pipes get all bytes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from support.logs.log_builder import QUERY, LogBuilder, query_body
from support.logs.table_log import Log

NAME = "a\x1b[2J\x7f\u009b2J\u202egnp\u200f b"
COMMANDS = (
    ("mysqlbinlog", "-v", "--base64-output=decode-rows"), ("mysqlbinlog", "-vv"), ("sql",),
    ("rows", "--format", "csv"), ("query", "--format", "csv", "SELECT after FROM changes"),
)  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> str:
    made = Log()
    made.insert((1, NAME, None))
    return str(made.save(tmp_path))


def test_a_terminal_gets_escapes_of_definitions(tmp_path: Path) -> None:
    """Names in DDL; a file gets them as they are."""
    made = LogBuilder()
    made.add(QUERY, query_body(f"CREATE TABLE t (`{NAME}` INT)".encode()))
    path = tmp_path / "binlog.000001"
    path.write_bytes(made.bytes())
    shown = on_terminal(["schema", str(path)])
    assert all(byte == 0x0A or byte >= 0x20 for byte in shown)
    assert not {"\x7f", "\u009b", "\u202e", "\u200f"} & set(shown.decode())
    assert shown.count(b"\\x1b[2J\\x7f\\x9b2J\\u202egnp\\u200f b") == 1
    command = [sys.executable, "-m", "binlake.cli.main", "schema", str(path)]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert piped.count(NAME.encode()) == 1


def on_terminal(argv: list[str]) -> bytes:
    """The output of a command on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "binlake.cli.main", *argv],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                read = os.read(ours, 1 << 16)
            except OSError:  # Linux, when no process has the other end open
                break
            if not read:
                break
            written += read
    os.close(ours)
    assert process.returncode == 0
    return written.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_terminal_gets_escapes_and_a_pipe_the_bytes(log: str, command: tuple[str, ...]) -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "binlake.cli.main", *command, log], capture_output=True, check=True
    ).stdout
    shown = on_terminal([*command, log])
    assert "\u202egnp".encode() in piped
    assert all(byte == 0x0A or byte == 0x09 or byte >= 0x20 for byte in shown)
    text = shown.decode()
    assert not {"\x7f", "\u009b", "\u202e", "\u200f"} & set(text)
    assert "\\u202egnp\\u200f b" in text
    assert text.count("\n") == piped.count(b"\n")


def test_a_terminal_gets_escapes_of_a_state(log: str, tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "-- MySQL dump 10.13  Distrib 8.0.36\n-- Host: x    Database: shop\n"
        "CREATE TABLE `t` (`id` int unsigned, `name` varchar(20), `day` date, PRIMARY KEY (`id`))"
        " DEFAULT CHARSET=utf8mb4;\nINSERT INTO `t` VALUES (9,'x',NULL);\n-- Dump completed\n"
    )
    end = Path(log).stat().st_size
    moments = ["--as-of", f"binlog.000001:{end}", "--from-position", "binlog.000001:4"]
    for form in ("sql", "csv"):
        command = ["state", "shop.t", *moments, "--from", str(dump), "--format", form, log]
        shown = on_terminal(command).decode()
        assert "\\u202egnp\\u200f b" in shown
        assert not {"\x1b", "\x7f", "\u009b", "\u202e", "\u200f"} & set(shown)
