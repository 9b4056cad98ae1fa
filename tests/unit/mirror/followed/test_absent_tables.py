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
        mirrored = {"binlake.deletes": "vectors"}
        self.properties = {
            ("_binlake", "rounds"): {"binlake.mirror": MirrorOptions().to_json()},
            ("finance", "theirs"): {},
            ("shop", "later"): mirrored,
            ("shop", "orders"): mirrored,
        }

    def tables(self) -> list[tuple[str, str]]:
        return [*self.properties, ("finance", "hidden")]

    def exists(self, *name: str) -> bool:
        return name in self.properties

    def load(self, *name: str) -> Any:
        if name == ("finance", "hidden"):
            raise SourceError("finance.hidden: Iceberg refuses: Forbidden")
        known = {"properties": self.properties[name]}  # type: ignore[index]
        return SimpleNamespace(refresh=lambda: None, describe=lambda: known)


def test_a_table_that_the_user_may_not_read_is_not_one_of_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "open_lake", lambda *_where: SharedLake())
    moment = Moment(1, (), "", "binlog.000001", 4, "", {"shop.orders": 7})
    session: Any = SimpleNamespace()
    assert absent_tables(tmp_path, moment, spark=session) == ["shop.later"]
