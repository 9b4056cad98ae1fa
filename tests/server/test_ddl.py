"""DDL against real servers: after each statement, the history has the columns that the server has."""

from __future__ import annotations

import json
import re

import pytest

import binlake
from binlake.cli.main import main
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.catalogue import Catalogue
from binlake.table.schema.ddl import apply_ddl
from binlake.table.schema.declared import DeclaredTable
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import LogPosition
from dev.servers import RefusedError, Server

pytestmark = pytest.mark.server

_COLUMNS = (
    "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.COLUMN_TYPE, c.CHARACTER_SET_NAME"
    " FROM information_schema.COLUMNS c JOIN information_schema.TABLES t"
    " ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME"
    " WHERE c.TABLE_SCHEMA LIKE 'ddl%' AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED',"
    " 'SEQUENCE')"
    " ORDER BY 1, 2, c.ORDINAL_POSITION"
)
_KEYS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
    " WHERE INDEX_NAME = 'PRIMARY' AND TABLE_SCHEMA LIKE 'ddl%' ORDER BY 1, 2, SEQ_IN_INDEX"
)

#: A statement that a server refuses is not in its log either.
STATEMENTS = r"""
CREATE DATABASE ddl_a CHARACTER SET latin1
CREATE DATABASE ddl_b COLLATE utf8mb4_bin
CREATE DATABASE IF NOT EXISTS ddl_c
USE ddl_a
CREATE TABLE t (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, a VARCHAR(10), e ENUM('x','y''z','a,b)') NOT NULL) COMMENT='a ( b, c; CHARSET=koi8r'
CREATE TABLE IF NOT EXISTS t (id INT)
CREATE TABLE ddl_b.u (`from` INT, `a``b` TEXT CHARACTER SET cp1251, KEY (`from`), `key` BINARY(3)) ENGINE=InnoDB
ALTER TABLE t ADD b INT
ALTER TABLE t ADD COLUMN c TINYINT UNSIGNED FIRST, ADD COLUMN d DATETIME(3) AFTER id
ALTER TABLE t ADD COLUMN (f DECIMAL(10,2), g SET('p','q') CHARACTER SET utf8mb4)
ALTER TABLE t ADD z1 INT FIRST, ADD z2 INT FIRST, ADD z3 INT AFTER z1, ADD z4 INT AFTER z3
ALTER TABLE t DROP z1, DROP COLUMN z2, DROP z3, DROP COLUMN z4
CREATE TABLE moved (b INT, a INT, c INT)
ALTER TABLE moved ADD x INT AFTER a, MODIFY a INT FIRST, ADD y INT AFTER b
ALTER TABLE moved ADD z INT AFTER a, CHANGE a q BIGINT AFTER c
ALTER TABLE moved ADD z INT AFTER q, CHANGE a q BIGINT AFTER c
ALTER TABLE moved MODIFY c INT FIRST, MODIFY x INT AFTER c, MODIFY b INT FIRST
ALTER TABLE moved CHANGE c b INT AFTER x, CHANGE b c INT FIRST
ALTER TABLE t MODIFY a TEXT, MODIFY COLUMN b BIGINT UNSIGNED DEFAULT 7 AFTER c
ALTER TABLE t CHANGE a b2 VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT 'FIRST, AFTER x', CHANGE COLUMN c c TINYINT
ALTER TABLE t CHANGE b b2 INT, CHANGE b2 b INT
ALTER TABLE t RENAME COLUMN d TO d2
ALTER TABLE t RENAME COLUMN f TO g, RENAME COLUMN g TO f
ALTER TABLE t DROP PRIMARY KEY, MODIFY id INT, ADD PRIMARY KEY (id, e)
ALTER TABLE t CHANGE id ident INT NOT NULL
ALTER TABLE t DROP PRIMARY KEY
ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY USING BTREE (ident)
ALTER TABLE t DROP b, ADD b DOUBLE
ALTER TABLE t ADD INDEX i (b), ADD UNIQUE KEY j (ident, b), DROP INDEX i, ADD FULLTEXT KEY ft (b2)
ALTER TABLE t ADD INDEX i2 (b), ALGORITHM=INPLACE, LOCK=NONE
ALTER TABLE t ALTER COLUMN b SET DEFAULT 3, ALTER b DROP DEFAULT, COMMENT='DROP b', AUTO_INCREMENT=5 ROW_FORMAT=DYNAMIC
ALTER TABLE t DEFAULT CHARACTER SET utf8mb4
ALTER TABLE t ADD h VARCHAR(5)
ALTER TABLE t CHARSET=cp1251, ADD i VARCHAR(5), ADD j TEXT COLLATE latin1_bin
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT
ALTER TABLE t ENGINE=InnoDB
ALTER TABLE t ORDER BY ident, b DESC
ALTER TABLE t FORCE
ALTER TABLE t DISABLE KEYS
ALTER TABLE t RENAME TO t2
ALTER TABLE t2 ADD k YEAR, RENAME AS t3
ALTER TABLE t3 RENAME ddl_b.t4
ALTER TABLE ddl_b.t4 RENAME ddl_a.t
RENAME TABLE t TO s, ddl_b.u TO v, s TO ddl_b.w
RENAME TABLE ddl_b.w TO t
CREATE TABLE l LIKE t
CREATE TABLE l2 (LIKE ddl_a.l)
CREATE TABLE _orders_gho LIKE t
ALTER TABLE _orders_gho ADD COLUMN state ENUM('new','old') AFTER ident
RENAME TABLE t TO _orders_del, _orders_gho TO t
DROP TABLE IF EXISTS _orders_del
CREATE TABLE s1 AS SELECT ident, b2, state FROM t
CREATE TABLE s2 (x INT PRIMARY KEY, b2 INT) SELECT b2, 3 AS y FROM t LIMIT 0
CREATE TEMPORARY TABLE l (only_here INT)
ALTER TABLE l ADD more INT
DROP TABLE l
ALTER TABLE l ADD shown INT
CREATE /* a comment */ TABLE /*!50000 IF NOT EXISTS */ c1 (a INT /*!50100 UNSIGNED */, -- end
 b INT) /*!50100 PARTITION BY HASH (a) PARTITIONS 3 */
ALTER TABLE c1 ADD PARTITION PARTITIONS 2
ALTER TABLE c1 COALESCE PARTITION 1
ALTER TABLE c1 REMOVE PARTITIONING
ALTER TABLE c1 ADD COLUMN p INT, PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)
ALTER TABLE c1 ADD COLUMN p INT PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)
ALTER TABLE c1 DROP PARTITION p0, p1
ALTER TABLE c1 REBUILD PARTITION p0, p1
ALTER TABLE c1 TRUNCATE PARTITION p0
ALTER TABLE c1 REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN MAXVALUE)
CREATE TABLE n1 (a SERIAL, b NATIONAL VARCHAR(3), c NCHAR(2), d LONG VARCHAR, e LONG VARBINARY, f DOUBLE PRECISION, g BOOL, h FIXED(5,1), i DEC, j CHAR BYTE, k CHAR(3) ASCII, l TEXT UNICODE, m CHAR(5) BINARY, n FLOAT(30), o INT ZEROFILL)
CREATE TABLE n2 (a JSON, b GEOMETRY, c POINT NOT NULL, d TIME(2), e TIMESTAMP(6) NULL)
CREATE TABLE n3 (a UUID, b INET6, c INT INVISIBLE, d INT AS (c + 1) VIRTUAL, e INT GENERATED ALWAYS AS (c * (2 + 1)) STORED)
CREATE TABLE n4 (id INT, a INT) WITH SYSTEM VERSIONING
ALTER TABLE n4 DROP SYSTEM VERSIONING
ALTER TABLE n4 ADD SYSTEM VERSIONING
ALTER TABLE n4 ADD COLUMN IF NOT EXISTS a INT, ADD COLUMN IF NOT EXISTS b INT, DROP COLUMN IF EXISTS zz, MODIFY IF EXISTS zz INT
CREATE TABLE n5 (id INT, a INT, b INT)
ALTER TABLE n5 DROP COLUMN IF EXISTS a, ADD COLUMN IF NOT EXISTS a BIGINT UNSIGNED
ALTER TABLE n5 ADD c INT, ADD COLUMN IF NOT EXISTS C TEXT, ADD COLUMN IF NOT EXISTS (d INT, c TEXT, d TEXT)
ALTER TABLE n5 CHANGE b x INT, ADD COLUMN IF NOT EXISTS b INT, ADD COLUMN IF NOT EXISTS x TEXT
ALTER TABLE n5 RENAME COLUMN c TO y, ADD COLUMN IF NOT EXISTS c INT
ALTER TABLE IF EXISTS nowhere ADD a INT
ALTER TABLE n4 WAIT 5 ADD c INT
SET STATEMENT lock_wait_timeout=5, sql_mode='' FOR ALTER TABLE n4 ADD d INT
SET SESSION binlog_alter_two_phase=ON
ALTER TABLE n4 ADD e INT, ALGORITHM=COPY
ALTER TABLE n4 ADD UNIQUE KEY (e), ADD e INT
SET SESSION binlog_alter_two_phase=OFF
CREATE OR REPLACE TABLE n4 (other INT)
CREATE SEQUENCE sq
ALTER TABLE c1 ALTER INDEX nothing INVISIBLE
ALTER TABLE c1 ADD CHECK (a > 0), ADD CONSTRAINT named CHECK (b > 0)
ALTER TABLE c1 DROP CONSTRAINT named
ALTER ONLINE TABLE c1 ADD o INT
ALTER IGNORE TABLE c1 ADD o2 INT
CREATE INDEX ix ON c1 (a)
CREATE VIEW vw AS SELECT 1 AS `TABLE`
DROP VIEW vw
ALTER DATABASE ddl_a CHARACTER SET utf8mb4
CREATE TABLE d1 (a CHAR(3))
ALTER SCHEMA CHARACTER SET = ucs2
CREATE TABLE d2 (a CHAR(3))
ALTER TABLE d2 ADD COLUMN b TEXT, COMMENT 'x'
CREATE TABLE quoted (a VARCHAR(9) CHARACTER SET 'latin1' DEFAULT 'it\'s', b INT COMMENT "say ""b"", c")
SET SESSION sql_mode='NO_BACKSLASH_ESCAPES'
CREATE TABLE slashed (a ENUM('c:\','d'), b INT COMMENT '\')
ALTER TABLE slashed ADD c INT COMMENT 'x\', ADD d INT
SET SESSION sql_mode='ANSI_QUOTES'
CREATE TABLE "ansi" ("a""b" INT, "c" TEXT, PRIMARY KEY ("a""b"))
ALTER TABLE "ansi" DROP COLUMN "c"
SET SESSION sql_mode=''
DROP TABLE s1, s2
DROP DATABASE ddl_b
DROP TABLE IF EXISTS t
"""


