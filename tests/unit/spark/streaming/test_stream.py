"""Streams as Spark asks for them: growth, restarts, limits, places that are lost.

Long: every state in which a query may be killed, once.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import struct
import threading
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

import binlake
from binlake.archive.layout import ArchiveState
from binlake.errors import OptionError, PositionLostError, SchemaError, SourceError
from binlake.source.log_file import LogFile
from binlake.spark.streaming.logs import DirectoryLogs, LogsNow
from binlake.spark.streaming.offsets import StreamOffset
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.values.options import ReadOptions
from binlake.values.position import Position
from support.logs.log_builder import QUERY, ROWS, TABLE_MAP, query_body
from support.logs.stream_log import SID, StreamLog
from support.logs.table_log import Log as TableLog
from support.logs.table_log import image, rows_body, table_map
from support.oracles.reading import lines_without_ddl
from support.spark.stream_query import Checkpoint, Query41, Query42

GOLDEN = Path(__file__).parents[3] / "golden"
CASES = (
    "mysql-9.7/transactions",
    "mysql-9.7/rotation",
    "mysql-5.6.24/transactions",
    "mariadb-11.8/transactions",
    "mariadb-10.11/rotation",
)
QUERIES = pytest.mark.parametrize("query", [Query41, Query42])

OLD, NEW = str(SID), "7aef6be2-e595-11f1-81fc-02fc00000001"

Key = tuple[str, int, int]


def logs_of(case: str) -> list[Path]:
    return sorted((GOLDEN / case).glob("binlog.0*"))


def keys(rows: list[dict[str, Any]]) -> list[Key]:
    return [(row["file"], row["pos"], row["row"]) for row in rows]


def expected(*paths: Path, **options: Any) -> list[Key]:
    return keys(list(lines_without_ddl(*paths, **options)))


def event_ends(path: Path) -> list[int]:
    with LogFile.open(str(path)) as log:
        return [w.block.end(i) for w in log.windows(verify=False) for i in range(len(w))]


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
    """The place behind what will never be whole is found again, in every batch and restart."""
    torn = many(3).gtid(4).query(b"BEGIN").rows().write(tmp_path)
    following = tmp_path / "binlog.000002"
    following.touch()
    checkpoint = Checkpoint()
    for _ in range(2):
        run = query(checkpoint, path=tmp_path, starting_offsets="earliest")
        run.start()
        run.drain()
    end = json.loads(checkpoint.ends[-1])
    assert (end["file"], end["offset"]) == (torn.name, torn.stat().st_size)
    assert end["last_events"]
    following.write_bytes(many(2, first=4).bytes())
    run = query(checkpoint, path=tmp_path, starting_offsets="earliest")
    run.start()
    run.drain()
    assert keys(checkpoint.all_rows) == expected(torn, following)


def test_a_trail_that_ends_elsewhere_is_not_written() -> None:
    position = Position(OLD, "binlog.000001", 500, "")
    fingerprint = LogFingerprint(300, 400, "00" * 8)
    assert "last_events" not in StreamOffset(position, fingerprint=fingerprint).to_json()
    here = StreamOffset(position, fingerprint=LogFingerprint(300, 500, "00" * 8))
    assert StreamOffset.from_json(here.to_json()) == here


# -- limits -----------------------------------------------------------------------------------------


def many(transactions: int, first: int = 1) -> StreamLog:
    log = StreamLog()
    for gno in range(first, first + transactions):
        log.plain(gno, commit_us=1_700_000_000_000_000 + gno * 1_000_000)
    return log


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
    from support.spark.stream_query import ReadAllAvailable

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


def test_spark_4_1_that_asks_before_it_tells(tmp_path: Path) -> None:
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


def chain(folder: Path) -> None:
    """Transactions 1 to 3 in the first log, 4 to 6 in the second."""
    from binlake.values.gtid import GtidSet

    second = StreamLog()
    second.previous(GtidSet.parse(f"{SID}:1-3").encode())
    for gno in (4, 5, 6):
        second.plain(gno, commit_us=1_700_000_000_000_000 + gno * 1_000_000)
    first = StreamLog()
    first.previous(GtidSet().encode())
    for gno in (1, 2, 3):
        first.plain(gno, commit_us=1_700_000_000_000_000 + gno * 1_000_000)
    first.rotate("binlog.000002").write(folder)
    (folder / "binlog.000002").write_bytes(begun(second, 1_700_000_003))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"starting_offsets": "yesterday"}, "neither earliest, latest"),
        ({"starting_offsets": "binlog.000009:4"}, "no file 'binlog.000009'"),
        ({"starting_offsets": "latest", "starting_timestamp": "2026-01-01"}, "exclude each other"),
        ({"max_rows_per_batch": "0"}, "at least 1"),
        ({"at": f"{SID}:1"}, "a stream does not end"),
        ({"start": "4"}, "use FILE:POS"),
    ],
)
def test_wrong_options(options: dict[str, str], told: str, tmp_path: Path) -> None:
    chain(tmp_path)
    with pytest.raises(OptionError, match=told):
        Query41(Checkpoint(), path=tmp_path, **options).drain()


# -- what is lost -----------------------------------------------------------------------------------


def stopped_in_the_middle(folder: Path) -> Checkpoint:
    """A stream that came to the end of transaction 2."""
    chain(folder)
    run = Query41(Checkpoint(), path=folder, max_transactions_per_batch=2)
    run.start()
    run.batch()
    return run.checkpoint


def test_purged(tmp_path: Path) -> None:
    checkpoint = stopped_in_the_middle(tmp_path)
    (tmp_path / "binlog.000001").unlink()
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    with pytest.raises(PositionLostError, match=f"{SID}:3") as caught:
        run.batch()
    assert "binlog.000001" in str(caught.value)


def test_purged_behind_the_place(tmp_path: Path) -> None:
    chain(tmp_path)
    run = Query41(Checkpoint(), path=tmp_path, max_transactions_per_batch=3)
    run.start()
    run.batch()
    (tmp_path / "binlog.000001").unlink()
    run.drain()
    assert len(run.checkpoint.all_rows) == 6


@pytest.mark.parametrize("repeats", [False, True])
def test_another_log_of_that_name_and_second(repeats: bool, tmp_path: Path) -> None:
    """Its events have the same sizes, so that the place is one between two transactions."""
    checkpoint = stopped_in_the_middle(tmp_path)
    log = tmp_path / "binlog.000001"
    data = bytearray(log.read_bytes())
    for frame_end in event_ends(log)[2:]:
        data[frame_end - 1] ^= 0xFF
    log.write_bytes(data)
    checkpoint.committed -= repeats
    run = Query41(checkpoint, path=tmp_path)
    step = run.start if repeats else run.batch
    with pytest.raises(PositionLostError, match="another log now"):
        step()


def test_a_gap(tmp_path: Path) -> None:
    checkpoint = stopped_in_the_middle(tmp_path)
    (tmp_path / "binlog.000002").rename(tmp_path / "binlog.000003")
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    with pytest.raises(PositionLostError, match=r"between binlog\.000001 and binlog\.000003"):
        run.batch()


def test_another_log_of_that_name(tmp_path: Path) -> None:
    """The logs were reset: their GTIDs are numbered anew, and mean other transactions."""
    checkpoint = stopped_in_the_middle(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "binlog.000001").write_bytes(begun(many(8)))
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    with pytest.raises(PositionLostError, match="another log now"):
        run.batch()


def archive(folder: Path, identity: str, log: StreamLog, seconds: int = 1_700_000_000) -> Path:
    """A log as it lies in the archive of a server."""
    directory = folder / identity
    directory.mkdir(exist_ok=True)
    (directory / "binlog.000001").write_bytes(begun(log, seconds))
    (directory / "archive.json").write_bytes(ArchiveState(identity, "mysql").to_bytes())
    return directory


def test_another_server_that_lacks_what_was_seen(tmp_path: Path) -> None:
    run = Query41(Checkpoint(), path=archive(tmp_path, OLD, many(4)))
    run.start()
    run.drain()
    other = Query41(run.checkpoint, path=archive(tmp_path, NEW, many(3)))
    other.start()
    with pytest.raises(PositionLostError, match=f"not in the logs: {SID}:4"):
        other.batch()


def begun(log: StreamLog, seconds: int = 1_700_000_001) -> bytes:
    """A log with a format description of another time."""
    data = bytearray(log.bytes())
    length = struct.unpack_from("<I", data, 4 + 9)[0]
    struct.pack_into("<I", data, 4, seconds)
    struct.pack_into("<I", data, length, zlib.crc32(data[4:length]))
    return bytes(data)


@QUERIES
def test_a_server_that_takes_over_in_another_order(query: type[Query41], tmp_path: Path) -> None:
    """Transactions that were shown lie behind ones that were not: by GTID, each once."""
    checkpoint = Checkpoint()
    run = query(checkpoint, path=archive(tmp_path, OLD, many(4)))
    run.start()
    run.drain()
    other = StreamLog()
    for gno in (1, 2, 5, 3, 6, 4, 7):
        other.plain(gno)
    for seconds in (1_700_000_009, 1_700_000_009):
        run = query(checkpoint, path=archive(tmp_path, NEW, other, seconds))
        run.start()
        run.drain()
    shown = [int(row["gtid"].rpartition(":")[2]) for row in checkpoint.all_rows]
    assert shown == [1, 2, 3, 4, 5, 6, 7]


@QUERIES
def test_a_batch_planned_on_a_lost_server_is_repeated_on_another(
    query: type[Query41], tmp_path: Path
) -> None:
    checkpoint = Checkpoint()
    run = query(checkpoint, path=archive(tmp_path, OLD, many(4)), max_transactions_per_batch=2)
    run.start()
    run.batch()
    run.plan()  # 3 and 4, never committed
    other = StreamLog()
    for gno in (1, 2, 4, 5, 3, 6):
        other.plain(gno)
    run = query(checkpoint, path=archive(tmp_path, NEW, other))
    run.start()
    assert [row["gtid"] for row in checkpoint.rows[1]] == [f"{SID}:4", f"{SID}:3"]
    run.drain()
    assert len(checkpoint.all_rows) == len({row["gtid"] for row in checkpoint.all_rows}) == 6


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": 1}, "no position of a binary log"),
        ({"version": 2}, "version 2"),
        ({"version": 1, "server_uuid": "", "file": "b.1"}, "damaged"),
        (
            {"version": 1, "server_uuid": "", "file": "b.1", "offset": "4", "gtid_set": ""},
            "damaged",
        ),
        ([1], "no position"),
        (
            {"version": 1, "server_uuid": "", "file": "b.1", "offset": 40, "gtid_set": ""}
            | {"last_events": {"start": 40, "digest": "00"}},
            "damaged",
        ),
    ],
)
def test_foreign_offsets(value: Any, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        StreamOffset.from_json(value)


def test_an_offset_that_says_nothing_of_the_events_before_it(tmp_path: Path) -> None:
    """A checkpoint of an older version goes on; what it cannot prove is not asked."""
    checkpoint = stopped_in_the_middle(tmp_path)
    older = [json.loads(end) for end in checkpoint.ends]
    assert [older_end.pop("last_events") for older_end in older]
    checkpoint.ends = [json.dumps(end) for end in older]
    run = Query41(checkpoint, path=tmp_path)
    run.start()
    run.drain()
    assert len(checkpoint.all_rows) == 6


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
    StreamLog().plain(2).write(tmp_path, "binlog.000002")
    run.drain()
    assert [row["gtid"] for row in checkpoint.all_rows] == [f"{SID}:1", f"{SID}:2"]


# -- views, filters ---------------------------------------------------------------------------------


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
    [first, *_] = lines_without_ddl(*logs_of("mysql-9.7/transactions"))
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


def test_a_table_that_changes_stops_the_query_and_goes_on_in_the_next(tmp_path: Path) -> None:
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


def test_a_batch_over_many_files_is_planned_by_asking_for_them_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store answers each request after a while: eight files wait for one another here."""
    for number in range(1, 9):
        StreamLog().plain(number).write(tmp_path, f"binlog.{number:06}")
    together = threading.Barrier(4)
    created = DirectoryLogs.created

    def waits(logs: DirectoryLogs, now: LogsNow, number: int) -> int | None:
        together.wait(timeout=60)
        return created(logs, now, number)

    logs = DirectoryLogs([str(tmp_path)], ReadOptions())
    now = logs.look()
    expected = {number: logs.created(now, number) for number in now.numbers}
    assert len(expected) == 8
    monkeypatch.setattr(DirectoryLogs, "created", waits)
    assert logs.created_all(now, now.numbers) == expected
