"""Exports: the rows and types of the data source, one commit, nothing half."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import binlake
from binlake.errors import BinlogError, IncompleteError, OptionError
from binlake.lake.export import DecodeTask, ExportResult
from binlake.lake.jobs import SparkEngine
from binlake.spark.hosts import check_hosts
from binlake.stream.log_ddl import LogDdl
from support.logs.log_builder import QUERY, TABLE_MAP, query_body
from support.logs.table_log import INSERT, Log, image, rows_body, table_map
from support.oracles.reading import events, row_lines
from support.spark.spark_processes import environment

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = str(GOLDEN / "mysql-9.7" / "transactions" / "binlog.index")
ROTATED = str(GOLDEN / "mysql-9.7" / "rotation" / "binlog.index")
TYPES = str(GOLDEN / "mysql-9.7" / "types-full" / "binlog.000001")
CHANGED = GOLDEN / "mysql-5.6.24" / "schema"


def run(spark: Any, path: str, target: Path, size: int = 1 << 16, **given: Any) -> ExportResult:
    return binlake.export(path, target, spark=spark, max_partition_bytes=size, **given)


def content(target: Path) -> dict[str, bytes]:
    return {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()}


@pytest.mark.parametrize("path", [LOGS, ROTATED, TYPES])
def test_tables_are_those_of_the_api(spark: Any, tmp_path: Path, path: str) -> None:
    log = binlake.open(path)
    result = run(spark, path, tmp_path / "lake")
    assert {f"{t.key.database}.{t.key.table}": t.rows for t in result.tables} == {
        name: sum(counts.values()) for name, counts in log.tables().items()
    }
    for table in result.tables[:4]:
        name = f"{table.key.database}.{table.key.table}"
        found = spark.read.parquet(f"{tmp_path}/lake/{table.path}").orderBy("_seq").toArrow()
        expected = log.to_arrow(name)
        order = [row["_seq"] for row in expected.to_pylist()]
        assert order == sorted(order, key=lambda seq: tuple(seq.values()))
        assert found.to_pylist() == expected.to_pylist()
        assert len(table.files) == 1


def test_spark_itself_writes_the_same_rows_and_schema(spark: Any, tmp_path: Path) -> None:
    run(spark, TYPES, tmp_path / "ours")
    frame = spark.read.format("binlog").option("table", "golden.temporals").load(TYPES)
    frame.write.parquet(str(tmp_path / "theirs"))
    ours = spark.read.parquet(str(tmp_path / "ours" / "golden" / "temporals"))
    theirs = spark.read.parquet(str(tmp_path / "theirs"))
    assert ours.schema == theirs.schema == frame.schema
    assert ours.orderBy("_seq").collect() == theirs.orderBy("_seq").collect()


def test_a_changed_definition_is_one_table(spark: Any, tmp_path: Path) -> None:
    """The log has no names of columns, but its DDL tells which column is which."""
    path = str(CHANGED / "binlog.000001")
    result = run(spark, path, tmp_path / "lake")
    [table] = [t for t in result.tables if t.key.table == "moving"]
    assert table.key.version is None
    back = spark.read.parquet(f"{tmp_path}/lake/{table.path}")
    source = spark.read.format("binlog").option("table", "golden.moving").load(path)
    assert back.schema == source.schema
    assert back.orderBy("_seq").collect() == source.orderBy("_seq").collect()
    assert back.count() == table.rows == len(list(row_lines(path, table="golden.moving")))


def test_rows_of_an_older_definition_are_kept_aside(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the DDL, as in logs on an object store."""
    monkeypatch.setattr(LogDdl, "of_chains", classmethod(lambda cls, *_: cls()))
    path = str(CHANGED / "binlog.000001")
    result = run(spark, path, tmp_path / "lake")
    [table] = [t for t in result.tables if t.key.table == "moving" and t.key.version is None]
    aside = [t for t in result.tables if t.key.table == "moving" and t.key.version]
    assert any("older rows that do not fit are in golden.moving@" in note for note in table.notes)
    assert aside
    for one in (table, *aside):
        name = f"golden.moving@{one.key.version}" if one.key.version else "golden.moving"
        back = spark.read.parquet(f"{tmp_path}/lake/{one.path}")
        source = spark.read.format("binlog").options(table=name, ddl_scan_bytes="0").load(path)
        assert back.schema == source.schema
        assert back.orderBy("_seq").collect() == source.orderBy("_seq").collect()
        assert back.count() == one.rows > 0


