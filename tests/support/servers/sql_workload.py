"""Random row changes over tables of every type, with and without a key, with equal rows."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator

from dev.golden.oracle import snapshot
from dev.golden.types import Table, families
from dev.servers import Server
from support.forked_commands import run_binlake

DATABASE = "work"
SESSION = ("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'")
EDGES = 8  # of each column, beside the random ones

ODD = (
    "CREATE TABLE `ta``ble-表` (`from` INT, `a``b` VARCHAR(20), KEY (`a``b`)) DEFAULT CHARSET=utf8mb4",
    "CREATE TABLE notes (t TEXT, v VARCHAR(90) CHARACTER SET latin1) DEFAULT CHARSET=utf8mb4",
    "CREATE TABLE parts (a VARCHAR(20) NOT NULL, b INT NOT NULL, c BLOB, PRIMARY KEY (b, a(3)))",
    (
        "CREATE TABLE stamped (id INT PRIMARY KEY, v INT, u TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3)"
        " ON UPDATE CURRENT_TIMESTAMP(3), w DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)"
    ),
    "CREATE TABLE text_key (t VARCHAR(30) CHARACTER SET armscii8 NOT NULL PRIMARY KEY, v INT)",
    "CREATE TABLE floats_key (f FLOAT NOT NULL PRIMARY KEY, d DOUBLE)",
    "CREATE TABLE zero (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    (
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id)"
        " ON UPDATE CASCADE ON DELETE SET NULL)"
    ),
)
MADE = (
    "CREATE TABLE made (id INT PRIMARY KEY, a INT, v INT GENERATED ALWAYS AS (a * 2) VIRTUAL,"
    " s VARCHAR(40) GENERATED ALWAYS AS (CONCAT('s', a)) STORED, hid INT INVISIBLE DEFAULT 7)"
)


#: Changes inside of documents, which MySQL logs as differences where it may.
DOCUMENT = (
    '{"a": [1, 2.5, {"x": "yyyyyyyyyyyyyyyy"}], "price": 9.75, "s y": "a long text to be kept"}'
)
DOCUMENT_CHANGES = (
    "CREATE TABLE changing (id INT PRIMARY KEY, j JSON)",
    f"INSERT INTO changing VALUES (1, '{DOCUMENT}'), (2, '{DOCUMENT}'), (3, NULL)",
    "UPDATE changing SET j = JSON_SET(j, '$.a[2].x', 'it''s \\\\', '$.new', CAST(1.50 AS DECIMAL(5,2)))",
    "UPDATE changing SET j = JSON_REMOVE(j, '$.a[0]', '$.\"s y\"') WHERE id = 1",
    "UPDATE changing SET j = JSON_SET(j, '$.a[9]', CAST('[null, true]' AS JSON)) WHERE id = 2",
    "UPDATE changing SET j = JSON_REPLACE(j, '$.price', 10.00)",
)


class Workload:
    """Tables, and changes of them; the same for the same seed."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.families = list(families(server))

    def tables(self) -> list[str]:
        """Statements that make the tables, and a few rows."""
        made = []
        for table in self.families:
            made += [
                table.create(),
                f"CREATE TABLE `u_{table.name}` LIKE `{table.name}`",
                f"ALTER TABLE `u_{table.name}` DROP PRIMARY KEY, MODIFY id INT NULL",
            ]
        made += ODD
        if self.server.name != "mysql-5.6.24":
            made.append(MADE)
        return made

    def only(self, *names: str) -> Workload:
        """A workload with tables of these families."""
        self.families = [table for table in self.families if table.name in names]
        return self

    def first_rows(self) -> Iterator[str]:
        """The initial content of the tables."""
        for table in self.families:
            rows = ", ".join(table.rows(EDGES))
            for name in (table.name, f"u_{table.name}"):
                yield f"INSERT INTO `{name}` VALUES {rows}"
            yield f"INSERT INTO `u_{table.name}` VALUES {rows}"
        yield "INSERT INTO parent VALUES (1), (2), (3)"
        yield "INSERT INTO child VALUES (1, 1), (2, 2), (3, NULL)"
        yield "INSERT INTO notes VALUES ('A', 'é'), ('a', 'É'), ('a ', 'e'), ('a', 'É')"
        yield "INSERT INTO stamped VALUES (1, 1, '2020-01-01 00:00:00', '2020-01-01 00:00:00')"

    def changes(self) -> Iterator[str]:
        """The changes, in transactions of several."""
        statements = [change for table in self.families for change in self._of_family(table)]
        self.rng.shuffle(statements)
        statements += self._odd()
        while statements:
            size = self.rng.choice((1, 1, 2, 5, 40))
            yield "BEGIN"
            yield from statements[:size]
            yield "COMMIT"
            del statements[:size]

    def _of_family(self, table: Table) -> Iterator[str]:
        rng, count = self.rng, len(table.rows(EDGES))
        yield from table.changes(EDGES)
        for number in range(6):
            values = ", ".join(column.edge(rng.randrange(99)) for column in table.columns)
            yield f"INSERT INTO `{table.name}` VALUES ({2000 + number}, {values})"
            yield f"INSERT INTO `u_{table.name}` VALUES (1, {values}), (1, {values}), (NULL, {values})"
        for name in (table.name, f"u_{table.name}"):
            for _ in range(6):
                some = rng.sample(table.columns, min(3, len(table.columns)))
                changed = ", ".join(f"`{c.name}` = {c.edge(rng.randrange(99))}" for c in some)
                at = rng.randrange(1, count + 1)
                yield f"UPDATE `{name}` SET {changed} WHERE id = {at} LIMIT {rng.randrange(1, 4)}"
            yield f"DELETE FROM `{name}` WHERE id = {rng.randrange(1, count + 1)} LIMIT 1"
        yield f"UPDATE `u_{table.name}` SET id = id + 5 WHERE id IN (2, 3)"

    def _odd(self) -> list[str]:
        texts = [f"a{chr(code)}b" for code in range(128)] + [
            "\r\n",
            "\\",
            "\\'",
            "''",
            "%_",
            "-- ",
            "/*",
            "漢😀é",
        ]
        inserts = [f"INSERT INTO notes VALUES (_utf8mb4 x'{t.encode().hex()}', 'x')" for t in texts]
        made = [
            "INSERT INTO `ta``ble-表` VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
            "UPDATE `ta``ble-表` SET `a``b` = 'é`' LIMIT 1",
            "UPDATE notes SET v = CONCAT(v, '!') WHERE t = 'a' LIMIT 2",
            "DELETE FROM notes WHERE t = 'a' LIMIT 1",
            "INSERT INTO parts VALUES ('abcdef', 1, x'00'), ('abcdef', 2, NULL), ('xyz', 1, '')",
            "UPDATE parts SET a = 'ABCDEFG', c = NULL WHERE b = 1 AND a = 'abcdef'",
            "UPDATE stamped SET v = 2",
            "UPDATE stamped SET v = 3, u = u, w = w",
            "INSERT INTO stamped (id) VALUES (7)",
            "INSERT INTO text_key VALUES ('it''s', 1), ('Ա', 2)",
            "UPDATE text_key SET v = 3",
            "INSERT INTO floats_key VALUES (0.1, 0.1), (3e38, -1e-300), (1e-45, 1e22)",
            "UPDATE floats_key SET d = d / 3",
            "DELETE FROM floats_key WHERE d > 1",
            "UPDATE parent SET id = 9 WHERE id = 1",
            "INSERT INTO parent VALUES (4)",
            "INSERT INTO child VALUES (4, 4)",
            "UPDATE child SET p = 2 WHERE id = 3",
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
            "INSERT INTO zero VALUES (0, 1), (5, 2)",
            "SET SESSION sql_mode = ''",
        ]  # fmt: skip
        if self.server.name != "mysql-5.6.24":
            made += ["INSERT INTO made (id, a) VALUES (1, 10), (2, NULL)", "UPDATE made SET a = a + 1", "DELETE FROM made WHERE id = 2"]  # fmt: skip
        return inserts + made


