"""Readers of a lake table after many rounds: mirror_readers.py LAKE TABLE, two cores.

Prints the seconds of a scan with Spark before and after all data files are compacted, and how many rows, and which sum of
`total`, Spark, PyIceberg and DuckDB read before that.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from benchmarks.mirror_session import warm_session
from binlake.mirror import compact
from binlake.mirror.sessions import CATALOG
from dev.servers.lake_readers import duckdb_copies

_SCANS = 5
_SUMS = "count(*) AS n, sum(total) AS total"


def _newest(lake: str, table: str) -> str:
    """The metadata file of the newest snapshot."""
    folder = Path(lake, *table.split("."), "metadata")
    return str(folder / f"v{(folder / 'version-hint.text').read_text().strip()}.metadata.json")


def _by_pyiceberg(metadata: str) -> list[str]:
    rows = StaticTable.from_metadata(metadata).scan(selected_fields=("total",)).to_arrow()
    return [str(rows.num_rows), str(pc.sum(rows["total"]).as_py())]


def _by_duckdb(metadata: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "sums.parquet")
        duckdb_copies({f"SELECT {_SUMS} FROM iceberg_scan('{metadata}')": answer})
        [row] = pq.read_table(answer).to_pylist()
    return [str(row["n"]), str(row["total"])]


def _scan_seconds(spark: Any, table: str) -> float:
    query = f"SELECT count(*), sum(total), max(note), max(rate), max(id) FROM {CATALOG}.{table}"
    times = []
    for _ in range(_SCANS):
        began = time.perf_counter()
        spark.sql(query).collect()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    lake, table = sys.argv[1:]
    metadata = _newest(lake, table)
    with warm_session(lake) as spark:
        sums = {
            "Spark": [str(one) for one in spark.sql(f"SELECT {_SUMS} FROM {CATALOG}.{table}").first()],
            "PyIceberg": _by_pyiceberg(metadata),
            "DuckDB": _by_duckdb(metadata),
        }  # fmt: skip
        before = _scan_seconds(spark, table)
        compact(lake, spark=spark)
        after = _scan_seconds(spark, table)
    print(json.dumps({"seconds": before, "compacted_seconds": after, "sums": sums}))


if __name__ == "__main__":
    main()
