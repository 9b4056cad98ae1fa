"""Sums over real logs agree with what every other way of reading them says."""

from __future__ import annotations

import gc
import gzip
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import BinlogError, FormatError, UnsupportedError
from binlake.events.common.table_map import TableMapEvent
from binlake.format.event_types import EVENT_TYPES, Role
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Transaction
from binlake.stream.statistics import Statistics
from binlake.table.counting.counted import LIMITS, CountingLimits
from binlake.table.counting.counting_walk import CountingWalk
from binlake.table.counting.gather import gather
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.corpus_files import keys_beside
from support.logs.log_builder import ROWS, TABLE_MAP
from support.logs.stream_log import StreamLog, rows_body, table_map_body
from support.oracles.reading import row_lines

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/*/binlog.index"))


def document(
    *paths: Path | str,
    ledger: Ledger | None = None,
    limits: CountingLimits = LIMITS,
    **given: Any,
) -> dict[str, Any]:
    held = Ledger() if ledger is None else ledger
    chains = resolve([str(path) for path in paths])
    options = ReadOptions.parse(given)
    found = gather(chains, options, held, Statistics(top=10_000), limits=limits)
    return found.to_json(held)


def rows_by_table(*paths: Path, **given: Any) -> Counter[tuple[str, str]]:
    lines = row_lines(*paths, **given)
    return Counter((f"{row['database']}.{row['table']}", f"{row['op']}s") for row in lines)


def stats_by_table(found: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (entry["table"], op): entry[op]
            for entry in found["tables"]["top"]
            for op in ("inserts", "updates", "deletes")
            if entry[op]
        }
    )


def event_bytes(*paths: Path, **given: Any) -> Counter[str]:
    """Bytes of the rows events by table, event by event, of all committed transactions."""
    result: Counter[str] = Counter()
    chains = resolve([str(path) for path in paths])
    for reader in LogReader.of_chains(chains, ReadOptions.parse(given), Ledger()):
        for transaction in reader.transactions():
            names: dict[int, str] = {}
            for piece in transaction.pieces():
                for index in range(piece.first, piece.last):
                    event = _event(piece.window, index)
                    if isinstance(event, TableMapEvent):
                        names[event.table_id] = f"{event.database}.{event.table}"
                    elif EVENT_TYPES[event.frame.type_code].role is Role.ROWS and event.columns:
                        result[names[event.table_id]] += event.frame.length
    return result


def _event(window: Any, index: int) -> Any:
    from binlake.stream.event_at import event_at

    return event_at(window, index)


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_golden_logs_sum_up(case: Path) -> None:
    index = case / "binlog.index"
    keys = keys_beside(index)
    found = document(index, **keys)
    transactions: list[Transaction] = []
    for reader in LogReader.of_chains(resolve([str(index)]), ReadOptions.parse(keys), Ledger()):
        transactions += reader.transactions()
    assert found["total"]["transactions"] == len(transactions)
    assert found["total"]["bytes"] == sum(t.bytes for t in transactions)
    ranked = {(t["file"], t["pos"]): t for t in found["largest_by_bytes"]}
    assert len(ranked) == len(transactions)
    for t in transactions:
        entry = ranked[t.start.file, t.start.offset]
        assert (entry["gtid"], entry["bytes"], entry["thread_id"], entry["server_id"]) == (
            t.gtid,
            t.bytes,
            t.thread_id,
            t.server_id,
        )
        assert entry["duration_seconds"] * 1_000_000 == t.duration_us
    assert {e["table"]: e["bytes"] for e in found["tables"]["top"]} == event_bytes(index, **keys)
    for part in ("servers", "threads"):
        for name in ("transactions", "bytes", "rows"):
            assert sum(e[name] for e in found[part]["top"]) == found["total"][name]
    for name in ("transactions", "bytes", "rows"):
        assert sum(e[name] for e in found["time"]["buckets"]) == found["total"][name]
    try:
        wanted = rows_by_table(index, **keys)
    except UnsupportedError:  # then they cannot be counted either, and that is said
        assert found["uncounted_transactions"] > 0
        assert any("the counts lack rows of some transactions" in r for r in found["remarks"])
    else:
        assert found["uncounted_transactions"] == 0
        assert stats_by_table(found) == wanted


@pytest.mark.parametrize("limits", [(1, 1 << 30, 32 << 20), (3, 1, 1024), (1 << 20, 1 << 30, 2000)])
@pytest.mark.parametrize(
    "case",
    ["mysql-9.7/transactions", "mysql-9.7/types-compressed", "mariadb-11.8/embedded",
     "mysql-9.7/partial-json", "mysql-5.6.24/rotation"],
)  # fmt: skip
def test_batches_of_any_size_have_the_same_sums(case: str, limits: tuple[int, int, int]) -> None:
    index = GOLDEN / case / "binlog.index"
    wanted = document(index)
    transactions, held_bytes, batch_bytes = limits
    small = CountingLimits(
        batch_transactions=transactions,
        held_bytes=held_bytes,
        held_runs=1 + transactions % 3,
        few_groups=transactions,
        tables=2,
    )
    assert document(index, batch_bytes=batch_bytes, limits=small) == wanted


def test_a_stream_and_a_compressed_file_have_the_same_sums(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = GOLDEN / "mysql-9.7/transactions/binlog.000001"
    wanted = document(log)
    packed = tmp_path / "binlog.000001.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert document(packed) == wanted

    with packed.open("rb") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        piped = document("-")
    for name in ("total", "tables", "servers", "threads", "time", "statements"):
        assert piped[name] == wanted[name]


@pytest.mark.parametrize(
    "given",
    [
        {"table": ["*.a", "*.b"]},
        {"exclude_table": ["*.b"]},
        {"op": ["insert"]},
        {"op": ["delete"], "table": ["*.b"]},
        {"thread": ["12"]},
        {"start": "binlog.000001:2000", "stop": "binlog.000001:20000"},
        {"since": "2026-11-21 10:00:00", "until": "2027-01-01"},
        {"until": "2020-01-01"},
        {"table": ["no.such"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("server", ["mysql-9.7", "mysql-5.6.24", "mariadb-10.11"])
def test_filters_choose_as_everywhere(server: str, given: dict[str, Any]) -> None:
    log = GOLDEN / server / "transactions/binlog.000001"
    found = document(log, **given)
    assert stats_by_table(found) == rows_by_table(log, **given)
    if {"table", "exclude_table", "op"} & set(given):
        with_rows = {(row["gtid"], row["ts"]) for row in row_lines(log, **given)}
        assert found["total"]["transactions"] >= len(with_rows)
        assert bool(found["total"]["transactions"]) == bool(with_rows)
        assert all(entry["rows"] for entry in found["largest_by_bytes"])


def test_uncommitted_transactions_count_when_asked_for() -> None:
    log = GOLDEN / "mysql-9.7/transactions/binlog.000001"
    options = ReadOptions(uncommitted=True)
    (reader,) = LogReader.of_chains(resolve([str(log)]), options, Ledger())
    shown = list(reader.transactions())
    found = document(log, uncommitted=True)
    assert found["total"]["transactions"] == len(shown)
    assert len(shown) > document(log)["total"]["transactions"]
    assert stats_by_table(found) == rows_by_table(log, uncommitted=True)


def test_damaged_rows_are_an_error_or_uncounted(tmp_path: Path) -> None:
    log = StreamLog().plain(1).gtid(2).query(b"BEGIN")
    log.add(TABLE_MAP, table_map_body())
    log.add(ROWS, rows_body(2)[:-1])  # the last row is cut, the checksum right
    log.xid().plain(3)
    path = log.write(tmp_path)
    with pytest.raises(FormatError):
        document(path)
    found = document(path, on_error="skip")
    assert (found["total"]["transactions"], found["total"]["inserts"]) == (3, 2)
    assert found["uncounted_transactions"] == 1
    assert [t["rows"] for t in found["largest_by_bytes"]] == [None, 1, 1]
    assert found["tables"]["top"][0]["bytes"] == sum(event_bytes(path).values())


def test_the_corpus_sums_up(corpus: Path) -> None:
    """Logs of many kinds and versions: the same rows as `binlake rows` counts, or its error."""
    checked = 0
    for path in sorted((corpus / "generated").glob("*/*/binlog.0*")):
        if path.suffix == ".gz" and path.stat().st_size > 2_000_000:
            continue
        log = binlake.open(path, invalid="hex")
        try:
            for _ in log.changes():
                pass
        except BinlogError:
            continue
        wanted = Counter(
            {
                (".".join(n), f"{op}s"): c
                for n, ops in log.ledger.rows.items()
                for op, c in ops.items()
                if c
            }
        )
        assert stats_by_table(document(path)) == wanted, path
        checked += 1
    assert checked > 40


def test_transactions_with_and_without_gtid_in_one_run(tmp_path: Path) -> None:
    log = StreamLog().plain(1)
    log.query(b"BEGIN").rows(2).xid()
    log.plain(2)
    found = document(log.write(tmp_path))
    assert [t["gtid"] for t in found["largest_by_bytes"]].count(None) == 1
    assert found["total"]["transactions"] == 3
    assert found["threads"]["top"] == [{"thread_id": 7, **found["total"]}]


def test_a_counting_walk_is_freed_without_the_garbage_collector() -> None:
    """Its buffers stayed until the interpreter looked for cycles: after hundreds of logs."""
    walk = CountingWalk(ReadOptions(), Ledger())
    gone = weakref.ref(walk)
    gc.disable()
    try:
        del walk
        assert gone() is None
    finally:
        gc.enable()
