"""Histories of rows in the demo logs: what a search of all row changes finds, in another form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlake
from binlake.cli.main import main
from binlake.errors import MissingContextError, OptionError, UnsupportedError
from binlake.source.resolve import resolve
from binlake.table.row_history.entries import NOT_LOGGED, RowChange
from binlake.table.row_history.history import HistoryReader, history_options
from binlake.table.row_history.keys import RowKey
from binlake.table.row_history.lives import KeyChange, keys_of_others, lives_of, other_keys
from binlake.table.schema.declared import DeclaredSchema
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import QUERY, TABLE_MAP, query_body
from support.logs.table_log import ALL, UPDATE, Log, image, rows_body, table_map

DEMO = Path(__file__).parents[3] / "demo"
LOGS = DEMO / "mysql-9.7"


def rows_of(table: str, logs: Path = LOGS) -> Iterator[dict[str, Any]]:
    """All row changes of a table, images as objects."""
    log = binlake.open(str(logs), table=table, query=True, thread_id=True)
    for batch in log.changes():
        for row in batch.to_pylist():
            images = {side: json.loads(row[side] or "null") for side in ("before", "after")}
            yield {**row, **images}


@pytest.mark.parametrize("logs", ["mysql-9.7", "mariadb-11.8"])
def test_a_history_has_all_changes_of_the_row(logs: str) -> None:
    by_key: dict[int, list[dict[str, Any]]] = {}
    for row in rows_of("shop.orders", DEMO / logs):
        by_key.setdefault((row["after"] or row["before"])["id"], []).append(row)
    log = binlake.open(str(DEMO / logs))
    keys = sorted(by_key, key=lambda key: -len(by_key[key]))[:3]
    for key in keys:
        found = log.history("shop.orders", key).changes
        expected = by_key[key]
        assert [(c.op, c.file, c.pos, c.row) for c in found] == [
            (row["op"], row["file"], row["pos"], row["row"]) for row in expected
        ]
        for change, row in zip(found, expected, strict=True):
            assert (change.before, change.after) == (row["before"], row["after"])
            assert (change.ts, change.gtid, change.server_id) == (row["ts"], row["gtid"], row["server_id"])  # fmt: skip
            assert (change.query, change.thread_id) == (row["query"], row["thread_id"])


@pytest.mark.parametrize("how", [{"threads": 1, "batch_bytes": 4096}, {"threads": 3}])
def test_threads_and_batches_make_no_difference(how: dict[str, Any]) -> None:
    expected = list(binlake.open(str(LOGS)).history("shop.orders", 2).to_json())
    assert list(binlake.open(str(LOGS), **how).history("shop.orders", 2).to_json()) == expected
    assert len(expected) > 2


def test_the_memory_for_changes_is_limited() -> None:
    """A payload of a few kB may contain millions of changes of one row."""
    options = history_options(ReadOptions(), "shop.orders")
    [chain] = resolve([str(LOGS)])
    reader = HistoryReader(
        chain, options, DeclaredSchema(()), Ledger(), RowKey((2,)), change_bytes=100 << 20
    )
    with pytest.raises(UnsupportedError, match="more than 2 changes together") as raised:
        reader.read()
    assert "max_memory" in str(raised.value.hint)


def test_only_columns_with_another_value_are_shown() -> None:
    changes = binlake.open(str(LOGS)).history("shop.orders", 2).changes
    assert [change.number for change in changes] == list(range(1, len(changes) + 1))
    insert, *updates, delete = changes
    assert all(change.old is NOT_LOGGED for change in insert.changed.values())
    assert all(change.new is NOT_LOGGED for change in delete.changed.values())
    for update in updates:
        assert update.before is not None
        assert update.after is not None
        assert update.changed
        for name in update.before.keys() & update.after.keys():
            assert (update.before[name] != update.after[name]) == (name in update.changed)


def test_only_the_rows_of_the_key_are_decoded_whole() -> None:
    log = binlake.open(str(LOGS), table="shop.orders")
    list(log.changes())
    everything = log.ledger.decoded_bytes
    log.history("shop.orders", 45)
    assert log.ledger.decoded_bytes < everything / 4


def test_columns_can_be_named() -> None:
    log = binlake.open(str(LOGS))
    by_position = list(log.history("shop.orders", "45").to_json())
    assert list(log.history("shop.orders", ID=45).to_json()) == by_position
    assert by_position


def test_filters_limit_the_transactions() -> None:
    log = binlake.open(str(LOGS))
    first, second, *_ = log.history("shop.orders", 2).changes
    later = binlake.open(str(LOGS), exclude_gtid=first.gtid).history("shop.orders", 2)
    assert later.changes[0].pos == second.pos


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("x",), "key column id is bigint unsigned, not 'x'"),
        ((1, 2), r"the primary key is \(id\), but 2 values given: '1', '2'"),
        ((), "expected the values of the primary key"),
        (("nan",), "expected a number"),
    ],
)
def test_a_key_that_the_table_does_not_have_is_refused(key: tuple[Any, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        binlake.open(str(LOGS)).history("shop.orders", *key)


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match="has no column 'iid'") as raised:
        binlake.open(str(LOGS)).history("shop.orders", iid=1)
    assert "did you mean id?" in str(raised.value)


@pytest.mark.parametrize(("option", "value"), [("where", "id = 1"), ("op", "insert"), ("columns", "id")])  # fmt: skip
def test_options_that_hide_changes_are_refused(option: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option {option} cannot be combined with a history"):
        binlake.open(str(LOGS), **{option: value}).history("shop.orders", 1)


def test_a_pattern_is_no_table() -> None:
    with pytest.raises(OptionError, match="a history covers one table"):
        binlake.open(str(LOGS)).history("shop.*", 1)


def test_logs_of_several_servers_are_refused() -> None:
    with pytest.raises(OptionError, match="the input has the logs of 2 sources"):
        binlake.open([str(LOGS), str(DEMO / "mariadb-11.8")]).history("shop.orders", 1)


def test_a_log_without_the_key_asks_for_it() -> None:
    golden = Path(__file__).parents[2] / "golden"
    logs = sorted((golden / "mysql-5.6.24").rglob("*.000001")) + sorted(
        (golden / "mysql-5.6.24").rglob("*.000002")
    )
    for log in logs:
        tables = binlake.open(str(log)).tables()
        for table in tables:
            try:
                binlake.open(str(log)).history(table, 1)
            except MissingContextError as error:
                assert "no primary key" in str(error)
                assert "--key COLUMN=VALUE" in str(error)
                return
            except OptionError:
                continue
    pytest.fail("every table has a key")


# -- which row has which key -----------------------------------------------------------------------


@st.composite
def changes_of_rows(draw: st.DrawFn) -> list[tuple[str | None, str | None, int]]:
    """Key before, key after, and the row of random changes, as a server with a primary key makes
    them.
    """
    alive: dict[str, int] = {}
    made = 0
    changes: list[tuple[str | None, str | None, int]] = []
    for _ in range(draw(st.integers(1, 25))):
        key, new = draw(st.sampled_from("abcd")), draw(st.sampled_from("abcd"))
        if key not in alive:
            made += 1
            alive[key] = made
            changes.append((None, key, made))
        elif draw(st.booleans()):
            if new == key or new not in alive:
                row = alive.pop(key)
                alive[new] = row
                changes.append((key, new, row))
        else:
            changes.append((key, None, alive.pop(key)))
    return changes


@given(changes_of_rows(), st.integers(0, 10))
def test_rows_are_followed_through_their_keys(
    changes: list[tuple[str | None, str | None, int]], first: int
) -> None:
    """Also if the log begins in the middle."""
    logged = changes[first:]
    keys = [KeyChange(before, after, before == "a", after == "a") for before, after, _ in logged]
    wanted = {row for before, after, row in logged if "a" in (before, after)}
    moves = [k for k in keys if k.had or k.has or (k.before and k.after and k.before != k.after)]
    followed = other_keys(moves) | {"a"}
    read = [
        (one, row)
        for one, (_, _, row) in zip(keys, logged, strict=True)
        if {one.before, one.after} & followed
    ]
    lives = lives_of([one for one, _ in read])
    found = [row for (_, row), life in zip(read, lives, strict=True) if life]
    assert found == [row for _, _, row in logged if row in wanted]
    numbers = {row: life for (_, row), life in zip(read, lives, strict=True) if life}
    assert sorted(numbers.values()) == list(range(1, len(wanted) + 1))


def test_changes_of_keys_of_many_rows_lead_to_few_keys() -> None:
    shifts = [KeyChange(str(i), str(i + 1), i == 5, i + 1 == 5) for i in range(999, 0, -1)]
    assert other_keys(shifts) == {"4", "6"}


def test_entries_have_the_documented_keys() -> None:
    history = binlake.open(str(LOGS)).history("shop.orders", 2)
    changes = [entry for entry in history if isinstance(entry, RowChange)]
    assert set(changes[0].to_json("shop", "orders")) == {
        "op", "database", "table", "ts", "gtid", "server_id", "file", "pos", "end_pos", "row",
        "thread_id", "query", "number", "life", "key", "new_key", "changed", "absent",
    }  # fmt: skip


def test_keys_that_other_rows_have_now() -> None:
    """Row 5 became row 7, and another row is 5 now."""
    changes = [
        KeyChange(None, "5", False, False),
        KeyChange("5", "7", False, True),
        KeyChange(None, "5", False, False),
    ]
    lives = lives_of(changes)
    assert lives == [1, 1, 0]
    assert keys_of_others(changes, lives) == {"5"}


# -- statements that give the name of the table away -----------------------------------------------


def rows_around(folder: Path, *between: str | int) -> tuple[list[int], list[str]]:
    """The numbers of the rows of an insert into shop.t, row changes in between and a last update, all with the key 5,
    and the warnings. An item of `between` is a statement, or the value of an update of shop.t.
    """
    log = Log()
    log.insert((5, "0", None))
    last = "0"
    for item in (*between, 99):
        if isinstance(item, str):
            log.add(QUERY, query_body(item.encode()))
            continue
        images = [image((5, value, None)) for value in (last, str(item))]
        log.commit((TABLE_MAP, table_map()), (UPDATE, rows_body(*images, bitmaps=(ALL, ALL))))
        last = str(item)
    read = binlake.open(str(log.save(folder)))
    history = read.history("shop.t", id=5)
    return [change.life for change in history.changes], read.ledger.warnings


SAME = (
    "ALTER TABLE t RENAME TO T",
    "ALTER TABLE t RENAME TO shop.`T`, COMMENT = 1",
    "RENAME TABLE T TO x, x TO t",
    "RENAME TABLE t TO x, x TO t",
    "RENAME TABLE IF EXISTS nowhere TO t",
    "ALTER TABLE IF EXISTS nowhere RENAME t",
    "RENAME TABLE IF EXISTS nowhere TO x, x TO t",
    "DROP TEMPORARY TABLE t",
    "CREATE OR REPLACE TEMPORARY TABLE t (id INT)",
    "ALTER TABLE t COMMENT 'x', RENAME COLUMN a TO x",
    "ALTER TABLE t COMMENT 'EXCHANGE PARTITION'",
    "ALTER TABLE t DROP PARTITION p0",
    "ALTER TABLE t TRUNCATE PARTITION p0",
    "CREATE OR REPLACE INDEX a ON t (a)",
    "CREATE OR REPLACE UNIQUE INDEX IF NOT EXISTS t USING BTREE ON t (a)",
)
NOT_ABOUT_IT = (
    "RENAME TABLE a TO x, X TO b",
    "ALTER TABLE other EXCHANGE PARTITION p0 WITH TABLE p",
    "CREATE OR REPLACE PROCEDURE p() DELETE FROM t",
    "CREATE OR REPLACE FUNCTION f() RETURNS INT /* of t */ RETURN (SELECT COUNT(*) FROM t)",
    "CREATE OR REPLACE PACKAGE BODY p AS PROCEDURE q() AS BEGIN DELETE FROM t; END; END",
    "CREATE OR REPLACE VIEW v AS SELECT * FROM t -- all",
    "CREATE OR REPLACE /* x */ TABLE other (t INT)",
    "DROP TABLE x -- t",
    "TRUNCATE other",
)
OTHER = (
    "RENAME TABLE t TO x",
    "RENAME TABLE t WAIT 5 TO x",
    "RENAME TABLE other TO t",
    "RENAME TABLE t TO x, other TO t, x TO other",
    "RENAME TABLE IF EXISTS t TO x",
    "RENAME TABLE IF EXISTS t TO x, nowhere TO t",
    "DROP TABLE IF EXISTS a, t",
    "DROP /* by hand */ TABLE t",
    "-- by hand\nDROP TABLE t",
    "/*!40000 DROP DATABASE IF EXISTS `shop`*/",
    "DROP DATABASE shop",
    "CREATE OR REPLACE DATABASE shop COLLATE utf8mb4_bin",
    "TRUNCATE t",
    "CREATE OR REPLACE TABLE t (id INT)",
)
UNCERTAIN = (
    "RENAME TABLE t TO x, X TO t",
    "RENAME TABLE t TO x, X TO y, x TO t",
    "RENAME TABLE T TO x",
    "DROP TABLE T",
    "DROP DATABASE Shop",
    "CREATE OR REPLACE SCHEMA Shop",
)
UNCLEAR = (
    'RENAME TABLE "t" TO x',
    "ALTER TABLE t COMMENT 'x', RENAME TO x",
    'DROP TABLE x, "t"',
)
BRINGS_ROWS = (
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t",
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE other WITHOUT VALIDATION",
    "ALTER TABLE p CONVERT TABLE t TO PARTITION p1 VALUES LESS THAN (9)",
    "ALTER TABLE t CONVERT TABLE other TO PARTITION p1 VALUES LESS THAN (9)",
    "ALTER TABLE t IMPORT TABLESPACE",
    "ALTER TABLE t /* p0 */ IMPORT PARTITION p0 TABLESPACE",
)


@pytest.mark.parametrize("sql", [*SAME, *NOT_ABOUT_IT])
def test_statements_after_which_the_table_still_has_its_name(tmp_path: Path, sql: str) -> None:
    assert rows_around(tmp_path, sql) == ([1, 1], [])


@pytest.mark.parametrize("sql", OTHER)
def test_statements_after_which_another_table_has_the_name(tmp_path: Path, sql: str) -> None:
    assert rows_around(tmp_path, sql) == ([1, 2], [])


@pytest.mark.parametrize("sql", UNCERTAIN)
def test_names_that_differ_only_in_case_are_reported(tmp_path: Path, sql: str) -> None:
    """lower_case_table_names decides whether they are one name, and no log contains it."""
    lives, [warning] = rows_around(tmp_path, 1, sql, 2, sql)
    assert lives == [1, 1, 2, 3]
    assert re.match(r"binlog\.000001:\d+: .* whether shop\.t is the same table", warning)
    assert "lower_case_table_names" in warning
    certain = rows_around(tmp_path, "TRUNCATE t", sql)
    assert certain == ([1, 2], []), "the statement makes no difference"


@pytest.mark.parametrize("sql", UNCLEAR)
def test_statements_that_binlake_does_not_understand_are_reported(tmp_path: Path, sql: str) -> None:
    lives, [warning] = rows_around(tmp_path, sql)
    assert lives == [1, 2]
    assert "its text does not determine that" in warning


@pytest.mark.parametrize("sql", BRINGS_ROWS)
def test_statements_that_bring_rows_are_reported(tmp_path: Path, sql: str) -> None:
    lives, [warning] = rows_around(tmp_path, sql)
    assert lives == [1, 2]
    assert "it may give the table other rows, which the log does not contain" in warning


@pytest.mark.parametrize(
    "statements",
    [
        ("RENAME TABLE t TO old", "DROP TABLE old", "CREATE TABLE old (id INT)", "RENAME TABLE old TO t"),
        ("RENAME TABLE t TO x, b TO t, x TO b", "TRUNCATE b", "RENAME TABLE t TO x, b TO t, x TO b"),
        ("RENAME TABLE t TO x", "RENAME TABLE x TO y", "RENAME TABLE y TO t"),
        ("DROP TABLE t", "RENAME TABLE IF EXISTS other TO t"),
        ("DROP TABLE t", "ALTER TABLE T RENAME TO t"),
    ],
)  # fmt: skip
def test_a_table_that_gets_the_name_later_has_other_rows(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """A history does not have the changes that a table got under another name."""
    assert rows_around(tmp_path, *statements) == ([1, 2], [])


def test_which_of_many_statements_is_reported(tmp_path: Path) -> None:
    lives, [warning] = rows_around(
        tmp_path, "TRUNCATE t", "DROP TABLE T", 1, 2, *["DROP TABLE T"] * 3, 3
    )
    assert lives == [1, 2, 2, 3, 3]
    read = binlake.open(str(tmp_path / "binlog.000001"))
    place = [entry.place for entry in read.history("shop.t", id=5) if entry.op == "ddl"][1]
    assert warning.startswith(f"{place}: ")


@pytest.mark.parametrize("sql", [*SAME, *OTHER, *UNCERTAIN, *UNCLEAR, *BRINGS_ROWS])
def test_an_undo_over_such_a_statement_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str
) -> None:
    rows_around(tmp_path, sql, 1)
    command = ["history", "shop.t", "--key", "id=5", str(tmp_path / "binlog.000001"), "--undo"]
    assert main([*command, "2"]) == 0, "the statement stands before the point"
    assert "UPDATE `shop`.`t`" in capsys.readouterr().out
    assert main([*command, "1"]) != 0
    assert "UPDATE" not in capsys.readouterr().out
