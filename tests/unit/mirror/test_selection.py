"""Which tables a mirror follows."""

from __future__ import annotations

import json

import pytest

from binlake.errors import OptionError, SourceError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import (
    TableSelection,
    check_addition,
    check_known,
    check_not_removed,
    check_selects,
    checked_patterns,
    chosen_tables,
    matches,
)
from binlake.values.table_filter import TableFilter
from binlake.values.table_names import full_name_of


def selection(added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> TableSelection:
    options = MirrorOptions.of({"tables": ("shop.*",), "exclude_tables": ("shop.secret*",)})
    return TableSelection.of(options, added, removed)


def test_added_and_removed_tables() -> None:
    changed = selection(added=("crm.*", "shop.secret_a"), removed=("shop.tmp_*", "crm.old"))
    wanted = {
        "shop.orders": True,
        "shop.tmp_1": False,
        "shop.secret_a": False,  # reads leave out the tables of --exclude-table
        "crm.people": True,
        "crm.old": False,
        "other.t": False,
    }
    assert {name: changed.wants(*name.split(".")) for name in wanted} == wanted
    assert not selection().wants("crm", "people")
    assert matches("crm.*", "crm.a.b")
    assert not matches("crm.people", "crm.person")


@pytest.mark.parametrize(
    ("text", "excluded"),
    [
        ("shop.a,shop.b", {"a", "b"}),
        ("shop.a, shop.b", {"a", "b"}),
        ("shop.a,b", {"a,b"}),
        ("shop.a,b,shop.c", {"a,b", "c"}),
    ],
)
def test_the_reader_of_the_log_excludes_the_tables_that_the_selection_excludes(
    text: str, excluded: set[str]
) -> None:
    """A table that only the reader excludes is copied, and its changes are lost."""
    names = ("a", "b", "c", "a,b", "a,shop.b")
    for options in (
        MirrorOptions.of({"exclude_tables": (text,)}),
        MirrorOptions.from_json(json.dumps({"exclude_tables": [text]})),
    ):
        followed = TableSelection.of(options)
        reader = TableFilter(options.read_options())
        assert {name for name in names if not followed.wants("shop", name)} == excluded
        assert {name for name in names if not reader.wants("shop", name)} == excluded


def test_options_of_a_newer_version_are_refused() -> None:
    """Such an option may exclude columns or tables, which a mirror without it would write into the lake."""
    stored = json.loads(MirrorOptions(exclude_tables=("shop.secret",)).to_json())
    assert MirrorOptions.from_json(json.dumps(stored)).exclude_tables == ("shop.secret",)
    with pytest.raises(SourceError, match="this version of binlake does not know: mask_columns"):
        MirrorOptions.from_json(json.dumps({**stored, "mask_columns": ["*.*.ssn"]}))


def test_stored_options_below_a_limit_that_an_earlier_version_did_not_have() -> None:
    """Each command reads them, also the one that replaces them."""
    stored = json.loads(MirrorOptions().to_json()) | {"orphans_s": 600, "max_snapshots": 0}
    options = MirrorOptions.from_json(json.dumps(stored))
    assert (options.orphans_s, options.max_snapshots, options.keep_tags_s) == (3600, 1, 0)
    with pytest.raises(OptionError, match="orphans_s: expected 3600 or more"):
        MirrorOptions.of({"orphans_s": 600})


def test_every_option_with_patterns_of_tables_divides_them_alike() -> None:
    options = MirrorOptions.of(
        {"tables": ("shop.a,shop.b",), "append_tables": ("shop.a,b,shop.c",)}
    )
    assert options.tables == ("shop.a", "shop.b")
    assert [options.mode("shop", name) for name in ("a,b", "c", "a")] == [
        "append",
        "append",
        "mirror",
    ]
    with pytest.raises(OptionError, match="exclude_tables"):
        MirrorOptions.of({"exclude_tables": (",shop.a",)})


def test_an_addition_that_would_change_nothing_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"--exclude-table shop\.secret\* excludes it"):
        check_addition({"shop.secret_a"}, selection())
    with pytest.raises(OptionError, match=r"shop\.tmp_\* is removed, and matches it"):
        check_addition({"shop.tmp_1"}, selection(removed=("shop.tmp_*",)))
    check_addition({"shop.tmp_*", "shop.tmp_1", "crm.x"}, selection(removed=("shop.tmp_*",)))


def test_an_addition_to_all_tables() -> None:
    everything = TableSelection.of(MirrorOptions.of({"tables": ()}), added=("crm.*",))
    assert everything.wants("crm", "people")
    assert everything.wants("shop", "orders")


def test_a_removed_table_is_not_copied_again_by_name() -> None:
    check_not_removed({"shop.a"}, ("shop.b", "crm.*"))
    with pytest.raises(OptionError, match=r"table shop\.a: shop\.a is removed; "):
        check_not_removed({"shop.a"}, ("shop.a",))
    with pytest.raises(OptionError, match=r"crm\.\* is removed, and matches it") as raised:
        check_not_removed({"crm.x"}, ("crm.*",))
    assert raised.value.hint == "`binlake mirror add LAKE 'crm.*'` follows it again, and copies it"


@pytest.mark.parametrize("patterns", ["shop.orders", [], ["orders"]])
def test_patterns_are_checked(patterns: list[str]) -> None:
    with pytest.raises(OptionError):
        checked_patterns(patterns)


