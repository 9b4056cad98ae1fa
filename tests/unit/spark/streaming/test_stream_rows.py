"""The rows of streams: views, filters, and tables whose definition changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

import binlake
from binlake.errors import OptionError, SchemaError, SourceError
from support.logs.log_builder import QUERY, ROWS, TABLE_MAP, query_body
from support.logs.table_log import Log as TableLog
from support.logs.table_log import image, rows_body, table_map
from support.oracles.reading import row_lines
from support.spark.stream_cases import GOLDEN, chain, event_ends, expected, keys, logs_of
from support.spark.stream_query import Checkpoint, Query41, Query42


@pytest.mark.parametrize("view", ["events", "transactions", "statements"])
def test_views(view: str) -> None:
    path = GOLDEN / "mysql-9.7/transactions"
    run = Query41(Checkpoint(), path=path, view=view, max_transactions_per_batch=5)
    run.start()
    run.drain()
    batches = binlake.open(str(path)).view(view)
    whole = [row for batch in batches for row in batch.to_pylist()]
    assert len(run.checkpoint.all_rows) == len(whole)
    places = [(row["file"], row["pos"]) for row in run.checkpoint.all_rows]
    assert places == [(row["file"], row["pos"]) for row in whole]


def test_seq_counts_files_by_their_numbers(tmp_path: Path) -> None:
    for number, path in enumerate(logs_of("mysql-9.7/rotation")):
        shutil.copy(path, tmp_path / f"binlog.{number + 41:06d}")
    run = Query41(Checkpoint(), path=tmp_path, table="golden.r")
    run.start()
    run.drain()
    assert {row["_seq"]["file"] for row in run.checkpoint.all_rows} <= set(range(41, 60))


def test_filters() -> None:
    path = GOLDEN / "mysql-9.7/transactions"
    [first, *_] = row_lines(*logs_of("mysql-9.7/transactions"))
    for options in ({"op": "delete"}, {"table": "golden.a"}, {"exclude_gtid": first["gtid"]}):
        run = Query41(Checkpoint(), path=path, view="changes", **options)
        run.start()
        run.drain()
        assert keys(run.checkpoint.all_rows) == expected(
            *logs_of("mysql-9.7/transactions"), **options
        )


def test_batch_reads_refuse_options_of_streams(tmp_path: Path) -> None:
    from binlake.spark.source import BinlogDataSource

    chain(tmp_path)
    source = BinlogDataSource({"path": str(tmp_path), "max_rows_per_batch": "5"})
    with pytest.raises(OptionError, match="is for readStream"):
        source.reader(source.schema())


def test_a_column_that_the_stream_does_not_know() -> None:
    import pyarrow as pa

    from binlake.spark.typed import PinnedView
    from binlake.table.schema.evolution import Evolution

    pinned = PinnedView("shop.t", Evolution.of("shop.t", [pa.schema([("id", pa.int32())])]))
    with pytest.raises(SchemaError, match="columns that are new to the stream: note"):
        pinned.conform(pa.record_batch({"id": [1], "note": ["x"]}))
    with pytest.raises(SchemaError, match=r"shop\.t has changed"):
        pinned.conform(pa.record_batch({"id": ["x"]}))
    assert pinned.conform(pa.record_batch({"id": pa.array([1], pa.int8())})).schema == pinned.wanted


def test_a_table_that_changes_stops_the_query_and_continues_in_the_next(tmp_path: Path) -> None:
    path = GOLDEN / "mysql-9.7/schema/binlog.000001"
    data, checkpoint, told = path.read_bytes(), Checkpoint(), []
    run: Query42 | None = None
    for end in event_ends(path):
        (tmp_path / path.name).write_bytes(data[:end])
        try:
            if run is None:
                run = Query42(checkpoint, path=tmp_path, table="golden.moving")
                run.start()
            run.drain()
        except SchemaError as error:
            told.append(str(error))
            run = None
        except SourceError as error:  # its first row is still to come
            assert "no change of table" in str(error)
            run = None
    places = {"_log_file": "file", "_log_pos": "pos", "_row": "row"}
    found = [{name: row[key] for key, name in places.items()} for row in checkpoint.all_rows]
    assert keys(found) == expected(path, table="golden.moving")
    assert "columns that are new to the stream: b" in told[0]
    assert "column a (int64) does not fit int16" in told[1]
    assert all("start the query again with the same checkpoint" in text for text in told)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_stream_from_before_a_rename_has_the_newest_names(tmp_path: Path, swapped: bool) -> None:
    older, newer = ("id", "name", "day"), ("id", "title", "day")
    statement = b"ALTER TABLE t RENAME COLUMN name TO title"
    if swapped:
        newer = ("name", "id", "day")
        statement = b"ALTER TABLE t RENAME COLUMN id TO name, RENAME COLUMN name TO id"
    log = TableLog()
    log.commit((TABLE_MAP, table_map(names=older)), (ROWS, rows_body(image((1, "old", None)))))
    log.add(QUERY, query_body(statement))
    log.commit((TABLE_MAP, table_map(names=newer)), (ROWS, rows_body(image((2, "new", None)))))
    log.save(tmp_path)
    run = Query41(Checkpoint(), path=tmp_path, table="shop.t", metadata="false")
    run.start()
    run.drain()
    found = [tuple(row[name] for name in newer[:2]) for row in run.checkpoint.all_rows]
    assert found == [(1, "old"), (2, "new")]
