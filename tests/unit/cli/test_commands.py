"""The commands as a person meets them: output to the letter, one line for every mistake."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from binlake.cli.main import COMMANDS, main
from binlake.values.options import READ_OPTIONS

LOG = "mysql-9.7/transactions/binlog.000001"
ROW_KEYS = [
    "op",
    "database",
    "table",
    "ts",
    "gtid",
    "server_id",
    "file",
    "pos",
    "end_pos",
    "row",
    "before",
    "after",
]
EVENT_KEYS = [
    "file",
    "pos",
    "end_pos",
    "log_pos",
    "type",
    "code",
    "ts",
    "server_id",
    "flags",
    "size",
    "checksum",
    "inner",
    "event",
]


@pytest.fixture
def log(golden: Path) -> str:
    return str(golden / LOG)


def run(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    out, err = capfd.readouterr()
    return code, out, err


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_rows_keys_are_the_contract(capfd: pytest.CaptureFixture[str], log: str) -> None:
    code, out, _ = run(capfd, "rows", log)
    assert code == 0
    rows = lines(out)
    assert rows
    for row in rows:
        assert list(row) == ROW_KEYS
        assert (row["before"] is None) == (row["op"] == "insert")
        assert (row["after"] is None) == (row["op"] == "delete")
        assert str(row["ts"]).endswith("Z")
    assert len({(r["file"], r["pos"], r["row"]) for r in rows}) == len(rows)


def test_query_and_thread_come_when_asked_for(capfd: pytest.CaptureFixture[str], log: str) -> None:
    _, out, _ = run(capfd, "rows", log, "--query", "--thread-id", "-n", "3")
    rows = lines(out)
    assert len(rows) == 3
    assert all({"query", "thread_id"} <= set(row) for row in rows)
    assert all(isinstance(row["thread_id"], int) for row in rows)


def test_every_form_has_the_same_rows(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    _, out, _ = run(capfd, "rows", log)
    wanted = [(r["op"], r["pos"], r["row"], r["after"]) for r in lines(out)]
    for form in ("arrow", "parquet", "csv"):
        target = tmp_path / f"changes.{form}"
        assert run(capfd, "rows", log, "--format", form, "-o", str(target))[0] == 0
        table = {
            "arrow": lambda p: pa.ipc.open_stream(p).read_all(),
            "parquet": pyarrow.parquet.read_table,
            "csv": lambda p: pyarrow.csv.read_csv(
                p, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
            ),
        }[form](target)
        found = [
            (r["op"], r["pos"], r["row"], json.loads(r["after"]) if r["after"] else None)
            for r in table.select(["op", "pos", "row", "after"]).to_pylist()
        ]
        assert found == wanted, form


def test_stdin_and_gzip_are_files_too(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    _, wanted, _ = run(capfd, "rows", log)
    packed = tmp_path / "binlog.000001.gz"
    packed.write_bytes(gzip.compress(Path(log).read_bytes()))
    assert run(capfd, "rows", str(packed))[1] == wanted
    piped = subprocess.run(
        [sys.executable, "-m", "binlake.cli.main", "rows", "-"],
        input=packed.read_bytes(),
        capture_output=True,
        check=True,
    )
    rows = lines(piped.stdout.decode())
    for row in rows:
        row["file"] = "binlog.000001"
    assert rows == lines(wanted)


def test_filters_of_mysqlbinlog_mean_the_same(capfd: pytest.CaptureFixture[str], log: str) -> None:
    everything = run(capfd, "rows", log)[1]
    databases = {str(row["database"]) for row in lines(everything)}
    for database in databases:
        by_ours = run(capfd, "rows", log, "--table", f"{database}.*")[1]
        assert by_ours
        assert run(capfd, "rows", log, "--database", database)[1] == by_ours
    assert run(capfd, "rows", log, "--start-position", "4")[1] == everything
    assert run(capfd, "rows", log, "--stop-position", "4")[1] == ""
    assert run(capfd, "rows", log, "--stop-datetime", "1999-01-01 00:00:00")[1] == ""


def test_inspect_json_keys_are_the_contract(capfd: pytest.CaptureFixture[str], log: str) -> None:
    code, out, _ = run(capfd, "inspect", log, "--json")
    assert code == 0
    events = lines(out)
    assert all(list(event) == EVENT_KEYS for event in events)
    assert events[0]["type"] == "FORMAT_DESCRIPTION_EVENT"
    assert events[0]["pos"] == 4
    ends = {e["pos"]: e["end_pos"] for e in events if e["inner"] is None}
    pos = 4
    while pos in ends:  # back to back, from the magic to the end of the file
        pos = ends[pos]
    assert pos == Path(log).stat().st_size


def test_inspect_shows_lines_fields_and_bytes(capfd: pytest.CaptureFixture[str], log: str) -> None:
    assert len(run(capfd, "inspect", log, "-n", "2")[1].splitlines()) == 2
    full = run(capfd, "inspect", log, "-n", "1", "--full")[1]
    assert "server_version: 9.7" in full
    dump = run(capfd, "inspect", log, "-n", "1", "--hexdump")[1]
    first = Path(log).read_bytes()[4:12].hex(" ")
    assert f"00000004  {first}" in dump


def test_verify_says_yes_and_no(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    code, out, _ = run(capfd, "verify", log)
    assert code == 0
    assert "all is well" in out
    code, out, err = run(capfd, "verify", "--reencode", log)
    assert (code, "all is well" in out) == (0, True)
    assert re.search(r"the same when they are encoded again: [\d,]+ events", err)
    damaged = tmp_path / "binlog.000001"
    data = bytearray(Path(log).read_bytes())
    fifth = lines(run(capfd, "inspect", log, "--json", "-n", "5")[1])[4]
    data[int(str(fifth["pos"])) + 20] ^= 1  # in its body
    damaged.write_bytes(data)
    code, out, _ = run(capfd, "verify", "--json", str(damaged))
    report = json.loads(out)
    assert code == 1
    assert report["ok"] is False
    assert [p["kind"] for p in report["files"][0]["problems"]] == ["bad checksum"]
    assert report["files"][0]["checksum"]["bad"] == 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["rows"], "Missing argument"),
        (["rows", "LOG", "--bogus"], "No such option"),
        (["rows", "LOG", "--since", "noon"], "since"),
        (["rows", "LOG", "--op", "upsert"], "insert, update, delete"),
        (["rows", "LOG", "--format", "xml"], "json, csv, arrow, parquet"),
        (["rows", "LOG", "--at", "nonsense"], "at"),
        (["rows", "LOG", "--start-datetime", "2020-01-01", "--since", "2020-01-01"], "give one"),
        (["rows", "/nowhere/binlog.000001"], "does not exist"),
        (["rows", "LOG", "-o", "/nowhere/x.json"], "cannot write"),
        (["inspect", "/nowhere/*"], "nowhere"),
        (["inspect", "LOG", "--json", "--full"], "--json"),
        (["verify", "/nowhere"], "does not exist"),
        (["nonsense"], "No such command"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    capfd: pytest.CaptureFixture[str], log: str, argv: list[str], says: str
) -> None:
    code, out, err = run(capfd, *[log if word == "LOG" else word for word in argv])
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert err.startswith("binlake")


def test_damage_is_one_line_and_exit_code_1(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(Path(log).read_bytes()[:-3])
    code, _, err = run(capfd, "rows", str(cut))
    assert code == 1
    assert err.splitlines()[-1].startswith("binlake: ")
    assert "binlog.000001" in err
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x89PNG\r\n" * 99)
    code, out, err = run(capfd, "rows", str(junk))
    assert (code != 0, out, err.count("\n")) == (True, "", 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(
    capfd: pytest.CaptureFixture[str], command: str
) -> None:
    code, out, _ = run(capfd, command, "--help")
    assert code == 0
    assert f"binlake {command} " in out
    assert "Examples:" in out


@pytest.mark.parametrize("command", ["rows", "inspect", "export"])
def test_every_option_is_a_flag(capfd: pytest.CaptureFixture[str], command: str) -> None:
    out = run(capfd, command, "--help")[1]
    for spec in READ_OPTIONS:
        assert ("--" + spec.name.replace("_", "-") in out) == ("cli" in spec.surfaces), spec.name


def test_a_closed_pipe_is_no_error(log: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "binlake.cli.main", "inspect", log],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.readline()
        reader.stdout.close()
        assert reader.stderr.read() == b""
    assert reader.returncode == 0
