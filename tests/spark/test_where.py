"""The option `where` on Spark: with the filters and the columns of Spark, with key indexes, in streams, and wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import binlake
from binlake.cli.main import main

DEMO = Path(__file__).parents[2] / "demo"
SECONDS = 300  # a deadline only

Row = dict[str, Any]
#: Conditions, and the same in Python for the images of a row change.
CONDITIONS: list[tuple[str, Callable[[Row | None, Row | None], bool]]] = [
    ("id IN (2, 116)", lambda *images: any(one and one["id"] in (2, 116) for one in images)),
    (
        "before.state = 'new' AND after.state = 'paid'",
        lambda old, new: bool(old and new and (old["state"], new["state"]) == ("new", "paid")),
    ),
    (
        "changed(state) AND id > 100",
        lambda old, new: bool(old and new and old["state"] != new["state"] and new["id"] > 100),
    ),
]


def load(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("binlog").options(**options).load(str(path))


def all_orders(logs: Path) -> list[Row]:
    found = binlake.open(str(logs), table="shop.orders")
    rows = [row for batch in found.changes() for row in batch.to_pylist()]
    return [
        {**row, **{side: json.loads(row[side] or "null") for side in ("before", "after")}}
        for row in rows
    ]


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_rows_with_filters_and_columns_of_spark(spark: Any, tmp_path: Path, server: str) -> None:
    keyed = tmp_path / "keyed"
    shutil.copytree(DEMO / server, keyed)
    assert main(["index", "--keys", str(keyed)]) == 0
    every = all_orders(DEMO / server)
    for condition, matches in CONDITIONS:
        chosen = [row for row in every if matches(row["before"], row["after"])]
        expected = sorted((row["file"], row["pos"], row["row"]) for row in chosen)
        assert expected
        for logs in (DEMO / server, keyed):
            for more in ({}, {"columns": "total"}, {"max_partition_bytes": "100kB"}):
                orders = load(spark, logs, table="shop.orders", where=condition, **more)
                assert sorted(tuple(row) for row in orders.select("_log_file", "_log_pos", "_row").collect()) == expected  # fmt: skip
                updates = orders.where("_op = 'update'")
                assert updates.count() == sum(row["op"] == "update" for row in chosen)
                both = updates.select("_log_pos").union(
                    orders.where("_op <> 'update'").select("_log_pos")
                )
                assert both.count() == len(expected)


def streamed(spark: Any, folder: Path, **options: str) -> list[Any]:
    """The rows that a stream of the demo logs delivers."""
    frame = spark.readStream.format("binlog").options(**options).load(str(DEMO / "mysql-9.7"))
    seen: list[Any] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS)
    return seen


def test_a_stream_delivers_the_rows_of_a_batch(spark: Any, tmp_path: Path) -> None:
    for number, (condition, matches) in enumerate(CONDITIONS):
        chosen = [r for r in all_orders(DEMO / "mysql-9.7") if matches(r["before"], r["after"])]
        found = streamed(spark, tmp_path / str(number), table="shop.orders", where=condition)
        assert [(row._log_file, row._log_pos, row._row) for row in found] == [
            (row["file"], row["pos"], row["row"]) for row in chosen
        ]


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("idd = 1", "option where: table shop.orders has no column 'idd'"),
        (
            "id = 'x'",
            "shop.orders: id is bigint unsigned: compare it with a number, without quotes",
        ),
        ("id =", "syntax error at '='"),
        ("LENGTH(state) = 4", "LENGTH(state) is neither a column nor a constant"),
    ],
)
def test_a_wrong_condition_is_one_line_before_the_query_starts(
    spark: Any, tmp_path: Path, condition: str, sentence: str
) -> None:
    logs = DEMO / "mysql-9.7"
    with pytest.raises(PySparkException) as of_batch:
        load(spark, logs, table="shop.orders", where=condition).count()
    with pytest.raises(PySparkException) as of_stream:
        streamed(spark, tmp_path, table="shop.orders", where=condition)
    for caught in (of_batch, of_stream):
        lines = [line for line in str(caught.value).splitlines() if line.strip()]
        assert sentence in lines[0]
        assert len(lines) <= 2, "the second is SQLSTATE"
