"""The golden cases: what is run on which server with which options, and when tables are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from dev.golden.keys import Keys
from dev.golden.types import families
from dev.servers import Server

__all__ = ["DATABASE", "Action", "Case", "Step", "cases"]

DATABASE = "golden"
ALL = ("mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8")
MYSQL = ("mysql-5.6.24", "mysql-9.7")
MARIADB = ("mariadb-10.11", "mariadb-11.8")
NEW = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")


class Action(Enum):
    """An action on the server after a step."""

    COPY = "copy the log file while it is written to"
    CRASH = "kill the server, copy the log file, start again"
    RESTART = "stop and start"


@dataclass(frozen=True, slots=True)
class Step:
    """Statements of one session, in order; then snapshots of `tables`.

    A statement that the server refuses is an error, except where it begins with `-- refused`.
    """

    label: str
    statements: tuple[str, ...]
    tables: tuple[str, ...] = ()
    action: Action | None = None


def step(label: str, *statements: str, tables: str = "", action: Action | None = None) -> Step:
    """A Step, with its tables as words."""
    return Step(label, statements, tuple(tables.split()), action)


@dataclass(frozen=True, slots=True)
class Case:
    """One log sequence of one server."""

    name: str
    about: str
    servers: tuple[str, ...]
    steps: Callable[[Server], Iterator[Step]]
    options: tuple[str, ...] = ()
    per_server: dict[str, tuple[str, ...]] = field(default_factory=dict)
    keys: Keys = Keys.NONE

    def options_for(self, server: str) -> tuple[str, ...]:
        """Every option of the case on a server."""
        known = [o for o in self.options if server != "mysql-5.6.24" or "row-metadata" not in o]
        return (*known, *self.per_server.get(server, ()))


# --- every column type ---


def _types(limit: int, *names: str) -> Callable[[Server], Iterator[Step]]:
    """For every table: insert the edges, change some, delete some; a snapshot after each."""

    def steps(server: Server) -> Iterator[Step]:
        for table in families(server, *names):
            rows = ",\n".join(table.rows(limit))
            insert = f"INSERT INTO `{table.name}` VALUES\n{rows}"
            yield step("insert", table.create(), insert, tables=table.name)
            changes = list(table.changes(limit))
            half = len(changes) // 2
            together = ("BEGIN", *changes[:half], "COMMIT")
            yield step("update", *together, *changes[half:], tables=table.name)
            yield step(
                "delete", f"DELETE FROM `{table.name}` WHERE id IN (1, 3)", tables=table.name
            )

    return steps


# --- definitions that change, odd names ---


def _schema(server: Server) -> Iterator[Step]:
    odd = "ta`ble-表"
    quoted = "`" + odd.replace("`", "``") + "`"
    yield Step(
        "odd names",
        (
            f"CREATE TABLE {quoted} (id INT PRIMARY KEY, `from` INT, `ключ` VARCHAR(9), `a``b` INT)",
            f"INSERT INTO {quoted} VALUES (1, 1, 'да', -1), (2, 2, NULL, NULL)",
            f"UPDATE {quoted} SET `ключ` = 'нет' WHERE id = 2",
        ),
        (odd,),
    )
    yield step(
        "keys",
        "CREATE TABLE prefixed (b INT, name VARCHAR(50) NOT NULL, id INT NOT NULL, v BLOB NOT NULL, PRIMARY KEY (name(4), id, v(7)))",
        "INSERT INTO prefixed VALUES (1, 'anna', 1, 'q'), (2, 'bob', 2, 'w')",
        "UPDATE prefixed SET b = b + 1, name = 'annabel' WHERE id = 1",
        "CREATE TABLE unkeyed (a INT, b VARCHAR(20))",
        "INSERT INTO unkeyed VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
        "UPDATE unkeyed SET b = 'z' WHERE a = 1 LIMIT 1",
        "DELETE FROM unkeyed WHERE a IS NULL",
        tables="prefixed unkeyed",
    )
    if server.name != "mysql-5.6.24":
        yield step(
            "generated and invisible columns",
            "CREATE TABLE made (id INT PRIMARY KEY, a INT, v INT GENERATED ALWAYS AS (a * 2) VIRTUAL, "
            "s VARCHAR(40) GENERATED ALWAYS AS (CONCAT('s', a)) STORED, hid INT INVISIBLE DEFAULT 7, z INT)",
            "INSERT INTO made (id, a, z) VALUES (1, 10, 1), (2, NULL, 2), (3, 30, 3)",
            "UPDATE made SET a = a + 1 WHERE id < 3",
            "DELETE FROM made WHERE id = 3",
            tables="made",
        )
    yield step(
        "a table that changes",
        "CREATE TABLE moving (id INT PRIMARY KEY, a SMALLINT)",
        "INSERT INTO moving VALUES (1, 11)",
        "ALTER TABLE moving ADD COLUMN b VARCHAR(10) DEFAULT 'dflt'",
        "INSERT INTO moving VALUES (2, 22, 'two')",
        "ALTER TABLE moving MODIFY a BIGINT, MODIFY b VARCHAR(300)",
        "INSERT INTO moving VALUES (3, 9999999999, 'three')",
        tables="moving",
    )
    yield step(
        "dropped, renamed, truncated",
        "ALTER TABLE moving DROP COLUMN a, ADD COLUMN at DATETIME(3) FIRST",
        "UPDATE moving SET b = 'x' WHERE id = 1",
        "RENAME TABLE moving TO moved",
        "INSERT INTO moved (id, b) VALUES (4, NULL)",
        "TRUNCATE TABLE unkeyed",
        "INSERT INTO unkeyed VALUES (5, 'after')",
        tables="moved unkeyed",
    )
    yield step(
        "another database",
        "CREATE DATABASE `other-db`",
        "CREATE TABLE `other-db`.moved (id INT PRIMARY KEY, t TINYINT)",
        "BEGIN",
        "INSERT INTO `other-db`.moved VALUES (1, 1)",
        "UPDATE moved SET b = 'cross' WHERE id = 3",
        "COMMIT",
        "DROP DATABASE `other-db`",
        tables="moved",
    )


# --- transactions ---


def _transactions(server: Server) -> Iterator[Step]:
    yield step(
        "tables",
        "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v INT, s VARCHAR(100)) ENGINE=InnoDB",
        "CREATE TABLE b (id INT PRIMARY KEY, v DECIMAL(10,2)) ENGINE=InnoDB",
        "CREATE TABLE m (id INT PRIMARY KEY, v INT) ENGINE=MyISAM",
        "BEGIN",
        "INSERT INTO a (v, s) VALUES (1, 'one'), (2, NULL)",
        "INSERT INTO b VALUES (1, 1.25), (2, -2.5)",
        "UPDATE a, b SET a.v = a.v + 10, b.v = b.v - 1 WHERE a.id = b.id",
        "COMMIT",
        tables="a b",
    )
    yield step(
        "savepoints and rollbacks",
        "BEGIN", "INSERT INTO b VALUES (10, 1)", "SAVEPOINT s1", "INSERT INTO b VALUES (11, 2)", "ROLLBACK TO s1",
        "INSERT INTO b VALUES (12, 3)", "SAVEPOINT `s 2`", "COMMIT",
        "BEGIN", "INSERT INTO b VALUES (20, 1)", "ROLLBACK",
        tables="b",
    )  # fmt: skip
    yield step(
        "tables that cannot roll back",
        "BEGIN", "SAVEPOINT q", "INSERT INTO m VALUES (1, 1)", "INSERT INTO b VALUES (30, 1)", "ROLLBACK TO q",
        "INSERT INTO b VALUES (31, 1)", "COMMIT",
        "BEGIN", "INSERT INTO m VALUES (2, 2)", "INSERT INTO b VALUES (32, 1)", "ROLLBACK",
        tables="b m",
    )  # fmt: skip
    if server.name == "mysql-5.6.24":
        yield step(
            "xa, which leaves no prepare",
            "XA START 'one'",
            "INSERT INTO b VALUES (40, 1)",
            "XA END 'one'",
            "XA PREPARE 'one'",
            "XA COMMIT 'one'",
            tables="b",
        )
    else:
        yield step(
            "xa",
            "XA START 'one', 'branch', 7", "INSERT INTO b VALUES (40, 1)", "XA END 'one', 'branch', 7", "XA PREPARE 'one', 'branch', 7", "XA COMMIT 'one', 'branch', 7",
            "XA START x'00ff27'", "INSERT INTO b VALUES (41, 1)", "XA END x'00ff27'", "XA COMMIT x'00ff27' ONE PHASE",
            "XA START 'gone'", "INSERT INTO b VALUES (42, 1)", "XA END 'gone'", "XA PREPARE 'gone'", "XA ROLLBACK 'gone'",
            tables="b",
        )  # fmt: skip
        yield step(
            "xa prepared",
            "XA START 'later'",
            "INSERT INTO b VALUES (43, 1)",
            "UPDATE a SET s = 'xa' WHERE id = 1",
            "XA END 'later'",
            "XA PREPARE 'later'",
        )
        yield step("between", "INSERT INTO b VALUES (44, 1)", "FLUSH BINARY LOGS")
        yield step("xa committed in the next file", "XA COMMIT 'later'", tables="a b")
    says = ("SET SESSION binlog_rows_query_log_events = ON",) if server.flavour == "mysql" else ()
    yield step(
        "with the statements",
        *says,
        "INSERT INTO a (v, s) SELECT v + 1, 'copied' FROM a /* é */",
        "REPLACE INTO b VALUES (1, 9), (50, 9)",
        "INSERT INTO b VALUES (1, 1) ON DUPLICATE KEY UPDATE v = v + 100",
        "DELETE a, b FROM a JOIN b USING (id)",
        tables="a b",
    )
    values = ", ".join(f"({i}, {i}.5)" for i in range(1000, 1400))
    yield step(
        "many rows",
        "BEGIN",
        f"INSERT INTO b VALUES {values}",
        "UPDATE b SET v = -v WHERE id >= 1000",
        "DELETE FROM b WHERE id >= 1010",
        "COMMIT",
        tables="b",
    )
    if server.name != "mysql-5.6.24":
        yield step(
            "xa left prepared",
            "XA START 'never'",
            "INSERT INTO b VALUES (45, 1)",
            "XA END 'never'",
            "XA PREPARE 'never'",
        )


def _gtids(server: Server) -> Iterator[Step]:
    yield step(
        "tables",
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (1, 1)",
        "INSERT INTO a VALUES (2, 2)",
        tables="a",
    )
    if server.flavour == "mariadb":
        yield step("domains", "SET SESSION gtid_domain_id = 7", "INSERT INTO a VALUES (3, 3)", "SET SESSION gtid_domain_id = 4294967295, server_id = 99", "INSERT INTO a VALUES (4, 4)",
                   "SET SESSION gtid_seq_no = 1000000007", "INSERT INTO a VALUES (5, 5)", tables="a")  # fmt: skip
        yield step(
            "another file",
            "FLUSH BINARY LOGS",
            "INSERT INTO a VALUES (6, 6)",
            "FLUSH BINARY LOGS",
            tables="a",
        )
        return
    uuid = "01234567-1111-2222-3333-0123456789ab"
    explicit = [
        s
        for i in (1, 2, 3, 7, 1000000009)
        for s in (
            f"SET GTID_NEXT = '{uuid}:{i}'",
            "BEGIN",
            f"INSERT INTO a VALUES ({100 + i % 1000}, {i})",
            "COMMIT",
        )
    ]
    yield step(
        "explicit, with gaps",
        *explicit,
        f"SET GTID_NEXT = '{uuid}:20'",
        "BEGIN",
        "COMMIT",
        "SET GTID_NEXT = 'AUTOMATIC'",
        "FLUSH BINARY LOGS",
        "INSERT INTO a VALUES (3, 3)",
        tables="a",
    )
    if server.name == "mysql-9.7":
        tagged = [
            s
            for i, tag in enumerate(("blue", "green_1", "blue", "t" * 32))
            for s in (f"SET GTID_NEXT = 'AUTOMATIC:{tag}'", f"INSERT INTO a VALUES ({50 + i}, {i})")
        ]
        yield step("tags", *tagged, f"SET GTID_NEXT = '{uuid}:red:5'", "BEGIN", "INSERT INTO a VALUES (160, 5)", "COMMIT", "SET GTID_NEXT = 'AUTOMATIC:ddl'", "CREATE TABLE t (id INT PRIMARY KEY)",
                   "SET GTID_NEXT = 'AUTOMATIC'", "FLUSH BINARY LOGS", "INSERT INTO a VALUES (161, 1)", tables="a t")  # fmt: skip


def _rotation(server: Server) -> Iterator[Step]:
    yield step(
        "tables",
        "CREATE TABLE r (id INT PRIMARY KEY, v VARCHAR(200))",
        "INSERT INTO r VALUES (0, 'first')",
        tables="r",
    )
    for part in range(4):
        inserts = [
            f"INSERT INTO r VALUES ({part * 10 + i + 1}, REPEAT('r', {i * 30}))" for i in range(6)
        ]
        yield step(f"fill {part}", *inserts, tables="r")
    yield step("live copy", "INSERT INTO r VALUES (100, 'live')", tables="r", action=Action.COPY)
    yield step(
        "restart", "INSERT INTO r VALUES (101, 'restart')", tables="r", action=Action.RESTART
    )
    yield step("crash", "INSERT INTO r VALUES (102, 'crash')", tables="r", action=Action.CRASH)
    yield step("after", "INSERT INTO r VALUES (103, 'after')", tables="r")


def _embedded(server: Server) -> Iterator[Step]:
    """Pieces of this very log as values: what looks like events inside of events."""
    yield step(
        "table",
        "CREATE TABLE pieces (id INT PRIMARY KEY, piece LONGBLOB)",
        "INSERT INTO pieces VALUES (1, 'nothing yet')",
        "UPDATE pieces SET piece = REPEAT('x', 50)",
        "DELETE FROM pieces",
        tables="pieces",
    )
    for number in (2, 3, 4):
        log = server.log_files()[0].read_bytes()
        parts = (log, log[4:], log[-700:], log[len(log) // 3 :])[: 5 - number]
        values = ", ".join(f"({number * 10 + i}, x'{part.hex()}')" for i, part in enumerate(parts))
        yield step(f"log {number}", f"INSERT INTO pieces VALUES {values}", tables="pieces")
    yield step(
        "moved", "UPDATE pieces SET piece = CONCAT('.', piece) WHERE id < 40", tables="pieces"
    )


# --- what rows cannot show ---


def _statements(server: Server) -> Iterator[Step]:
    yield step(
        "tables",
        "CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(200))",
        "CREATE TABLE r (id INT PRIMARY KEY, v INT)",
    )
    yield step(
        "statement format",
        "SET SESSION binlog_format = 'STATEMENT', SESSION sql_mode = 'ANSI_QUOTES'",
        "SET NAMES latin1",
        "SET @u = 5, @name = 'naïve', @none = NULL, @d = 1.5e0, @dec = 12.345",
        "INSERT INTO s (a, b) VALUES (@u, @name)",
        "INSERT INTO s (a, b) VALUES (@none, CONCAT(@d, ' ', @dec))",
        "INSERT INTO s (a) SELECT FLOOR(RAND() * 100)",
        "UPDATE s SET a = LAST_INSERT_ID() WHERE id = 1",
        "SET SESSION insert_id = 77, SESSION timestamp = 1700000000.25",
        "INSERT INTO s (b) VALUES (NOW())",
        "BEGIN",
        "DELETE FROM s WHERE id = 2",
        "COMMIT",
    )
    yield step(
        "rows between",
        "INSERT INTO r VALUES (1, 1), (2, 2)",
        "SET SESSION binlog_format = 'MIXED'",
        "UPDATE r SET v = 3",
        "SET SESSION binlog_format = 'ROW'",
        "DELETE FROM r WHERE id = 1",
    )
    yield step(
        "definitions",
        "CREATE VIEW w AS SELECT * FROM s",
        "CREATE PROCEDURE p(n INT) BEGIN INSERT INTO s (a) VALUES (n); END",
        "SET SESSION binlog_format = 'STATEMENT'",
        "CALL p(9)",
        "DROP PROCEDURE p",
        "DROP VIEW w",
        "TRUNCATE TABLE s",
    )
    yield step(
        "load data",
        "SET SESSION binlog_format = 'STATEMENT'",
        "LOAD DATA INFILE 'load.csv' INTO TABLE s FIELDS TERMINATED BY ',' (a, b)",
    )


def _partial_json(server: Server) -> Iterator[Step]:
    document = '{"a": [1, 2, 3, 4, 5, 6, 7, 8], "name": "a name that is long enough to matter", "n": {"x": 1, "s": "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}}'
    yield step(
        "insert",
        "CREATE TABLE j (id INT PRIMARY KEY, d JSON, e JSON, v INT)",
        f"INSERT INTO j VALUES (1, '{document}', '[]', 1), (2, '{document}', NULL, 2), (3, NULL, '{document}', 3)",
        tables="j",
    )
    changes = ("d = JSON_SET(d, '$.name', 'short')", "d = JSON_REPLACE(d, '$.a[3]', 12345)", "d = JSON_REMOVE(d, '$.a[0]')", "d = JSON_SET(d, '$.n.new', JSON_ARRAY(1, 'two', 3.5))",
               "e = JSON_ARRAY_APPEND(e, '$', 9), d = JSON_REMOVE(d, '$.n.s')", "v = v + 1", "d = '{\"whole\": 1}'")  # fmt: skip
    for image in ("FULL", "MINIMAL"):
        updates = [f"UPDATE j SET {change}" for change in changes]
        partial = f"SET SESSION binlog_row_image = '{image}', SESSION binlog_row_value_options = 'PARTIAL_JSON'"
        yield step(
            f"partial updates, {image}",
            partial,
            *updates,
            f"UPDATE j SET d = '{document}'",
            tables="j",
        )


# --- encryption ---


def _encrypted(server: Server) -> Iterator[Step]:
    yield step(
        "small",
        "CREATE TABLE e (id INT PRIMARY KEY, v VARCHAR(9000))",
        "INSERT INTO e VALUES (1, ''), (2, NULL), (3, 'three')",
        *(f"INSERT INTO e VALUES ({10 + n}, REPEAT('x', {n}))" for n in range(17)),
        tables="e",
    )
    rotate = ("ALTER INSTANCE ROTATE BINLOG MASTER KEY",) if server.flavour == "mysql" else ()
    yield step("another file, another key", *rotate, "FLUSH BINARY LOGS")
    yield step(
        "long",
        "BEGIN",
        "UPDATE e SET v = REPEAT('long', id * 4)",
        "DELETE FROM e WHERE id < 3",
        "COMMIT",
        tables="e",
    )


# --- the list ---

_FULL = "--binlog-row-metadata=FULL"
_MINIMAL = "--binlog-row-metadata=MINIMAL"
_MYSQL_GTID = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
_GTID = {"mysql-9.7": _MYSQL_GTID, "mysql-5.6.24": (*_MYSQL_GTID, "--log-slave-updates")}
_SMALL = ("integers", "decimals", "temporals", "enums")


def cases() -> tuple[Case, ...]:
    """Every case."""
    return (
        Case("types-full", "every column type, full images and metadata", ALL, _types(99), (_FULL,)),
        Case("types-minimal", "minimal images, minimal metadata", ALL, _types(4), ("--binlog-row-image=MINIMAL", _MINIMAL)),
        Case("types-noblob", "images without unchanged long columns", ALL, _types(3, "lengths", "binaries", "texts", "geometries"), ("--binlog-row-image=NOBLOB", _MINIMAL)),
        Case("types-nodup", "after-images with changed columns only", ("mariadb-11.8",), _types(4, *_SMALL), ("--binlog-row-image=FULL_NODUP", _FULL)),
        Case("types-unsaid", "no metadata at all: the schema must come from schema.sql", MARIADB, _types(4), ("--binlog-row-metadata=NO_LOG",)),
        Case("types-compressed", "compressed transactions or events", NEW, _types(6), (_FULL,),
             {"mysql-9.7": ("--binlog-transaction-compression=ON",), **dict.fromkeys(MARIADB, ("--log-bin-compress=1", "--log-bin-compress-min-len=10"))}),
        Case("types-v1", "row events of version 1", ("mysql-5.6.24",), _types(4, *_SMALL, "varchars"), ("--log-bin-use-v1-row-events=ON",)),
        Case("types-old-temporals", "the temporal layouts of before 5.6", MARIADB, _types(99, "old_temporals"), ("--mysql56-temporal-format=OFF", _FULL)),
        Case("nochecksum", "no checksums, row events of at most 256 bytes", ALL, _types(9, *_SMALL), ("--binlog-checksum=NONE", "--binlog-row-event-max-size=256", _FULL)),
        Case("partial-json", "JSON updates as differences", ("mysql-9.7",), _partial_json, ("--binlog-row-image=FULL", _FULL)),
        Case("schema", "definitions that change, odd names", ALL, _schema, (_FULL,)),
        Case("transactions", "commit, rollback, savepoints, XA across files", ALL, _transactions, (_FULL,)),
        Case("gtid", "GTIDs of every kind", ALL, _gtids, (_FULL,), _GTID),
        Case("rotation", "many small files, a restart, a live copy, a crash", ALL, _rotation, ("--max-binlog-size=4096", "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", _FULL), _GTID),
        Case("embedded", "a table whose values are pieces of binary logs", ALL, _embedded, (_FULL,), dict.fromkeys(MARIADB, ("--binlog-annotate-row-events=OFF",))),
        Case("encrypted", "encrypted logs; the keys beside them are dummies that protect nothing else", NEW, _encrypted, (_FULL,),
             {"mysql-9.7": ("--binlog-encryption=ON",), **dict.fromkeys(MARIADB, ("--encrypt-binlog=1",))}, Keys.PLAIN),
        Case("encrypted-ctr", "the other mode, no checksums; an encrypted key file with dummies, its password beside it", MARIADB, _encrypted,
             ("--encrypt-binlog=1", "--file-key-management-encryption-algorithm=aes_ctr", "--binlog-checksum=NONE"), keys=Keys.LOCKED),
        Case("statements", "statement-format changes among row events", ALL, _statements, (_FULL,)),
    )  # fmt: skip
