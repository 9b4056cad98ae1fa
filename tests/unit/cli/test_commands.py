"""The commands as a person meets them: output to the letter, one line for every mistake.

Long: every command's mistakes, once.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import binlake
import binlake.cli.rows
from binlake.cli.common.flags import EVENT_OPTIONS, ROW_OPTIONS, SQL_OPTIONS, with_flags
from binlake.cli.main import COMMANDS, main
from binlake.values.ledger import Ledger
from binlake.values.options import READ_OPTIONS
from support.logs.ibb_log import IbbWriter, groups_of
from support.logs.log_builder import LogBuilder
from support.logs.stream_log import StreamLog

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


def test_verify_says_yes_and_no(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["rows"], "Missing argument"),
        (["export", "lake"], "binlake export: expected FILE… DIR; see"),
        (["rows", "LOG", "--gtid", "foo"], "'foo' is no GTID; expected GTIDs like uuid:1-5,"),
        (["rows", "LOG", "--bogus"], "No such option"),
        (["rows", "LOG", "--tabel", "a.b"], "'--table'? See binlake rows --help"),
        (["rows", "LOG", "--since", "noon"], "since"),
        (["rows", "LOG", "--op", "upsert"], "insert, update, delete"),
        (["rows", "LOG", "--format", "xml"], "json, csv, csv-guarded, arrow, parquet"),
        (["rows", "LOG", "--at", "nonsense"], "at"),
        (
            ["rows", "LOG", "--start-datetime", "2020-01-01", "--since", "2020-01-01"],
            "give only one",
        ),
        (["rows", "/nowhere/binlog.000001"], "does not exist"),
        (["rows", "LOG", "-o", "/nowhere/x.json"], "cannot write"),
        (["rows", "LOG", "--schema", "/nowhere.sql"], "cannot read schema file /nowhere.sql"),
        (["rows", "LOG", "--schema", "LOG"], "contains no CREATE TABLE"),
        (["export", "LOG", "/nowhere/x", "--schema", "/nowhere.sql"], "cannot read schema file"),
        (["rows", "LOG", "--assume-charset", "ut8mb4"], "did you mean utf8mb4"),
        (
            ["rows", "LOG", "--gtid", "3e11fa47-71ca-11e1-9e33-c80aa9429562"],
            "562:1-9223372036854775806",
        ),
        (["rows", "LOG", "--table", "orders"], "*.orders is in any database"),
        (["rows", "LOG", "--exclude-table", "*"], "expected DATABASE.TABLE"),
        (["rows", "mysql://ada:secret@db1:70000/"], "70000 is not a port"),
        (["verify", "mariadb://db1/?colour=red"], "there is no option 'colour'"),
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
    assert "secret" not in err
    assert err.count("\n") == 1
    assert err.startswith("binlake")


def test_a_few_rows_of_a_large_log_decode_little(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = StreamLog()
    for gno in range(1, 2000):
        log.gtid(gno).query(b"BEGIN").rows(100).xid()
    path = log.write(tmp_path)
    ledgers: list[Ledger] = []
    monkeypatch.setattr(binlake.cli.rows, "say_result", ledgers.append)
    for flags in ([], ["-n", "3"]):
        assert run(capfd, "rows", str(path), *flags)[0] == 0
    whole, few = ledgers
    assert few.decoded_bytes * 20 < whole.decoded_bytes


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


@pytest.mark.parametrize("command", ["rows", "inspect"])
def test_nothing_found_is_said_with_what_there_is(
    capfd: pytest.CaptureFixture[str], golden: Path, command: str
) -> None:
    demo = str(golden.parents[1] / "demo" / "mysql-9.7")
    code, out, err = run(capfd, command, demo, "--table", "shop.oders")
    assert (code, out) == (0, "")
    [said] = [line for line in err.splitlines() if line.startswith("nothing matches")]
    assert "did you mean shop.orders?" in said
    assert "shop.products" in said
    _, _, err = run(capfd, command, demo, "--since", "2099-01-01Z")
    assert "its events are from 2026-11-21 10:31:09Z to 2026-11-21 10:31:10Z" in err
    assert "nothing" not in run(capfd, command, demo)[2]


def test_nothing_found_in_a_pipe_is_said_too(log: str) -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "binlake.cli.main", "rows", "-", "--server-id", "99"],
        input=Path(log).read_bytes(),
        capture_output=True,
        check=True,
    )
    assert piped.stderr.decode().splitlines()[-1] == "nothing matches the filters"


def test_a_column_that_no_table_has_is_a_mistake(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    demo = str(golden.parents[1] / "demo" / "mysql-9.7")
    target = tmp_path / "x.parquet"
    argv = ["rows", demo, "--table", "shop.orders", "-f", "parquet", "-o", str(target)]
    code, _, err = run(capfd, *argv, "--columns", "id,sate")
    assert code == 2
    assert "table shop.orders has no column 'sate'; did you mean state?" in err
    assert "shop.orders has id, customer_id, state" in err
    assert not target.exists()
    # of several tables one has it
    assert run(capfd, "rows", demo, "--columns", "sku,customer_id")[0] == 0
    code, out, err = run(capfd, "rows", demo, "--columns", "sku,nowhere")
    assert (code, out) == (2, "")
    assert "none of the tables in the result has a column 'nowhere'" in err
    assert "_op" not in err


@pytest.mark.parametrize("flag", ["--zero-date", "--metadata-prefix"])
def test_options_of_typed_columns_are_not_those_of_rows(
    capfd: pytest.CaptureFixture[str], log: str, flag: str
) -> None:
    code, out, err = run(capfd, "rows", flag, "text", log)
    assert (code, out) == (2, "")
    assert f"No such option '{flag}'" in err


@pytest.mark.parametrize("command", ["rows", "verify", "inspect"])
def test_a_keyring_that_is_not_there(
    capfd: pytest.CaptureFixture[str], log: str, command: str
) -> None:
    """Also where no log is encrypted: the path is wrong."""
    code, out, err = run(capfd, command, "--keyring", "/no/keyring", log)
    assert (code, out) == (2, "")
    assert "the keyring file /no/keyring does not exist" in err


def test_damage_is_told_once_and_with_what_to_do(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(Path(log).read_bytes()[:-3])
    for command in ("rows", "inspect"):
        code, out, err = run(capfd, command, str(cut))
        assert code == 1
        assert "field torn tail" not in err
        assert "--on-error skip continues" in err.splitlines()[-1]
        code, skipped, err = run(capfd, command, str(cut), "--on-error", "skip")
        assert (code, skipped) == (1, out)  # what is lost is no success
        assert err.count("ends inside") == 1
    damaged = tmp_path / "binlog.000002"
    data = bytearray(Path(log).read_bytes())
    data[5 * len(data) // 8] ^= 1
    damaged.write_bytes(data)
    assert "--on-error skip continues" in run(capfd, "rows", str(damaged))[2]
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x89PNG\r\n" * 99)
    assert "magic)" not in run(capfd, "rows", str(junk))[2]


def test_messages_name_flags(golden: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = str(golden / "mysql-9.7/encrypted/binlog.000001")
    assert run(capfd, "rows", log)[2].endswith("; set --keyring to the server's keyring file\n")
    out = run(capfd, "verify", log)[1].splitlines()
    assert out[0].endswith(" bytes, no event that can be read")
    assert out[1].endswith("; set --keyring to the server's keyring file")
    assert "; --schema and --assume-charset can" in with_flags(
        "x; the option schema and the option assume_charset can"
    )


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


def test_inspect_refuses_what_it_would_ignore(capfd: pytest.CaptureFixture[str], log: str) -> None:
    for flag in ("--nested", "--binary", "--columns", "--no-verify-checksum", "--uncommitted"):
        code, out, err = run(capfd, "inspect", log, flag)
        assert (code, out) == (2, ""), flag
        assert "No such option" in err


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
        }  # type: ignore[index]
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


def test_schema_writes_what_rows_reads(
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


def test_rows_says_where_its_names_are_from(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    log = str(golden / "mysql-5.6.24" / "schema" / "binlog.000001")
    code, _, err = run(capfd, "rows", log, "--table", "*.unkeyed")
    assert code == 0
    assert "names of columns from DDL in the log: golden.unkeyed" in err


def test_schema_that_finds_nothing_says_so(capfd: pytest.CaptureFixture[str], log: str) -> None:
    code, out, err = run(capfd, "schema", log, "--table", "no.such")
    assert (code, "CREATE TABLE" in out) == (0, False)
    assert "no DDL of such tables" in err


@pytest.mark.parametrize("master", ["nowhere", "localhost", "local[x]", "local[]", "spark://", ""])
def test_a_master_that_spark_would_refuse(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path, master: str
) -> None:
    """It is one line, before a JVM starts and ends with a stack trace."""
    code, _, err = run(capfd, "export", log, str(tmp_path / "lake"), "--master", master)
    assert code == 2
    assert err == (
        f"binlake: --master {master}: expected local[N], spark://HOST:PORT, yarn, k8s://URL or sc://HOST\n"
    )


def test_a_target_that_is_a_server_shows_no_password(
    capfd: pytest.CaptureFixture[str], log: str
) -> None:
    code, _, err = run(capfd, "export", log, "mysql://u:secret@h/", "--engine", "local")
    assert (code, "is a live server" in err, "secret" in err) == (2, True, False)


def test_a_spark_that_does_not_start_is_one_line(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = pytest.importorskip("pyspark.errors")

    def refused(*_: object, **__: object) -> None:
        raise errors.PySparkRuntimeError("Java gateway process exited\nbefore anything")

    monkeypatch.setattr("binlake.spark.sessions.start", refused)
    code, _, err = run(
        capfd, "export", log, str(tmp_path / "lake"), "--master", "spark://nowhere:7077"
    )
    assert code == 1
    assert err.count("\n") == 1
    assert err.startswith("binlake: Spark failed: Java gateway process exited; see its log, ")


def test_an_empty_name_is_not_this_directory(
    capfd: pytest.CaptureFixture[str], golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(golden / "mysql-9.7/transactions")
    code, out, err = run(capfd, "rows", "")
    assert (code, out) == (2, "")
    assert "the name of a log is empty" in err
