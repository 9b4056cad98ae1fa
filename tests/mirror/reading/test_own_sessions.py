"""Sessions that `mirror_session` starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dev.servers import running
from support.servers.live import url_of
from support.spark.mirrored import iceberg_jar
from support.spark.spark_processes import environment

pytestmark = pytest.mark.lakes

_TWO_SESSIONS = """
import sys
import pyarrow as pa
from binlake.mirror.iceberg.jvm import Lake
from binlake.mirror.sessions import CATALOG, mirror_session
from binlake.mirror.tables.schema import iceberg_schema

schema = pa.schema([("v", pa.int32())])
for number in range(2):
    spark = mirror_session(sys.argv[1], master="local[1]", iceberg_jar=sys.argv[2])
    lake = Lake(spark, CATALOG)
    table = lake.load("db", "t") if number else lake.create("db", "t", iceberg_schema(schema), {})
    table.append(pa.table({"v": [number]}), {})
    rows = spark.table(f"{CATALOG}.db.t").orderBy("v").collect()
    spark.stop()
print([row.v for row in rows])
"""


def test_two_sessions_of_one_process_start_no_process_for_the_files_of_a_commit(
    tmp_path: Path,
) -> None:
    """A notebook stops a session and starts another one: the JVM is the same."""
    lake, tools = tmp_path / "lake", tmp_path / "tools"
    lake.mkdir()
    tools.mkdir()
    called = tmp_path / "chmod.log"
    chmod = tools / "chmod"
    chmod.write_text(f'#!/bin/sh\necho "$@" >> {called}\nexec /bin/chmod "$@"\n')
    chmod.chmod(0o755)
    before = os.umask(0o027)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TWO_SESSIONS, str(lake), str(iceberg_jar())],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 1]\n"
    changed = called.read_text().splitlines() if called.exists() else []
    assert [line for line in changed if str(lake) in line] == []
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (lake / "db/t/metadata").iterdir()}
    assert modes == {0o644}, "as Hadoop's configuration says, which has a umask of its own"


_TWO_LAKES = """
import sys
from binlake.errors import BinlogError
from binlake.mirror import mirror, status
from binlake.mirror.sessions import mirror_session

url, one, two, none, jar = sys.argv[1:]
first = mirror_session(one, master="local[1]", iceberg_jar=jar)
mirror(url, one, ["a.t"])
try:
    status(none)
except BinlogError as error:
    print(error.message)
mirror(url, two, ["b.t", "b.u"])
for lake in (one, two, one):
    print([table.table for table in status(lake).tables])
print([row.v for row in mirror_session(two).sql("SELECT v FROM lake.b.t").collect()])
try:
    status(two, spark=first)
except BinlogError as error:
    print(error.message)
"""


@pytest.mark.server
def test_several_lakes_in_one_process(tmp_path: Path, provisioned: Any) -> None:
    """Spark keeps the catalog of a session that it has loaded first."""
    one, two, none = (tmp_path / name for name in ("one", "two", "none"))
    none.mkdir()
    with running(provisioned("mysql-9.7")) as server:
        for database in ("a", "b"):
            server.execute(f"CREATE DATABASE {database}")
            for table in ("t", "u"):
                server.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, v INT)")
                server.execute(f"INSERT INTO {database}.{table} VALUES (1, 7)")
        words = [url_of(server), one, two, none, iceberg_jar()]
        done = subprocess.run(
            [sys.executable, "-c", _TWO_LAKES, *map(str, words)],
            capture_output=True, text=True, check=False, env=environment(),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "this lake has no mirror",
        "['a.t']",
        "['b.t', 'b.u']",
        "['a.t']",
        "[7]",
        f"the catalog lake of the Spark session is {one}, not {two}",
    ]
    assert {path.name for path in one.iterdir()} == {"_binlake", "a"}
