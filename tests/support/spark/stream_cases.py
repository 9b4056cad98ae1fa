"""Logs for tests of streams, and the rows that a stream has to deliver from them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from binlake.source.log_file import LogFile
from binlake.values.gtid import GtidSet
from support.logs.stream_log import SID, StreamLog
from support.oracles.reading import row_lines
from support.spark.stream_query import Checkpoint, Query41, Query42

__all__ = [
    "GOLDEN",
    "NEW",
    "OLD",
    "QUERIES",
    "begun",
    "chain",
    "event_ends",
    "expected",
    "keys",
    "logs_of",
    "many",
    "stopped_in_the_middle",
]

GOLDEN = Path(__file__).parents[2] / "golden"
Key = tuple[str, int, int]


def logs_of(case: str) -> list[Path]:
    return sorted((GOLDEN / case).glob("binlog.0*"))


def keys(rows: list[dict[str, Any]]) -> list[Key]:
    return [(row["file"], row["pos"], row["row"]) for row in rows]


def expected(*paths: Path, **options: Any) -> list[Key]:
    return keys(list(row_lines(*paths, **options)))


def event_ends(path: Path) -> list[int]:
    with LogFile.open(str(path)) as log:
        return [w.block.end(i) for w in log.windows(verify=False) for i in range(len(w))]


def many(transactions: int, first: int = 1) -> StreamLog:
    log = StreamLog()
    for gno in range(first, first + transactions):
        log.plain(gno, commit_us=1_700_000_000_000_000 + gno * 1_000_000)
    return log


def chain(folder: Path) -> None:
    """Transactions 1 to 3 in the first log, 4 to 6 in the second."""
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


def begun(log: StreamLog, seconds: int = 1_700_000_001) -> bytes:
    """A log with a format description of another time."""
    data = bytearray(log.bytes())
    length = struct.unpack_from("<I", data, 4 + 9)[0]
    struct.pack_into("<I", data, 4, seconds)
    struct.pack_into("<I", data, length, zlib.crc32(data[4:length]))
    return bytes(data)


#: Runs a test as each version of Spark asks.
QUERIES = pytest.mark.parametrize("query", [Query41, Query42])


OLD, NEW = str(SID), "7aef6be2-e595-11f1-81fc-02fc00000001"


def stopped_in_the_middle(folder: Path) -> Checkpoint:
    """A stream that came to the end of transaction 2."""
    chain(folder)
    run = Query41(Checkpoint(), path=folder, max_transactions_per_batch=2)
    run.start()
    run.batch()
    return run.checkpoint
