"""`state` of tables that RENAME TABLE moves: the rows are those of the table that had the name at the moment."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import binlake
from binlake.errors import BinlogError, SourceError, UnsupportedError
from dev.servers import Server, Session
from support.servers.live import url_of

pytestmark = pytest.mark.server

SERVERS = ("mysql-9.7", "mariadb-11.8")
PLACES = {"mysql": "--source-data=2", "mariadb": "--master-data=2"}
NAMES = ("a", "b", "c", "d")
Rows = list[tuple[str, ...]]


def dumped(server: Server, folder: Path) -> str:
    dump = folder / f"{'-'.join(map(str, server.position()))}.sql"
    dump.write_bytes(server.dump("moved", PLACES[server.flavour], "--databases"))
    return str(dump)


def there(session: Session) -> dict[str, Rows]:
    names = [str(name) for (name,) in session.rows("SHOW TABLES")]
    return {
        name: sorted(tuple(map(str, row)) for row in session.rows(f"SELECT * FROM {name}"))
        for name in names
    }


def place(server: Server) -> str:
    return "{}:{}".format(*server.position())


def state(log: binlake.Log, name: str, moment: str, source: str) -> Rows:
    found = log.state(f"moved.{name}", moment, source).to_pylist()
    return sorted(tuple(map(str, row.values())) for row in found)


def renaming(rng: random.Random, names: list[str]) -> str:
    """A statement that moves one or two of the tables to other names."""
    free = [name for name in NAMES if name not in names]
    one, other = rng.sample(names, 2)
    if rng.random() < 0.3:
        return f"RENAME TABLE {one} TO x, {other} TO {one}, x TO {other}"
    if rng.random() < 0.3:
        return f"RENAME TABLE {one} TO {free[0]}, {other} TO {one}"
    if rng.random() < 0.5:
        return f"ALTER TABLE {one} RENAME TO {rng.choice(free)}"
    return f"rename /* by hand */ table {one} to {rng.choice(free)}"


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_state_is_that_of_the_table_that_had_the_name(server: Server, tmp_path: Path) -> None:
    rng = random.Random(server.name)
    with server.session() as session:
        session.execute("DROP DATABASE IF EXISTS moved", "CREATE DATABASE moved", "USE moved")
        for number, name in enumerate(NAMES[:3]):
            session.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, t INT)")
            session.execute(f"INSERT INTO {name} VALUES (1, 0, {number}), (2, 0, {number})")
        first = dumped(server, tmp_path)
        middle = ""
        moments: list[tuple[str, dict[str, Rows]]] = [(place(server), there(session))]
        for step in range(16):
            names = list(moments[-1][1])
            name = rng.choice(names)
            session.execute(
                renaming(rng, names)
                if step % 2
                else rng.choice(
                    (
                        f"UPDATE {name} SET v = v + 1",
                        f"INSERT INTO {name} SELECT MAX(id) + 1, {step}, MAX(t) FROM {name}",
                        f"UPDATE {name} SET id = id + 100 WHERE id = 1",
                    )
                )
            )
            moments.append((place(server), there(session)))
            if step == 7:
                middle = dumped(server, tmp_path)
    log = binlake.open(str(server.data / "binlog.index"))
    for number, (moment, tables) in enumerate(moments):
        sources = [first, *([middle] if number > 7 else []), url_of(server)]
        for source in sources:
            for name in NAMES:
                if name in tables:
                    assert state(log, name, moment, source) == tables[name], (number, name, source)
                else:
                    with pytest.raises(
                        BinlogError, match=r"does not exist at this moment|has no table"
                    ):
                        state(log, name, moment, source)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_statements_in_which_names_move_and_come_back(server: Server, tmp_path: Path) -> None:
    """A circle of one table, two tables that swap names, and three that pass theirs on."""
    moments: list[tuple[str, dict[str, Rows]]] = []
    with server.session() as session:
        session.execute("DROP DATABASE IF EXISTS moved", "CREATE DATABASE moved", "USE moved")
        for number, name in enumerate(("t", "a", "b")):
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {name} VALUES (1, {number}0), (2, {number}5)",
            )
        dump = dumped(server, tmp_path)
        for statement in (
            "RENAME TABLE t TO x, x TO t",
            "UPDATE t SET v = v + 1",
            "RENAME TABLE t TO x, x TO t, a TO tmp, b TO a, tmp TO b",
            "UPDATE a SET v = v + 1",
            "UPDATE b SET id = 3 WHERE id = 1",
            "ALTER TABLE t RENAME TO t",
            "RENAME TABLE t TO `x y`, `x y` TO moved.t",
            "DELETE FROM t WHERE id = 2",
            "RENAME TABLE a TO tmp, b TO a, t TO b, tmp TO t",
            "UPDATE t SET v = v + 1",
        ):
            session.execute(statement)
            moments.append((place(server), there(session)))
    log = binlake.open(str(server.data / "binlog.index"))
    for number, (moment, tables) in enumerate(moments):
        for source in (dump, url_of(server)):
            for name in ("t", "a", "b"):
                assert state(log, name, moment, source) == tables[name], (number, name, source)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_copy_takes_the_place_of_a_table(server: Server, tmp_path: Path) -> None:
    """pt-online-schema-change creates the table that gets the name after the dump."""
    moments: list[tuple[str, dict[str, Rows]]] = []
    with server.session() as session:
        session.execute("DROP DATABASE IF EXISTS moved", "CREATE DATABASE moved", "USE moved")
        session.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
        dump = dumped(server, tmp_path)
        for statement in (
            "CREATE TABLE _t_new (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 5)",
            "INSERT INTO _t_new (id) SELECT id FROM t",
            "UPDATE _t_new SET v = 6 WHERE id = 2",
            "RENAME TABLE t TO _t_old, _t_new TO t",
            "INSERT INTO t VALUES (3, 7)",
            "DROP TABLE _t_old",
            "ALTER TABLE t ADD INDEX (v)",
            "DELETE FROM t WHERE id = 1",
            "ALTER TABLE t CHANGE v w INT",
            "ALTER TABLE t ADD x INT, RENAME TO u",
        ):
            session.execute(statement)
            moments.append((place(server), there(session)))
    log = binlake.open(str(server.data / "binlog.index"))
    for number, (moment, tables) in enumerate(moments[:9]):
        assert state(log, "t", moment, dump) == tables["t"], number
    with pytest.raises(
        UnsupportedError, match=r"moved\.t, .* the statement renames the table and also changes it"
    ):
        state(log, "u", moments[9][0], dump)
    live = url_of(server)
    with pytest.raises(UnsupportedError) as caught:
        state(log, "t", moments[8][0], live)
    assert "cannot go back over 'ALTER TABLE t ADD x INT, RENAME TO u'" in caught.value.message
    with server.session("moved") as session:
        session.execute("DROP TABLE u", "CREATE TABLE t (id INT PRIMARY KEY)")
        session.execute("INSERT INTO t VALUES (8)", "CREATE TABLE other (id INT PRIMARY KEY)")
        later = place(server)
        session.execute("RENAME TABLE t TO away, other TO t", "INSERT INTO away VALUES (9)")
    assert state(log, "t", later, live) == [("8",)]
    assert state(log, "other", later, live) == []
    with pytest.raises(
        SourceError, match=r"away does not exist at this moment: .* renames moved\.t"
    ):
        state(log, "away", later, live)
    with pytest.raises(
        SourceError, match=r"has no table moved\.u: .* renames moved\.t to moved\.u"
    ):
        state(log, "t", moments[8][0], live)
    with server.session("moved") as session:
        session.execute("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        before = place(server)
        session.execute("ALTER TABLE t CHANGE v w INT")
    with pytest.raises(
        UnsupportedError, match="cannot go back over 'ALTER TABLE t CHANGE v w INT'"
    ):
        state(log, "t", before, live)


@pytest.mark.parametrize("server", ["mariadb-11.8"], indirect=True)
def test_a_table_that_may_not_have_existed_is_not_followed(tmp_path: Path, server: Server) -> None:
    """MariaDB also logs RENAME TABLE IF EXISTS if it renames nothing."""
    with server.session() as session:
        session.execute("DROP DATABASE IF EXISTS moved", "CREATE DATABASE moved", "USE moved")
        session.execute(
            "CREATE TABLE b (id INT PRIMARY KEY)",
            "INSERT INTO b VALUES (1)",
            "CREATE TABLE tmp (id INT PRIMARY KEY)",
            "INSERT INTO tmp VALUES (7)",
        )
        dump = dumped(server, tmp_path)
        before = place(server)
        session.execute("RENAME TABLE IF EXISTS a TO b")
        session.execute("RENAME TABLE IF EXISTS a TO tmp2, b TO a, tmp TO b")
        after = place(server)
    log, live = binlake.open(str(server.data / "binlog.index")), url_of(server)
    for name, moment, source in (("a", before, live), ("b", before, live), ("a", after, dump), ("b", after, dump)):  # fmt: skip
        with pytest.raises(UnsupportedError, match="not certain which table"):
            state(log, name, moment, source)
    with server.session("moved") as session:
        session.execute("RENAME TABLE IF EXISTS a TO away")
    assert state(log, "a", after, live) == [("1",)]


@pytest.mark.parametrize("server", ["mariadb-11.8"], indirect=True)
def test_rows_that_a_foreign_key_changes_are_not_lost(tmp_path: Path, server: Server) -> None:
    """The parent gets another name, or is the table itself."""
    with server.session() as session:
        session.execute("DROP DATABASE IF EXISTS moved", "CREATE DATABASE moved", "USE moved")
        session.execute(
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
            "CREATE TABLE self (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES self (id) ON DELETE CASCADE)",
            "INSERT INTO p VALUES (1)",
            "INSERT INTO c VALUES (1, 1)",
            "INSERT INTO self VALUES (1, NULL), (2, 1)",
        )
        dump = dumped(server, tmp_path)
        session.execute("RENAME TABLE p TO q", "DELETE FROM q", "DELETE FROM self WHERE id = 1")
        moment = place(server)
        assert not there(session)["c"]
        assert not there(session)["self"]
    log = binlake.open(str(server.data / "binlog.index"))
    for name in ("c", "self"):
        with pytest.raises(UnsupportedError, match="does not log"):
            state(log, name, moment, dump)