def test_columns_follow_the_servers(server: Server) -> None:
    states: list[
        tuple[LogPosition, str, dict[str, list[list[str | None]]], dict[str, list[str]]]
    ] = []
    first = LogPosition(*server.position())
    with server.session() as session, server.session() as other:
        for statement in STATEMENTS.strip().replace("-- end\n", "-- end\x00").splitlines():
            try:
                session.execute(statement.replace("\x00", "\n"))
            except RefusedError:
                continue
            columns: dict[str, list[list[str | None]]] = {}
            for database, table, *column in other.rows(_COLUMNS):
                columns.setdefault(f"{database}.{table}", []).append(column)
            keys: dict[str, list[str]] = {}
            for database, table, name in other.rows(_KEYS):
                keys.setdefault(f"{database}.{table}", []).append(str(name))
            states.append((LogPosition(*server.position()), statement, columns, keys))
    assert len(states) > 60
    passed = _ddl(server)
    catalogue = Catalogue(lambda _database, _table: None)
    problems = []
    for place, statement, columns, keys in states:
        while passed and passed[0].position.offset < place.offset:
            ddl = passed.pop(0)
            if ddl.position.offset >= first.offset:
                catalogue.position = LogPosition(*ddl.position[1:])
                apply_ddl(catalogue, ddl)
        problems += [f"{statement}: {p}" for p in _differences(catalogue, columns, keys)]
    assert "\n".join(problems) == ""


