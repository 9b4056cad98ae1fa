"""The records in a lake table about one table, or about each of several shards."""

from __future__ import annotations

import json

from binlake.follow.offsets import StreamOffset
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import offset_of
from binlake.mirror.followed.table_record import (
    begun_properties,
    copied_from,
    definition_of,
    definition_properties,
    key_of,
    mode_of,
    offset_properties,
    offsets_of,
    shard_column,
    shard_properties,
    sources,
    without_shard,
)
from binlake.table.schema.defaults import Constant, Unknown
from binlake.table.schema.schema_file import parse_schema
from binlake.values.position import Position

KEPT = {
    "binlake.create-table": "CREATE TABLE t (id INT PRIMARY KEY)",
    "binlake.key": '["id"]',
    "binlake.mode": "mirror",
}
#: Names of tables may have blanks, and begin like others.
NAMES = ("a.orders", "a.orders 2", "b.my orders")


def offset(number: int) -> StreamOffset:
    return StreamOffset(Position("1-2-3", "binlog.000001", number, gtid_set=f"1-2-3:1-{number}"))


def merged() -> dict[str, str]:
    """The properties of a lake table with three shards."""
    found = dict(begun_properties("a.orders", "_source", ()))
    for number, name in enumerate(NAMES):
        found |= shard_properties(name, {**KEPT, "binlake.key": json.dumps(["id", str(number)])})
    return found


def test_each_shard_has_its_own() -> None:
    known = sources(merged())
    assert tuple(sorted(known)) == NAMES
    assert [key_of(known[name]) for name in NAMES] == [("id", "0"), ("id", "1"), ("id", "2")]
    assert {mode_of(kept) for kept in known.values()} == {"mirror"}
    assert shard_column(merged()) == "_source"
    assert copied_from(merged()) is None


def test_a_lake_table_of_one_table_has_no_shards() -> None:
    begun = begun_properties("a.orders", "", ())
    assert (copied_from(begun), shard_column(begun), sources(begun)) == ("a.orders", "", {})
    assert sources(begun | KEPT).keys() == {"a.orders"}


def test_a_shard_is_forgotten_alone() -> None:
    properties = merged()
    properties |= without_shard(properties, "a.orders")
    assert tuple(sorted(sources(properties))) == NAMES[1:]
    assert sources(properties)["a.orders 2"] == sources(merged())["a.orders 2"]


def test_a_shard_with_an_incomplete_copy_is_not_a_source() -> None:
    properties = merged() | shard_properties("c.orders", {"binlake.key": "[]"})
    assert tuple(sorted(sources(properties))) == NAMES


def test_each_commit_has_the_places_of_all_shards() -> None:
    places = {name: offset(100 + number) for number, name in enumerate(NAMES)}
    summary = offset_properties(places, "a.orders 2", 7)
    assert offsets_of(summary) == places
    assert offset_of(summary) == places["a.orders 2"]
    assert offsets_of({}) == {}


def test_defaults_of_a_record_are_known_only_if_it_has_them() -> None:
    """An earlier version of binlake wrote definitions without defaults, and may do so again in the same lake."""
    made = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` int DEFAULT 7\n);\n"
    kept = definition_properties(("a", "t"), made, ColumnRules())
    assert definition_of(kept).create_table == made
    for earlier in (
        KEPT | {"binlake.create-table": made},
        kept | {"binlake.create-table": made.replace("7", "8")},
    ):
        [table] = parse_schema(definition_of(earlier).create_table.encode()).tables
        assert [column.name for column in table.columns] == ["id", "v"]
        assert {type(default) for default in table.defaults} == {Unknown}
        assert "an earlier version of binlake" in str(table.defaults[0])
    assert parse_schema(made.encode()).tables[0].defaults == (
        Constant("", "implied"),
        Constant("7", "number"),
    )


def test_the_defaults_of_hidden_columns_are_not_in_the_lake() -> None:
    """They are values of these columns. The defaults of the others are known."""
    made = (
        "CREATE TABLE a.t (id INT PRIMARY KEY, n INT DEFAULT 7, mail VARCHAR(20) DEFAULT 'ada@example.org',"
        " phone VARCHAR(20) NOT NULL DEFAULT '555-0100', pin VARCHAR(20) DEFAULT 'pa\\\\ss', more VARCHAR(20) DEFAULT NULL,"
        " last VARCHAR(20) NOT NULL) CHARSET=utf8mb4"
    )
    rules = ColumnRules(
        exclude=("*.*.phone",), hash=("*.*.mail", "*.*.more", "*.*.last", "*.*.pin"), key_id="a-key"
    )
    kept = definition_properties(("a", "t"), made, rules)
    assert not any(text in json.dumps(kept) for text in ("ada@", "555-", "ss"))
    columns = {
        one.name: one
        for one in parse_schema(definition_of(kept).create_table.encode()).tables[0].columns
    }
    assert columns["n"].default == Constant("7", "number")
    assert columns["more"].default is None
    assert columns["last"].default == Constant("", "implied")
    for name in ("mail", "phone", "pin"):
        assert columns[name].default == Unknown(
            "the lake does not record the defaults of columns that are hashed or left out"
        )
    assert definition_properties(("a", "t"), made, ColumnRules())["binlake.create-table"] == made
