"""Streams as Spark asks for them: growth, restarts, limits, the place where a query begins."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from binlake.archive.layout import ArchiveState
from binlake.errors import OptionError, PositionLostError, SourceError
from support.logs.stream_log import SID, StreamLog
from support.spark.stream_cases import (
    GOLDEN,
    OLD,
    QUERIES,
    chain,
    event_ends,
    expected,
    keys,
    logs_of,
    many,
    stopped_in_the_middle,
)
from support.spark.stream_query import Checkpoint, Query41, Query42, ReadAllAvailable

CASES = (
    "mysql-9.7/transactions",
    "mysql-9.7/rotation",
    "mysql-5.6.24/transactions",
    "mariadb-11.8/transactions",
    "mariadb-10.11/rotation",
)


@QUERIES
@pytest.mark.parametrize("case", CASES)
def test_everything_once(query: type[Query41], case: str) -> None:
    run = query(Checkpoint(), path=f"{GOLDEN / case}/binlog.0*")
    run.start()
    run.drain()
    assert keys(run.checkpoint.all_rows) == expected(*logs_of(case))


@QUERIES
@pytest.mark.parametrize("case", CASES)
def test_a_log_that_grows_and_a_process_that_dies(
    query: type[Query41], case: str, tmp_path: Path
) -> None:
    """Cut anywhere, events or not; killed in every state; rows once, in commit order."""
    chance = random.Random(case)
    checkpoint = Checkpoint()
    run: Query41 | None = None
    for step in _growth(case, tmp_path, chance):
        options = {"path": tmp_path, **chance.choice(LIMITS)}
        if run is None or chance.random() < 0.5:
            run = query(checkpoint, **options)
            run.start()
        if step % 2:
            while run.batch() and chance.random() < 0.8:
                pass
        elif run.plan():  # planned, maybe run, and killed before the commit
            if chance.random() < 0.5:
                run.read(len(checkpoint.ends) - 1)
            run = None
    run = query(checkpoint, path=tmp_path)
    run.start()
    run.drain()
    assert keys(checkpoint.all_rows) == expected(*logs_of(case))


LIMITS: list[dict[str, Any]] = [
    {},
    {"max_bytes_per_batch": 700},
    {"max_rows_per_batch": 3},
    {"max_transactions_per_batch": 2},
    {"max_partition_bytes": 2000},
]


def _growth(case: str, folder: Path, chance: random.Random) -> Iterator[int]:
    """Copies a case's logs to a folder piece by piece; yields in between."""
    step = 0
    for path in logs_of(case):
        data, at = path.read_bytes(), 0
        ends = event_ends(path)
        while at < len(data):
            at += chance.randint(1, max(2, len(data) // 6))
            if chance.random() < 0.5:
                at = next((end for end in ends if end >= at), len(data))
            (folder / path.name).write_bytes(data[:at])
            yield step
            step += 1


@QUERIES
def test_a_passed_log_is_compressed_and_an_old_one_purged(
    query: type[Query41], tmp_path: Path
) -> None:
    logs = logs_of("mysql-9.7/rotation")
    checkpoint = Checkpoint()
    for number, path in enumerate(logs):
        data = path.read_bytes()
        half = event_ends(path)[len(event_ends(path)) // 2]
        (tmp_path / path.name).write_bytes(data[:half])
        run = query(checkpoint, path=tmp_path)
        run.start()
        run.drain()
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(data))
        (tmp_path / path.name).unlink()
        if number:
            (tmp_path / f"{logs[number - 1].name}.gz").unlink()
    run = query(checkpoint, path=tmp_path)
    run.start()
    run.drain()
    assert keys(checkpoint.all_rows) == expected(*logs)


@pytest.mark.parametrize("split_bytes", [1 << 20, 300])
def test_a_log_that_is_compressed_while_a_batch_is_read(split_bytes: int, tmp_path: Path) -> None:
    [path, *_] = logs_of("mysql-9.7/transactions")
    half = event_ends(path)[40]
    (tmp_path / path.name).write_bytes(path.read_bytes()[:half])
    run = Query42(Checkpoint(), path=tmp_path, max_partition_bytes=split_bytes)
    run.start()
    run.drain()
    (tmp_path / path.name).write_bytes(path.read_bytes())
    assert run.plan()
    start, end = map(json.loads, run.checkpoint.ends)
    planned = run.reader.partitions(start, end)
    (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / path.name).unlink()

    def read() -> list[dict[str, Any]]:
        return [row for part in planned for b in run.reader.read(part) for row in b.to_pylist()]

    if split_bytes == 300:
        with pytest.raises(SourceError, match="compressed while a batch read it"):
            read()
        run.checkpoint.rows.append(run.read(1))
    else:
        run.checkpoint.rows.append(read())
    assert keys(run.checkpoint.all_rows) == expected(path)


@QUERIES
def test_a_log_that_a_crash_ended_and_the_next_that_has_not_begun(
    query: type[Query41], tmp_path: Path
) -> None:
    """Until the next log has begun, more of the torn transaction may come, as in a directory that is being copied."""
    whole = len(many(3).bytes())
    torn = many(3).gtid(4).query(b"BEGIN").rows().write(tmp_path)
    following = tmp_path / "binlog.000002"
    following.touch()
    checkpoint = Checkpoint()
    for _ in range(2):
        run = query(checkpoint, path=tmp_path, starting_offsets="earliest")
        run.start()
        run.drain()
    end = json.loads(checkpoint.ends[-1])
    assert (end["file"], end["offset"]) == (torn.name, whole)
    assert end["last_events"]
    following.write_bytes(StreamLog(created=1_700_000_001).plain(4).plain(5).bytes())
    run = query(checkpoint, path=tmp_path, starting_offsets="earliest")
    run.start()
    run.drain()
    assert keys(checkpoint.all_rows) == expected(torn, following)


# -- limits -----------------------------------------------------------------------------------------


def test_a_stream_of_one_of_several_sources(tmp_path: Path) -> None:
    for server, gno in (("db1", 1), ("db2", 7)):
        (tmp_path / server).mkdir()
        state = ArchiveState(OLD, "mysql")
        (tmp_path / server / "archive.json").write_bytes(state.to_bytes())
        StreamLog().plain(gno).write(tmp_path / server)
    with pytest.raises(OptionError, match="one server, and the input has the logs of 2 sources"):
        Query41(Checkpoint(), path=tmp_path, view="transactions").drain()
    run = Query41(Checkpoint(), path=tmp_path, view="transactions", source="db2")
    run.drain()
    assert [row["gtid"] for row in run.checkpoint.all_rows] == [f"{SID}:7"]


@QUERIES
@pytest.mark.parametrize(
    ("option", "limit", "batches"),
    [
        ("max_transactions_per_batch", 4, [4, 4, 2]),
        ("max_rows_per_batch", 3, [3, 3, 3, 1]),
        ("max_bytes_per_batch", 500, None),
        ("max_bytes_per_batch", 1, [1] * 10),  # a transaction is never cut
    ],
)
def test_limits(
    query: type[Query41], option: str, limit: int, batches: list[int] | None, tmp_path: Path
) -> None:
    many(10).write(tmp_path)
    run = query(Checkpoint(), path=tmp_path, **{option: limit})
    run.start()
    run.drain()
    sizes = [len(batch) for batch in run.checkpoint.rows if batch]
    assert sum(sizes) == 10
    if batches is not None:
        assert sizes == batches
    else:
        offsets = [4, *(json.loads(end)["offset"] for end in run.checkpoint.ends)]
        assert all(end - start <= limit for start, end in pairwise(offsets))
        assert len(sizes) > 2


def test_a_limit_on_rows_counts_the_wanted_ones() -> None:
    path = GOLDEN / "mysql-9.7/transactions"
    run = Query41(Checkpoint(), path=path, max_rows_per_batch=2, table="golden.a", view="changes")
    run.start()
    run.drain()
    assert keys(run.checkpoint.all_rows) == expected(
        *logs_of("mysql-9.7/transactions"), table="golden.a"
    )
    sizes = [len(batch) for batch in run.checkpoint.rows if batch]
    assert len(sizes) > 3


def test_everything_available_means_all_of_it(tmp_path: Path) -> None:
    many(10).write(tmp_path)
    run = Query42(Checkpoint(), path=tmp_path, max_transactions_per_batch=2)
    run.limit = ReadAllAvailable()
    run.start()
    assert run.drain() == 1


# -- where a new query begins -----------------------------------------------------------------------


@QUERIES
def test_starting_latest_is_pinned_by_the_first_batch(query: type[Query41], tmp_path: Path) -> None:
    many(3).write(tmp_path)
    checkpoint = Checkpoint()
    run = query(checkpoint, path=tmp_path, starting_offsets="latest")
    run.start()
    assert run.plan()  # and dies; the log goes on
    many(5).write(tmp_path)
    run = query(checkpoint, path=tmp_path, starting_offsets="latest")
    run.start()
    run.drain()
    assert [row["gtid"] for row in checkpoint.all_rows] == [f"{SID}:4", f"{SID}:5"]


def test_spark_4_1_requests_an_offset_before_it_restores_the_last_one(tmp_path: Path) -> None:
    """`latestOffset` first, then the place of the checkpoint: a limited answer cannot be right."""
    checkpoint = stopped_in_the_middle(tmp_path)
    run = Query41(checkpoint, path=tmp_path)
    end = run.latest()
    run.start()
    checkpoint.ends.append(end)
    run._run(1)
    assert len(checkpoint.all_rows) == 6
    limited = Query41(checkpoint, path=tmp_path, max_rows_per_batch=1)
    limited.latest()
    with pytest.raises(OptionError, match=r"Spark 4\.1 cannot limit"):
        limited.start()


@QUERIES
def test_the_first_batch_repeated_begins_where_it_began(
    query: type[Query41], tmp_path: Path
) -> None:
    first = many(3).rotate("binlog.000002")
    first.write(tmp_path)
    many(2, first=4).write(tmp_path, "binlog.000002")
    checkpoint = Checkpoint()
    run = query(checkpoint, path=tmp_path)
    run.start()
    assert run.plan()
    (tmp_path / "binlog.000001").unlink()
    run = query(checkpoint, path=tmp_path)
    with pytest.raises(PositionLostError, match=r"binlog\.000001"):
        run.start()


@pytest.mark.parametrize(
    ("options", "gtids"),
    [
        ({"starting_offsets": "earliest"}, range(1, 7)),
        ({"starting_offsets": f"{SID}:1-2"}, range(3, 7)),
        ({"starting_offsets": f"{SID}:1-4"}, range(5, 7)),
        ({"starting_offsets": f"{SID}:1-3:5"}, (4, 6)),
        ({"starting_offsets": f"{SID}:1-6"}, ()),
        ({"starting_offsets": "binlog.000002:4"}, range(4, 7)),
        ({"starting_timestamp": "2023-11-14T22:13:25Z"}, range(5, 7)),
        ({"starting_timestamp": "2023-11-14T22:13:22Z"}, range(2, 7)),
        ({"starting_timestamp": "2030-01-01"}, ()),
    ],
)
def test_starting_places(options: dict[str, str], gtids: Any, tmp_path: Path) -> None:
    chain(tmp_path)
    run = Query41(Checkpoint(), path=tmp_path, **options)
    run.start()
    run.drain()
    assert [row["gtid"] for row in run.checkpoint.all_rows] == [f"{SID}:{gno}" for gno in gtids]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"starting_offsets": "yesterday"}, "neither earliest, latest"),
        ({"starting_offsets": "binlog.000009:4"}, "no file 'binlog.000009'"),
        ({"starting_offsets": "latest", "starting_timestamp": "2026-01-01"}, "cannot be combined"),
        ({"max_rows_per_batch": "0"}, "at least 1"),
        ({"at": f"{SID}:1"}, "a stream does not end"),
        ({"start": "4"}, "use FILE:POS"),
    ],
)
def test_wrong_options(options: dict[str, str], told: str, tmp_path: Path) -> None:
    chain(tmp_path)
    with pytest.raises(OptionError, match=told):
        Query41(Checkpoint(), path=tmp_path, **options).drain()