def _ddl(server: Server) -> list[DdlStatement]:
    """The part of the server's current log; the server has not switched to another one meanwhile."""
    found: list[DdlStatement] = []
    (path,) = [str(file) for file in server.log_files()][-1:]
    for reader in LogReader.of_chains(resolve([path]), ReadOptions(), Ledger()):
        for _ in reader.runs(found.append):
            pass
    return found


def _differences(
    catalogue: Catalogue, columns: dict[str, list[list[str | None]]], keys: dict[str, list[str]]
) -> list[str]:
    problems = []
    for name, theirs in columns.items():
        database, _, table = name.partition(".")
        known = catalogue.entry((database, table))
        if known is None or not known.columns:
            problems.append(f"{name} is not known: {known}")
            continue
        wanted = [_their_column(*column) for column in theirs]
        if _our_columns(known) != wanted:
            problems.append(f"{name}: {_our_columns(known)}, the server has {wanted}")
        if [key.lower() for key in known.primary_key] != [k.lower() for k in keys.get(name, [])]:
            problems.append(f"{name}: key {known.primary_key}, the server has {keys.get(name)}")
    listed = {name for name, _ in _entries(catalogue)}
    gone = listed - columns.keys()
    return problems + [f"{name} is not there" for name in sorted(gone)]


