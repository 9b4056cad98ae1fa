"""`state` and `history` of tables whose names contain periods and quotes, and of columns that were renamed before
the dump, on a server whose log does not contain the names of columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import binlake
from binlake.errors import OptionError
from dev.servers import Server, running
from support.servers.live import url_of

pytestmark = pytest.mark.server

PLACES = ("--source-data=2", "--databases")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    gtids = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-row-metadata=MINIMAL"]
    with running("mysql-9.7", gtids) as server:
        yield server


def place(server: Server) -> str:
    return "{}:{}".format(*server.position())


def texts(server: Server, sql: str) -> list[tuple[str | None, ...]]:
    return sorted(map(tuple, server.rows(sql)))


def rows_at(server: Server, table: str, moment: str, source: str) -> list[tuple[str, ...]]:
    log = binlake.open(str(server.data / "binlog.index"))
    found = log.state(table, moment, source)
    return sorted(tuple(map(str, row.values())) for row in found.to_pylist())


def test_a_database_whose_name_contains_a_period(server: Server, tmp_path: Path) -> None:
    name, sql = 'a.b.it`s "t"', '`a.b`.`it``s "t"`'
    server.execute(server.kind.reset_statement, "CREATE DATABASE `a.b`", "CREATE DATABASE a")
    empty = tmp_path / "empty.sql"
    empty.write_bytes(server.dump("a", *PLACES))
    server.execute(f"CREATE TABLE {sql} (id INT PRIMARY KEY, v INT)", f"INSERT {sql} VALUES (1, 1)")
    dump = tmp_path / "dump.sql"
    dump.write_bytes(server.dump("a.b", *PLACES))
    server.execute(f"UPDATE {sql} SET v = 2", f"INSERT {sql} VALUES (2, 5)")
    moment, expected = place(server), texts(server, f"SELECT * FROM {sql}")
    server.execute(f"ALTER TABLE {sql} ADD INDEX (v)", f"DELETE FROM {sql}")
    for source in (str(empty), str(dump), url_of(server)):
        assert rows_at(server, name, moment, source) == expected, source
    history = binlake.open(str(server.data / "binlog.index")).history(name, 1)
    assert [entry.op for entry in history.entries] == ["insert", "update", "ddl", "delete"]
    assert (history.database, history.table) == ("a.b", 'it`s "t"')
    named = {(entry["database"], entry["table"]) for entry in history.to_json()}
    assert named == {("a.b", 'it`s "t"')}


def test_two_tables_of_one_name(server: Server, tmp_path: Path) -> None:
    tables = {"a": "a.`b.t`", "a.b": "`a.b`.t"}
    server.execute(
        server.kind.reset_statement,
        *(f"CREATE DATABASE IF NOT EXISTS `{database}`" for database in tables),
        *(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)" for table in tables.values()),
    )
    dumps = {database: tmp_path / f"{database}.sql" for database in tables}
    for database, dump in dumps.items():
        dump.write_bytes(server.dump(database, *PLACES))
    for number, table in enumerate(tables.values()):
        server.execute(f"INSERT {table} VALUES (1, {number}), (2, {number})")
    moment = place(server)
    for database, table in tables.items():
        expected = texts(server, f"SELECT * FROM {table}")
        assert rows_at(server, "a.b.t", moment, str(dumps[database])) == expected
    with pytest.raises(
        OptionError, match=r"ambiguous: the server .* has `a`\.`b\.t` and `a\.b`\.`t`"
    ):
        rows_at(server, "a.b.t", moment, url_of(server))
    with pytest.raises(OptionError, match="the name is ambiguous: the logs contain changes of"):
        binlake.open(str(server.data / "binlog.index"), schema=url_of(server)).history("a.b.t", 1)


def test_statements_before_the_dump_do_not_change_its_columns(
    server: Server, tmp_path: Path
) -> None:
    """The dump has their effects. The logs that it continues begin before it."""
    server.execute(
        server.kind.reset_statement,
        "CREATE DATABASE IF NOT EXISTS shop",
        "SET sql_log_bin = 0",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b INT)",
        "SET sql_log_bin = 1",
        "ALTER TABLE shop.t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "INSERT shop.t (id, a, b) VALUES (1, 10, 20)",
    )
    dump = tmp_path / "swapped.sql"
    dump.write_bytes(server.dump("shop", *PLACES))
    server.execute("INSERT shop.t (id, a, b) VALUES (2, 11, 21)")
    moments = {place(server): texts(server, "SELECT * FROM shop.t")}
    server.execute("ALTER TABLE shop.t MODIFY a BIGINT", "UPDATE shop.t SET a = 12 WHERE id = 2")
    moments[place(server)] = texts(server, "SELECT * FROM shop.t")
    for moment, expected in moments.items():
        assert rows_at(server, "shop.t", moment, str(dump)) == expected
