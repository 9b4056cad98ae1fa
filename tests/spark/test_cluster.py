"""A standalone cluster of two workers: tasks on both, and what a host cannot do is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SESSION = """
from binlake.spark import session
spark = session(master=sys.argv[1], config={
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m", "spark.driver.bindAddress": "127.0.0.1",
})
"""


def test_hosts_are_checked(cluster: Any, run_script: Any, tmp_path: Path) -> None:
    text = (
        SESSION
        + """
from binlake.errors import SourceError
from binlake.spark.hosts import check_hosts
check_hosts(spark, [sys.argv[2]])
try:
    check_hosts(spark, [sys.argv[2] + "/gone"])
except SourceError as error:
    answer(str(error))
"""
    )
    told = run_script(text, cluster.url, str(tmp_path))
    assert "does not see" in told
    assert told.startswith("host ")
    assert "\n" not in told
