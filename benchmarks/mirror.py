"""A mirror's copy, rounds and freshness, beside Iceberg's MERGE and the Debezium engine on the same changes.

The server and its table are made once for each kind of key and size, and kept until its rows are used up. Each run copies the table,
changes rows, applies the changes from the log files in rounds, and counts the rows on both sides.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import Goal
from benchmarks.java import java_peer
from benchmarks.measure import Measured
from benchmarks.mirror_load import KEYS, SERVER, TABLE, TRANSACTION, Load

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench

__all__ = ["MirrorSizes", "mirror", "mirror_goals"]

_LARGE, _SMALL = 1_000_000, 100_000
_RATE, _SECONDS, _IDLE_SECONDS = 5_000, 30, 60
_FRESHNESS = "freshness at 5,000 changes a second"
_DEBEZIUM = "Debezium engine into nothing"
_MERGE = "MERGE of 100 k"
_SCAN = "scan by Spark after the rounds (PyIceberg and DuckDB read the same rows)"
_INDEX = {"10 M": 10_000_000, "100 M": 100_000_000}  # entries
_WARM_UP = 10_000


@dataclass(frozen=True)
class MirrorSizes:
    """Rows of the tables, and how many rounds of a million and of 100,000 changes."""

    rows: Sequence[int] = (1_000_000,)
    large: int = 2
    small: int = 10


def mirror(bench: Bench, sizes: MirrorSizes) -> None:
    """Measure all of it, table by table."""
    bench.known = {name: one for name, one in bench.known.items() if " rows: " not in name}
    for rows in sizes.rows:  # a lake that a run before left is not there any more
        for key in KEYS:
            _table(bench, key, rows, sizes)
    for size, entries in _INDEX.items():
        bench.case(_index(size), "mirror_index.py", entries, bench.folder, warmup=0, runs=1)
    bench.case(
        _FRESHNESS, "mirror_freshness.py", SERVER, _RATE, _SECONDS, _IDLE_SECONDS, warmup=0, runs=1
    )


def _index(size: str) -> str:
    return f"row index of {size} uuid keys: a round of 1 M updates, CPU seconds"


def _table(bench: Bench, key: str, rows: int, sizes: MirrorSizes) -> None:
    name = f"{key}, {rows / 1e6:g} M rows"
    load = Load(bench.folder / "mirror" / f"{key}-{rows}", key, rows)
    print(f"  {name}: the server and its table …", flush=True)
    try:  # a server that is left running would be taken for the next one
        load.start(_WARM_UP + sizes.large * _LARGE + sizes.small * _SMALL)
        with tempfile.TemporaryDirectory(prefix="binlake-bench-", dir=bench.folder) as scratch:
            _measured(bench, name, load, Path(scratch), sizes)
    finally:
        load.server.stop()


def _measured(bench: Bench, name: str, load: Load, scratch: Path, sizes: MirrorSizes) -> None:
    lake = scratch / "lake"
    source = (load.url, load.logs, lake, TABLE)
    bench.case(f"{name}: copy", "mirror_copy.py", *source, warmup=0, runs=1)
    merge = (lake, TABLE, load.logs)
    prepare = f"{name}: copy for MERGE"
    bench.case(prepare, "mirror_merge.py", "prepare", *merge, 1, warmup=0, runs=1)
    warm_up = _debezium_begins(load, scratch)
    changes = load.change(sizes.large * _LARGE)
    per_change = load.log_bytes() / (warm_up + changes)

    def log_of(size: int) -> int:
        """Bytes of log in which so many changes fit: half a transaction more, for they differ a little."""
        return int(per_change * (size + TRANSACTION / 2))

    def rounds(what: str, size: int, count: int) -> None:
        words = ("mirror_rounds.py", *source, log_of(size), count)
        _same_rows(bench.case(f"{name}: rounds of {what}", *words, warmup=0, runs=1), load)

    rounds("1 M", _LARGE, warm_up + changes)
    engine = _debezium(load, scratch, changes)
    bench.command(f"{name}: {_DEBEZIUM}", engine, warmup=0, runs=1)
    batch = log_of(_SMALL)
    bench.case(f"{name}: {_MERGE}", "mirror_merge.py", "merge", *merge, batch, warmup=0, runs=1)
    rounds("100 k", _SMALL, load.change(sizes.small * _SMALL))
    readers = f"{name}: {_SCAN}"
    read = bench.case(readers, "mirror_readers.py", lake, TABLE, warmup=0, runs=1)
    expected = [str(load.count()), load.total()]
    for reader, found in read.output["sums"].items():
        if found != expected:
            raise SystemExit(f"{readers}: {reader} reads {found}, and the server has {expected}")


def _same_rows(measured: Measured, load: Load) -> None:
    """Figures of a lake that differs from its source would be worth nothing."""
    here, there = measured.output["rows"], load.count()
    if here != there:
        raise SystemExit(f"{measured.name}: the lake has {here} rows, the server {there}")


def _debezium(load: Load, scratch: Path, changes: int) -> list[str | Path]:
    folder = scratch / "debezium"
    folder.mkdir(exist_ok=True)
    words: list[str | Path] = [str(load.server.port), TABLE, folder, str(changes)]
    return [*java_peer("debezium", "ReadServer"), *words]


def _debezium_begins(load: Load, scratch: Path) -> int:
    """Have the engine know its place in the log; returns how many changes were made for that."""
    load.server.execute(
        "CREATE USER IF NOT EXISTS bench@localhost IDENTIFIED BY 'bench', "
        "bench@'127.0.0.1' IDENTIFIED BY 'bench'",
        "GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES ON *.* "
        "TO bench@localhost, bench@'127.0.0.1'",
    )
    command = [str(word) for word in _debezium(load, scratch, _WARM_UP)]
    with _running(command) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        changed = load.change(_WARM_UP)
        if engine.wait():
            raise SystemExit("the Debezium engine did not read the first changes")
    return changed


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with (
        tempfile.TemporaryFile() as errors,  # it says much that is no error
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def mirror_goals(done: Mapping[str, Measured]) -> Iterator[Goal]:
    """The lines of the result table, of what was measured."""
    for name in done:
        table, _, what = name.partition(": ")
        if what == "copy":
            yield from _table_goals(table)
    for name in filter(done.__contains__, map(_index, _INDEX)):
        yield Goal(name, _seconds(name), "", bool)
    if _FRESHNESS in done:
        yield from _freshness_goals()


def _ratio(name: str, other: str, field: str) -> Callable[[dict[str, Measured]], float]:
    return lambda done: done[name].output[field] / done[other].output[field]


def _seconds(name: str) -> Callable[[dict[str, Measured]], float]:
    return lambda done: done[name].seconds


def _value(name: str, field: str, unit: float = 1.0) -> Callable[[dict[str, Measured]], float]:
    return lambda done: done[name].output[field] / unit


def _at_least(least: float) -> tuple[str, Callable[[float], bool]]:
    return f">= {least:,g}", lambda value: value >= least


def _at_most(most: float) -> tuple[str, Callable[[float], bool]]:
    return f"<= {most:,g}", lambda value: value <= most


def _table_goals(table: str) -> Iterator[Goal]:
    copy, large, small = (
        f"{table}: {what}" for what in ("copy", "rounds of 1 M", "rounds of 100 k")
    )
    rate = "changes_per_second"
    yield Goal(
        f"{copy}, rows per CPU-second of binlake",
        _value(copy, "rows_per_cpu_second"),
        *_at_least(250_000),
    )
    yield Goal(f"{large}, changes/s from log files", _value(large, rate), *_at_least(250_000))
    yield Goal(f"{small}, changes/s from log files", _value(small, rate), *_at_least(120_000))
    yield Goal(
        f"{small}: the last quarter of the rounds vs the first",
        _value(small, "last_quarter"),
        *_at_most(1.2),
    )
    for name in (copy, large, small):
        yield Goal(
            f"{name}, resident MB, JVM included",
            _value(name, "resident_bytes", 1 << 20),
            *_at_most(2048),
        )
    yield Goal(
        f"{large} vs the Debezium engine into nothing",
        _ratio(large, f"{table}: {_DEBEZIUM}", rate),
        "",
        bool,
    )
    merge = f"{table}: {_MERGE}"
    yield Goal(f"{small} vs Iceberg MERGE of 100 k", _ratio(small, merge, rate), "", bool)
    scan = f"{table}: {_SCAN}"
    yield Goal(
        f"{scan} vs the same when all files are compacted",
        lambda done: done[scan].seconds / done[scan].output["compacted_seconds"],
        *_at_most(2.0),
    )


def _freshness_goals() -> Iterator[Goal]:
    yield Goal(f"{_FRESHNESS}, s: median", _seconds(_FRESHNESS), *_at_most(3))
    yield Goal("the same: 99th percentile", _value(_FRESHNESS, "p99"), *_at_most(10))
    yield Goal(
        "the same: resident MB, JVM included",
        _value(_FRESHNESS, "resident_bytes", 1 << 20),
        *_at_most(2048),
    )
    yield Goal("idle: commits", _value(_FRESHNESS, "idle_commits"), *_at_most(0))
    yield Goal(
        "idle: share of a core in the first minute, in which the JVM compiles",
        _value(_FRESHNESS, "idle_cpu_at_first"),
        "",
        bool,
    )
    yield Goal("idle: share of a core after that", _value(_FRESHNESS, "idle_cpu"), *_at_most(0.02))
