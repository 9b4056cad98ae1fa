"""`--where` against a server's own WHERE, over the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import binlake
from binlake.core.rows.row_selection import RowSelection
from binlake.errors import OptionError, SourceError, UnsupportedError
from binlake.stream.runs import PlainRun
from binlake.table.where.finding import RowFinder
from dev.golden.types import Column, Table, families, literal
from dev.servers import Server, Session
from server.conditions import Conditions, kind_of

pytestmark = pytest.mark.server

SERVERS = ("mysql-9.7", "mariadb-11.8")
CONDITIONS_A_TABLE = 16
INTEGER_CONDITIONS = 40  # over integers only, which the core decides
SESSION = ("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'", "SET NAMES utf8mb4")
TEXTS = ("a", "A", "a ", " a", "b", "ab", "Ab_c", "a%", "zz", "Z", "", "é", "É", "e", "ß", "ss", "a\t", "~", "_", "[", "{", "9", "10")  # fmt: skip
COLLATIONS = {
    "mysql-9.7": (
        *("utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs"),
        *(
            "utf8mb4_0900_as_ci",
            "utf8mb4_general_ci",
            "utf8mb4_unicode_ci",
            "utf8mb4_unicode_520_ci",
        ),
        *("utf8mb3_general_ci", "utf8mb3_unicode_ci", "latin1_swedish_ci", "latin1_general_ci"),
        *("latin1_bin", "ascii_general_ci", "ascii_bin", "ucs2_general_ci", "utf16_unicode_ci"),
    ),
    "mariadb-11.8": (
        *("utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_general_ci", "utf8mb4_general_nopad_ci"),
        *("utf8mb4_unicode_ci", "utf8mb4_unicode_nopad_ci", "utf8mb4_unicode_520_ci"),
        *("utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_nopad_ai_ci"),
        *("utf8mb3_general_ci", "latin1_swedish_ci", "latin1_swedish_nopad_ci", "latin1_bin"),
        *("ascii_general_ci", "ascii_bin"),
    ),
}


def tables(server: Server) -> Iterator[Table]:
    """Tables of every type that conditions compare, and one with a column of each known collation."""
    for table in families(server):
        columns = tuple(column for column in table.columns if kind_of(column) != "other")
        if columns and table.name != "wide":
            yield Table(table.name, columns)
    edges = tuple(map(literal, TEXTS))
    named = COLLATIONS[server.name]
    yield Table(
        "collated",
        tuple(
            Column(f"c{i}", f"VARCHAR(20) CHARACTER SET {name.split('_')[0]} COLLATE {name}", edges)
            for i, name in enumerate(named)
        ),
    )


def filled(server: Server) -> dict[str, Table]:
    """The tables, made and filled, as the server holds them."""
    made = {}
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE w DEFAULT CHARSET utf8mb4"
    )
    with server.session("w") as session:
        session.execute(*SESSION)
        for table in tables(server):
            session.execute(table.create())
            session.execute(
                *(f"INSERT IGNORE INTO `{table.name}` VALUES {row}" for row in table.rows(99))
            )
            made[table.name] = table
    return made


def is_integer(column: Column) -> bool:
    """Whether it is a column of integers."""
    word = column.type.lower().split("(")[0].split()[0]
    return word.endswith("int") or word in ("year", "bit")


def values_of(session: Session, table: Table) -> dict[str, list[str]]:
    """The server's output for each column, without NULL."""
    shown = {}
    for column in table.columns:
        kind, name = kind_of(column), f"`{column.name}`"
        as_text = (
            f"HEX({name})"
            if kind == "bytes"
            else f"{name} + 0"
            if "bit" in column.type.lower()
            else name
        )
        rows = session.rows(f"SELECT {as_text} FROM `{table.name}` WHERE {name} IS NOT NULL")
        shown[column.name] = [text for (text,) in rows if text is not None and len(text) < 200]
    return shown


