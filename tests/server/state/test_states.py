"""`state` against real servers: a table at random moments, from a dump before and from the live table after.

Long: its tests share the servers, which one module starts once.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.cli.main import main
from dev.servers import Server, Session
from support.servers.live import url_of

pytestmark = pytest.mark.server

SERVERS = ("mysql-9.7", "mariadb-11.8")
TABLES = {
    "kept": "id INT PRIMARY KEY, state VARCHAR(20), total DECIMAL(8,2), note TEXT, at DATETIME(3)",
    "parts": "n INT, grp VARCHAR(10), state VARCHAR(20), total DECIMAL(8,2), note TEXT, at DATETIME(3),"
    " PRIMARY KEY (grp, n)",
    "codes": "code VARCHAR(10) NOT NULL UNIQUE, state VARCHAR(20), total DECIMAL(8,2), note TEXT, at DATETIME(3)",
    "bare": "state VARCHAR(20), total DECIMAL(8,2), note TEXT, at DATETIME(3)",
}
KEYS = {"kept": ("id",), "parts": ("grp", "n"), "codes": ("code",), "bare": ()}
TRANSACTIONS = 40
MOMENTS = 2
#: Seconds since 1970 of the first transaction: sessions of MariaDB choose those that it logs.
START = {"FULL": 1_790_000_000, "MINIMAL": 1_790_010_000}


@dataclass
class Moment:
    """What was there between two transactions."""

    position: str
    gtid: str
    time: str
    rows: dict[str, list[str]]


def dumped(server: Server, database: str, *options: str) -> bytes:
    """What the server's own tool dumps, with the place in the log."""
    place = "--source-data=2" if server.flavour == "mysql" else "--master-data=2"
    return server.dump(database, place, *options)


def rows_of(session: Session, table: str) -> list[str]:
    """The rows of a table as sorted JSON texts, all values as text."""
    names = [name for (name, *_) in session.rows(f"SHOW COLUMNS FROM {table}")]
    found = session.rows(f"SELECT * FROM {table}")
    return sorted(json.dumps(dict(zip(names, row, strict=True))) for row in found)


def as_texts(rows: list[dict[str, Any]]) -> list[str]:
    """The rows of a state in the form of `rows_of`."""
    return sorted(
        json.dumps({n: v if v is None else str(v) for n, v in row.items()}) for row in rows
    )


def a_key(rng: random.Random, table: str) -> dict[str, str]:
    """A key of few that there are, in random upper and lower case."""
    letter = rng.choice(("Ab", "aB", "cd", "CD ", "é"))
    number = str(rng.randint(1, 15))
    return {
        "kept": {"id": number},
        "parts": {"grp": f"'{letter}'", "n": str(rng.randint(1, 3))},
        "codes": {"code": f"'{letter}{number}'"},
        "bare": {},
    }[table]


def values(rng: random.Random, least: int = 0) -> dict[str, str]:
    made = {
        "state": rng.choice(("'new'", "'paid'", "NULL")),
        "total": str(rng.randint(0, 3)),
        "note": rng.choice(("NULL", "'é ☃'", "'it''s\\\\\\n\\0'", "''")),
        "at": f"'2026-11-2{rng.randint(0, 2)} 10:00:00.5'",
    }
    return {name: made[name] for name in rng.sample(list(made), least or rng.randint(1, 4))}


def set_to(columns: dict[str, str], separator: str = ", ") -> str:
    return separator.join(f"{name} = {value}" for name, value in columns.items())


def statement(rng: random.Random, table: str) -> str:
    """A statement that may change no row, some or many."""
    key = a_key(rng, table)
    where = set_to(key or {"total": str(rng.randint(0, 3))}, " AND ")
    kind = rng.random()
    if kind < 0.4:
        return f"REPLACE INTO {table} SET {set_to({**key, **values(rng, 4)})}"
    if kind < 0.75:
        return f"UPDATE {table} SET {set_to(values(rng))} WHERE {where}"
    if kind < 0.9 and key:
        return f"UPDATE IGNORE {table} SET {set_to(a_key(rng, table))} WHERE {where}"
    return f"DELETE FROM {table} WHERE {where} LIMIT 3"


def swap(session: Session) -> None:
    """Two rows change keys in one transaction."""
    session.execute(
        "BEGIN",
        "UPDATE kept SET id = 99 WHERE id = 1",
        "UPDATE kept SET id = 1 WHERE id = 2",
        "UPDATE kept SET id = 2 WHERE id = 99",
        "COMMIT",
    )


