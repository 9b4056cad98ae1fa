"""A mirror in a process of its own, on the JVM of the tests, that ends itself by kill -9 at a place in its code.

A start costs no JVM, so a test can afford many kills. What the process held in memory is gone, as is its lock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from binlake.lake.jobs import SparkEngine
from binlake.mirror import commits
from binlake.mirror.apply import decode_tables
from binlake.mirror.control import Control
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.iceberg.compaction import RewriteOrder
from binlake.mirror.iceberg.jvm import IcebergTable
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.loop import Mirror
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.data_files import DataFileWriter
from support.servers.live import url_of
from support.spark.mirrored import Lake

__all__ = [
    "OF_A_COPY",
    "OF_A_REQUEST",
    "OF_COMPACTION",
    "OF_ICEBERG",
    "OF_LARGE_RANGES",
    "RARE",
    "Kill",
    "killed",
]

PATIENCE_S = 300
# tasks decode and write already ranges of a few statements
_SPLIT_BYTES = 256

#: Where a mirror can be killed: the owner of a function, and its name.
PLACES: dict[str, tuple[Any, str]] = {
    "tasks of a copy": (SparkEngine, "run"),
    "decoding of a range": (decode_tables, "decode_range"),
    "net changes of tasks": (commits, "write_net_changes"),
    "data file": (DataFileWriter, "write"),
    "commit": (IcebergTable, "commit"),
    "commit of Delta": (DeltaStored, "commit"),
    "properties": (IcebergTable, "replace_properties"),
    "entry of the index": (RowIndex, "add_together"),
    "index on disk": (RowIndex, "save"),
    "row of a round": (Control, "record"),
    "rewritten file": (RewriteOrder, "done"),
    "commit of a compaction": (IcebergTable, "rewrite"),
    "index of a compaction": (RowIndex, "forget"),
}
#: The places that a mirror of Iceberg tables comes to.
OF_ICEBERG = tuple(place for place in PLACES if place != "commit of Delta")
#: A mirror comes to these when it reads much of a log at once.
OF_LARGE_RANGES = ("net changes of tasks",)
#: A mirror comes to these in the copy of a table.
OF_A_COPY = ("tasks of a copy",)
#: A mirror comes to these when a user has requested that a table is copied again.
OF_A_REQUEST = ("properties",)
#: A mirror comes to these when compaction is due.
OF_COMPACTION = ("rewritten file", "commit of a compaction", "index of a compaction")
#: A running mirror may come to these only once.
RARE = (*OF_A_REQUEST, *OF_COMPACTION, *OF_LARGE_RANGES)


@dataclass(frozen=True)
class Kill:
    """At the `call`-th call of a place, before or after what it does."""

    place: str
    call: int
    after: bool

    def arm(self) -> None:
        """Have this process killed there."""
        owner, name = PLACES[self.place]
        function: Callable[..., Any] = getattr(owner, name)
        calls = 0

        def counted(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls < self.call:
                return function(*args, **named)
            if self.after:
                result = function(*args, **named)
                if name == "write":  # a generator: its files are written when it is read
                    list(result)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("not reached")

        setattr(owner, name, counted)


@dataclass(frozen=True)
class _Job:
    port: int
    secret: str
    python: str
    url: str
    location: str
    catalog: str
    options: MirrorOptions
    more: dict[str, Any]

    def run(self, kill: Kill) -> None:
        """Follow the server until the kill."""
        mirror = Mirror(
            self._session(),
            self.url,
            self.location,
            self.options,
            catalog=self.catalog,
            note=print,
            **self.more,
        )
        kill.arm()
        mirror.run(once=False, interval_s=0.02)

    def _session(self) -> Any:
        """The session of the tests' own process, seen from this one."""
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_GATEWAY_PORT"] = str(self.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = self.secret
        os.environ["PYSPARK_PYTHON"] = self.python
        gateway: Any = launch_gateway()
        jvm = gateway.jvm
        there = jvm.org.apache.spark.SparkContext.getOrCreate()
        java = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(there)
        conf = SparkConf(_jvm=jvm, _jconf=there.conf())
        return SparkSession(SparkContext(conf=conf, gateway=gateway, jsc=java))


def killed(lake: Lake, kill: Kill, **more: Any) -> int | None:
    """Run a mirror into a lake until the kill, with `more` parameters; the exit code, None for a mirror that did not
    come to the place.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mirror.killed_mirror"])
    gateway: Any = lake.spark.sparkContext._gateway
    parameters = gateway.gateway_parameters
    job = _Job(
        parameters.port,
        parameters.auth_token,
        str(lake.spark.sparkContext.pythonExec),
        url_of(lake.server),
        lake.location,
        lake.catalog,
        lake.options,
        {"split_bytes": _SPLIT_BYTES, "state": lake.state, **more},
    )
    process = context.Process(target=job.run, args=(kill,))
    process.start()
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode
