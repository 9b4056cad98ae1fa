"""Encrypted logs on the command line: what a user sees with the key, and without."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sys
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.stream.positions.splits import plan_splits
from binlake.values.options import ReadOptions
from support.logs.encrypted_log import KEY, KEY_NAME, component_keyring, encrypt_file
from support.logs.stream_log import StreamLog


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(encrypt_file(StreamLog().plain(3).bytes()))
    return path


@pytest.fixture
def keyring(tmp_path: Path) -> str:
    path = tmp_path / "keyring"
    path.write_bytes(component_keyring({KEY_NAME: KEY}))
    return str(path)


@pytest.mark.parametrize("command", ["inspect", "rows", "verify"])
def test_with_the_key(
    command: str, log: Path, keyring: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(log), "--keyring", keyring]) == 0
    said = capsys.readouterr()
    assert said.out or command == "rows"
    assert KEY.hex() not in said.out + said.err


@pytest.mark.parametrize("command", ["inspect", "rows"])
@pytest.mark.parametrize("content", [None, component_keyring({KEY_NAME: KEY[::-1]}), b"1;no key"])
def test_without_the_right_key(
    command: str, content: bytes | None, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the key or the keyring, and exit code 2."""
    arguments = []
    if content is not None:
        wrong = log.parent / "wrong"
        wrong.write_bytes(content)
        arguments = ["--keyring", str(wrong)]
    assert main([command, str(log), *arguments]) == 2
    said = capsys.readouterr()
    assert not said.out
    (line,) = said.err.splitlines()
    assert (KEY_NAME in line) if content is None else (str(log.parent / "wrong") in line)
    assert KEY[::-1].hex() not in line


def test_verify_notes_a_locked_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--json", str(log)]) == 1
    [problem] = json.loads(capsys.readouterr().out)["files"][0]["problems"]
    assert problem["kind"] == "locked"
    assert KEY_NAME in problem["message"]


def test_compressed_and_standard_input(
    log: Path, keyring: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["inspect", "--json", str(log), "--keyring", keyring])
    wanted = capsys.readouterr().out
    packed = log.with_name("binlog.000001.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert main(["inspect", "--json", str(packed), "--keyring", keyring]) == 0
    assert capsys.readouterr().out == wanted
    with packed.open("rb") as stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        assert main(["inspect", "--json", "-", "--keyring", keyring]) == 0
    assert capsys.readouterr().out == wanted.replace('"binlog.000001"', '"-"')


def test_objects_sent_to_tasks_contain_no_key(log: Path, keyring: str) -> None:
    options = ReadOptions.parse({"keyring": keyring})
    opened = binlake.open(str(log), keyring=keyring)
    assert sum(1 for _ in opened.events()) > 3
    travelling = (options, plan_splits([str(log)], options, 100), opened.ledger)
    for form in (pickle.dumps(travelling), repr((*travelling, opened.chains)).encode()):
        assert KEY not in form
        assert KEY.hex().encode() not in form


def test_filters_without_matches_report_the_content_of_the_log(
    log: Path, keyring: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rows", str(log), "--keyring", keyring, "--until", "1971-01-01"]) == 0
    assert "its events are from" in capsys.readouterr().err
