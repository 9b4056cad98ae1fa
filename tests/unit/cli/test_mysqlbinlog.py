"""`binlake mysqlbinlog` without a server: what it refuses, and how it ends what is not whole."""

from __future__ import annotations

import base64
import gzip
import io
import re
import zlib
from pathlib import Path

import pytest

from binlake.cli.main import main
from binlake.errors import SourceError
from binlake.replay.load_files import LoadFiles
from support.logs.costly_logs import rows
from support.logs.costly_tables import described, one_transaction
from support.logs.log_builder import QUERY, ROWS, TABLE_MAP, LogBuilder, query_body
from support.logs.mutations import frames
from support.logs.stream_log import StreamLog, rows_body, table_map_body
from support.logs.table_log import INSERT

BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, APPEND_BLOCK = 17, 18, 9
ROLLBACK = b"ROLLBACK /* added by mysqlbinlog */ /*!*/;\n"
END = (
    b"DELIMITER ;\n# End of log file\n"
    b"/*!50003 SET COMPLETION_TYPE=@OLD_COMPLETION_TYPE*/;\n"
    b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=0*/;\n"
)


def run(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, bytes, str]:
    code = main(["mysqlbinlog", *arguments])
    out, err = capfdbinary.readouterr()
    return code, out, err.decode()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--raw"], "--raw copies the logs of a server"),
        (["-R", "--stop-never"], "--stop-never requires --raw"),
        (["-R", "--raw", "--stop-position=5"], "--stop-position: --raw copies whole logs"),
        (
            ["-R", "--raw", "-j", "0-1-4"],
            "--start-position '0-1-4': with --raw it must be a number",
        ),
        (["-B"], "--flashback: use binlake sql --undo"),
        (["-j", "here"], "--start-position 'here'"),
        (["--stop-position=0-1-4,0-1-5"], "a domain appears twice"),
        (["--start-datetime=yesterday"], "--start-datetime 'yesterday'"),
        (["--server-id=one"], "--server-id: 'one' is not a number"),
        (["--include-gtids=1-2"], "--include-gtids: "),
        (["--rewrite-db=shop"], "expected 'old->new'"),
        (["--local-load=/nowhere/at/all"], "/nowhere/at/all is not a directory"),
        (["--set-charset=x'; DROP"], "is not the name of a character set"),
        (["--base64-output=sometimes"], "--base64-output"),
        (["-r", "/nowhere/at/all"], "cannot write /nowhere/at/all"),
    ],
)
def test_a_users_mistake_is_one_line(
    arguments: list[str], says: str, golden: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = str(golden / "mysql-9.7/gtid/binlog.000001")
    code, out, err = run(capfdbinary, *arguments, log)
    assert (code, out) == (2, b"")
    assert says in err
    assert err.count("\n") == 1


def test_logs_of_both_flavours_are_refused(
    golden: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    logs = [str(golden / server / "gtid/binlog.000001") for server in ("mysql-9.7", "mariadb-11.8")]
    code, _, err = run(capfdbinary, *logs)
    assert code == 2
    assert "some logs are of MySQL, others of MariaDB" in err


def test_standard_input_and_compressed_files(
    golden: Path,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = golden / "mariadb-11.8/transactions/binlog.000001"
    code, text, _ = run(capfdbinary, "-v", str(log))
    assert code == 0
    packed = tmp_path / "binlog.000001.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert run(capfdbinary, "-v", str(packed)) == (0, text, "")
    written = tmp_path / "text.sql"
    assert run(capfdbinary, "-v", "-r", str(written), str(log)) == (0, b"", "")
    assert written.read_bytes() == text


def test_a_torn_transaction_is_rolled_back(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = StreamLog()
    log.plain(1)
    log.gtid(2).query(b"BEGIN").rows()
    path = str(log.write(tmp_path))
    code, text, _ = run(capfdbinary, path)
    assert code == 0
    automatic = b"SET @@SESSION.GTID_NEXT= 'AUTOMATIC' /* added by mysqlbinlog */ /*!*/;\n"
    assert text.endswith(b"'/*!*/;\n" + ROLLBACK + automatic + END)
    log.xid()
    _, text, _ = run(capfdbinary, str(log.write(tmp_path)))
    assert ROLLBACK not in text
    assert text.endswith(b"COMMIT/*!*/;\n" + automatic + END)


def test_a_statement_without_an_end_is_left_out(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A server would keep its tables open, and apply the half that it has."""
    log = StreamLog()
    log.query(b"BEGIN")
    log.add(TABLE_MAP, table_map_body())
    log.add(ROWS, rows_body(flags=0))
    end = log.add(ROWS, rows_body())
    log.xid()
    path = str(log.write(tmp_path))
    code, text, err = run(capfdbinary, f"--stop-position={end}", path)
    assert code == 0
    assert "inside a statement of row changes" in err
    assert text.count(b"BINLOG '") == 1  # the format description's
    assert ROLLBACK in text
    _, text, err = run(capfdbinary, path)
    assert text.count(b"BINLOG '") == 2
    assert not err


def test_the_rest_of_a_statement_that_is_partly_hidden_is_ended(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = StreamLog()
    log.query(b"BEGIN")
    other = table_map_body(9).replace(b"\x04shop", b"\x04park")
    assert other != table_map_body(9)
    log.add(TABLE_MAP, table_map_body(7))
    log.add(TABLE_MAP, other)
    log.add(ROWS, rows_body(flags=0, table_id=7))
    log.add(ROWS, rows_body(table_id=9))
    log.xid()
    code, text, _ = run(capfdbinary, "-d", "shop", str(log.write(tmp_path)))
    assert code == 0
    encoded = re.findall(rb"BINLOG '\n(.*?)'", text, re.DOTALL)[-1]
    raw = b"".join(map(base64.b64decode, encoded.splitlines()))
    table_map, rows = _events(raw)
    assert (table_map[4], rows[4]) == (TABLE_MAP, ROWS)
    assert rows[19 + 6] & 1  # STMT_END
    assert zlib.crc32(rows[:-4]) == int.from_bytes(rows[-4:], "little")


@pytest.mark.parametrize("version", ["8.0.36", "10.11.8-MariaDB-log"])
def test_database_leaves_out_statements_without_a_default_database(
    version: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = LogBuilder(version)
    log.add(QUERY, query_body(b"DROP TABLE keepme.t", b""))
    log.add(QUERY, query_body(b"BEGIN", b""))
    log.add(QUERY, query_body(b"INSERT INTO t VALUES (1)", b"shop"))
    log.add(QUERY, query_body(b"COMMIT", b""))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    code, text, err = run(capfdbinary, "-d", "shop", str(path))
    assert code == 0
    assert b"DROP TABLE" not in text
    assert text.count(b"BEGIN\n") == text.count(b"INSERT INTO t") == text.count(b"COMMIT\n") == 1
    assert err.count("leaves out 1 statement of sessions without a default database") == 1
    _, text, err = run(capfdbinary, str(path))
    assert b"DROP TABLE" in text
    assert not err


@pytest.mark.parametrize(("version", "name"), [("8.0.36", "park"), ("10.11.8-MariaDB-log", "shop")])
def test_database_with_rewrite_db_takes_the_name_that_the_servers_tool_takes(
    version: str, name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = LogBuilder(version)
    log.add(QUERY, query_body(b"DROP TABLE t", b"shop"))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    for chosen in ("shop", "park"):
        _, text, _ = run(capfdbinary, "--rewrite-db=shop->park", "-d", chosen, str(path))
        assert (b"use `park`" in text) == (b"DROP TABLE t" in text) == (chosen == name)


def _events(raw: bytes) -> list[bytes]:
    found = []
    stream = io.BytesIO(raw)
    while head := stream.read(13):
        length = int.from_bytes(head[9:13], "little")
        found.append(head + stream.read(length - 13))
    return found


def test_a_damaged_log_ends_the_text_in_order(
    golden: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = bytearray((golden / "mysql-9.7/transactions/binlog.000001").read_bytes())
    data[len(data) // 2] ^= 0xFF
    log = tmp_path / "binlog.000001"
    log.write_bytes(data)
    code, text, err = run(capfdbinary, str(log))
    assert code == 1
    assert "bad checksum" in err
    assert text.endswith(END)


@pytest.mark.parametrize(
    ("server", "kind", "options"),
    [
        ("mariadb-11.8", 162, ()),
        ("mysql-9.7", 33, ("--exclude-gtids=3e11fa47-71ca-11e1-9e33-c80aa9429562:1",)),
    ],
)
def test_a_damaged_gtid_selects_no_transaction(
    server: str, kind: int, options: tuple[str, ...], golden: Path, tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    data = bytearray((golden / server / "gtid/binlog.000001").read_bytes())
    at = next(at for at, _, code in frames(data) if code == kind)
    data[at + 19] ^= 0xFF
    log = tmp_path / "binlog.000001"
    log.write_bytes(data)
    code, text, err = run(capfdbinary, *options, str(log))
    assert code == 1
    assert "bad checksum" in err
    assert f"event at {at}" in err
    assert b"# End of log file" in text


def test_rows_without_base64_are_refused(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = StreamLog()
    log.plain(1)
    code, text, err = run(capfdbinary, "--base64-output=never", str(log.write(tmp_path)))
    assert code == 1
    assert "--base64-output=never cannot print" in err
    assert text.endswith(END)


def _load_log(*blocks: tuple[int, bytes]) -> LogBuilder:
    log = LogBuilder()
    for code, block in blocks:
        log.add(code, (7).to_bytes(4, "little") + block)
    sql = b"LOAD DATA INFILE '../../etc/passwd' INTO TABLE t"
    start, end = sql.index(b" INFILE"), sql.index(b"INTO ") + 4
    body = query_body(sql)
    own = b"".join(number.to_bytes(4, "little") for number in (7, start, end)) + b"\x02"
    # the fields of LOAD DATA follow those of every query
    log.add(EXECUTE_LOAD_QUERY, body[:13] + own + body[13:])
    return log


def test_load_data_writes_a_file_with_its_own_name(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Whatever a log says: the file lies where the user wants it, under a name of ours."""
    folder = tmp_path / "files"
    folder.mkdir()
    log = _load_log((BEGIN_LOAD_QUERY, b"1,one\n"), (APPEND_BLOCK, b"2,two\n"))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    code, text, _ = run(capfdbinary, f"--local-load={folder}", str(path))
    assert code == 0
    (file,) = folder.iterdir()
    assert file.read_bytes() == b"1,one\n2,two\n"
    said = f"LOAD DATA LOCAL INFILE '{file}' REPLACE INTO TABLE t\n/*!*/;\n".encode()
    assert said in text
    assert b"etc/passwd" not in text
    # printed again, the file of before is kept
    run(capfdbinary, f"--local-load={folder}", str(path))
    assert len(list(folder.iterdir())) == 2


def test_load_data_does_not_write_through_a_link(tmp_path: Path) -> None:
    """A link that replaces the file between two of its blocks."""
    target = tmp_path / "precious"
    target.write_bytes(b"kept")
    files = LoadFiles(str(tmp_path))
    files.begin(7, b"1,one\n")
    (file,) = tmp_path.glob("SQL_LOAD_MB-*")
    file.unlink()
    file.symlink_to(target)
    with pytest.raises(SourceError, match="cannot be written"):
        files.append(7, b"2,two\n")
    assert target.read_bytes() == b"kept"


def test_load_data_without_the_beginning_of_its_file(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = _load_log((APPEND_BLOCK, b"2,two\n"))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    code, text, err = run(capfdbinary, f"--local-load={tmp_path}", str(path))
    assert code == 0
    assert "the beginning of the file 7 of LOAD DATA is not in the events shown" in err
    assert b"LOAD DATA" not in text


def test_year_zero_and_geometries_are_printed_as_stored(
    golden: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """YEAR 0 and geometries, where the servers' tools go wrong."""
    log = str(golden / "mysql-9.7/types-full/binlog.000001")
    _, text, _ = run(capfdbinary, "-vv", "--base64-output=decode-rows", log)
    assert b"###   @14=0000 /* YEAR meta=0 nullable=1 is_null=0 */\n" in text
    point = rb"'\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" + b"\xf0?"
    assert point in text
    assert b"-1 (18446744073709551615) /* LONGINT" in text


def _shown_rows(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    described_table: bytes,
    *images: bytes,
) -> bytes:
    """The lines of the values of inserted rows of two columns with -vv."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(one_transaction(described_table, (INSERT, rows(2, 2, b"".join(images)))))
    code, text, err = run(capfdbinary, "-vv", "--base64-output=decode-rows", str(path))
    assert (code, err) == (0, "")
    return b"".join(re.findall(rb"###   .*\n", text))


def test_columns_of_one_type_have_comments_of_their_own(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    long, bit = 3, 16
    body = bytearray(described(bytes([long, long]), b""))
    body[-1] = 0b10  # only the second is nullable
    minus_one = b"\xff\xff\xff\xff"
    text = _shown_rows(tmp_path, capfdbinary, bytes(body), b"\0" + minus_one * 2, b"\2\7\0\0\0")
    assert text == (
        b"###   @1=-1 (4294967295) /* INT meta=0 nullable=0 is_null=0 */\n"
        b"###   @2=-1 (4294967295) /* INT meta=0 nullable=1 is_null=0 */\n"
        b"###   @1=7 /* INT meta=0 nullable=0 is_null=0 */\n"
        b"###   @2=NULL /* INT meta=0 nullable=1 is_null=1 */\n"
    )
    bits = described(bytes([bit, bit]), bytes([3, 0, 5, 0]))
    assert _shown_rows(tmp_path, capfdbinary, bits, b"\0\5\5") == (
        b"###   @1=b'101' /* BIT(3) meta=3 nullable=1 is_null=0 */\n"
        b"###   @2=b'00101' /* BIT(5) meta=5 nullable=1 is_null=0 */\n"
    )


def test_a_table_with_an_array_is_shown_where_the_array_is_null(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    typed_array, long = 20, 3
    table = described(bytes([typed_array, long]), bytes([long]))
    text = _shown_rows(tmp_path, capfdbinary, table, b"\1\5\0\0\0")
    assert text.startswith(b"###   @1=NULL /* ")
    assert text.endswith(b"###   @2=5 /* INT meta=0 nullable=1 is_null=0 */\n")