def contents(server: Server) -> dict[str, object]:
    """The content of every table: its rows as the server prints them, and the server's checksum."""
    with server.session(DATABASE) as session:
        names = [str(row[0]) for row in session.rows("SHOW TABLES")]
        held: dict[str, object] = {}
        for name in names:
            quoted = name.replace("`", "``")
            # of a JSON document the log's text is known, not the types behind it
            exact = name.removeprefix("u_") not in ("documents", "changing")
            checksum = session.rows(f"CHECKSUM TABLE `{quoted}` EXTENDED")[0][1] if exact else None
            held[name] = (checksum, snapshot(session, DATABASE, name)["rows"])
        return held


def schema_of(server: Server) -> str:
    """The SHOW CREATE TABLE of all tables."""
    with server.session(DATABASE) as session:
        names = [str(row[0]).replace("`", "``") for row in session.rows("SHOW TABLES")]
        return "\n".join(f"{session.rows(f'SHOW CREATE TABLE `{n}`')[0][1]};" for n in names)


def run_sql(*argv: str) -> subprocess.CompletedProcess[bytes]:
    """Run `binlake sql`."""
    return run_binlake("sql", *argv)


def sql(*argv: str) -> bytes:
    """The output of `binlake sql`."""
    run = run_sql(*argv)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def changed(server: Server, *statements: str) -> str:
    """Run statements with a log of their own; the log's path."""
    server.execute("FLUSH BINARY LOGS")
    log = server.log_files()[-1]
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *statements)
    server.execute("FLUSH BINARY LOGS")
    return str(log)
