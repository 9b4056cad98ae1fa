"""The commands as users see them: their exact output, one line for every mistake."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import binlake
import binlake.cli.rows
from binlake.cli.common.flags import EVENT_OPTIONS, ROW_OPTIONS, SQL_OPTIONS
from binlake.cli.main import COMMANDS
from binlake.values.options import READ_OPTIONS
from support.command_runs import run
from support.logs.ibb_log import IbbWriter, groups_of
from support.logs.log_builder import LogBuilder
from support.logs.table_log import Log

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


def lines(text: str) -> list[dict[str, Any]]:
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


def test_innodb_binlog(capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path) -> None:
    """MariaDB's .ibb files: the commands take their directory, and say what is damaged."""
    case = golden / "mariadb-11.8/gtid"
    writer = IbbWriter(pages_per_file=3, page_bytes=512)
    for path in sorted(case.glob("binlog.0*")):
        for group in groups_of(path.read_bytes()):
            # an annotation that is no part of any row, so that there are a few files
            padding = struct.pack("<IBIIIH", 0, 160, 1, 319, 0, 0) + b"-" * 300
            writer.commit(group[0] + padding + b"".join(group[1:]))
    paths = writer.save(tmp_path, allocated=True)
    assert len(paths) > 3
    code, out, err = run(capfd, "verify", "--reencode", str(tmp_path))
    assert code == 0, out + err
    assert f"{len(paths)} files" in out
    assert out.count("the server has not closed this file") == 2, "the last, and the allocated one"
    code, out, _ = run(capfd, "rows", str(tmp_path))
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, len(rows)) == (0, 6)
    code, out, _ = run(capfd, "gtid", "locate", rows[3]["gtid"], str(tmp_path))
    file, _, pos = out.partition(":")
    assert (code, file) == (0, rows[3]["file"])
    code, out, _ = run(capfd, "rows", str(tmp_path), "--start", f"{file}:{pos.strip()}")
    assert (code, json.loads(out.splitlines()[0])) == (0, rows[3])
    code, out, _ = run(capfd, "inspect", "--json", str(paths[0]))
    events = [json.loads(line) for line in out.splitlines()]
    assert [e["type"] for e in events[:3]] == [
        "FORMAT_DESCRIPTION_EVENT",
        "GTID_LIST_EVENT",
        "GTID_EVENT",
    ]
    assert {e["checksum"] for e in events} == {"none"}

    image = bytearray(paths[1].read_bytes())
    image[600] ^= 1
    paths[1].write_bytes(image)
    code, _, err = run(capfd, "rows", str(tmp_path))
    assert code == 1
    assert "binlog-000001.ibb, byte 512 (page 1): bad checksum of the page" in err
    code, out, err = run(capfd, "rows", str(tmp_path), "--on-error", "skip")
    assert code == 1
    assert all(json.loads(line) in rows for line in out.splitlines())
    code, out, _ = run(capfd, "verify", "--json", str(tmp_path))
    report = json.loads(out)["files"][1]
    assert (code, report["checksum"]) == (1, {"algorithm": "CRC32C", "verified": 1, "bad": 1})
    assert report["problems"][0]["kind"] == "bad checksum"


def test_verify_exit_codes(capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path) -> None:
    code, out, _ = run(capfd, "verify", log)
    assert code == 0
    assert "all is well" in out
    assert out.splitlines()[-1].startswith("1 file, ")
    code, out, err = run(capfd, "verify", "--reencode", log)
    assert (code, "all is well" in out) == (0, True)
    assert re.search(r"identical after encoding again: [\d,]+ events", err)
    index = tmp_path / "binlog.index"
    shutil.copy(log, tmp_path)
    index.write_text("./binlog.000001\n./binlog.000002\n")
    code, out, _ = run(capfd, "verify", str(index))
    assert code == 1
    assert "binlog.000002: missing file: named in binlog.index, but the file does not exist" in out
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