# -- XA, torn transactions --------------------------------------------------------------------------


@QUERIES
def test_xa_prepared_in_an_earlier_batch(query: type[Query41], tmp_path: Path) -> None:
    log = StreamLog().plain(1).xa_prepared(2, b"x").plain(3).xa_decided(4, b"x").plain(5)
    log.write(tmp_path)
    whole = expected(tmp_path / "binlog.000001")
    run = query(Checkpoint(), path=tmp_path, max_transactions_per_batch=1)
    run.start()
    run.drain()
    assert keys(run.checkpoint.all_rows) == whole
    assert len([batch for batch in run.checkpoint.rows if batch]) == 4


def test_xa_prepared_in_a_file_before(tmp_path: Path) -> None:
    StreamLog().xa_prepared(1, b"x").rotate("binlog.000008").write(tmp_path, "binlog.000007")
    checkpoint = Checkpoint()
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    run.drain()
    assert checkpoint.all_rows == []
    StreamLog().xa_decided(2, b"x").write(tmp_path, "binlog.000008")
    run.drain()
    assert [row["gtid"] for row in checkpoint.all_rows] == [f"{SID}:2"]


@QUERIES
def test_a_crash_in_a_transaction_and_a_new_log(query: type[Query41], tmp_path: Path) -> None:
    torn = StreamLog(flags=1).plain(1).gtid(2).query(b"BEGIN").rows()
    data = torn.bytes()
    checkpoint = Checkpoint()
    (tmp_path / "binlog.000001").write_bytes(data[:-5])
    run = query(checkpoint, path=tmp_path)
    run.start()
    run.drain()
    assert [row["gtid"] for row in checkpoint.all_rows] == [f"{SID}:1"]
    StreamLog(created=1_700_000_001).plain(2).write(tmp_path, "binlog.000002")
    run.drain()
    assert [row["gtid"] for row in checkpoint.all_rows] == [f"{SID}:1", f"{SID}:2"]