QUOTED = {
    "`a.b`.c": {("a.b", "c")},
    "`a.b`.*": {("a.b", "c"), ("a.b", "d")},
    "`a.?`.c": {("a.b", "c")},
    "a.b.c": {("a", "b.c")},
    "*.c": {("a", "b.c"), ("a.b", "c"), ("shop", "c")},
}


@pytest.mark.parametrize("pattern", QUOTED)
def test_a_pattern_whose_database_is_in_backticks(pattern: str) -> None:
    """The options of a mirror, what users have removed, and the commands read it in the same way."""
    tables = {("a", "b.c"), ("a.b", "c"), ("a.b", "d"), ("shop", "c")}
    found = QUOTED[pattern]
    options = MirrorOptions.of(
        {"exclude_tables": (pattern,), "on_alter_tables": (f"{pattern}=resync",)}
    )
    assert {name for name in tables if not TableSelection.of(options).wants(*name)} == found
    removed = TableSelection.of(MirrorOptions(), removed=(pattern,))
    assert {name for name in tables if not removed.wants(*name)} == found
    only = TableSelection.of(MirrorOptions(tables=(pattern,)))
    assert {name for name in tables if only.wants(*name)} == found
    assert {name for name in tables if matches(pattern, full_name_of(*name))} == found
    assert {name for name in tables if options.alter_policy(*name) == "resync"} == found
    assert {
        n for n in tables if MirrorOptions(append_tables=(pattern,)).mode(*n) == "append"
    } == found


def test_the_reader_of_the_log_keeps_the_tables_of_a_database_that_begins_with_a_backtick() -> None:
    """The pattern excludes c of a.b. Read without its backticks it would exclude b`.c of `a."""
    options = MirrorOptions(exclude_tables=("`a.b`.c", "shop.a"))
    name = ("`a", "b`.c")
    assert TableSelection.of(options).wants(*name)
    assert TableFilter(options.read_options([name])).wants(*name)
    assert not TableFilter(options.read_options()).wants("shop", "a")


def test_an_addition_that_a_pattern_with_backticks_excludes() -> None:
    followed = TableSelection.of(MirrorOptions(exclude_tables=("`a.b`.*",)))
    with pytest.raises(OptionError, match=r"--exclude-table `a\.b`\.\* excludes it"):
        check_addition({"`a.b`.c"}, followed)
    check_addition({"a.b.c"}, followed)


def test_a_name_that_the_mirror_does_not_know_is_an_error() -> None:
    known = {"shop.orders", "shop.others", "crm.people", "`a.b`.c"}
    check_known({"shop.orders", "`a.b`.c", "shop.misspelled_*"}, known)
    with pytest.raises(OptionError, match=r"the mirror has no table shpo\.orders") as refused:
        check_known({"shop.orders", "shpo.orders"}, known)
    assert "did you mean shop.orders or shop.others?" in str(refused.value)
    with pytest.raises(OptionError) as refused:
        check_known({"x.y"}, known)
    assert "did you mean" not in str(refused.value)
    assert "`binlake mirror status` lists the tables" in str(refused.value)


def test_a_selection_that_matches_no_table_is_an_error() -> None:
    visible = {"shop.orders", "shop.secret_a", "crm.people"}
    check_selects(selection(), visible)
    check_selects(TableSelection(()), visible)
    with pytest.raises(OptionError, match=r"no table that matches shp\.\*; ") as refused:
        check_selects(TableSelection(("shp.*",)), visible)
    for part in ("did you mean shop.*", "sees 3 tables, for example crm.people", "SELECT"):
        assert part in str(refused.value)
    with pytest.raises(
        OptionError, match=r"matches shop\.\* and does not match shop\.secret\*, shop\.o\*"
    ):
        check_selects(selection(removed=("shop.o*",)), visible)
    with pytest.raises(OptionError, match=r"the user of the URL sees no table"):
        check_selects(TableSelection(("*.*",)), ())


def test_the_patterns_of_tables_of_all_options() -> None:
    options = MirrorOptions.of(
        {
            "tables": ("shop.*,crm.*",),
            "exclude_tables": ("shop.log",),
            "exclude_columns": ("shop.orders.note",),
            "rename_tables": ("a.b=x.{table}",),
            "shard_tables": ("s.b=x.y",),
            "partition_tables": ("p.b=days(c)",),
            "soft_delete_tables": ("d.b",),
            "append_tables": ("e.b",),
            "history_tables": ("f.b",),
            "on_alter_tables": ("g.b=resync",),
        }
    )
    assert list(options.table_patterns()) == [
        ("--table", "shop.*"), ("--table", "crm.*"), ("--exclude-table", "shop.log"), ("--rename", "a.b"),
        ("--shards", "s.b"), ("--partition", "p.b"), ("--soft-delete", "d.b"), ("--append", "e.b"),
        ("--history", "f.b"), ("--on-alter-table", "g.b"),
    ]  # fmt: skip


def test_names_and_patterns_choose_tables_of_the_mirror() -> None:
    known = {"shop.orders", "shop.others", "crm.people"}
    assert chosen_tables((), known) == known
    assert chosen_tables(("shop.*", "crm.people"), known) == known
    assert chosen_tables(("shop.or*",), known) == {"shop.orders"}
    with pytest.raises(OptionError, match=r"no table shop\.ordres; did you mean shop\.orders"):
        chosen_tables(("shop.*", "shop.ordres"), known)
    with pytest.raises(
        OptionError, match=r"shp\.\* matches no table of the mirror; did you mean shop\.\*"
    ):
        chosen_tables(("crm.*", "shp.*"), known)
