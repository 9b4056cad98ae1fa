"""Tasks need no pandas. pyarrow imports it on many occasions, which takes time and memory in each worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

_PROGRAM = """
import sys
import pyarrow as pa
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP
from binlake.mirror.apply.net import net_by_key
from binlake.mirror.apply.shares import KeyShare, cut
from binlake.mirror.iceberg.compaction import RewriteTask
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.partitions import UNPARTITIONED
from binlake.mirror.tables.schema import conformed
from binlake.source.arrays import array
from pyroaring import BitMap

text = pa.string()
columns = {
    "id": array(["a", "b", "c", "d"], text), "v": array([1, 2, 3, 4], pa.int32()),
    BEFORE + "id": array([None, "b", "x", None], text), OP: array([0, 1, 1, 2], pa.uint8()),
    ABSENT: pa.nulls(4, pa.list_(text)),
}
changes = pa.table(columns)
shares = cut(changes, ("id",), 2)
for number, share in enumerate(shares):
    net = KeyShare(("id",), number, 2).net(net_by_key("shop.t", pa.Table.from_batches([share]), ("id",), None))
numbered = {b"PARQUET:field_id": b"1"}, {b"PARQUET:field_id": b"2"}
schema = pa.schema([pa.field("id", text, metadata=numbered[0]), pa.field("v", pa.int32(), metadata=numbered[1])])
rows = conformed(changes.select(["id", "v"]), schema)
written = DataFileWriter(schema, sys.argv[1] + "/").write_one([rows], UNPARTITIONED)
deleted = BitMap([1]).serialize()
RewriteTask([(written["file-path"], deleted)], schema.serialize().to_pybytes(), sys.argv[1] + "/").run()
print("pandas" in sys.modules)
"""


def test_tasks_import_no_pandas(tmp_path: Path) -> None:
    run = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "False\n"
