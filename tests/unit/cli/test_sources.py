"""The commands on an archive of several servers: one is meant, or the command asks which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_runs import run
from support.logs.table_log import Log


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two servers whose logs have the same names; the second has one log more."""
    for server, logs in (("db1", 2), ("db2", 3)):
        (tmp_path / server).mkdir()
        (tmp_path / server / "archive.json").write_text("{}")
        for number in range(1, logs + 1):
            made = Log()
            made.insert((10 * logs + number, server, None), gno=number)
            made.save(tmp_path / server, f"binlog.{number:06d}")
    return tmp_path


COMMANDS = [["rows"], ["inspect"], ["stats"], ["sql"], ["sql", "--undo"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "flags", [["--at", "binlog.000002:150"], ["--start", "binlog.000001:4"], ["--stop", "900"],
              ["--start-position", "4"]], ids=" ".join,
)  # fmt: skip
def test_a_position_of_several_servers_is_refused(
    capfd: pytest.CaptureFixture[str], archive: Path, command: list[str], flags: list[str]
) -> None:
    code, out, err = run(capfd, *command, str(archive), *flags)
    assert (code, out) == (2, "")
    assert "the logs of 2 sources; set --source to one of db1, db2" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_source_is_named_or_follows_from_the_file(
    capfd: pytest.CaptureFixture[str], archive: Path, command: list[str]
) -> None:
    at = "binlog.000002:150"
    alone = run(capfd, *command, str(archive / "db2"), "--at", at)[1].split()
    for flags in (["--source", "db2", "--at", at], ["--at", f"db2/{at}"]):
        code, out, _ = run(capfd, *command, str(archive), *flags)
        assert code == 0
        assert out.replace("db2/binlog", "binlog").split() == alone
    code, _, err = run(capfd, *command, str(archive), "--at", "binlog.000003:150")
    assert code == 0
    assert "reading the logs of db2 only" in err
    code, _, err = run(capfd, *command, str(archive), "--source", "db3")
    assert code == 2
    assert "--source: there is no source 'db3'; there are db1, db2" in err


@pytest.mark.parametrize("flags", [[], ["--undo"]])
def test_a_script_is_for_one_server(
    capfd: pytest.CaptureFixture[str], archive: Path, flags: list[str]
) -> None:
    code, out, err = run(capfd, "sql", str(archive), *flags)
    assert (code, out) == (2, "")
    assert "accepts the logs of one server, and the input has the logs of 2 sources" in err
    code, out, err = run(capfd, "mysqlbinlog", str(archive))
    assert (code, out) == (2, "")
    assert "contains the logs of 2 sources (db1, db2)" in err
    code, out, _ = run(capfd, "mysqlbinlog", str(archive / "db1"), str(archive / "db2"))
    assert code == 0


def test_without_a_position_all_are_read(capfd: pytest.CaptureFixture[str], archive: Path) -> None:
    assert len(run(capfd, "rows", str(archive))[1].splitlines()) == 5
    assert len(run(capfd, "rows", str(archive), "--source", "db1")[1].splitlines()) == 2


def test_stats_and_verify_tell_files_of_the_same_name_apart(
    capfd: pytest.CaptureFixture[str], archive: Path
) -> None:
    document = json.loads(run(capfd, "stats", str(archive), "--json")[1])
    names = [file["file"] for file in document["log"]["files"]]
    assert names == [f"{db}/binlog.00000{n}" for db, logs in (("db1", 2), ("db2", 3)) for n in range(1, logs + 1)]  # fmt: skip
    places = {f"{t['file']}:{t['pos']}" for t in document["largest_by_bytes"]}
    assert len(places) == 5
    for place in places:  # what it prints is what --at takes
        code, out, _ = run(capfd, "rows", str(archive), "--at", place)
        assert (code, out.count("\n")) == (0, 1)
    assert "5 files" in run(capfd, "stats", str(archive))[1]
    report = json.loads(run(capfd, "verify", str(archive), "--json")[1])
    assert sorted(file["file"] for file in report["files"]) == names
    rows = run(capfd, "inspect", str(archive))[1].splitlines()
    assert {line.partition(":")[0] for line in rows} == set(names)