def test_ledger(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    result = run(spark, LOGS, target)
    ledger = json.loads((target / "_ledger.json").read_text())
    assert ledger["export"]["rows"] == result.rows
    assert {f["file"]: f["events"] for f in ledger["files"]} == {
        name: len(list(events(Path(LOGS).parent / name)))
        for name in ("binlog.000001", "binlog.000002")
    }
    assert ledger["checksum"]["bad"] == 0
    assert ledger["transactions"]["committed"] > 0
    listed = {
        f"{path}/{file['name']}"
        for path, table in ledger["tables"].items()
        for file in table["files"]
    }
    assert listed | {"_ledger.json"} == set(content(target))


def test_filters(spark: Any, tmp_path: Path) -> None:
    result = run(spark, LOGS, tmp_path / "lake", table="golden.a", op="delete", columns="id")
    [table] = result.tables
    assert table.rows == 2
    assert spark.read.parquet(f"{tmp_path}/lake/golden/a").columns[:2] == ["id", "_op"]


def test_an_export_of_nothing_is_an_export(spark: Any, tmp_path: Path) -> None:
    assert run(spark, LOGS, tmp_path / "lake", table="no.such").tables == ()
    assert set(content(tmp_path / "lake")) == {"_ledger.json"}


def test_a_directory_that_is_not_empty(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    run(spark, LOGS, target, table="golden.a")
    before = content(target)
    with pytest.raises(
        OptionError, match=r"finished export.*1 table, 9 rows; use --overwrite to replace"
    ):
        run(spark, LOGS, target)
    assert content(target) == before
    run(spark, LOGS, target, table="golden.b", if_exists="replace")
    assert {p.partition("/")[2].partition("/")[0] for p in content(target)} == {"", "b"}


def test_a_failed_task_leaves_things_as_they_were(spark: Any, tmp_path: Path) -> None:
    damaged = tmp_path / "binlog.000001"
    data = bytearray((Path(LOGS).parent / "binlog.000001").read_bytes())
    data[-200] ^= 1
    damaged.write_bytes(data)
    target = tmp_path / "lake"
    run(spark, LOGS, target)
    before = content(target)
    with pytest.raises(BinlogError, match=r"binlog\.000001.*event at \d+"):
        run(spark, str(damaged), target, if_exists="replace")
    assert content(target) == before


def test_ranges_that_do_not_join_are_never_committed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that covers less than it was given, as a fault in splitting would."""
    real = SparkEngine.run

    def forgetful(engine: Any, tasks: list[Any], what: str, progress: Any) -> list[str]:
        results = real(engine, tasks, what, progress)
        if isinstance(tasks[0], DecodeTask):
            lost = json.loads(results[-1])
            lost["ledger"]["covered"].pop()
            results[-1] = json.dumps(lost)
        return results

    monkeypatch.setattr(SparkEngine, "run", forgetful)
    with pytest.raises(
        IncompleteError, match=r"do not join: .*binlog.000002: bytes \d+ to \d+ were not"
    ):
        run(spark, LOGS, tmp_path / "lake")
    assert content(tmp_path / "lake") == {}


EVERY = [
    str(path.relative_to(GOLDEN))
    for path in sorted(GOLDEN.glob("*/*/binlog.index"))
    if path.parent.name in ("types-full", "transactions", "rotation", "schema", "statements")
]


@pytest.mark.parametrize("log", EVERY)
def test_the_local_engine_makes_the_same_tables(spark: Any, tmp_path: Path, log: str) -> None:
    """Rows, types, what Spark reads from the footer, and the ledger."""
    made = {}
    engines: dict[str, dict[str, Any]] = {
        "spark": {"spark": spark},
        "local": {"engine": "local", "workers": 2},
    }
    for name, engine in engines.items():
        binlake.export(GOLDEN / log, tmp_path / name, max_partition_bytes=1 << 16, **engine)
        ledger = json.loads((tmp_path / name / "_ledger.json").read_text())
        tables = ledger.pop("tables")
        for key in ("started", "finished"):
            del ledger["export"][key]
        made[name] = (
            ledger,
            {
                path: pa.concat_tables(
                    pq.read_table(tmp_path / name / path / file["name"]) for file in table["files"]
                )
                for path, table in tables.items()
            },
        )
    (ledger, tables), (local_ledger, local_tables) = made["spark"], made["local"]
    assert local_ledger == ledger
    assert local_tables.keys() == tables.keys()
    for path, table in tables.items():
        assert local_tables[path].schema.equals(table.schema, check_metadata=True)
        assert local_tables[path].to_pylist() == table.to_pylist()


# -- killed ---------------------------------------------------------------------------------------

SLOW = """
import sys, time
import binlake
from binlake.lake import export as module
from binlake.spark import session

class Stuck(module.DecodeTask):
    def run(self):
        super().run()
        time.sleep(600)

module.DecodeTask = Stuck
spark = session(master="local[2]", config={"spark.ui.enabled": "false", "spark.log.level": "OFF"})
binlake.export(sys.argv[1], sys.argv[2], spark=spark, max_partition_bytes=1 << 20)
"""


def test_asking_the_hosts_of_a_cluster_warns_of_nothing(spark: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_hosts(spark, [LOGS])


def test_a_killed_run_leaves_no_partial_table_and_the_next_reports_it(
    spark: Any, tmp_path: Path
) -> None:
    target = tmp_path / "lake"
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, str(script), LOGS, str(target)],
        stderr=subprocess.DEVNULL, start_new_session=True, env=environment(),
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not list(target.glob("_staging-*/attempts/*.parquet")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert {p.name.partition("-")[0] for p in target.iterdir()} == {"_staging"}
    with pytest.raises(
        OptionError, match=r"was started \S+ and did not finish; use --overwrite to replace it"
    ):
        run(spark, LOGS, target)
    result = run(spark, LOGS, target, if_exists="replace")
    assert result.rows == sum(table.rows for table in result.tables) > 1000
    assert not list(target.glob("_staging-*"))


# -- the command ----------------------------------------------------------------------------------


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "binlake.cli.main", "export", *arguments],
        capture_output=True, text=True, timeout=600, check=False, cwd=folder, env=environment(),
    )  # fmt: skip


def test_command(tmp_path: Path) -> None:
    done = command(tmp_path, LOGS, "lake", "--table", "golden.*", "--master", "local[2]")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert "golden/a" in done.stdout
    assert "proven to join" in done.stdout
    assert "log4j" not in done.stderr
    assert (tmp_path / "lake" / "_ledger.json").exists()
    again = command(tmp_path, LOGS, "lake")
    assert again.returncode == 2
    assert "lake contains a finished export" in again.stderr
    assert len(again.stderr.splitlines()) == 1


LEAN = """
import os
from pathlib import Path
from pyspark import SparkContext
from pyspark.sql import SparkSession
from binlake.cli.main import main

def refuse(*_, **__):
    raise AssertionError("a session was made")

SparkSession.__init__ = refuse
stop = SparkContext.stop
seen = []

def stopping(context):
    folder = Path("/proc", str(context._gateway.proc.pid), "fd")
    seen.extend([Path(os.readlink(folder / n)).name for n in "12"] if folder.exists() else ["spark.log"] * 2)
    stop(context)

SparkContext.stop = stopping
sys.argv[1:1] = ["export"]
try:
    main()
except SystemExit as end:
    answer([end.code, seen])
else:
    answer([0, seen])
"""


def test_the_command_loads_no_sql_engine_and_its_jvm_holds_no_output(
    run_script: Any, tmp_path: Path
) -> None:
    """A session takes longer to make than a small export, and the JVM outlives the command."""
    lake = tmp_path / "lake"
    told = run_script(LEAN, LOGS, str(lake), "--master", "local[2]")
    assert told == [0, ["spark.log", "spark.log"]]
    assert json.loads((lake / "_ledger.json").read_text())["export"]["rows"] > 0


def test_command_with_a_wrong_path(tmp_path: Path) -> None:
    done = command(tmp_path, "gone.000001", "lake")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["binlake: gone.000001 does not exist"]
    assert not (tmp_path / "lake").exists()


def test_a_renamed_column_is_one_under_its_newest_name(spark: Any, tmp_path: Path) -> None:
    """In exports and typed views, although the tasks see parts of the log only."""
    log = Log()
    statement = b"ALTER TABLE t CHANGE name title VARCHAR(20)"
    for number, names in enumerate([("id", "name", "day"), ("id", "title", "day")]):
        for row in range(1, 4):
            rows = rows_body(image((10 * number + row, f"n{number}{row}", None)))
            log.commit((TABLE_MAP, table_map(names=names)), (INSERT, rows))
        if number == 0:
            log.add(QUERY, query_body(statement))
    path = str(log.save(tmp_path))
    wanted = {10 * n + row: f"n{n}{row}" for n in range(2) for row in range(1, 4)}

    def titles(rows: list[Any]) -> dict[int, str]:
        return {row["id"]: row["title"] for row in rows}

    table = binlake.open(path).to_arrow("shop.t")
    assert table.column_names[:4] == ["id", "title", "day", "_op"]
    assert titles(table.to_pylist()) == wanted
    result = run(spark, path, tmp_path / "lake", size=200)
    [exported] = result.tables
    assert "shop.t.title: also contains rows from before it was renamed from name" in exported.notes
    exported_rows = spark.read.parquet(str(tmp_path / "lake" / "shop" / "t"))
    assert exported_rows.columns == table.column_names
    assert titles(exported_rows.collect()) == wanted
    view = spark.read.format("binlog").option("table", "shop.t").option("max_partition_bytes", "200").load(path)  # fmt: skip
    assert view.columns == table.column_names
    assert titles(view.collect()) == wanted
