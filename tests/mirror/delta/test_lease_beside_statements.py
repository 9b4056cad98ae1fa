"""The lease of a Delta lake is renewed while a statement of Delta runs, in a session of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.mirror.control import Control
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.lake_state import lock
from binlake.mirror.lease import Holder, Lease
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.schema import iceberg_schema

pytestmark = pytest.mark.lakes


def test_a_renewal_and_a_statement_at_the_same_time(iceberg_spark: Any, tmp_path: Path) -> None:
    """Each commit gets the mirror's state from the settings of its session."""
    lake = DeltaLake(iceberg_spark, str(tmp_path / "lake"))
    control = Control(lake, "mysql://db1/", MirrorOptions.of({"format": "delta"}))
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.create("shop", "t", iceberg_schema(rows.schema), {"binlake.table": "shop.t"})
    for number in range(3):
        table.append(rows, {"binlake.round": str(number)})
    state = tmp_path / "state"
    held = Lease(control, "the lake", state, lock(state, "the lake"), every_s=0.01)
    first = Holder.from_text(control.lease)
    with held.kept():
        end = time.monotonic() + 120
        ends: set[float] = set()
        while len(ends) < 3:
            assert time.monotonic() < end
            table.optimize(1 << 20, table.log.state)
            table.set_properties({"binlake.touched": str(len(ends))})
            control.refresh()
            now = Holder.from_text(control.lease)
            assert first is not None
            assert now is not None
            ends.add(now.until)
    held.keep()
    found = table.describe()
    assert found["summary"]["binlake.round"] == "2"
    assert found["properties"]["binlake.table"] == "shop.t"
    assert found["summary"]["total-records"] == "6"
    assert control.options.format == "delta"
    held.close()
    assert Control(lake).lease == ""