def test_numbers_and_their_nouns(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One event, one file; and no log among no files, one, or several."""
    for named, says in (("", "it has no files"), ("a.txt", "its only file is not a log"),
                        ("b.txt", "none of its 2 files is a log")):  # fmt: skip
        if named:
            (tmp_path / named).write_text("")
        code, _, err = run(capfd, "rows", str(tmp_path))
        assert code == 2
        assert says in err
    (tmp_path / "binlog.000001").write_bytes(LogBuilder().bytes())
    _, out, _ = run(capfd, "verify", str(tmp_path))
    assert "1 event (" in out
    assert "1 checksum verified" in out
    assert "1 file, 1 event: all is well" in out


def test_an_event_without_a_time_has_none(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    data = bytearray(Path(log).read_bytes())
    data[4:8] = bytes(4)  # of the format description
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    assert lines(run(capfd, "inspect", str(path), "--json", "-n", "1")[1])[0]["ts"] is None
    [batch] = binlake.open(path).view("events", ["ts"])
    assert [row["ts"] is None for row in batch.to_pylist()][:2] == [True, False]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(
    capfd: pytest.CaptureFixture[str], command: str
) -> None:
    code, out, _ = run(capfd, command, "--help")
    assert code == 0
    assert f"binlake {command} " in out
    assert "Examples:" in out


@pytest.mark.parametrize("command", ["rows", "inspect", "export", "sql"])
def test_every_option_is_a_flag(capfd: pytest.CaptureFixture[str], command: str) -> None:
    known = {"inspect": EVENT_OPTIONS, "sql": SQL_OPTIONS, "rows": ROW_OPTIONS}
    out = run(capfd, command, "--help")[1]
    flags = set(re.findall(r"^ *(--[a-z-]+)", out, re.MULTILINE))
    for spec in READ_OPTIONS:
        obeyed = "cli" in spec.surfaces and spec.name in known.get(command, [spec.name])
        assert ("--" + spec.name.replace("_", "-") in flags) == obeyed, spec.name


def test_inspect_obeys_filters_by_table_and_operation(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    log, table = str(golden.parents[1] / "demo" / "mysql-9.7"), "shop.orders"
    for flags in (["--table", table], ["--exclude-table", table], ["--op", "delete"]):
        wanted = {r["pos"] for r in lines(run(capfd, "rows", log, *flags, "--uncommitted")[1])}
        assert wanted
        events = lines(run(capfd, "inspect", log, "--json", *flags)[1])
        assert {e["pos"] for e in events if "_ROWS_EVENT" in str(e["type"])} == wanted
        named = {
            f"{e['event']['database']}.{e['event']['table']}"
            for e in events
            if e["type"] == "TABLE_MAP_EVENT"
        }
        if flags[0] == "--table":
            assert named == {table}
        assert (table in named) == (flags[0] != "--exclude-table")
        assert {"GTID_LOG_EVENT", "XID_EVENT"} <= {str(e["type"]) for e in events}


def test_inspect_shows_bad_checksums_and_exits_with_1(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    events = lines(run(capfd, "inspect", log, "--json")[1])
    data = bytearray(Path(log).read_bytes())
    data[int(str(events[4]["pos"])) + 20] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    code, out, err = run(capfd, "inspect", str(path), "--json")
    assert code == 1
    assert [e["checksum"] for e in lines(out)].count("bad") == 1
    assert len(lines(out)) == len(events)
    assert err.splitlines()[-1] == "1 of the events shown has a bad checksum"
    assert run(capfd, "inspect", str(path), "-n", "2")[0] == 0
    code, _, err = run(capfd, "inspect", str(path), "--server-id", "1")
    assert code == 1  # what a filter chooses may depend on the event
    assert "bad checksum" in err


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


def test_rows_reads_the_output_of_schema(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, golden: Path
) -> None:
    log = str(golden / "mysql-5.6.24" / "schema" / "binlog.000001")
    code, history, err = run(capfd, "schema", log, "--table", "golden.mov*")
    assert (code, err) == (0, "")
    assert history.count("CREATE TABLE `golden`.`mov") == 5
    assert "`other-db`" not in history
    assert "-- binlake: from binlog.000001:3654: `golden`.`moving` is not known: dropped" in history
    (tmp_path / "history.sql").write_text(history)
    start = ("--start", "binlog.000001:3654", "--table", "golden.moved")
    code, out, err = run(capfd, "rows", log, *start, "--schema", str(tmp_path / "history.sql"))
    assert (code, '"after":{"at":null,"id":4,"b":null}' in out) == (0, True)
    assert re.search("names of columns from .*: golden.moved", err)


def test_rows_reports_the_sources_of_column_names(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    log = str(golden / "mysql-5.6.24" / "schema" / "binlog.000001")
    code, _, err = run(capfd, "rows", log, "--table", "*.unkeyed")
    assert code == 0
    assert "names of columns from DDL in the log: golden.unkeyed" in err


def test_an_excluded_name_in_another_case_is_reported(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = Log()
    made.insert((1, "one", None), gno=1)
    made.insert((2, "two", None), table="u", gno=2)
    path = str(made.save(tmp_path))
    for command in ("rows", "sql"):
        code, out, err = run(
            capfd, command, path, "--exclude-table", "Shop.*", "--exclude-table", "shop.u"
        )
        assert (code, "two" in out, "one" in out) == (0, False, True)
        assert err.count("does not exclude") == 1
        assert (
            "--exclude-table Shop.* does not exclude shop.t: upper and lower case are different"
            in err
        )
