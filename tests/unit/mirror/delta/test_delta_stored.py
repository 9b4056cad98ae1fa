"""A Delta table that is replaced keeps what users have set."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.mirror.delta import stored
from binlake.mirror.delta.stored import DeltaStored


def replaced(monkeypatch: pytest.MonkeyPatch, table: Path, **metadata: Any) -> dict[str, str]:
    """The properties of a table after a replacement."""
    found: dict[str, str] = {}

    def define(_spark: Any, verb: str, path: Path, columns: str, properties: Any, _: Any) -> None:
        assert (verb, path, columns) == ("REPLACE", table, "`id` INT")
        found.update(properties)

    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    monkeypatch.setattr(stored, "define", define)
    log = table / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text(json.dumps({"metaData": {"id": "x", **metadata}}))
    no_session: Any = None
    DeltaStored(no_session, table, "shop.t").replace("`id` INT", {})
    return found


def test_properties_of_users_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new = replaced(monkeypatch, tmp_path / "new")
    assert new["delta.columnMapping.mode"] == "name"
    users = {
        "delta.logRetentionDuration": "interval 60 days",
        "delta.enableDeletionVectors": "false",
        "binlake.tags": '{"before-truncate": 3}',
    }
    others = {
        "delta.columnMapping.maxColumnId": "7",
        "delta.feature.rowTracking": "supported",
        "delta.constraints.positive": "v > 0",
        "delta.dataSkippingStatsColumns": "v",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.inCommitTimestampEnablementVersion": "3",
        "binlake.touched": "9",
        "mine": "1",
    }
    known = replaced(monkeypatch, tmp_path / "known", configuration={**users, **others})
    assert known == {**new, **users}
