"""The rows of a data file, which are read in parts of a bounded size, however large a row is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from pyroaring import BitMap

from binlake.mirror.tables.live_batches import READ_BYTES, live_batches
from binlake.mirror.tables.schema import conformed, iceberg_schema, storage_schema

ROWS = 12_000
SCHEMA = storage_schema(iceberg_schema(pa.schema([("id", pa.int32()), ("t", pa.string())])))


def test_large_rows_that_compress_well(tmp_path: Path) -> None:
    path = str(tmp_path / "f.parquet")
    texts = [f"{number:010}".ljust(10_000, "x") for number in range(ROWS)]
    rows = conformed(pa.table({"id": range(ROWS), "t": texts}), SCHEMA)
    pq.write_table(rows, path, row_group_size=8000, compression="zstd", use_dictionary=False)
    gone = [0, 7000, 7999, 8000, ROWS - 1]
    found: list[int] = []
    for part, positions in live_batches(path, BitMap(gone), SCHEMA, SCHEMA.names):
        assert part.nbytes < 1.1 * READ_BYTES
        assert part["id"].to_pylist() == positions.tolist()
        found += positions.tolist()
    assert found == [number for number in range(ROWS) if number not in gone]
    [few, more] = [of for _, of in live_batches(path, BitMap(), SCHEMA, ["id"])]
    assert (len(few), len(more)) == (8000, 4000), "small columns need no small parts"