def chosen(files: Sequence[Path], table: str, condition: str) -> set[int]:
    """The keys of the inserts that binlake chooses."""
    log = binlake.open(
        [str(file) for file in files], where=condition, columns="id", threads=1, table=f"w.{table}"
    )
    return {row["id"] for batch in log.changes(f"w.{table}") for row in batch.to_pylist()}


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_conditions_select_the_same_rows_as_the_server(
    server: Server, figure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_core: list[int] = []  # rows that the core found
    find = RowFinder.find

    def noting(self: RowFinder, run: PlainRun) -> tuple[RowSelection, memoryview[int]] | None:
        found = find(self, run)
        by_core.append(0 if found is None else found[0].count)
        return found

    monkeypatch.setattr(RowFinder, "find", noting)
    rng, rng_of_integers = random.Random(7), random.Random(8)
    counts: Counter[str] = Counter()
    made = filled(server)
    files = server.log_files()
    differing = []
    with server.session("w") as session:
        session.execute(*SESSION)
        for table in made.values():
            values = values_of(session, table)
            every = Conditions(rng, table.columns, values)
            conditions = [every.any(rng.randint(0, 3)) for _ in range(CONDITIONS_A_TABLE)]
            if integers := [column for column in table.columns if is_integer(column)]:
                of_integers = Conditions(rng_of_integers, integers, values)
                conditions += [
                    of_integers.any(rng_of_integers.randint(0, 3))
                    for _ in range(INTEGER_CONDITIONS)
                ]
            for condition in conditions:
                try:
                    ours = chosen(files, table.name, condition)
                except (OptionError, UnsupportedError):
                    counts["refused"] += 1
                    continue
                except SourceError:
                    ours = set()  # none matches
                rows = session.rows(f"SELECT id FROM `{table.name}` WHERE {condition}")
                counts["compared"] += 1
                if ours != {int(key or 0) for (key,) in rows}:
                    differing.append((table.name, condition))
    figure("where", server=server.name, compared=counts["compared"], refused=counts["refused"], differing=len(differing))  # fmt: skip
    assert differing == []
    assert counts["compared"] > 100
    assert sum(by_core) > 100, "conditions over integers"


FLOATS = (
    "CREATE TABLE f (id INT PRIMARY KEY, plain FLOAT, fixed FLOAT(7,3), wide DOUBLE(20,5))",
    "INSERT INTO f VALUES (1, 0.1, 0.001, -0.00001), (2, 0.5, 0.5, 0.5), (3, 7, 7.001, 123456789012345.12), (4, NULL, NULL, NULL)",
)
FLOAT_CONDITIONS = ("{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} BETWEEN 0e0 AND {}", "{} IN ({}, 5e-1)")  # fmt: skip
FLOAT_VALUES = ("1e-1", "1e-3", "5e-1", "7.001e0", "7e0", "-1e-5", "123456789012345.12e0")


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_float_is_compared_as_the_server_does_or_the_condition_is_refused(server: Server) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE floats")
    refused = 0
    with server.session("floats") as session:
        session.execute(*SESSION, *FLOATS)
        files = [str(file) for file in server.log_files()]
        for column in ("plain", "fixed", "wide"):
            for form in FLOAT_CONDITIONS:
                for value in FLOAT_VALUES:
                    condition = form.format(column, value)
                    expected = {
                        int(k or 0) for (k,) in session.rows(f"SELECT id FROM f WHERE {condition}")
                    }
                    log = binlake.open(files, where=condition, table="floats.f")
                    try:
                        found = {row["id"] for row in log.to_pylist("floats.f")}
                    except UnsupportedError as error:
                        assert "FLOAT(M,D)" in str(error)
                        refused += 1
                        continue
                    except SourceError:
                        found = set()  # none matches
                    assert found == expected, condition
    assert 0 < refused < 40


BITS = (
    "b > 1e3", "b = 18446744073709551615e0", "b = -1e0", "b IN (1e3, -1e0)", "b BETWEEN 1e0 AND 1e30",
    "b > 1000", "b > 1000.5", "NOT b <= 1e3",
)  # fmt: skip


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_bit_64_is_a_double_with_the_sign_that_the_server_gives_it(server: Server) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE bits")
    with server.session("bits") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, b BIT(64))",
            "INSERT INTO t VALUES (1, NULL), (2, 0), (3, 1000), (4, 1001), (5, 9223372036854775808), (6, 18446744073709551615)",
        )
        files = [str(file) for file in server.log_files()]
        for condition in BITS:
            expected = {int(k or 0) for (k,) in session.rows(f"SELECT id FROM t WHERE {condition}")}
            found = binlake.open(files, where=condition, table="bits.t").to_pylist("bits.t")
            assert {row["id"] for row in found} == expected, condition


IMAGES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(10), total DECIMAL(6,2), doc {json})",
    "INSERT INTO orders VALUES (1, 'new', 1.50, '{{\"a\": {{\"b\": [5, \"x\"]}}}}'), (2, 'new', NULL, NULL), (3, 'paid', 9, '{{\"n\": null}}')",
    "UPDATE orders SET state = 'paid' WHERE id = 1",
    "UPDATE orders SET total = 2 WHERE id = 2",
    "DELETE FROM orders WHERE id = 3",
)
#: Conditions, and the operations and keys that they choose.
CHOICES = (
    ("id = 1", ["insert 1", "update 1"]),
    ("state = 'new'", ["insert 1", "insert 2", "update 1", "update 2"]),
    ("after.state = 'paid'", ["insert 3", "update 1"]),
    ("before.state = 'paid'", ["delete 3"]),
    ("before.state = 'new' AND after.state = 'paid'", ["update 1"]),
    ("changed(state)", ["update 1"]),
    ("changed(total) OR changed(state)", ["update 1", "update 2"]),
    ("before.total IS NULL AND after.total = 2", ["update 2"]),
    ("total = 1.5 AND changed(state)", ["update 1"]),
    ("doc->>'$.a.b[1]' = 'x'", ["insert 1", "update 1"]),
)
#: Of MySQL's JSON type only.
NUMBERS_OF_DOCUMENTS = (
    ("doc->'$.a.b[0]' = 5", ["insert 1", "update 1"]),
    ("JSON_EXTRACT(doc, '$.a.b[0]') IN (4, 5)", ["insert 1", "update 1"]),
)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_images_and_documents(server: Server) -> None:
    kind = "JSON" if server.flavour == "mysql" else "LONGTEXT CHARACTER SET utf8mb4"
    server.execute("SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE images")
    with server.session("images") as session:
        session.execute(*SESSION, *(statement.format(json=kind) for statement in IMAGES))
    files = [str(file) for file in server.log_files()]
    for condition, expected in CHOICES + (NUMBERS_OF_DOCUMENTS if kind == "JSON" else ()):
        log = binlake.open(files, where=condition, table="images.orders")
        found = {f"{row['_op']} {row['id']}" for row in log.to_pylist("images.orders")}
        assert sorted(found) == expected, condition
