"""A stream of Spark from an object store: its rows, its requests, and a restart after a log was added."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import binlake
from support.oracles.reading import row_lines
from support.servers.store_proxy import StoreProxy

LOG = Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions" / "binlog.000001"
LOGS = 12
TABLE = "golden.a"

STREAM = """
from binlake.spark import session
folder, target, table = sys.argv[1:4]
spark = session(master="local[2]", config={"spark.ui.enabled": "false", "spark.log.level": "OFF"})
for name, options in (("changes", {"view": "changes", "time": "micros"}), ("table", {"table": table})):
    rows = spark.readStream.format("binlog").options(**options).load(folder).writeStream.format("parquet")
    rows = rows.option("path", f"{target}/{name}").option("checkpointLocation", f"{target}/_{name}")
    rows.trigger(availableNow=True).start().awaitTermination()
answer([spark.read.parquet(f"{target}/{name}").count() for name in ("changes", "table")])
"""


@pytest.fixture
def object_stores() -> Any:
    from dev.servers.object_store import OBJECT_STORE, object_store
    from dev.servers.packages import home

    if not (home() / "roots" / OBJECT_STORE).exists() and os.environ.get("BINLAKE_REQUIRE") != "1":
        pytest.skip("no object store is provisioned: python -m dev.servers provision s3")
    return object_store


def put(numbers: range) -> None:
    from pyarrow import fs

    files, _ = fs.FileSystem.from_uri("s3://archive/")
    for number in numbers:
        path = f"archive/logs/binlog.{number:06d}"
        with files.open_output_stream(path, compression=None) as out:
            out.write(LOG.read_bytes())


def test_a_stream_from_a_store(
    object_stores: Any, run_script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = len(list(row_lines(LOG)))
    typed = binlake.open(str(LOG)).to_arrow(TABLE).num_rows
    with object_stores("archive") as variables:
        proxy = StoreProxy(int(variables["AWS_ENDPOINT_URL"].rpartition(":")[2]))
        variables["AWS_ENDPOINT_URL"] = proxy.address
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        put(range(1, LOGS + 1))
        proxy.requests.clear()
        words = "s3://archive/logs", str(tmp_path), TABLE
        assert run_script(STREAM, *words, **variables) == [LOGS * changes, LOGS * typed]
        seen = Counter((one.name, one.method) for one in proxy.requests)
        for number in range(1, LOGS + 1):
            # by the planner and the tasks of both streams, and to find the columns of the table
            assert seen[f"binlog.{number:06d}", "GET"] <= 5
            assert not seen[f"binlog.{number:06d}.index.parquet", "HEAD"]

        put(range(LOGS + 1, LOGS + 3))
        assert run_script(STREAM, *words, **variables) == [
            (LOGS + 2) * changes,
            (LOGS + 2) * typed,
        ]
        proxy.close()
    written = pq.read_table(tmp_path / "changes", columns=["file", "pos", "row"]).to_pylist()
    assert len({tuple(row.values()) for row in written}) == len(written) == (LOGS + 2) * changes
