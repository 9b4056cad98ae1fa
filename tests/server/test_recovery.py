"""docs/recovery.md on real servers: a dump and the logs since, restored to any moment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import binlake as binlog
from binlake.values.option_texts import parse_file_position
from dev.servers import Server
from support.forked_commands import run_binlake

pytestmark = pytest.mark.server

TABLES = ("orders", "notes", "totals")
TOTALS = "CREATE TABLE shop.totals (id INT PRIMARY KEY, a INT, {computed})"
COMPUTED = "twice INT AS (a * 2), kept INT GENERATED ALWAYS AS (a + id) STORED"
PAUSED = 6  # before this transaction a second passes: some servers log whole seconds only
Contents = list[list[list[str | None]]]


def binlake(command: str, *argv: str) -> str:
    """The output of a command, which must succeed."""
    run = run_binlake(command, *argv)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode()


class Shop:
    """A database with a dump, logs since in several files, and what it held in between.

    `held[i]` is what it held before transaction `i` since the dump, whose first row change is
    `changes[i]`.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        if server.name != "mysql-5.6.24":
            server.execute("SET GLOBAL binlog_row_metadata = FULL")
        self._create()
        computed = "twice INT, kept INT" if server.name == "mysql-5.6.24" else COMPUTED
        server.execute(TOTALS.format(computed=computed))
        server.execute(
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, state VARCHAR(20), price DECIMAL(9,2))",
            "CREATE TABLE shop.notes (t TEXT)",
            "INSERT INTO shop.orders VALUES (1, 'new', 9.99)",
            "INSERT INTO shop.notes VALUES ('old'), ('old'), (NULL)",
            "INSERT INTO shop.totals (id, a) VALUES (1, 1)",
        )
        file, pos = server.position()
        self.dump_position = f"{file}:{pos}"
        self.dump = _dumped(server)
        self.backup = folder / "backup.sql"
        self.backup.write_bytes(b"USE shop;\n" + self.dump)
        self.held = [self.contents()]
        for number in range(4):
            self._change(
                f"INSERT INTO orders VALUES ({number + 10}, 'it''s', {number}.50)",
                f"UPDATE orders SET state = 'round {number}' WHERE id < 12",
            )
            self._change("DELETE FROM notes LIMIT 1", "UPDATE totals SET a = a * 3")
            self._change(f"INSERT INTO notes VALUES ('n{number}'), ('n')")
            if number % 2:
                server.execute("FLUSH BINARY LOGS")
        server.execute("DROP TABLE shop.orders")
        self.logs = []
        for path in server.log_files():  # what comes later is not of this shop
            (folder / path.name).write_bytes(path.read_bytes())
            self.logs.append(str(folder / path.name))
        since = parse_file_position(self.dump_position)
        *self.changes, self.drop = binlog.open(self.logs, start=since).transactions()
        assert len(self.changes) == len(self.held) - 1
        assert self.drop.statements
        assert len({change.start.file for change in self.changes}) == 2

    def _create(self) -> None:
        self.server.execute(
            "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop CHARACTER SET utf8mb4"
        )

    def _change(self, *statements: str) -> None:
        if len(self.held) - 1 == PAUSED:
            time.sleep(1.1)
        with self.server.session("shop") as session:
            session.execute("BEGIN", *statements, "COMMIT")
        self.held.append(self.contents())

    def contents(self) -> Contents:
        with self.server.session("shop") as session:
            return [session.rows(f"SELECT * FROM {table} ORDER BY 1, 1") for table in TABLES]

    def sql(self, *options: str) -> str:
        """The output of `binlake sql` for the logs."""
        return binlake("sql", *self.logs, "--schema", str(self.backup), *options)

    def restored(self, *options: str) -> Contents:
        """Load the dump and apply the logs as the options say."""
        script = self.sql("--start", self.dump_position, *options)
        self._create()
        self.server.run_script(self.dump, "shop")
        self.server.run_script(script.encode())
        return self.contents()


def test_point_in_time_recovery(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path)
    before, after = shop.held[PAUSED : PAUSED + 2]
    at, following = shop.changes[PAUSED : PAUSED + 2]

    # just before the DROP TABLE
    assert shop.restored("--stop", str(shop.drop.start), "--on-unshown", "error") == shop.held[-1]
    # a position: exclusive, and inclusive
    assert shop.restored("--stop", str(at.start)) == before
    assert shop.restored("--stop", str(following.start)) == after
    # a time: exclusive; inclusive is the next moment
    until = f"@{at.commit_us // 1_000_000}.{at.commit_us % 1_000_000:06}"
    assert shop.restored("--until", until) == before
    if server.name == "mysql-9.7":
        until = f"@{at.commit_us // 1_000_000}.{at.commit_us % 1_000_000 + 1:06}"
        assert shop.restored("--until", until) == after
    # a GTID: inclusive, and exclusive
    if at.gtid is not None:
        through = _through(at.gtid)
        assert shop.restored("--gtid", through) == after
        assert shop.restored("--gtid", through, "--exclude-gtid", at.gtid) == before


def test_undo_instead_of_a_restore(server: Server, tmp_path: Path) -> None:
    """The server's own table is taken back; the DROP TABLE after it cannot be."""
    shop = Shop(server, tmp_path)
    start = str(shop.changes[PAUSED].start)
    with pytest.raises(AssertionError, match="rows cannot show: DDL"):
        shop.sql("--undo", "--start", start)
    assert shop.restored() == shop.held[-1]
    undo = shop.sql("--undo", "--start", start, "--stop", str(shop.drop.start))
    server.run_script(undo.encode())
    assert shop.contents() == shop.held[PAUSED]


