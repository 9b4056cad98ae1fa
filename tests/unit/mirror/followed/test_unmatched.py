"""Patterns of columns that match none: what they should leave out must not be in the lake before they are reported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import OptionError
from binlake.mirror.control import Control
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.options import MirrorOptions
from unit.mirror.followed.fake_lake import FakeLake, started

COLUMNS = [("shop", "customers", "id"), ("shop", "customers", "phone")]


def tables_with(
    lake: FakeLake, folder: Path, notes: list[str], **options: Any
) -> tuple[FollowedTables, Control]:
    """The tables of a mirror with these patterns, of a server with one table."""
    of: Any = lake
    control = Control(of, "mysql://db1/", MirrorOptions.of(options))
    tables, _ = started(lake, folder, control, notes.append)
    names = [("shop", "customers")]
    tables.source = SimpleNamespace(  # type: ignore[assignment]
        names=lambda: names,
        visible=lambda: names,
        wants=lambda *_name: True,
        columns=lambda: COLUMNS,
        has_lower_case_names=lambda: False,
    )
    return tables, control


@pytest.mark.parametrize("option", ["exclude_columns", "hash_columns"])
def test_the_name_of_a_column_that_a_table_does_not_have_is_refused_at_the_first_start(
    tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINLAKE_HASH_KEY", "0123456789abcdef")
    lake, notes = FakeLake(), list[str]()
    options = {option: ("shop.customers.phnoe",)}
    tables, _ = tables_with(lake, tmp_path, notes, **options)
    with pytest.raises(OptionError, match=r"no column shop\.customers\.phnoe") as refused:
        tables.check_options()
    assert "did you mean shop.customers.phone" in str(refused.value)
    assert refused.value.name == option
    assert notes == []

    lake.copy_of("shop.customers", "shop", "customers")  # later, the server may have dropped it
    tables, _ = tables_with(lake, tmp_path, notes, **options)
    tables.check_options()
    assert notes == ["shop.customers.phnoe matches no column of the mirrored tables"]


@pytest.mark.parametrize(
    ("pattern", "is_noted"),
    [
        ("*.*.phnoe", True),  # perhaps of tables to come
        ("shop.suppliers.iban", True),  # the server does not have the table yet
        ("shop.customers.Phone", False),
        ("shop.customers.`phone`", False),
        ("*.*.phone", False),
    ],
)
def test_other_patterns_of_columns_are_noted_before_the_first_copy(
    tmp_path: Path, pattern: str, is_noted: bool
) -> None:
    notes: list[str] = []
    tables, _ = tables_with(FakeLake(), tmp_path, notes, exclude_columns=(pattern,))
    tables.check_options()
    assert notes == [f"{pattern} matches no column of the mirrored tables"] * is_noted
    tables.note_unmatched()
    assert len(notes) == is_noted


def test_columns_of_tables_that_are_not_copied_yet_are_matched(tmp_path: Path) -> None:
    """First copies of other tables can take longer than the first 20 seconds."""
    lake, notes = FakeLake(), list[str]()
    lake.copy_of("shop.orders", "shop", "orders")
    tables, _ = tables_with(lake, tmp_path, notes, exclude_columns=("shop.customers.phone",))
    tables.unfinished.add("shop.customers")
    tables.check_options()
    tables.note_unmatched()
    assert notes == []


@pytest.mark.parametrize("option", ["exclude_columns", "hash_columns"])
def test_several_columns_in_one_text_are_several_patterns(
    tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it was one pattern, it matched no column, and both columns were copied."""
    monkeypatch.setenv("BINLAKE_HASH_KEY", "0123456789abcdef")
    lake, notes = FakeLake(), list[str]()
    options = {option: ("shop.customers.id, shop.customers.phone",)}
    tables, control = tables_with(lake, tmp_path, notes, **options)
    tables.check_options()
    assert notes == []
    rules = Control(lake).options.column_rules  # type: ignore[arg-type]
    assert rules == control.options.column_rules
    assert "shown" not in {rules.treatment(*column) for column in COLUMNS}


@pytest.mark.parametrize(
    "pattern",
    ["shop.customers.id,phone", "shop.customers.id,customers.phone", "*.*.id,phone", "*.*.phone,"],
)
def test_a_list_that_is_no_list_of_whole_patterns_is_refused(tmp_path: Path, pattern: str) -> None:
    notes: list[str] = []
    tables, _ = tables_with(FakeLake(), tmp_path, notes, exclude_columns=(pattern,))
    with pytest.raises(OptionError, match=r"the server has no column .*; repeat the option"):
        tables.check_options()
    assert notes == []


@pytest.mark.parametrize(
    ("pattern", "is_refused"),
    [
        ("shop.custmers.phone", True),
        ("shop.custmers.`Phone`", True),
        ("shpo.customers.PHONE", True),
        ("crm.customers.phone", True),
        ("shop.custmers.iban", False),  # no column of this name would be visible
        ("shop.suppliers.phone", False),  # no table has a similar name
        ("shop.custmers*.phone", False),
    ],
)
def test_a_column_of_a_table_whose_name_is_misspelled(
    tmp_path: Path, pattern: str, is_refused: bool
) -> None:
    notes: list[str] = []
    tables, _ = tables_with(FakeLake(), tmp_path, notes, exclude_columns=(pattern,))
    if not is_refused:
        tables.check_options()
        assert notes == [f"{pattern} matches no column of the mirrored tables"]
        return
    with pytest.raises(OptionError) as refused:
        tables.check_options()
    assert refused.value.message == f"the server has no column {pattern}"
    assert str(refused.value.hint).startswith("did you mean shop.customers.phone? ")
    assert notes == []


def test_a_column_of_a_table_that_is_not_mirrored_or_whose_like_is_hidden(tmp_path: Path) -> None:
    """Lists of such columns may be longer than those of the tables that exist."""
    notes: list[str] = []
    tables, _ = tables_with(
        FakeLake(),
        tmp_path,
        notes,
        exclude_columns=("shop.customers.phone", "shop.customers_2.phone", "shop.customer.id"),
    )
    visible = [("shop", "customers"), ("shop", "customer")]
    tables.source.visible = lambda: visible  # type: ignore[method-assign]
    tables.check_options()
    assert notes == [
        f"{pattern} matches no column of the mirrored tables"
        for pattern in ("shop.customers_2.phone", "shop.customer.id")
    ]
