"""Mirrors of servers whose databases, tables and columns have hostile names: each table is mirrored and equal, or
quarantined by itself, and nothing is written outside of the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.values.table_names import full_name_of
from dev.servers import RefusedError, Server
from support.spark.mirrored import Lake, gone, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

#: Names of directories, although some look otherwise.
FINE = (
    "plain", "a.b", ".a", "..a", "a.", " x", "a b", "CON", "`x`", "it's", '"q"', "a;b", "-- x", "$t", "a-b", "a,b",
    "a=b", "a+b", "a&b", "~x", "<x>", "@at", "É", "é", "日本", "metadata", "data", "_x", "v1.metadata.json",
    "version-hint.text", "x" * 64, "é" * 64,
)  # fmt: skip
HOSTILE = (
    "../../x", "a/b", "a\\b", "..", ".", "%2e%2e", "a\nb", "a\tb", "a*b", "a?b", "{x}", "[x]", "a:b", "a#b",
    "a\u202eb",
)  # fmt: skip
DATABASES = (" d", "a", "é", "CON", "it's", "metadata", "é" * 64)
#: `a.b` with the table `c` has the same joined name as `a` with the table `b.c`.
HOSTILE_DATABASES = (
    "../../y",
    "a.b",
    "..",
    "a/b",
    "%2e%2e",
    "d\ne",
    ".hidden",
    "_binlake",
    "_BINLAKE2",
    "mirror.lock",
    "mirror.staging",
    "pulse.json",
)
COLUMNS = (
    "a.b", "a", " x", "É", "it's", '"q"', "`x`", "a\nb", "a\tb", "a\u202eb", "../../x", "%2e%2e", "CON",
    "valid_from", "_valid_from", "op", "_op", "_source", "gone", "number", "k0", "c0", "s", "t", "element", "a,b", "a;b",
    "-- x", "/*x*/", "a=b", "日本", "#", "\\", "?", "(", "_file_", "binlake.offset", "__binlake_0", "x" * 64, "表" * 64,
    "${x}", "a${x}b", "${env:HOME}",
)  # fmt: skip
#: Each with a column that a format reserves.
RESERVED = {
    "iceberg": ("_file", "_POS", "_row_id", "_Change_Type"),
    "delta": (
        "_Metadata",
        "_row_dropped_",
        "__delta_internal_row_index",
        "deletionVectorId",
        "_TMP_metadata_row_index",
    ),
}
#: Names that some servers tell apart, and that are equal to Spark and other readers.
SAME_NAMES = (
    ("É", "é"),
    ("Ꭰ", "ꭰ"),
    ("ẞ", "ß"),
    ("İ", "i\u0307"),
    ("ſ", "s"),
    ("ı", "i"),
    ("µ", "μ"),
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Names:
    """The tables of a server, by their quoted names in SQL."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.made: dict[tuple[str, str], str] = {}
        self.databases: set[str] = set()

    def add(self, database: str, table: str, columns: Iterable[str] = ("v INT",)) -> bool:
        """Make a table with two rows, unless the server refuses its name or those of its columns."""
        name = f"{quoted(database)}.{quoted(table)}"
        try:
            self.server.execute(
                f"CREATE DATABASE IF NOT EXISTS {quoted(database)}",
                f"CREATE TABLE {name} (id INT PRIMARY KEY, {', '.join(columns)})",
                f"INSERT INTO {name} (id) VALUES (1), (2)",
            )
        except RefusedError:
            return False
        self.made[database, table] = name
        self.databases.add(database)
        return True

    def change(self) -> None:
        """Insert, update and delete a row in each table."""
        self.server.execute(
            *(
                statement
                for name in self.made.values()
                for statement in (
                    f"INSERT INTO {name} (id) VALUES (3)",
                    f"UPDATE {name} SET id = 4 WHERE id = 1",
                    f"DELETE FROM {name} WHERE id = 2",
                )
            )
        )

    def remove(self) -> None:
        for database in self.databases:
            self.server.execute(f"DROP DATABASE {quoted(database)}")


@pytest.fixture
def names(server: Server) -> Iterator[Names]:
    made = Names(server)
    yield made
    made.remove()


def outside(lake: Path) -> set[Path]:
    """The files around a lake."""
    around = lake.parent.parent.parent
    return {path for path in around.rglob("*") if lake not in (path, *path.parents)}


def check(lake: Lake, names: Names, refused: set[str]) -> None:
    """Each table equals its source and can be read, or is quarantined with a reason in one line."""
    found = quarantined(lake)
    assert {name: why for name, why in found.items() if name not in refused} == {}
    assert found.keys() == refused
    for name, reason in found.items():
        assert reason.isprintable(), name
        assert "Exception" not in reason, reason
    shown = states(lake)
    mirrored = {full_name_of(*name) for name in names.made} - refused
    assert {name: state for name, state in shown.items() if name not in refused} == dict.fromkeys(
        mirrored, "equal"
    )
    assert {name: lake.table(name).num_rows for name in mirrored} == dict.fromkeys(mirrored, 2)


