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

    def __init__(self) -> None:
        self.loaded: list[tuple[str, ...]] = []
        mirrored = {"binlake.deletes": "vectors"}
        self.properties = {
            ("_binlake", "rounds"): {"binlake.mirror": MirrorOptions().to_json()},
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


def test_only_tables_in_namespaces_of_the_mirror_are_read_and_one_that_the_user_may_not_read_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = SharedLake()
    monkeypatch.setattr(moments, "open_lake", lambda *_where: lake)
    moment = Moment(1, (), "", "binlog.000001", 4, "", {"shop.orders": 7})
    session: Any = SimpleNamespace()
    assert absent_tables(tmp_path, moment, spark=session) == ["shop.later"]
    assert lake.loaded == [
        ("_binlake", "rounds"),
        ("shop", "hidden"),
        ("shop", "later"),
        ("shop", "theirs"),
    ]
