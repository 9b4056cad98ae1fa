"""`state` of tables on which statements run between the dump and the moment: followed exactly, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from dev.servers import Server
from support.servers.live import url_of
from support.servers.states import SERVERS, as_texts, dumped, rows_of, state

pytestmark = pytest.mark.server


@pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
def test_statements_on_the_table_are_followed_or_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.session() as session:
        session.execute("CREATE DATABASE altered", "USE altered")
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10))")
        session.execute("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z')")
        dump = tmp_path / "dump.sql"
        dump.write_bytes(dumped(server, "altered"))
        places = []
        for statement in (
            "UPDATE t SET a = 5 WHERE id = 1",
            "CREATE INDEX b ON t (b)",
            "ALTER TABLE t ADD COLUMN c VARCHAR(5) NOT NULL DEFAULT 'web', ADD COLUMN e INT, DROP COLUMN a",
            "UPDATE t SET c = 'app' WHERE id = 2",
            "ALTER TABLE t RENAME COLUMN b TO bb, MODIFY c VARCHAR(50) NOT NULL DEFAULT 'web'",
            "UPDATE t SET bb = 'w' WHERE id = 2",
            "TRUNCATE t",
            "INSERT INTO t VALUES (7, 'q', 'r', 8)",
            "ALTER TABLE t MODIFY c INT",
            "DROP TABLE t",
        ):
            if statement.startswith("ALTER TABLE t MODIFY"):
                session.execute("UPDATE t SET c = 1")
            session.execute(statement)
            file, offset = server.position()
            there = [] if statement.startswith("DROP") else rows_of(session, "t")
            places.append((f"{file}:{offset}", there))
            if statement.startswith("INSERT"):
                back = url_of(server)
                asked = ["state", "altered.t", "--as-of", places[5][0], "--from", back]
                assert main([*asked, *map(str, server.log_files())]) == 1
                assert (
                    "the log does not contain the rows that the statement removed"
                    in capsys.readouterr().err
                )
    logs = [str(log) for log in server.log_files()]
    for place, rows in places[:-2]:
        found = state(capsys, "altered.t", "--as-of", place, "--from", str(dump), *logs)
        assert as_texts(found) == rows, place
    for place, code, words in ((places[-2][0], 1, "column c changes from varchar(50) to int"),):
        assert main(["state", "altered.t", "--as-of", place, "--from", str(dump), *logs]) == code
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_row_with_0_in_a_column_that_becomes_auto_increment(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server gives it another number, and logs no row. A row that was removed or changed before does not matter."""
    tables = ("changed", "inserted", "kept", "none", "part", "removed", "there")
    with server.session() as session:
        session.execute("CREATE DATABASE numbered", "USE numbered")
        for table in tables:
            key = "PRIMARY KEY (a, id)" if table == "part" else "PRIMARY KEY (id)"
            session.execute(
                f"CREATE TABLE {table} (id INT NOT NULL, a INT NOT NULL, {key}, KEY (id))",
                f"INSERT INTO {table} VALUES (5, 1), (6, 2), (7, 3)",
            )
        for table in ("changed", "kept", "part", "removed", "there"):
            session.execute(f"INSERT INTO {table} VALUES (0, 5)")
        dump = tmp_path / "dump.sql"
        dump.write_bytes(dumped(server, "numbered"))
        session.execute(
            "UPDATE changed SET id = 9 WHERE id = 0",
            "INSERT INTO inserted VALUES (0, 5)",
            "DELETE FROM removed WHERE id = 0",
            *(
                f"ALTER TABLE {table} MODIFY id INT NOT NULL AUTO_INCREMENT"
                for table in tables
                if table != "kept"
            ),
            "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
            "ALTER TABLE kept CHANGE id id INT NOT NULL AUTO_INCREMENT",
        )
        rows = {table: rows_of(session, table) for table in tables}
    file, offset = server.position()
    given = ["--as-of", f"{file}:{offset}", "--from", str(dump), *map(str, server.log_files())]
    for table in ("changed", "kept", "none", "removed"):
        assert as_texts(state(capsys, f"numbered.{table}", *given)) == rows[table], table
    for table in ("inserted", "part", "there"):
        assert main(["state", f"numbered.{table}", *given]) == 1
        said = flattened(capsys.readouterr().err)
        why = (
            "column id is AUTO_INCREMENT afterwards, and the server may replace 0 by another number"
        )
        assert f"binlake cannot follow 'ALTER TABLE {table} MODIFY id" in said
        assert why in said
        assert "use a dump made after this statement, or an earlier moment" in said


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_tables_that_come_and_go_after_the_dump(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.session() as session:
        session.execute("CREATE DATABASE lives", "USE lives")
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
        session.execute("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
        dump = tmp_path / "dump.sql"
        dump.write_bytes(dumped(server, "lives"))
        places: list[tuple[str, dict[str, list[str]]]] = []
        for statement in (
            "UPDATE t SET a = 2",
            "DROP TABLE t",
            "CREATE TABLE t (id INT PRIMARY KEY, label VARCHAR(9) CHARACTER SET utf8mb4, x FLOAT)",
            "INSERT INTO t VALUES (1, 'é', 1.5), (2, NULL, 2)",
            "UPDATE t SET id = 3 WHERE id = 2",
            "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7",
            "CREATE TABLE later (k VARCHAR(5) CHARACTER SET latin1 NOT NULL, v INT, UNIQUE (k))",
            "INSERT INTO later VALUES ('a', 1), ('b', 2)",
            "DELETE FROM later WHERE k = 'a'",
            "CREATE OR REPLACE TABLE later (v INT)"
            if server.flavour == "mariadb"
            else "TRUNCATE later",
            "RENAME TABLE later TO gone, u TO v",
            "RENAME TABLE gone TO u",
        ):
            session.execute(statement)
            file, offset = server.position()
            names = [str(name) for (name,) in session.rows("SHOW TABLES")]
            places.append((f"{file}:{offset}", {name: rows_of(session, name) for name in names}))
    given = ["--from", str(dump), *map(str, server.log_files())]
    missing = {"t": "dropped it", "later": "creates it later"}
    for number, (place, tables) in enumerate(places):
        for name in ("t", "later"):
            asked = ["state", f"lives.{name}", "--as-of", place]
            if name in tables:
                assert as_texts(state(capsys, *asked[1:], *given)) == tables[name], (place, name)
                continue
            assert main([*asked, *given]) == 2
            why = "renamed it to lives.gone" if number >= 10 else missing[name]
            assert f"does not exist at this moment: {why}" in flattened(capsys.readouterr().err)
    for name in ("u", "v"):
        asked = [f"lives.{name}", "--as-of", places[-1][0]]
        assert as_texts(state(capsys, *asked, *given)) == places[-1][1][name]
    assert main(["state", "lives.u", "--as-of", places[-2][0], *given]) == 2
    assert "renamed it to lives.v" in capsys.readouterr().err
    assert main(["state", "lives.never", "--as-of", places[-1][0], *given]) == 2
    assert "the dump has no table lives.never" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("server", "metadata"),
    [
        ("mysql-9.7", "MINIMAL"),
        ("mysql-9.7", "FULL"),
        ("mariadb-11.8", "NO_LOG"),
        ("mariadb-11.8", "MINIMAL"),
        ("mariadb-11.8", "FULL"),
    ],
    indirect=["server"],
)
def test_rows_of_the_log_tell_a_character_set_that_create_table_does_not_name(
    server: Server, metadata: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.session() as session:
        session.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
        session.execute(
            "DROP DATABASE IF EXISTS unnamed",
            "CREATE DATABASE unnamed CHARACTER SET latin1",
            "USE unnamed",
        )
        session.execute("CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
        dump = tmp_path / "dump.sql"
        dump.write_bytes(dumped(server, "unnamed"))
        places: list[tuple[str, list[str]]] = []
        for statement in (
            "CREATE TABLE words (word VARCHAR(20) PRIMARY KEY, note TEXT, n INT)",
            "INSERT INTO words VALUES ('é', 'Müller', 1), ('b', NULL, 2)",
            "UPDATE words SET note = 'ÿ' WHERE word = 'é'",
            "ALTER TABLE words ADD COLUMN greek VARCHAR(5) CHARACTER SET utf8mb4",
            "UPDATE words SET greek = 'λ', note = NULL WHERE word = 'é'",
        ):
            session.execute(statement)
            file, offset = server.position()
            places.append((f"{file}:{offset}", rows_of(session, "words")))
    logs = server.log_files()[-1:]
    given = ["--from", str(dump), *map(str, logs)]
    for number, (place, rows) in enumerate(places):
        asked = ["unnamed.words", "--as-of", place, *given]
        if metadata != "NO_LOG" or number == 0:
            assert as_texts(state(capsys, *asked)) == rows, place
            continue
        assert main(["state", *asked]) == 1
        assert "neither CREATE TABLE nor the rows events of the log name" in capsys.readouterr().err


def flattened(message: str) -> str:
    """A message without the place of a statement."""
    return re.sub(r"(moment: )\S+:\d+ ", r"\1", message)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_state_has_every_row_or_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, place = tmp_path / "dump.sql", tmp_path / "place.sql"
    half = tmp_path / "half.parquet"

    def refused(*arguments: str) -> str:
        assert main(["state", "checked.t", *arguments]) in (1, 2)
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err
        return printed.err

    with server.session() as session:
        session.execute(
            "CREATE DATABASE checked",
            "USE checked",
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE beats (id INT PRIMARY KEY, value BIGINT)",
        )
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, pid INT, name VARCHAR(20) COLLATE utf8mb4_general_ci,"
            " FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE) DEFAULT CHARSET utf8mb4"
        )
        session.execute(
            "INSERT INTO p VALUES (1), (2)", "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')"
        )
        dump.write_bytes(dumped(server, "checked"))
        place.write_bytes(
            server.dump(
                "checked", *(["--set-gtid-purged=OFF"] if server.flavour == "mysql" else [])
            )
        )
        session.execute("UPDATE t SET name = 'z' WHERE id = 1")
        first = "{}:{}".format(*server.position())
        session.execute("FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 1, 'c')")
        second = "{}:{}".format(*server.position())
        logs = [str(log) for log in server.log_files()]
        asked = ("--as-of", second, "--from", str(dump))
        expected = rows_of(session, "t")

        assert as_texts(state(capsys, "checked.t", *asked, *logs)) == expected
        [found] = state(capsys, "checked.t", *asked, *logs, "--where", "name = 'Z'")
        assert found["id"] == 1
        table = binlake.open(logs).state("checked.t", second, str(dump), where="id > 1")
        assert sorted(table["name"].to_pylist()) == ["b", "c"]
        live = binlake.open(logs).state("checked.t", first, url_of(server))
        assert sorted(live["name"].to_pylist()) == ["b", "z"]
        written = ["--format", "parquet", "--output", str(half)]
        assert (
            main(["state", "checked.t", "--as-of", first, "--from", str(dump), *written, *logs])
            == 0
        )
        again = state(capsys, "checked.t", "--as-of", second, "--from", str(half), *logs)
        assert as_texts(again) == expected

        assert "does not contain its position" in refused(
            "--as-of", second, "--from", str(place), *logs
        )
        assert "was taken after" in refused("--as-of", "2020-01-01", "--from", str(dump), *logs)
        assert "in the future" in refused("--as-of", "2100-01-01", "--from", str(dump), *logs)
        assert "do not contain this file" in refused(*asked, logs[0])
        assert "give" in refused(*asked, logs[-1])
        assert "do not contain this file" in refused(
            "--as-of", first, "--from", url_of(server), logs[0]
        )
        assert "begin with" in refused("--as-of", "-1h", "--from", url_of(server), logs[-1])

        session.execute("SET SESSION sql_log_bin = 0", "UPDATE t SET name = 'hidden' WHERE id = 1")
        session.execute("SET SESSION sql_log_bin = 1", "UPDATE t SET name = 'seen' WHERE id = 1")
        third = "{}:{}".format(*server.position())
        asked = ("--as-of", third, "--from", str(dump))
        assert "id = 1 changed without being logged" in refused(*asked, *logs)
        assert main(["state", "checked.t", *asked, *logs, "--force"]) == 1
        assert '"seen"' in capsys.readouterr().out

        parents = rows_of(session, "p")
        session.execute("DELETE FROM p WHERE id = 2")
        fourth = "{}:{}".format(*server.position())
        if server.flavour == "mariadb":
            why = refused("--as-of", fourth, "--from", str(half), *logs)
            assert "foreign key t_ibfk_1 may have changed rows" in why
        session.execute("SET SESSION binlog_format = STATEMENT")
        # pt-heartbeat and the agent of Amazon RDS write statements, whatever the server's format is
        session.execute(
            "INSERT INTO beats (id, value) VALUES (1, 1) ON DUPLICATE KEY UPDATE value = 1"
        )
        session.execute("SET SESSION binlog_format = ROW", "INSERT INTO p VALUES (7)")
        fifth = "{}:{}".format(*server.position())
        now = state(capsys, "checked.p", "--as-of", fifth, "--from", url_of(server), *logs)
        assert as_texts(now) == rows_of(session, "p")
        then = state(capsys, "checked.p", "--as-of", third, "--from", url_of(server), *logs)
        assert as_texts(then) == parents
        session.execute("SET SESSION binlog_format = STATEMENT", "UPDATE t SET name = 'x'")
        why = refused("--as-of", fifth, "--from", url_of(server), *logs)
        assert "rows cannot show: statement DML (file " in why
        file, _, offset = fifth.partition(":")
        # MariaDB may write a BINLOG_CHECKPOINT event at any time
        events = session.rows(f"SHOW BINLOG EVENTS IN '{file}' FROM {offset} LIMIT 2")
        at = next(pos for _, pos, kind, *_ in events if kind != "Binlog_checkpoint")
        assert f"event at {at})" in why
        assert "binlog_format=ROW" in why
        assert "on_unshown" not in why


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_transactions_of_two_phases_count_where_they_are_decided(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.session() as session, server.session() as other:
        session.execute("CREATE DATABASE phases", "USE phases")
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        session.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        other.execute("USE phases")
        dump = tmp_path / "dump.sql"
        dump.write_bytes(dumped(server, "phases"))
        places = []
        for statements in (
            ("XA START 'a'", "UPDATE t SET a = 9 WHERE id = 1", "INSERT INTO t VALUES (4, 4)", "XA END 'a'", "XA PREPARE 'a'"),
            ("UPDATE t SET a = 20 WHERE id = 2",),
            ("XA COMMIT 'a'",),
            ("XA START 'b'", "DELETE FROM t WHERE id = 3", "XA END 'b'", "XA PREPARE 'b'"),
            ("XA ROLLBACK 'b'",),
            ("XA START 'c'", "UPDATE t SET a = a + 1", "XA END 'c'", "XA COMMIT 'c' ONE PHASE"),
            ("BEGIN", "UPDATE t SET a = 99", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s", "COMMIT"),
        ):  # fmt: skip
            (other if len(statements) == 1 and "XA" not in statements[0] else session).execute(
                *statements
            )
            file, offset = server.position()
            places.append((f"{file}:{offset}", rows_of(other, "t")))
    logs = [str(log) for log in server.log_files()]
    for place, rows in places:
        for origin in (str(dump), url_of(server)):
            found = state(capsys, "phases.t", "--as-of", place, "--from", origin, *logs)
            assert as_texts(found) == rows, (place, origin)
