"""Chunks of real tables: every row in exactly one, positions that fit the rows, and no lock."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

import binlake
from binlake.errors import OptionError, ServerError, SourceError, UnsupportedError
from binlake.snapshot.chunks import SnapshotOptions, TableChunk, chunks_of
from binlake.snapshot.read_session import begin_snapshot, open_session, settled_position
from binlake.snapshot.tables import read_tables
from binlake.values.position import Position
from dev.servers import Server
from support.servers.live import tcp_url, url_of
from support.servers.source_tables import source_tables

pytestmark = pytest.mark.server

_SMALL = SnapshotOptions(chunk_rows=7, batch_rows=3)
_LETTERS = ("a", "A", "b", "B ", "é", "E", "z", "Z", "ss", "ß", "_", "0", "aa", "Ab", "\t", "a\t")
_KEYS = {
    "case": "k VARCHAR(20) NOT NULL COLLATE utf8mb4_general_ci",
    "bytes": "k VARCHAR(20) NOT NULL COLLATE utf8mb4_bin",
    "padded": "k CHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL",
    "wide": "k VARCHAR(20) CHARACTER SET ucs2 NOT NULL",
    "old": "k VARCHAR(20) CHARACTER SET utf8 NOT NULL",
    "binary_": "k VARBINARY(20) NOT NULL",
}


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    server.execute("CREATE DATABASE parts CHARACTER SET utf8mb4")
    with server.session("parts") as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, column in _KEYS.items():
            session.execute(f"CREATE TABLE `{name}` ({column}, PRIMARY KEY (k))")
            values = [f"('{one}{two}')" for one in _LETTERS for two in _LETTERS]
            session.execute(f"INSERT IGNORE INTO `{name}` VALUES {', '.join(values)}")
        session.execute(
            "CREATE TABLE numbers (k BIGINT UNSIGNED PRIMARY KEY)",
            "INSERT INTO numbers VALUES (0), (1), (2), (3), (5), (8), (9000000000000000000),"
            " (18446744073709551615)",
            "CREATE TABLE negative (k SMALLINT PRIMARY KEY)",
            "INSERT INTO negative VALUES (-32768), (-7), (-1), (0), (1), (2), (3), (4), (5),"
            " (32767)",
            "CREATE TABLE two (a VARCHAR(9) NOT NULL, b INT NOT NULL, c DATE NOT NULL,"
            " PRIMARY KEY (b, c, a))",
            *(
                f"INSERT INTO two VALUES ('{letter}', {number}, '2026-0{month}-01')"
                for letter in "axZ" for number in (-1, 0, 7) for month in (1, 2, 3)
            ),
            "CREATE TABLE kinds (e ENUM('z', 'a', 'm') NOT NULL, f FLOAT NOT NULL, d"
            " DECIMAL(9,3) NOT NULL,"
            " t TIME NOT NULL, u BIT(9) NOT NULL, UNIQUE KEY (e, f, d, t, u))",
            *(
                f"INSERT INTO kinds VALUES ('{e}', {f}, {d}, '{t}', b'{u:b}')"
                for e in "zam" for f in ("0.1", "-1e30") for d in ("-0.5", "2") for t in ("-01:00:00", "9:8:7") for u in (0, 300)
            ),
            "CREATE TABLE keyless (a INT)",
            "INSERT INTO keyless VALUES (1), (1), (NULL)",
            "CREATE TABLE nobody (k INT PRIMARY KEY)",
            "CREATE TABLE half (k INT, v INT NOT NULL, UNIQUE KEY (k), UNIQUE KEY (v))",
            "CREATE TABLE begun (k TEXT NOT NULL, UNIQUE KEY (k(5)))",
        )  # fmt: skip
        if server.flavour == "mariadb":
            session.execute(
                "CREATE TABLE guids (k UUID PRIMARY KEY)",
                "INSERT INTO guids SELECT UUID() FROM two",
                "CREATE TABLE aside (k INT PRIMARY KEY) WITH SYSTEM VERSIONING",
                "CREATE TABLE dated (k INT PRIMARY KEY, f TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
                " t TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (f, t)) WITH SYSTEM VERSIONING",
            )
    server.execute("ANALYZE TABLE parts.negative, parts.numbers")
    server.settle()
    return server


def rows_of(server: Server, chunk: TableChunk) -> list[tuple[object, ...]]:
    with chunk.read(url_of(server)) as reading:
        return [tuple(row.values()) for batch in reading for row in batch.to_pylist()]


@pytest.mark.parametrize("name", [*_KEYS, "numbers", "negative", "two", "kinds", "nobody"])
def test_every_row_is_in_one_chunk(filled: Server, name: str) -> None:
    (table,) = source_tables(url_of(filled), [f"parts.{name}"])
    chunks = chunks_of(url_of(filled), table, _SMALL)
    found = [row for chunk in chunks for row in rows_of(filled, chunk)]
    (count,) = filled.rows(f"SELECT COUNT(*) FROM parts.`{name}`")[0]
    assert len(found) == len(set(found)) == int(count or 0)
    assert len(chunks) > len(found) // 20
    for one, two in pairwise(chunks):
        assert one.upper == two.lower
    again = [TableChunk.from_json(chunk.to_json(), table, _SMALL) for chunk in chunks]
    assert again == chunks == pickle.loads(pickle.dumps(chunks))


def test_chunks_of_a_key_with_gaps_have_the_same_size(filled: Server) -> None:
    """Ids that begin with a time, and one row that an import has made with the id 1."""
    ids = [1, *((1_700_000_000_000 + number // 3) << 22 | number for number in range(200))]
    filled.execute(
        "DROP TABLE IF EXISTS parts.generated",
        "CREATE TABLE parts.generated (k BIGINT PRIMARY KEY)",
        f"INSERT INTO parts.generated VALUES {', '.join(f'({one})' for one in ids)}",
        "ANALYZE TABLE parts.generated",
    )
    (table,) = source_tables(url_of(filled), ["parts.generated"])
    chunks = chunks_of(url_of(filled), table, _SMALL)
    found = [rows_of(filled, chunk) for chunk in chunks]
    assert [len(rows) for rows in found] == [*[7] * 28, 5]
    assert [row for rows in found for row in rows] == [(one,) for one in ids]


def test_rows_written_later_are_in_a_chunk(filled: Server) -> None:
    filled.execute("DROP TABLE IF EXISTS parts.late", f"CREATE TABLE parts.late ({_KEYS['case']}, PRIMARY KEY (k))")  # fmt: skip
    values = ", ".join(f"('k{number}')" for number in range(50))
    filled.execute(f"INSERT INTO parts.late VALUES {values}")
    (table,) = source_tables(url_of(filled), ["parts.late"])
    chunks = chunks_of(url_of(filled), table, _SMALL)
    filled.execute("INSERT INTO parts.late VALUES ('K3x'), ('a'), ('zz')", "DELETE FROM parts.late WHERE k = 'k7'")  # fmt: skip
    found = [row[0] for chunk in chunks for row in rows_of(filled, chunk)]
    assert len(found) == len(set(found)) == 52
    assert {"K3x", "a", "zz"} <= set(found)


def test_keys(filled: Server) -> None:
    keys = {table.name: table.key for table in source_tables(url_of(filled), ["parts.half", "parts.begun", "parts.two", "parts.keyless"])}  # fmt: skip
    assert keys == {"half": ("v",), "begun": (), "two": ("b", "c", "a"), "keyless": ()}


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")
def test_types_and_tables_of_mariadb_only(filled: Server) -> None:
    (table,) = source_tables(url_of(filled), ["parts.guids"])
    chunks = chunks_of(url_of(filled), table, _SMALL)
    found = [row for chunk in chunks for row in rows_of(filled, chunk)]
    assert len(chunks) > 2
    assert len(set(found)) == len(found) == 27
    for name in ("aside", "dated"):
        with pytest.raises(
            UnsupportedError,
            match=rf"parts.{name}: tables with system versioning.*with --exclude-table$",
        ):
            source_tables(url_of(filled), [f"parts.{name}"])


def test_chunks_are_small_where_rows_are_large_or_the_rate_is_bounded(filled: Server) -> None:
    (table,) = source_tables(url_of(filled), ["parts.case"])
    assert table.row_bytes > 0
    url = url_of(filled)
    assert len(chunks_of(url, table)) == 1
    filled.execute(
        "DROP TABLE IF EXISTS parts.large",
        "CREATE TABLE parts.large (k INT PRIMARY KEY, t LONGTEXT)",
        f"INSERT INTO parts.large (k) VALUES {', '.join(f'({number})' for number in range(256))}",
    )
    (large,) = source_tables(url, ["parts.large"])
    assert len(chunks_of(url, replace(large, rows=256, row_bytes=1 << 26))) > 3
    # the space of deleted rows counts as that of rows
    assert len(chunks_of(url, replace(large, rows=256, row_bytes=1 << 30))) == 4
    assert len(chunks_of(url, replace(table, row_bytes=1 << 30))) == 1
    assert len(chunks_of(url, table, SnapshotOptions(max_rows_per_s=1))) > 1


def test_unsupported_tables_and_options_are_refused(filled: Server) -> None:
    with pytest.raises(SourceError, match=r"has no table that matches parts.nothing"):
        source_tables(url_of(filled), ["parts.nothing"])
    with pytest.raises(OptionError, match="chunk_rows: expected 1 or more"):
        SnapshotOptions(chunk_rows=0)
    filled.execute(
        "DROP TABLE IF EXISTS parts.isam", "CREATE TABLE parts.isam (a INT) ENGINE=MyISAM"
    )
    (table,) = source_tables(url_of(filled), ["parts.isam"])
    with pytest.raises(UnsupportedError, match="engine myisam needs a primary key"):
        chunks_of(url_of(filled), table)
    filled.execute("DROP TABLE parts.isam")
    with pytest.raises(ServerError, match="isam"), TableChunk(table, _SMALL, 0, None, None).read(url_of(filled)) as reading:  # fmt: skip
        list(reading)


def test_limits_of_the_server_for_the_rows_of_its_sessions(filled: Server) -> None:
    """Administrators set them as a protection against users who forget a LIMIT or a WHERE."""
    before = filled.rows("SELECT @@GLOBAL.sql_select_limit, @@GLOBAL.max_join_size")[0]
    filled.execute("SET GLOBAL sql_select_limit = 2")
    try:
        assert len(filled.rows("SELECT k FROM parts.numbers")) == 2
        filled.execute("SET GLOBAL max_join_size = 2")
        tables = source_tables(url_of(filled), [f"parts.{name}" for name in (*_KEYS, "two")])
        assert {table.name for table in tables} == {*_KEYS, "two"}
        (two,) = (table for table in tables if table.name == "two")
        chunks = chunks_of(url_of(filled), two, SnapshotOptions(chunk_rows=10))
        assert [len(rows_of(filled, chunk)) for chunk in chunks] == [10, 10, 7]
    finally:
        filled.execute(f"SET GLOBAL sql_select_limit = {before[0]}", f"SET GLOBAL max_join_size = {before[1]}")  # fmt: skip


@pytest.mark.not_on("mariadb-10.11", "mariadb-11.8")
def test_the_privilege_that_is_missing_is_named(filled: Server) -> None:
    filled.execute("CREATE USER 'few'@'127.0.0.1' IDENTIFIED BY 'secret'", "GRANT SELECT, REPLICATION CLIENT ON *.* TO 'few'@'127.0.0.1'")  # fmt: skip
    (table,) = source_tables(url_of(filled), ["parts.nobody"])
    (chunk,) = chunks_of(url_of(filled), table)
    with pytest.raises(ServerError, match="GRANT PROCESS"):
        chunk.read(tcp_url(filled, "few", "secret"))


def test_the_rate_is_bounded(filled: Server) -> None:
    (table,) = source_tables(url_of(filled), ["parts.case"])
    options = SnapshotOptions(max_rows_per_s=100)
    (chunk,) = chunks_of(url_of(filled), table, options)
    began = time.monotonic()
    rows = len(rows_of(filled, chunk))
    assert time.monotonic() - began > rows / 100 * 0.9


def test_progress_is_counted(filled: Server) -> None:
    (table,) = source_tables(url_of(filled), ["parts.two"])
    (chunk,) = chunks_of(url_of(filled), table)
    with chunk.read(url_of(filled)) as reading:
        list(reading)
        assert (reading.rows, reading.zero_dates) == (27, {})
        assert reading.bytes > 27 * 10


def test_defaults_that_are_no_text(filled: Server) -> None:
    """MariaDB writes their bytes into the definition of a table."""
    filled.execute(
        "DROP TABLE IF EXISTS parts.bytes",
        "CREATE TABLE parts.bytes (`é` INT PRIMARY KEY, b VARBINARY(4) DEFAULT x'00ff80', c INT)",
    )
    with open_session(url_of(filled)) as session:
        (table,) = read_tables(session, ["parts.bytes"])
        assert [column.name for column in table.definition.columns] == ["é", "b", "c"]
        assert table.key == ("é",)
        assert session.value("SELECT 'é'") == "é"
    filled.execute("DROP TABLE parts.bytes")


@contextmanager
def writing(server: Server) -> Iterator[None]:
    """Transactions of one row each, as fast as four connections can."""
    stop = threading.Event()

    def write() -> None:
        with server.session("parts") as session:
            while not stop.is_set():
                session.execute("INSERT INTO busy (v) VALUES (1)")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_positions_fit_the_rows_while_others_write(filled: Server) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS parts.busy",
        "CREATE TABLE parts.busy (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
        "SET GLOBAL sync_binlog = 1",
        "FLUSH BINARY LOGS",
    )
    settled: list[tuple[Position, set[str | None]]] = []
    exact: list[tuple[Position, set[str | None]]] = []
    seen: set[str | None] = set()
    with writing(filled):
        # A busy machine writes few rows while 20 positions are taken, so the rows count, too.
        while len(settled) < 20 or len(seen) <= 100:
            with open_session(url_of(filled)) as session:
                position = settled_position(session)
                seen = {row[0] for row in session.rows("SELECT id FROM parts.busy")}
                settled.append((position, seen))
            with open_session(url_of(filled)) as session:
                position = begin_snapshot(session)
                seen = {row[0] for row in session.rows("SELECT id FROM parts.busy")}
                exact.append((position, seen))
    filled.settle()
    logged = {}
    log = binlake.open([url_of(filled, name) for name in {p.file for p, _ in (*settled, *exact)}])
    for batch in log.changes("parts.busy"):
        for row in batch.select(["id", "_log_pos"]).to_pylist():
            logged[str(row["id"])] = row["_log_pos"]
    assert len(logged) > 100
    for position, seen in settled:
        assert {one for one, at in logged.items() if at < position.offset} <= seen
    for position, seen in exact:
        assert {one for one, at in logged.items() if at < position.offset} == seen
