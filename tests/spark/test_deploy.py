"""The program and the script in deploy/spark/, as a user submits them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from support.spark.spark_processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def test_a_submitted_stream_writes_every_change_once(tmp_path: Path) -> None:
    script = ROOT / "deploy" / "spark" / "submit-standalone.sh"
    target, checkpoint = tmp_path / "orders", tmp_path / "checkpoint"
    python = Path(sys.executable)
    environment = {
        **os.environ,
        **PATIENCE,
        "MASTER": "local[2]",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python),
    }
    words = [script, ROOT / "demo/mysql-9.7", "shop.orders", target, checkpoint, "once"]
    run = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    written = pq.read_table(target, columns=["_op", "_log_file", "_log_pos", "_row"])
    assert written.num_rows == 687
    places = zip(
        *(written[name].to_pylist() for name in ("_log_file", "_log_pos", "_row")), strict=True
    )
    assert len(set(places)) == 687
