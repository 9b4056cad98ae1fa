"""`state` against real servers: a table at random moments, from a dump before and from the live table after."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from dev.servers import Server, Session
from support.servers.live import url_of
from support.servers.states import SERVERS, as_texts, dumped, rows_of, state

pytestmark = pytest.mark.server

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
class StateMoment:
    """The rows between two transactions."""

    position: str
    gtid: str
    time: str
    rows: dict[str, list[str]]


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
) -> Iterator[StateMoment]:
    """Random transactions; yields some of the moments between them."""
    second = START[images]
    chosen = set(rng.sample(range(1, TRANSACTIONS - 1), MOMENTS))
    pending: StateMoment | None = None
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
            pending = StateMoment(
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


def test_a_condition_compares_enums_with_the_collation_of_the_live_table(server: Server) -> None:
    options = "CHARSET utf8mb4 COLLATE utf8mb4_bin"
    server.execute(
        "CREATE DATABASE colours",
        f"CREATE TABLE colours.t (id INT PRIMARY KEY, c ENUM('red', 'Blue'), s SET('a', 'B')) {options}",
        "INSERT INTO colours.t VALUES (1, 'red', 'a'), (2, 'Blue', 'B')",
    )
    file, pos = server.position()
    server.execute("UPDATE colours.t SET c = 'red', s = 'a'", "FLUSH BINARY LOGS")
    log = binlake.open([str(path) for path in server.log_files()])
    for condition, ids in (("c = 'Blue'", [2]), ("c = 'blue'", []), ("s = 'B'", [2])):
        found = log.state("colours.t", f"{file}:{pos}", url_of(server), where=condition)
        assert found.column("id").to_pylist() == ids, condition
    server.execute("DROP DATABASE colours")
