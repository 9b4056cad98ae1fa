"""Some rows of a data file, of which only the row groups with these rows are read, in parts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.iceberg.live_rows import rows_at
from binlake.mirror.tables.schema import conformed, iceberg_schema, storage_schema

ROWS = 2000
COLUMNS = {"id": range(ROWS), "t": ["x" * (i % 50) for i in range(ROWS)], "d": [None] * ROWS}
OLD = storage_schema(
    iceberg_schema(pa.schema({"id": pa.int32(), "t": pa.string(), "d": pa.date32()}))
)
NEW = OLD.append(pa.field("late", pa.int64(), metadata={b"PARQUET:field_id": "9"}))


@pytest.mark.parametrize("names", [NEW.names, ["t"], ["late", "id"], ["late"]])
@pytest.mark.parametrize("read_bytes", [1, 1 << 20])
def test_rows_of_several_row_groups(tmp_path: Path, names: list[str], read_bytes: int) -> None:
    path = str(tmp_path / "f.parquet")
    rows = conformed(pa.table(COLUMNS, schema=pa.schema({f.name: f.type for f in OLD})), OLD)
    pq.write_table(rows, path, row_group_size=700)
    whole = rows.append_column(NEW.field("late"), pa.nulls(ROWS, pa.int64())).select(names)
    rng = random.Random(1)
    for count in (0, 1, 30, ROWS):
        positions = sorted(rng.sample(range(ROWS), count))
        found = rows_at(path, positions, NEW, names, read_bytes)
        assert found.schema == whole.schema
        assert found.equals(whole.take(pa.array(np.array(positions, np.int64))))
    assert rows_at(path, [1, 255, 256, 699, 700], NEW, names, read_bytes).num_rows == 5