def run(
    server: Server, session: Session, rng: random.Random, images: str, tables: list[str]
) -> Iterator[Moment]:
    """Random transactions; yields some of the moments between them."""
    second = START[images]
    chosen = set(rng.sample(range(1, TRANSACTIONS - 1), MOMENTS))
    pending: Moment | None = None
    for number in range(TRANSACTIONS):
        second += 10
        if server.flavour == "mariadb":  # it logs whole seconds, those of the session
            session.execute(f"SET SESSION timestamp = {second}")
        session.execute("BEGIN", *(statement(rng, t) for t in tables for _ in range(3)))
        session.execute("INSERT INTO ticks VALUES ()", "COMMIT")
        if pending is not None:  # before this transaction
            pending.time = f"@{second}" if server.flavour == "mariadb" else commit_time(server)
            yield pending
            pending = None
        if number % 20 == 10:
            session.execute("FLUSH BINARY LOGS")
            swap(session)
        if number in chosen:
            file, offset = server.position()
            pending = Moment(
                f"{file}:{offset}", last_gtid(server), "", {t: rows_of(session, t) for t in tables}
            )


def commit_time(server: Server) -> str:
    """The commit time of the last transaction."""
    *_, last = binlake.open(str(server.log_files()[-1])).transactions()
    return f"@{last.commit_us / 1_000_000:.6f}"


def last_gtid(server: Server) -> str:
    *_, last = (
        t
        for file in server.log_files()[-2:]
        for t in binlake.open(str(file)).transactions()
        if t.gtid
    )
    return str(last.gtid)


