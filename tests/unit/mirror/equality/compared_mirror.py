"""A mirror whose tables are compared, without a server and a lake."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from binlake.follow.offsets import StreamOffset
from binlake.mirror import verification
from binlake.mirror.options import MirrorOptions
from binlake.values.position import Position

PLACE = Position("uuid", "binlog.000001", 4)
PRESENT = pa.table({"id": [1]})


def mirror_of(monkeypatch: pytest.MonkeyPatch, compared: Any, keep_lease: Any) -> Any:
    """A mirror with the tables `a.t` and `a.u`, which are compared by `compared`."""
    rules = SimpleNamespace(lake_schema=lambda *_: PRESENT.schema, in_lake=lambda *_: None)
    table = SimpleNamespace(
        schema="a", name="t", types=None, arrow_schema=PRESENT.schema, id=("a", "t"), full_name="a.t",
        offset=StreamOffset(PLACE), shards={}, set_back="", lake_offset=None, was_copied_after=lambda _position: False, lake=SimpleNamespace(schema=PRESENT.schema, rows=2, has_other_commits=lambda: False, reload=lambda: None, set_back=""), columns=("id",),
        present=lambda: [PRESENT, PRESENT], rules=lambda _rules: rules,
    )  # fmt: skip
    source = SimpleNamespace(position=PLACE, server=None)
    monkeypatch.setattr(verification, "exact_session", lambda _url: nullcontext(source))
    monkeypatch.setattr(verification, "read_table", lambda *_: table)
    monkeypatch.setattr(verification, "compare", compared)
    return SimpleNamespace(
        url="mysql://db/", tables={"a.t": table, "a.u": table}, gone={}, not_copied={}, quarantined={},
        options=MirrorOptions(), reach=lambda *_: True, keep_lease=keep_lease, round_error=None,
    )  # fmt: skip
