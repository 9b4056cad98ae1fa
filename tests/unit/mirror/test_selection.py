"""Which tables a mirror follows."""

from __future__ import annotations

import pytest

from binlake.errors import OptionError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import TableSelection, check_addition, checked_patterns, matches


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


def test_an_addition_that_would_change_nothing_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"--exclude-table shop\.secret\* excludes it"):
        check_addition({"shop.secret_a"}, selection())
    with pytest.raises(OptionError, match=r"shop\.tmp_\* is removed, and matches it"):
        check_addition({"shop.tmp_1"}, selection(removed=("shop.tmp_*",)))
    check_addition({"shop.tmp_*", "shop.tmp_1", "crm.x"}, selection(removed=("shop.tmp_*",)))


@pytest.mark.parametrize("patterns", ["shop.orders", [], ["orders"]])
def test_patterns_are_checked(patterns: list[str]) -> None:
    with pytest.raises(OptionError):
        checked_patterns(patterns)