def _entries(catalogue: Catalogue) -> list[tuple[str, DeclaredTable]]:
    return [
        (f"{database}.{table}", entry)
        for (database, table), entry in catalogue._tables.items()
        if entry.columns
    ]


def _their_column(
    name: str | None, kind: str | None, charset: str | None
) -> tuple[str | None, bool, str | None]:
    kind = kind or ""
    listed = kind.startswith(("enum", "set")) or (kind == "longtext" and charset == "utf8mb4")
    unsigned = "unsigned" in kind
    return name, unsigned, None if listed else {"utf8": "utf8mb3"}.get(charset or "", charset)


def _our_columns(table: DeclaredTable) -> list[tuple[str, bool, str | None]]:
    return [
        (
            column.name,
            column.unsigned,
            None if column.charset == "binary" or column.special else column.charset,
        )
        for column in table.columns
    ]


def test_renamed_columns_are_one_under_the_newest_name(server: Server) -> None:
    """Also of a table that was made before the log; what a later column of the old name has is its own."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute("DROP DATABASE IF EXISTS renamed", "CREATE DATABASE renamed")
    with server.session("renamed") as session:
        made = "CREATE TABLE t (id INT PRIMARY KEY, a INT, gone INT, d DECIMAL(5,1))"
        if server.name != "mysql-5.6.24":
            session.execute(made, "FLUSH BINARY LOGS")
        else:
            session.execute("FLUSH BINARY LOGS", made)
        session.execute(
            "INSERT INTO t VALUES (1, 10, 7, 1.5)",
            "ALTER TABLE t CHANGE COLUMN a b BIGINT",
            "INSERT INTO t VALUES (2, 20, 8, 2.5)",
            "ALTER TABLE t CHANGE b `c d` BIGINT, DROP gone",
            "INSERT INTO t VALUES (3, 30, 3.5)",
            "ALTER TABLE t ADD a VARCHAR(5) CHARACTER SET utf8mb4",
            "INSERT INTO t VALUES (4, 40, 4.5, 'new')",
        )
        held = session.rows("SELECT id, `c d`, d, a FROM t ORDER BY id")
    log = binlake.open(str(server.log_files()[-1]))
    table = log.to_arrow("renamed.t")
    assert table.column_names[:6] == ["id", "c d", "d", "a", "gone", "_op"]
    found = [[None if v is None else str(v) for v in row.values()] for row in table.select(table.column_names[:4]).to_pylist()]  # fmt: skip
    assert found == held
    assert table.column("gone").to_pylist() == [7, 8, None, None]
    assert any("renamed.t.c d: also contains rows from before it was renamed from b" in w for w in log.ledger.warnings)  # fmt: skip


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_columns_that_swap_their_names_are_followed(
    server: Server, metadata: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether one statement swaps them or three; rows show the names of their time."""
    if server.name != "mysql-5.6.24":
        server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    swaps = ["CHANGE a b INT, CHANGE b a INT"]
    if server.name != "mysql-5.6.24":
        swaps.append("RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    server.execute("DROP DATABASE IF EXISTS swapped", "CREATE DATABASE swapped")
    with server.session("swapped") as session:
        session.execute("FLUSH BINARY LOGS", "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        session.execute("INSERT INTO t VALUES (1, 10, 100)")
        for number, swap in enumerate(swaps, 2):
            session.execute(f"ALTER TABLE t {swap}")
            session.execute(f"INSERT INTO t VALUES ({number}, {10 * number}, {100 * number})")
        for change in ("CHANGE a c INT", "CHANGE b a INT", "CHANGE c b INT"):
            session.execute(f"ALTER TABLE t {change}")
        session.execute("INSERT INTO t VALUES (9, 90, 900)")
        held = session.rows("SELECT id, a, b FROM t ORDER BY id")
        logged = str(session.rows("SHOW CREATE TABLE t")[0][1])
    path = str(server.log_files()[-1])
    log = binlake.open(path)
    table = log.to_arrow("swapped.t")
    assert set(table.column_names[:3]) == {"id", "a", "b"}
    found = table.select(["id", "a", "b"]).to_pylist()
    assert sorted([str(v) for v in row.values()] for row in found) == held
    assert any("swapped.t.a: also contains rows from before it was renamed from b" in w for w in log.ledger.warnings)  # fmt: skip
    names = [list(json.loads(row)) for batch in binlake.open(path).changes() for row in batch.column("after").to_pylist()]  # fmt: skip
    assert names[:2] == [["id", "a", "b"], ["id", "b", "a"]]
    assert main(["schema", path]) == 0
    printed = capsys.readouterr().out
    newest = printed[printed.rindex("CREATE TABLE") :]
    assert re.findall(r"`(id|a|b)`", newest)[:3] == re.findall(r"`(id|a|b)`", logged)[:3]


@pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
def test_a_generated_invisible_primary_key_stays_the_first_column(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = MINIMAL", "CREATE DATABASE keyless")
    server.execute("FLUSH BINARY LOGS")
    log = str(server.log_files()[-1])
    with server.session("keyless") as session:
        session.execute(
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE t (a BIGINT UNSIGNED, b INT)",
            "ALTER TABLE t ADD c BIGINT UNSIGNED FIRST",
            "INSERT INTO t (a, b, c) VALUES (10, 20, 30)",
            "ALTER TABLE t MODIFY a BIGINT UNSIGNED FIRST",
            "UPDATE t SET b = 21",
            "ALTER TABLE t ALTER my_row_id SET VISIBLE",
            "UPDATE t SET b = 22",
            "ALTER TABLE t MODIFY c BIGINT UNSIGNED FIRST",
            "UPDATE t SET b = 23",
        )
        [held] = session.rows("SELECT my_row_id, a, b, c FROM t")
    assert main(["rows", log]) == 0
    rows = [json.loads(line)["after"] for line in capfd.readouterr().out.splitlines()]
    inserted, *updated = ([str(row[name]) for name in ("my_row_id", "a", "b", "c")] for row in rows)
    assert inserted == ["1", "10", "20", "30"]
    assert updated == [[*held[:2], str(b), held[3]] for b in (21, 22, 23)]


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")  # they have no such types
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL", "NO_LOG"])
def test_types_that_metadata_does_not_tell_come_from_ddl(server: Server, metadata: str) -> None:
    server.execute(
        f"SET GLOBAL binlog_row_metadata = {metadata}", "CREATE OR REPLACE DATABASE network",
        "FLUSH BINARY LOGS",
    )  # fmt: skip
    vector = ", e VECTOR(2) NOT NULL" if server.name == "mariadb-11.8" else ""
    with server.session("network") as session:
        session.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, a UUID, b INET6, c INET4, d BINARY(16){vector})",
            "FLUSH BINARY LOGS",
            "INSERT INTO t VALUES (1, '123e4567-e89b-12d3-a456-426655440000',"
            " '2001:db8::ff00:42:8329', '192.168.0.1', 'x'"
            + (", VEC_FromText('[1.5,2]'))" if vector else ")"),
        )
        [held] = session.rows("SELECT a, b, c, HEX(d) FROM t")
    logs = [str(path) for path in server.log_files()[-2:]]
    for log in (binlake.open(logs), binlake.open(logs, start=(logs[1].rsplit("/")[-1] + ":4"))):
        [row] = log.to_arrow("network.t").to_pylist()
        assert [row["a"], row["b"], row["c"], row["d"].hex().upper()] == held
        assert row.get("e") == ([1.5, 2.0] if vector else None)
