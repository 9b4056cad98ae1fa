"""The data source in a session: views, SQL, schemas, and what a mistake looks like."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql.functions import spark_partition_id

import binlake
from binlake.cli.main import main
from binlake.ui.code import program
from binlake.values.options import ReadOptions
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import INSERT, Log, image, rows_body, table_map, write_keyed_log
from support.notebooks import ROOT, run_notebook
from support.oracles.reading import printed_rows

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = str(GOLDEN / "mysql-9.7" / "transactions" / "binlog.index")
TYPES = str(GOLDEN / "mariadb-11.8" / "types-full" / "binlog.000001")


ROWS_QUERY = 29


def load(spark: Any, path: str | list[str] = LOGS, **options: Any) -> Any:
    return spark.read.format("binlog").options(**options).load(path)


def test_changes_are_the_lines_of_rows(spark: Any) -> None:
    found = load(spark).collect()
    lines = list(printed_rows(LOGS))
    assert len(found) == len(lines) > 1000
    for row, line in zip(found, lines, strict=True):
        for side in ("before", "after"):
            assert (row[side] and json.loads(row[side])) == line[side]
        for name in (
            "op",
            "database",
            "table",
            "gtid",
            "server_id",
            "file",
            "pos",
            "end_pos",
            "row",
        ):
            assert row[name] == line[name]
        assert row.ts.isoformat(timespec="microseconds") + "Z" == line["ts"].replace("Z", "Z")


@pytest.mark.parametrize("view", ["events", "transactions", "statements"])
def test_views_are_those_of_the_api(spark: Any, view: str) -> None:
    found = load(spark, view=view).select("file", "pos").collect()
    batches = binlake.open(LOGS).view(view, ["file", "pos"])
    expected = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert [tuple(row) for row in found] == expected


def test_typed_columns_of_every_type(spark: Any) -> None:
    log = binlake.open(TYPES)
    for name in ("integers", "decimals", "floats", "temporals", "varchars", "binaries"):
        table = f"golden.{name}"
        found = load(spark, TYPES, table=table).toArrow()
        assert found.to_pylist() == log.to_arrow(table).to_pylist(), table


def test_types_known_only_from_ddl(spark: Any) -> None:
    """MariaDB logs VECTOR, UUID, INET4 and INET6 as bytes."""
    for table in ("golden.vectors", "golden.network"):
        found = load(spark, TYPES, table=table).toArrow()
        assert found.to_pylist() == binlake.open(TYPES).to_arrow(table).to_pylist()


def test_a_schema_with_places_gives_tasks_the_names_of_the_logs_ddl(
    spark: Any, tmp_path: Path
) -> None:
    path = str(GOLDEN / "mysql-5.6.24" / "schema" / "binlog.000001")
    history = tmp_path / "history.sql"
    text = io.StringIO()
    with redirect_stdout(text):
        assert main(["schema", path]) == 0
    history.write_text(text.getvalue())
    log = binlake.open(path)
    for table in ("golden.moving", "golden.moved", "golden.unkeyed", "other-db.moved"):
        frame = load(spark, path, table=table, schema=str(history), max_partition_bytes="900")
        assert frame.rdd.getNumPartitions() > 1
        assert frame.toArrow().to_pylist() == log.to_arrow(table).to_pylist(), table


def test_a_column_of_time_is_an_interval(spark: Any) -> None:
    frame = load(spark, TYPES, table="golden.temporals")
    assert "interval day to second" in {field.dataType.simpleString() for field in frame.schema}
    assert frame.schema["_ts"].dataType.simpleString() == "timestamp"


def test_sql_over_a_view(spark: Any) -> None:
    spark.sql(
        f"create or replace temp view a using binlog options (path '{LOGS}', table 'golden.a')"
    )
    [row] = spark.sql(
        "select count(*) n, count(distinct _gtid) g from a where _op = 'update'"
    ).collect()
    assert (row.n, row.g) == (3, 2)


def test_several_paths_are_one_read(spark: Any) -> None:
    folder = Path(LOGS).parent
    paths = [str(folder / "binlog.000002"), str(folder / "binlog.000001")]
    assert load(spark, paths, table="golden.a").count() == load(spark, table="golden.a").count()


def test_a_schema_of_the_user(spark: Any) -> None:
    frame = (
        spark.read.format("binlog")
        .option("table", "golden.a")
        .schema("v bigint, _op string, id int")
        .load(LOGS)
    )
    assert frame.columns == ["v", "_op", "id"]
    typed = load(spark, table="golden.a").select("v", "_op", "id").collect()
    assert [tuple(row) for row in frame.collect()] == [tuple(row) for row in typed]


def test_where_works_after_the_read(spark: Any) -> None:
    frame = load(spark, table="golden.a")
    assert (
        frame.where("_op = 'insert'").count() + frame.where("_op <> 'insert'").count()
        == frame.count()
    )


def test_writing_is_refused(spark: Any, tmp_path: Path) -> None:
    frame = load(spark, table="golden.a")
    with pytest.raises(AnalysisException, match="the format binlog can only be read"):
        frame.write.format("binlog").mode("append").save(str(tmp_path))
    rate = spark.readStream.format("rate").load().writeStream.format("binlog")
    query = rate.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path))
    with pytest.raises(StreamingQueryException, match="the format binlog can only be read"):
        query.awaitTermination()


def test_partitions_inside_a_file(spark: Any) -> None:
    frame = load(spark, max_partition_bytes="4000")
    assert frame.rdd.getNumPartitions() >= 4
    assert frame.count() == load(spark).count()


def test_a_large_log_beside_many_small_ones(spark: Any, tmp_path: Path) -> None:
    """300 MB beside 500 logs: tasks of one size, and every row once."""
    for number in range(1, 502):
        log = Log(alg=0)
        if number == 250:
            statement = ROWS_QUERY, bytes([255]) + b"-" * (1 << 20)
            for row in range(300):
                insert = INSERT, rows_body(image((number * 1000 + row, None, None)))
                log.commit(statement, (TABLE_MAP, table_map()), insert, gno=row + 1)
        else:
            log.insert((number * 1000, None, None), gno=1)
        log.save(tmp_path, f"binlog.{number:06d}")
    frame = load(spark, str(tmp_path), table="shop.t")
    place = spark_partition_id().alias("task"), "_log_file", "id"
    found = frame.select(*place).collect()
    wanted = {number * 1000 for number in range(1, 502)}
    wanted |= {250_000 + row for row in range(300)}
    assert sorted(row.id for row in found) == sorted(wanted)
    tasks = [[row for row in found if row.task == task] for task in {row.task for row in found}]
    # a row of the large log is 1 MB, and to open a small log counts as 1 MB: rows are costs
    costs = [len(rows) for rows in tasks]
    assert frame.rdd.getNumPartitions() == len(tasks) <= 10
    assert 40 < min(costs) < max(costs) < 104


@pytest.mark.parametrize(
    ("options", "path", "told"),
    [
        ({"tabel": "shop.a"}, LOGS, "unknown option 'tabel'; did you mean table?"),
        ({"since": "soon"}, LOGS, "option since: 'soon': expected a time"),
        ({"table": "golden.zzz"}, LOGS, "no change of table golden.zzz"),
        ({"table": "golden.a", "columns": "ids"}, LOGS, "has no column 'ids'; did you mean id?"),
        ({"view": "rows"}, LOGS, "'rows': expected one of changes, table"),
    ],
)
def test_a_wrong_option_is_reported_in_a_few_lines(
    spark: Any, options: dict[str, str], path: str, told: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, path, **options)
    assert told in str(caught.value)
    assert _lines(caught.value) <= 4


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: str(folder / "gone.000001"), "does not exist"),
        (lambda folder: str(folder), "no binary log in"),
        (lambda folder: _write(folder / "binlog.000001", b"plain text"), "binlog.000001"),
    ],
)
def test_a_wrong_path_is_reported_in_a_few_lines(
    spark: Any, tmp_path: Path, make: Callable[[Path], str], told: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        load(spark, make(tmp_path)).collect()
    assert told in str(caught.value)
    assert _lines(caught.value) <= 4


def test_a_schema_of_the_user_that_cannot_be(spark: Any) -> None:
    read = spark.read.format("binlog").option("table", "golden.a")
    with pytest.raises(PySparkException, match="does not fit date32"):
        read.schema("id date").load(LOGS).collect()
    assert read.schema("ID int").load(LOGS).where("id is null").count() == 0


def test_damage_is_reported_with_its_position(spark: Any, tmp_path: Path) -> None:
    path = _damaged(tmp_path)
    with pytest.raises(PySparkException) as caught:
        load(spark, path).collect()
    assert "ChecksumError" in str(caught.value)
    assert "file binlog.000001, event at" in str(caught.value)
    assert _lines(caught.value) <= 4
    assert load(spark, path, on_error="skip").count() > 0


def _damaged(folder: Path) -> str:
    data = bytearray((Path(LOGS).parent / "binlog.000001").read_bytes())
    data[3000] ^= 1
    return _write(folder / "binlog.000001", bytes(data))


def test_the_view_ledger_counts_changes_missing_in_rows(spark: Any, tmp_path: Path) -> None:
    path = _damaged(tmp_path)
    log = binlake.open(path, on_error="skip")
    assert log.to_arrow().num_rows == load(spark, path, on_error="skip").count()
    rows = load(spark, path, on_error="skip", view="ledger", max_partition_bytes="3000").collect()
    assert len(rows) > 1
    [skipped] = [tuple(lost) for row in rows for lost in row.skipped]
    [told] = log.ledger.skipped
    assert skipped == tuple(told)
    assert sum(row.unshown.get("DDL", 0) for row in rows) == log.ledger.unshown["DDL"] > 0
    assert sum(row.events for row in rows) == log.ledger.total.events
    inserts = {(c.database, c.table): c.inserts for row in rows for c in row.rows}
    assert set(inserts) <= set(log.ledger.rows)
    assert any("were skipped" in remark for row in rows for remark in row.remarks)


def test_the_view_ledger_of_one_table_counts_values_that_do_not_fit(spark: Any) -> None:
    log = binlake.open(TYPES)
    log.to_arrow("golden.temporals")
    [row] = load(spark, TYPES, table="golden.temporals", view="ledger").collect()
    assert row.zero_dates == dict(log.ledger.zero_dates) != {}
    [found] = load(spark, TYPES, view="ledger", columns="warnings,zero_dates").collect()
    assert found.asDict() == {"warnings": log.ledger.warnings, "zero_dates": {}}


@pytest.mark.parametrize("view", ["changes", "table"])
def test_a_ledger_path_has_the_sum_of_each_read(spark: Any, tmp_path: Path, view: str) -> None:
    path = _damaged(tmp_path)
    options = {"on_error": "skip", "ledger_path": str(tmp_path / "kept")}
    frame = load(spark, path, view=view, table="golden.a", max_partition_bytes="3000", **options)
    assert frame.count() == frame.count() > 0
    [kept] = (tmp_path / "kept").iterdir()
    found = json.loads(kept.read_text())
    log = binlake.open(path, on_error="skip")
    log.to_arrow("golden.a")
    for name in ("rows", "unshown", "skipped", "transactions"):
        assert found[name] == log.ledger.to_json()[name], name
    assert (found["inputs"], found["view"], found["tables"]) == ([path], view, ["golden.a"])
    assert spark.read.json(str(tmp_path / "kept")).select("unshown.DDL").first().DDL > 0


@pytest.mark.parametrize(
    "view", ["changes", "table", "events", "transactions", "statements", "ledger"]
)
def test_changes_that_rows_cannot_show_are_refused_in_every_view(spark: Any, view: str) -> None:
    table = {"table": "golden.a"} if view == "table" else {}
    with pytest.raises(PySparkException, match=r"a change that rows cannot show: DDL \(file"):
        load(spark, view=view, on_unshown="error", **table).collect()


def _lines(error: BaseException) -> int:
    return len([line for line in str(error).splitlines() if line.strip()])


def _write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def test_a_column_of_where_that_no_table_has_is_an_error(spark: Any) -> None:
    with pytest.raises(PySparkException) as caught:
        load(spark, where="idd = 1").count()
    assert "option where: no table in the range has a column 'idd'" in str(caught.value)
    assert "did you mean id?" in str(caught.value)
    expected = sum(batch.num_rows for batch in binlake.open(LOGS, where="id = 1").changes())
    assert load(spark, where="ID = 1").count() == expected > 0
    beyond = load(spark, where="idd = 1", schema_scan_bytes="1")
    assert beyond.count() == 0, "the column may be in a table that was not searched for"


def test_a_key_index_saves_reading(spark: Any, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in (1, 2, 3):
        keys = range(number * 10_000, number * 10_000 + 4_000)
        write_keyed_log(logs / f"binlog.00000{number}", keys)

    def read(name: str) -> tuple[list[Any], dict[str, Any]]:
        kept = tmp_path / name
        options = {"where": "id = 22000", "max_partition_bytes": "1MB", "ledger_path": str(kept)}
        frame = load(spark, str(logs), table="shop.t", **options)
        assert frame.rdd.getNumPartitions() == 6
        rows = frame.collect()
        [ledger] = kept.iterdir()
        return rows, json.loads(ledger.read_text())

    rows, whole = read("before")
    assert [row.id for row in rows] == [22_000]
    assert main(["index", "--keys", str(logs)]) == 0
    with_index, ledger = read("after")
    assert with_index == rows
    assert ledger["bytes"] < 0.5 * whole["bytes"]


def test_the_notebook(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this session: it asks for one, and gets the running one."""
    monkeypatch.chdir(ROOT)
    variables = run_notebook("spark.ipynb")
    assert variables["spark"] is spark
    assert variables["left_out"] == {"DDL": 7}


def test_the_programs_of_the_page_run(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """The test runs each program unchanged, with one log and with several."""
    options = ReadOptions(table=("shop.orders",), op=("update",))
    for logs in (["binlog.000001"], ["binlog.000001", "binlog.000002"]):
        files = [str(ROOT / "demo" / "mysql-9.7" / log) for log in logs]
        exec(program("spark", files, options), {})  # noqa: S102 - as a user does
        assert "|update|" in capfd.readouterr().out.replace(" ", "")