EVERYTHING = (
    "CREATE TABLE parents (id INT PRIMARY KEY, a INT{computed})",
    "CREATE TABLE children (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE)",
    "CREATE TABLE seen (n INT)",
    "CREATE TRIGGER see AFTER INSERT ON parents FOR EACH ROW INSERT INTO seen VALUES (NEW.id)",
    "INSERT INTO parents (id, a) VALUES (1, 1), (2, 2)",
    "INSERT INTO children VALUES (10, 1), (20, 2)",
)
ROW_CHANGES = (
    "INSERT INTO parents (id, a) VALUES (3, 3), (4, 4)",
    "UPDATE parents SET a = a * 10 WHERE id <> 4",
    "DELETE FROM parents WHERE id = 1",
    "INSERT INTO children VALUES (30, 3)",
)
OTHER_CHANGES = (
    "CREATE USER visitor@localhost IDENTIFIED BY 'Enchantress1'",
    "GRANT SELECT ON everything.* TO visitor@localhost",
    "ALTER TABLE parents ADD COLUMN late VARCHAR(5) DEFAULT 'x'",
    "INSERT INTO parents (id, a) VALUES (5, 5)",
    "CREATE VIEW both_of AS SELECT parents.id, p FROM parents JOIN children ON p = parents.id",
)


def test_both_recipes_with_triggers_foreign_keys_and_accounts(
    server: Server, tmp_path: Path
) -> None:
    """`mysqlbinlog | mysql` and `sql --ddl` restore all of it; `sql` the rows; `sql` into tables without
    triggers.
    """
    old = server.name == "mysql-5.6.24"
    if not old:
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    computed = "" if old else ", c INT AS (a * 2), d INT AS (id + 1) STORED"
    if any("visitor" in (row[0] or "") for row in server.rows("SELECT User FROM mysql.user")):
        server.execute("DROP USER visitor@localhost")
    server.execute("DROP DATABASE IF EXISTS everything", "CREATE DATABASE everything")
    with server.session("everything") as session:
        made = [text.format(computed=computed) for text in EVERYTHING]
        session.execute(*made)
        begun = "{}:{}".format(*server.position())
        session.execute(*ROW_CHANGES)
        rows_held = [
            session.rows(f"SELECT * FROM {t} ORDER BY 1") for t in ("parents", "children", "seen")
        ]
        after_rows = "{}:{}".format(*server.position())
        session.execute(*OTHER_CHANGES)
        all_held = [
            session.rows(f"SELECT * FROM {t} ORDER BY 1")
            for t in ("parents", "children", "seen", "both_of")
        ]
    logs = []
    for path in server.log_files():
        (tmp_path / path.name).write_bytes(path.read_bytes())
        logs.append(str(tmp_path / path.name))
    logs = [log for log in logs if Path(log).name >= begun.partition(":")[0]]
    # as a dump would: the tables as they were, with and without triggers
    backup = "".join(f"{text};\n" for text in made).encode()
    bare = "".join(f"{text};\n" for text in made if "TRIGGER" not in text).encode()
    bare += b"INSERT INTO seen VALUES (1), (2);\n"
    schema = tmp_path / "backup.sql"
    schema.write_bytes(b"USE everything;\n" + backup)

    def loaded(text: bytes) -> None:
        server.execute("DROP DATABASE everything", "CREATE DATABASE everything")
        server.run_script(text, "everything")

    def held(*tables: str) -> Contents:
        return [server.rows(f"SELECT * FROM everything.{table} ORDER BY 1") for table in tables]

    loaded(bare)
    script = binlake("sql", *logs, "--schema", str(schema), "--start", begun, "--stop", after_rows, "--on-unshown", "error")  # fmt: skip
    server.run_script(script.encode())
    assert held("parents", "children", "seen") == rows_held

    loaded(bare)
    server.execute("DROP USER visitor@localhost")
    script = binlake("sql", *logs, "--schema", str(schema), "--ddl", "--start", begun, "--on-unshown", "error")  # fmt: skip
    server.run_script(script.encode())
    assert held("parents", "children", "seen", "both_of") == all_held

    loaded(backup)
    server.execute("DROP USER visitor@localhost")
    end = str(Path(logs[-1]).stat().st_size)
    skip = ["--skip-gtids"] if server.flavour == "mysql" else []
    text = binlake(
        "mysqlbinlog", *skip, "--start-position", begun.partition(":")[2], "--stop-position", end, *logs
    )  # fmt: skip
    server.run_script(text.encode())
    assert held("parents", "children", "seen", "both_of") == all_held
    [[grants]] = server.rows(
        "SELECT COUNT(*) FROM mysql.db WHERE User = 'visitor' AND Db = 'everything'"
    )
    assert grants == "1"


def _dumped(server: Server) -> bytes:
    """A dump of the database."""
    if (
        server.name == "mysql-5.6.24"
    ):  # it comes without a mysqldump, and the others need newer servers
        with server.session("shop") as session:
            schema = "".join(f"{session.rows(f'SHOW CREATE TABLE {t}')[0][1]};\n" for t in TABLES)
        data = "INSERT INTO orders VALUES (1, 'new', 9.99);\nINSERT INTO notes VALUES ('old'), ('old'), (NULL);\nINSERT INTO totals (id, a) VALUES (1, 1);\n"
        return (schema + data).encode()
    options = ["--set-gtid-purged=OFF"] if server.flavour == "mysql" else []
    return server.dump("shop", *options)


def _through(gtid: str) -> str:
    """The GTID set of everything up to a GTID."""
    if ":" in gtid:
        source, _, number = gtid.rpartition(":")
        return f"{source}:1-{number}"
    domain, server_id, number = gtid.split("-")
    return f"{domain}-{server_id}:1-{number}"
