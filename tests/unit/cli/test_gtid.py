"""`binlake gtid` as a person meets it: what is printed, exit codes, one line for every mistake."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from binlake.cli.main import main
from support.logs.table_log import Log

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
UUID = "78157433-e595-11f1-a5e0-02fc00000001"


def run(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["gtid", *argv])
    out, err = capfd.readouterr()
    return code, out.rstrip("\n"), err


@pytest.fixture
def logs(golden: Path) -> str:
    return str(golden / "mysql-9.7/gtid")


def test_locate_prints_a_position_for_start(capfd: pytest.CaptureFixture[str], logs: str) -> None:
    code, out, err = run(capfd, "locate", f"{UUID}:blue:2", logs)
    assert (code, out) == (0, "binlog.000002:1171")
    assert "bytes 1171 to 1465, committed 2026-11-21T10:22:38.689628Z" in err
    assert main(["rows", logs, "--start", out, "-n", "1"]) == 0
    (row,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert row["gtid"] == f"{UUID}:blue:2"


def test_locate_as_json(capfd: pytest.CaptureFixture[str], logs: str) -> None:
    code, out, _ = run(capfd, "locate", f"{UUID.upper()}:5", logs, "--json")
    assert (code, json.loads(out)) == (
        0,
        {
            "gtid": f"{UUID}:5",
            "found": True,
            "file": "binlog.000002",
            "path": f"{logs}/binlog.000002",
            "pos": 286,
            "end_pos": 580,
            "ts": json.loads(out)["ts"],
            "server_id": 1,
            "complete": True,
        },
    )
    code, out, _ = run(capfd, "locate", f"{UUID}:99", logs, "--json")
    assert code == 1
    assert json.loads(out)["why"] == "later"


def test_locate_reports_why_a_gtid_is_absent(capfd: pytest.CaptureFixture[str], logs: str) -> None:
    code, out, err = run(capfd, "locate", f"{UUID}:1", f"{logs}/binlog.000003")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "was executed before binlog.000003 begins" in err


def test_locate_in_an_archive_with_servers_of_both_flavours(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    for server in ("mysql-9.7", "mariadb-11.8"):
        (tmp_path / server).symlink_to(golden / server / "gtid")
    folders = [str(tmp_path / server) for server in ("mysql-9.7", "mariadb-11.8")]
    assert run(capfd, "locate", f"{UUID}:blue:2", *folders)[:2] == (0, "binlog.000002:1171")
    code, out, _ = run(capfd, "locate", "0-1-2", *folders)
    assert (code, out) == run(capfd, "locate", "0-1-2", folders[1])[:2]
    assert code == 0
    code, _, err = run(capfd, "locate", "0-1-2", folders[0])
    assert (code, "0-1-2 is a GTID of MariaDB" in err) == (2, True)


@pytest.mark.parametrize(
    ("argv", "code", "printed"),
    [
        (["union", f"{A}:1-3", f"{A}:4:t:1"], 0, f"{A}:1-4:t:1"),
        (["union", "0-1-5", "0-2-3,1-1-1"], 0, "0-1:1-5,0-2:1-3,1-1:1"),
        (["union", "", f"{A}:1"], 0, f"{A}:1"),
        (["subtract", f"{A}:1-9", f"{A}:2", f"{A}:5-6"], 0, f"{A}:1:3-4:7-9"),
        (["subtract", "0-1-5", "0-1-5"], 0, ""),
        (["contains", f"{A}:1-9", f"{A}:3-4"], 0, "yes"),
        (["contains", f"{A}:1-9", f"{A}:9-10"], 1, f"no, missing: {A}:10"),
        (["contains", "0-1-9", "0-1:4"], 0, "yes"),
        (["gaps", f"{A}:1-3:5"], 1, f"{A}:4"),
        (["gaps", f"{A}:1-3", f"{A}:4"], 0, ""),
        (["errant", f"{A}:1-3:t:1", f"{A}:1-9"], 1, f"{A}:t:1"),
        (["errant", "0-1-5,0-9-1", "0-1-7"], 1, "0-9:1"),
        (["errant", "0-1-5", "0-1-7,1-1-1"], 0, ""),
    ],
)
def test_arithmetic(
    capfd: pytest.CaptureFixture[str], argv: list[str], code: int, printed: str
) -> None:
    assert run(capfd, *argv)[:2] == (code, printed)


def test_json_has_set_and_count(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "gaps", "0-1:1-2:6", "--json")
    assert (code, json.loads(out)) == (1, {"set": "0-?:3-5", "count": 3, "flavour": "mariadb"})
    code, out, _ = run(capfd, "contains", f"{A}:1", f"{A}:1-2", "--json")
    assert code == 1
    assert json.loads(out)["missing"] == {"set": f"{A}:2", "count": 1, "flavour": "mysql"}


def test_files_and_standard_input_hold_sets_too(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    logs: str,
) -> None:
    text = tmp_path / "executed.txt"
    text.write_text(f"{UUID}:1-4,\\n{A}:1\n")  # mysql --batch writes line breaks so
    code, out, _ = run(capfd, "subtract", f"@{text}", logs)
    assert (code, out) == (0, f"{A}:1")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{UUID}:1-99"))
    code, out, _ = run(capfd, "errant", "@-", logs)
    assert (code, out) == (1, f"{UUID}:7-99")


def test_logs_without_gtids_say_so(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    code, out, err = run(capfd, "union", str(golden / "mysql-5.6.24/transactions"))
    assert (code, out) == (0, "")
    assert "the logs contain no GTIDs" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["locate", "bla", "x"], "'bla' is not one GTID; expected uuid:5"),
        (["locate", f"{A}:1-5", "x"], "is not one GTID"),
        (["locate", f"{A}:1", "/no/such/dir"], "/no/such/dir does not exist"),
        (["union", f"{A}:x"], "has no numbers after the tag 'x'"),
        (["union", "rubbish"], "'rubbish' is neither a set of GTIDs nor a log"),
        (["union", f"{A}:1,0-1-1"], "one set cannot contain GTIDs of both MySQL and MariaDB"),
        (["errant", f"{A}:1", "0-1-1"], "one set contains GTIDs of MySQL, the other of MariaDB"),
        (["union", "@/no/such/file"], "cannot read /no/such/file"),
        (["union", "binlog.000099"], "binlog.000099 does not exist"),
        (["union"], "Missing argument 'SET…'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["gaps", f"{A}:1", "--frob"], "No such option"),
    ],
)
def test_mistakes_are_one_line(
    capfd: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    code, out, err = run(capfd, *argv)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_several_chains_are_not_one_set(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    log = (golden / "mysql-9.7/gtid/binlog.000001").read_bytes()
    for name in ("binlog.000001", "relay.000001"):
        (tmp_path / name).write_bytes(log)
    code, _, err = run(capfd, "union", str(tmp_path))
    assert code == 2
    assert "the logs of 2 sources; set --source to one of binlog, relay" in err
    code, out, _ = run(capfd, "union", str(tmp_path), "--source", "relay")
    assert (code, out) == run(capfd, "union", str(tmp_path / "relay.000001"))[:2]


def test_the_option_source_names_relay_logs_beside_binary_logs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The data directory of a replica."""
    Log().save(tmp_path)
    relay = Log(flags=0x40)
    relay.insert((1, "one", None), gno=5)
    relay.save(tmp_path, "relay.000001")
    assert run(capfd, "union", str(tmp_path))[:2] == (0, "")
    gtid = "00010203-0405-0607-0809-0a0b0c0d0e0f:5"
    assert run(capfd, "union", str(tmp_path), "--source", "relay")[:2] == (0, gtid)
