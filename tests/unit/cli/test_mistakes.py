"""Commands report mistakes, damage and missing things with one line and an exit code."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import binlake
import binlake.cli.rows
from binlake.cli.common.flags import with_flags
from binlake.errors import SourceError
from binlake.values.ledger import Ledger
from support.command_runs import run
from support.logs.stream_log import StreamLog
from support.servers.serving import eventually


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["rows"], "Missing argument"),
        (["export", "lake"], "binlake export: expected FILE… DIR; see"),
        (["rows", "LOG", "--gtid", "foo"], "'foo' is no GTID; expected GTIDs like uuid:1-5,"),
        (["rows", "LOG", "--bogus"], "No such option"),
        (["rows", "LOG", "--tabel", "a.b"], "; did you mean --table? See binlake rows --help"),
        (["rows", "LOG", "--since", "noon"], "since"),
        (["rows", "LOG", "--op", "upsert"], "insert, update, delete"),
        (["rows", "LOG", "--format", "xml"], "json, csv, csv-guarded, arrow, parquet"),
        (["rows", "LOG", "--at", "nonsense"], "at"),
        (
            ["mysqlbinlog", "LOG", "--base64-output", "x"],
            "mysqlbinlog: --base64-output x: expected one of auto, never",
        ),
        (["rows", "LOG", "--batch-bytes", "0"], "expected a size of at least 1 byte"),
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
        (
            ["rows", "LOG", "--nested=yes"],
            "binlake rows: Option '--nested' takes no value: write --nested, or leave it out; see binlake rows --help",
        ),
        (["rows", "LOG", "--table"], "see binlake rows --help"),
        (["nonsense"], "No such command"),
        (["rowz"], "binlake: No such command 'rowz'; did you mean rows? See binlake --help"),
        (["gtid", "locat"], "binlake gtid: No such command 'locat'; did you mean locate? See"),
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
def test_an_empty_result_is_reported_with_the_content_of_the_log(
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


@pytest.mark.parametrize(
    "command",
    [
        ["rows"],
        ["sql"],
        ["sql", "--undo"],
        ["inspect"],
        ["stats"],
        ["stats", "--statements"],
        ["history", "shop.orders", "1"],
    ],
    ids=" ".join,
)
def test_a_transaction_of_at_that_the_logs_do_not_contain_is_an_error(
    capfd: pytest.CaptureFixture[str], golden: Path, command: list[str]
) -> None:
    demo = str(golden.parents[1] / "demo" / "mysql-9.7")
    gtid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:999"
    code, _, err = run(capfd, *command, demo, "--at", gtid)
    assert code == 2
    assert f"binlake: no transaction has the GTID {gtid}; the log has changes of shop." in err
    code, _, err = run(capfd, *command, demo, "--at", "binlog.000001:5")
    assert (code, "binlake: no transaction contains binlog.000001:5; " in err) == (2, True)


@pytest.mark.parametrize("command", ["rows", "sql", "inspect", "stats"])
def test_a_transaction_of_at_without_rows_of_the_table_is_no_error(
    capfd: pytest.CaptureFixture[str], golden: Path, command: str
) -> None:
    demo = str(golden.parents[1] / "demo" / "mysql-9.7")
    argv = [command, demo, "--at", "binlog.000001:2504", "--table", "shop.order_lines"]
    code, _, err = run(capfd, *argv)
    assert (code, "nothing matches the filters" in err) == (0, True)


def test_a_limit_on_memory_for_no_column(capfd: pytest.CaptureFixture[str], log: str) -> None:
    code, _, err = run(capfd, "rows", log, "--max-memory", "1")
    assert code == 1
    assert re.search(
        r"the tables of one statement have \d+ columns; --max-memory allows 0 .*; increase --max-memory$",
        err,
    )


def test_errors_name_the_path_of_the_log(
    capfd: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(Path(log).read_bytes()[:-3])
    for given in (cut, tmp_path):
        assert f"(file {cut}, event at " in run(capfd, "rows", str(given))[2]
    cut.write_bytes(b"")
    assert run(capfd, "rows", str(cut))[2] == (
        f"binlake: the file is empty (file {cut}); the server has not written it yet, or the copy failed\n"
    )


def test_an_empty_result_of_a_pipe_is_reported(log: str) -> None:
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


def test_damage_is_reported_once_with_a_remedy(
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
        "x; the option schema and the option assume_charset can provide it"
    )


def test_inspect_refuses_options_without_effect(
    capfd: pytest.CaptureFixture[str], log: str
) -> None:
    for flag in ("--nested", "--binary", "--columns", "--no-verify-checksum", "--uncommitted"):
        code, out, err = run(capfd, "inspect", log, flag)
        assert (code, out) == (2, ""), flag
        assert "No such option" in err


def test_schema_reports_a_log_without_matching_ddl(
    capfd: pytest.CaptureFixture[str], log: str
) -> None:
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


@pytest.mark.parametrize(
    "words",
    [
        ["URL"],
        ["gtid", "URL"],
        ["rows", "--nonsense=URL", "x"],
        ["rows", "--threads=URL", "x"],
        ["rows", "--start", "URL", "x"],
        ["rows", "--format", "URL", "x"],
        ["rows", "--table", "URL", "x"],
        ["rows", "--max-memory", "URL", "x"],
        ["state", "URL", "x", "--as-of", "URL", "--from", "x"],
        ["archive", "URL", "URL", "URL"],
        ["completion", "URL"],
    ],
)
@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:not for all@h/",
        "mysql://ada:not\\for\\all@h/",
        "mysql://ada:not\tfor\tall@h/",
        "mysql://ada:not\\for\tall@h/",
        "mysql://ada:'not\" for 'all\"@h/",
        "mysql://ada:not'for'all@h\"/",
        "mysql://ada:not?for=all@h/",
        "mysql://ada:not@for?all@h/",
        "mysql://ada:not@for?x=all@h/",
        "mysql://ada:not/for/all@h/",
        "mysql://ada:not?pass=for@all@h/",
        "mysql://ada@h/?password=not-for-all",
        "mysql://ada@h/?PASSWORD=not-for-all",
        "mysql://ada@h/?p%61sswd=not-for-all",
        "mysql://ada@h/?compress=zlib&password=not?for\\all",
        "mysql://ada@h:3306/?password=not@for-all",
        "mysql://h:3306/?password=not@for-all",
        "mysql://h/,mysql://ada:not-for-all@h/",
    ],
)
def test_a_url_in_the_place_of_another_argument_shows_no_password(
    words: list[str], url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, said = run(capfd, *[word.replace("URL", url) for word in words])
    assert code == 2
    assert said
    assert "all" not in said.replace("binlake", "")


@pytest.mark.parametrize("url", ["mysql://ada:not\\for all@h/", "mysql://ada@h/?Password=x@all"])
@pytest.mark.parametrize("error", [OSError, SourceError])
def test_an_error_that_names_a_url_shows_no_password(
    url: str,
    error: type[Exception],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(*_: object) -> None:
        raise error(errno.ENOENT, "No such file", url) if error is OSError else error(url)

    monkeypatch.setattr("binlake.cli.main.PROGRAM.invoke", failed)
    monkeypatch.setattr(os, "dup2", lambda *_: None)  # else the test has no output from here on
    _, _, said = run(capfd, "rows", url)
    assert said.startswith("binlake: mysql://ada")
    assert "all" not in said


def waits_for_input(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has read all that was written to it, and sleeps."""
    assert process.stdin is not None
    unread = fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return int.from_bytes(unread, sys.byteorder) == 0 and state == "S"


def test_ctrl_c_ends_a_command_with_130() -> None:
    log = Path(__file__).resolve().parents[3] / "demo/mysql-9.7/binlog.000001"
    command = [sys.executable, "-m", "binlake.cli.main", "rows", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(log.read_bytes()[:-1])
        process.stdin.flush()
        # Python handles a signal that comes just before it waits for input only when the next input comes
        eventually(lambda: waits_for_input(process), "waiting for input")
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr.read() == b"binlake: interrupted\n"