def state(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    code = main(["state", *arguments])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return [json.loads(line) for line in printed.out.splitlines()]


@pytest.mark.parametrize("server", SERVERS, indirect=True)
@pytest.mark.parametrize("images", ["FULL", "MINIMAL"])
def test_a_state_is_the_table_at_its_moment(
    server: Server, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(images)
    database = f"states_{images.lower()}"
    tables = [name for name in TABLES if images == "FULL" or KEYS[name]]
    with server.session() as session:
        if server.flavour == "mariadb":
            session.execute(f"SET SESSION timestamp = {START[images]}")
        session.execute(f"CREATE DATABASE {database}", f"USE {database}")
        session.execute(f"SET SESSION binlog_row_image = {images}", "SET NAMES utf8mb4")
        session.execute("CREATE TABLE ticks (n INT AUTO_INCREMENT PRIMARY KEY)")
        for name in tables:
            session.execute(f"CREATE TABLE {name} ({TABLES[name]}) DEFAULT CHARSET utf8mb4")
            session.execute(*(statement(rng, name) for _ in range(30)))
        dump = tmp_path / "dump.sql"
        dump.write_bytes(dumped(server, database))
        moments = list(run(server, session, rng, images, tables))
    logs = [str(file) for file in server.log_files()]
    assert len(moments) == MOMENTS
    for moment in moments:
        for as_of in (moment.position, moment.gtid, moment.time):
            for name in tables:
                asked = (f"{database}.{name}", "--as-of", as_of)
                found = state(capsys, *asked, "--from", str(dump), *logs)
                assert as_texts(found) == moment.rows[name], (name, as_of, "from the dump")
                if images == "FULL":
                    found = state(capsys, *asked, "--from", url_of(server), *logs)
                    assert as_texts(found) == moment.rows[name], (name, as_of, "from the server")


TYPES = """CREATE TABLE types (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tiny TINYINT, med MEDIUMINT UNSIGNED, big BIGINT, bits BIT(13), yr YEAR, price DECIMAL(30,10),
  single FLOAT, dbl DOUBLE, d DATE, t TIME(3), dt DATETIME(6), ts TIMESTAMP(2) NULL,
  fixed CHAR(8), latin VARCHAR(40) CHARACTER SET latin1, txt MEDIUMTEXT, kind ENUM('new', 'it''s', 'é'),
  flags SET('a', 'b', 'c'), bin BINARY(6), vbin VARBINARY(40), blb BLOB, doc JSON, spot POINT,
  made INT AS (tiny + 1) VIRTUAL, kept INT AS (tiny + 2) STORED{more}
) DEFAULT CHARSET utf8mb4"""
MORE_TYPES = {"mysql": ", vec VECTOR(2)", "mariadb": ", uid UUID, ip INET6"}
SOME = (
    "(tiny, med, big, bits, yr, price, single, dbl, d, t, dt, ts, fixed, latin, txt, kind, flags, bin, vbin,"
    " blb, doc, spot) VALUES "
)
VALUES = (
    (
        "(-128, 16777215, -9223372036854775808, 0, 1901, -12345678901234567890.0123456789, 0.1, 1e300, '1000-01-01',"
        " '-838:59:59.000', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.99', 'ab  ', 'é€', 'it''s \\\\ \\n\\r\\0\\Z \"x\" ☃ 😀',"
        " 'it''s', 'a,c', 0x0001ff, 0x27005c0a1a0d22, REPEAT(0xff00, 20), '{\"a\": [1, 2.50, \"\\\\u00e9\\\\n\"], \"b\": null}',"
        " ST_GeomFromText('POINT(1.5 -2)'))"
    ),
    (
        "(127, 0, 9223372036854775807, 8191, 2155, 0, -3.4e38, -0.0, '0000-00-00', '838:59:59', '2026-00-00', NULL, '',"
        " '', '', '', '', '', '', '', '[]', NULL)"
    ),
    (
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
        " NULL, NULL, NULL, NULL)"
    ),
)
ALSO = {
    "mysql": "UPDATE types SET vec = STRING_TO_VECTOR('[1.5, -2]') WHERE id % 2",
    "mariadb": "UPDATE types SET uid = '123e4567-e89b-12d3-a456-426655440000', ip = '2001:db8::1' WHERE id % 2",
}


def shown_columns(session: Session) -> str:
    """The columns of a table for SELECT, those of bytes as hex digits."""
    hexed = ("bit", "blob", "binary", "point", "vector")
    return ", ".join(
        f"HEX({name})" if any(kind in (type_ or "") for kind in hexed) else str(name)
        for name, type_, *_ in session.rows("SHOW COLUMNS FROM types")
    )


@pytest.mark.parametrize("server", SERVERS, indirect=True)
@pytest.mark.parametrize("key", ["keyed", "bare"])
def test_values_of_all_types_come_back_as_they_were(
    server: Server, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state as SQL, run on the server, makes the same table as it was there at the moment."""
    database, copy = f"types_{key}", f"copy_{key}"
    create = TYPES.format(more=MORE_TYPES[server.flavour])
    if key == "bare":
        create = create.replace("NOT NULL AUTO_INCREMENT PRIMARY KEY", "")
    dumps = []
    with server.session() as session:
        session.execute(f"CREATE DATABASE {database}", f"CREATE DATABASE {copy}", f"USE {database}")
        session.execute("SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET sql_mode = ''")
        session.execute(
            create, f"INSERT INTO types {SOME}{', '.join(VALUES)}", ALSO[server.flavour]
        )
        for number, options in enumerate(
            (
                [],
                ["--hex-blob", "--complete-insert"],
                ["--skip-extended-insert", "--skip-quote-names"],
            )
        ):
            dumps.append(tmp_path / f"{number}.sql")
            dumps[-1].write_bytes(dumped(server, database, *options))
        session.execute(f"INSERT INTO types {SOME}{', '.join(VALUES)}")
        session.execute(
            "UPDATE types SET txt = 'é', price = 1.5 WHERE tiny = 127 LIMIT 1",
            "DELETE FROM types WHERE tiny IS NULL LIMIT 1",
        )
        shown = f"SELECT {shown_columns(session)} FROM types ORDER BY 1, 2, 3, price, txt"
        then = session.rows(shown)
        file, offset = server.position()
        session.execute(
            "UPDATE types SET blb = 'other', dbl = 1, d = NULL",
            "DELETE FROM types WHERE tiny = 127",
        )
        session.execute(f"USE {copy}", create)
        logs = [str(log) for log in server.log_files()]
        for source in (*map(str, dumps), url_of(server)):
            arguments = [f"{database}.types", "--as-of", f"{file}:{offset}", "--from", source]
            code = main(["state", *arguments, *logs, "--format", "sql"])
            script, problems = capsys.readouterr()
            assert code == 0, problems
            script = script.replace(f"`{database}`", f"`{copy}`")
            session.execute("TRUNCATE types")
            server.run_script(script.encode(), copy)
            assert session.rows(shown) == then, source
            printed = state(capsys, *arguments, *logs)
            assert len(printed) == len(then)
            assert "made" not in printed[0]


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
                    "the log does not contain the rows that it removed" in capsys.readouterr().err
                )
    logs = [str(log) for log in server.log_files()]
    for place, rows in places[:-2]:
        found = state(capsys, "altered.t", "--as-of", place, "--from", str(dump), *logs)
        assert as_texts(found) == rows, place
    for place, code, words in ((places[-2][0], 1, "column c changes from varchar(50) to int"),):
        assert main(["state", "altered.t", "--as-of", place, "--from", str(dump), *logs]) == code
        assert words in capsys.readouterr().err


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
        session.execute("CREATE DATABASE unnamed CHARACTER SET latin1", "USE unnamed")
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
            "CREATE DATABASE checked", "USE checked", "CREATE TABLE p (id INT PRIMARY KEY)"
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

        assert "does not contain its place" in refused(
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

        session.execute("DELETE FROM p WHERE id = 2")
        fourth = "{}:{}".format(*server.position())
        if server.flavour == "mariadb":
            why = refused("--as-of", fourth, "--from", str(half), *logs)
            assert "foreign key t_ibfk_1 may have changed rows" in why
        session.execute("SET SESSION binlog_format = STATEMENT", "UPDATE t SET name = 'x'")
        session.execute("SET SESSION binlog_format = ROW", "INSERT INTO p VALUES (7)")
        fifth = "{}:{}".format(*server.position())
        now = state(capsys, "checked.p", "--as-of", fifth, "--from", url_of(server), *logs)
        assert as_texts(now) == rows_of(session, "p")
        assert main(["state", "checked.p", "--as-of", third, "--from", url_of(server), *logs]) == 1
        assert "no row event shows: statement DML" in capsys.readouterr().err


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
