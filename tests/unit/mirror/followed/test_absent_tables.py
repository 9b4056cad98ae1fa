"""The tables that a round does not have."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import SourceError
from binlake.mirror import moments
from binlake.mirror.moments import Moment, absent_tables
from binlake.mirror.options import MirrorOptions


class SharedLake:
    """A catalog with tables of the mirror, and a table that its user may not read."""

    def __init__(self, removed: str, **options: Any) -> None:
        self.loaded: list[tuple[str, ...]] = []
        mirrored = {"binlake.deletes": "vectors"}
        self.properties = {
            ("_binlake", "rounds"): {
                "binlake.mirror": MirrorOptions.of(options).to_json(),
                "binlake.removed": removed,
            },
            ("crm", "deals"): mirrored,
            ("finance", "theirs"): {},
            ("shop", "hidden"): None,
            ("shop", "later"): mirrored,
            ("shop", "theirs"): {},
            ("shop", "orders"): mirrored,
        }

    def tables(self) -> list[tuple[str, str]]:
        return [*self.properties]

    def exists(self, *name: str) -> bool:
        return name in self.properties

    def load(self, *name: str) -> Any:
        self.loaded.append(name)
        known = {"properties": self.properties[name]}  # type: ignore[index]
        if known["properties"] is None:
            raise SourceError("shop.hidden: Iceberg refuses: Forbidden")
        return SimpleNamespace(refresh=lambda: None, describe=lambda: known)


@pytest.mark.parametrize(
    ("removed", "options"),
    [
        ("[]", {"tables": ("shop.*", "crm.*")}),  # the first copy of crm.deals has not ended
        ('["crm.*"]', {"tables": ("shop.*",)}),
        ('["crm.deals"]', {"tables": ("shop.*",)}),
        ("[]", {"tables": ("shop.*",), "rename_tables": ("shop.d*=crm.{table}",)}),
    ],
)
def test_only_tables_in_namespaces_of_the_mirror_are_read_and_one_that_the_user_may_not_read_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: str, options: dict[str, Any]
) -> None:
    """No table of `crm` is in a round or in quarantine."""
    lake = SharedLake(removed, **options)
    monkeypatch.setattr(moments, "open_lake", lambda *_where: lake)
    moment = Moment(1, (), "", "binlog.000001", 4, "", {"shop.orders": 7})
    session: Any = SimpleNamespace()
    assert absent_tables(tmp_path, moment, spark=session) == ["crm.deals", "shop.later"]
    assert lake.loaded == [
        ("_binlake", "rounds"),
        ("crm", "deals"),
        ("shop", "hidden"),
        ("shop", "later"),
        ("shop", "theirs"),
    ]


def test_a_mirror_of_all_databases_can_have_tables_in_each_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = SharedLake("[]")
    monkeypatch.setattr(moments, "open_lake", lambda *_where: lake)
    session: Any = SimpleNamespace()
    found = absent_tables(tmp_path, Moment(1, (), "", "a.1", 4, "", {}), spark=session)
    assert found == ["crm.deals", "shop.later", "shop.orders"]


def test_a_namespace_whose_name_has_a_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--rename` can make it of the name of a table."""
    lake = SharedLake("[]", tables=("shop.*",), rename_tables=("shop.*={table}.all",))
    mirrored = {"binlake.deletes": "vectors"}
    lake.properties = {
        ("_binlake", "rounds"): lake.properties["_binlake", "rounds"],
        ("a.b", "all"): mirrored,
        ("c.d", "all"): mirrored,
    }
    monkeypatch.setattr(moments, "open_lake", lambda *_where: lake)
    session: Any = SimpleNamespace()
    moment = Moment(1, (), "", "a.1", 4, "", {"`a.b`.all": 7})
    assert absent_tables(tmp_path, moment, spark=session) == ["`c.d`.all"]