def test_names_of_databases_and_tables(
    names: Names, server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "one" / "two" / "lake"
    folder.mkdir(parents=True)
    around = outside(folder)
    refused = {full_name_of("hostile", n) for n in HOSTILE if names.add("hostile", n)}
    refused |= {full_name_of(n, "c") for n in HOSTILE_DATABASES if names.add(n, "c")}
    assert {"`a.b`.c", "hostile.../../x", "`../../y`.c"} <= refused
    for name in FINE:
        assert names.add("hostile", name), name
    for name in DATABASES:
        assert names.add(name, "b.c"), name
    assert names.add("`a", "b`.c")  # bare, its text would be that of `a.b`.c
    left_out = [("hostile", "left"), ("hostile", "out"), ("out.side", "c")]
    for database, table in left_out:
        assert names.add(database, table), table
    excluded = ("hostile.left,hostile.out", "`out.side`.*")
    lake = Lake(iceberg_spark, folder, server, tables=("*.*",), exclude_tables=excluded)
    lake.catch_up()
    names.change()
    lake.catch_up()
    for pair in left_out:
        del names.made[pair]
    check(lake, names, refused)
    # a table that goes takes no other with it
    server.execute("DROP TABLE `hostile`.`a,b`", f"DROP TABLE {names.made['hostile', '../../x']}")
    del names.made["hostile", "a,b"]
    lake.catch_up()
    assert gone(lake).keys() == {"hostile.a,b"}
    assert states(lake).keys() == {full_name_of(*name) for name in names.made}
    assert outside(folder) == around


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11")
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_names_of_columns(
    names: Names, server: Server, iceberg_spark: Any, tmp_path: Path, table_format: str
) -> None:
    names.add("columns", "kept")
    assert names.add("columns", "many", [f"{quoted(name)} INT" for name in COLUMNS])
    names.made["columns", "keyed"] = "columns.keyed"
    server.execute(
        "CREATE TABLE columns.keyed (id INT, ` a.b` VARCHAR(9) DEFAULT 'x', PRIMARY KEY (id, ` a.b`))",
        "INSERT INTO columns.keyed (id) VALUES (1), (2)",
    )
    for name in RESERVED[table_format]:
        assert names.add("columns", f"has{name}", [f"{quoted(name)} INT"])
    refused = {f"columns.has{name}" for name in RESERVED[table_format]}
    for at, pair in enumerate(SAME_NAMES):
        if names.add("columns", f"same{at}", [f"{quoted(name)} INT" for name in pair]):
            refused.add(f"columns.same{at}")
    assert len(refused) > len(RESERVED[table_format])
    assert names.add("columns", "vectors", ["v VECTOR(3)", "`V.element` INT"])
    if table_format == "iceberg":
        refused.add("columns.vectors")
    lake = Lake(iceberg_spark, tmp_path, server, tables=("columns.*",), format=table_format)
    lake.catch_up()
    names.change()
    lake.catch_up()
    check(lake, names, refused)
    assert all(
        "cannot distinguish the columns" in why
        for name, why in quarantined(lake).items()
        if "same" in name
    )
    server.execute(
        "ALTER TABLE columns.many ADD `n.m` INT NULL AFTER `a.b`, DROP `../../x`, MODIFY ` x` BIGINT FIRST",
        "ALTER TABLE columns.many CHANGE `a.b` `a.c` BIGINT, CHANGE `it's` `it``s\nx` INT",
        "ALTER TABLE columns.many CHANGE `CON` `con` INT, CHANGE `日本` `s.é` INT",
        "INSERT INTO columns.many (id, `n.m`, `a.c`, ` x`, `con`) VALUES (9, 9, 1 << 40, 1 << 40, 5)",
        "DELETE FROM columns.many WHERE id = 3",
        f"ALTER TABLE columns.kept ADD {quoted(RESERVED[table_format][0])} INT NULL",
    )
    lake.catch_up()
    check(lake, names, {*refused, "columns.kept"})
    assert {"n.m", "a.c", "it`s\nx", "con", "s.é"} <= {*lake.table("columns.many").column_names}


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7", "mariadb-10.11")
def test_names_of_delta_tables(
    names: Names, server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """More names are refused: those of directories that are safe in all file systems and readers stay."""
    folder = tmp_path / "one" / "two" / "lake"
    folder.mkdir(parents=True)
    around = outside(folder)
    hostile = ("../../x", "a.b", "..", "%2e%2e", "a\nb", "a:b", "_x", " x", "`x`", "a,b", "a=b")
    refused = {full_name_of("hostile", n) for n in hostile if names.add("hostile", n)}
    names.add("a.b", "c")
    refused.add("`a.b`.c")
    for database, name in (("hostile", "CON"), ("hostile", "a b"), ("é" * 64, "é" * 64)):
        assert names.add(database, name)
    lake = Lake(iceberg_spark, folder, server, tables=("*.*",), format="delta")
    lake.catch_up()
    names.change()
    lake.catch_up()
    check(lake, names, refused)
    assert outside(folder) == around
