"""An index beside a log saves reading and changes nothing: every filter, with it and without."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.source.resolve import resolve
from binlake.stream.index import passages
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import plan_splits
from binlake.table.counting.indexing import index_of
from binlake.values.gtid import Gtid
from binlake.values.ledger import Ledger
from binlake.values.log_names import index_path
from binlake.values.options import ReadOptions
from support.logs.mutations import all_or_a_third

CASES = [
    "mysql-5.6.24/gtid",
    "mysql-5.6.24/rotation",
    "mysql-5.6.24/statements",
    "mysql-9.7/gtid",
    "mysql-9.7/rotation",
    "mysql-9.7/schema",
    "mysql-9.7/statements",
    "mysql-9.7/transactions",
    "mysql-9.7/types-compressed",
    "mariadb-10.11/transactions",
    "mariadb-11.8/gtid",
    "mariadb-11.8/schema",
]


@pytest.fixture(autouse=True)
def _jump_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden logs are small: without this nothing in them is worth passing over."""
    monkeypatch.setattr(passages, "_WORTH_A_JUMP_BYTES", 1)


@pytest.fixture(params=CASES)
def folder(request: pytest.FixtureRequest, golden: Path, tmp_path: Path) -> Path:
    """A copy of a case's logs."""
    for path in sorted((golden / request.param).glob("binlog.0*")):
        shutil.copy(path, tmp_path / path.name)
    return tmp_path


def write_indexes(folder: Path) -> None:
    for chain in resolve([str(folder)]):
        for path in chain.files:
            Path(index_path(path.path)).write_bytes(index_of(path).to_bytes())


def choices(folder: Path) -> Iterator[dict[str, Any]]:
    """Options that choose parts of the logs, made of what is in them."""
    transactions = list(binlake.open(folder).transactions())
    for share in (0.0, 0.6, 1.0) if len(transactions) < 50 else (0.5,):
        found = transactions[int(share * (len(transactions) - 1))]
        yield {"since": f"@{found.commit_us / 1e6:.6f}"}
        yield {"until": f"@{found.commit_us / 1e6:.6f}"}
        yield {"start": f"{found.start.file}:{found.start.offset}"}
        yield {"stop": f"{found.start.file}:{found.start.offset}"}
        yield {"at": f"{found.start.file}:{found.start.offset + 1}"}
        yield {"thread": str(found.thread_id or 1)}
        if found.gtid:
            yield {"gtid": found.gtid}
            yield {"exclude_gtid": found.gtid}
            yield {"at": found.gtid}
    tables = list(binlake.open(folder).tables())
    for name in tables[:2]:
        yield {"table": name}
        yield {"exclude_table": name}
        yield {"table": name, "op": "update", "since": f"@{transactions[0].commit_us / 1e6:.6f}"}
    yield {"table": "no.such", "uncommitted": True}
    yield {"op": "delete"}
    yield {"server_id": "1"}
    yield {"server_id": "99"}


def answers(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """All that a read of logs with these options says, but how much of them was read."""
    result: dict[str, Any] = {}
    log = binlake.open(folder, **options)
    readings: dict[str, Callable[[], list[Any]]] = {
        "changes": lambda: [batch.to_pylist() for batch in log.changes()],
        "transactions": lambda: [batch.to_pylist() for batch in log.view("transactions")],
        "events": lambda: [(e.file, e.pos, e.inner, bytes(e.raw)) for e in log.events()],
    }
    for name, read in readings.items():
        result[name] = _flat(read())
        result[name + " ledger"] = _told(log.ledger)
    return result


def _flat(found: list[Any]) -> list[Any]:
    return [row for item in found for row in (item if isinstance(item, list) else [item])]


def _told(ledger: Ledger) -> dict[str, Any]:
    told = json.loads(json.dumps(ledger.to_json()))
    kept = ("rows", "names", "unshown", "zero_dates", "skipped", "warnings")
    outcomes = {name: count for name, count in ledger.transactions.items() if count}
    return {name: told[name] for name in kept} | {"all": outcomes, "remarks": ledger.remarks()}


def test_an_index_changes_no_answer(folder: Path, request: pytest.FixtureRequest) -> None:
    # each choice is asked of every third case
    asked = all_or_a_third(
        [*choices(folder)], CASES.index(request.node.callspec.params["folder"]) % 3
    )
    before = [answers(folder, options) for options in asked]
    write_indexes(folder)
    for options, expected in zip(asked, before, strict=True):
        assert answers(folder, options) == expected, options


def test_splits_read_with_an_index_give_the_same(golden: Path, tmp_path: Path) -> None:
    shutil.copy(golden / "mysql-9.7/types-full/binlog.000001", tmp_path)
    asked = list(choices(tmp_path))

    def read() -> list[Any]:
        found: list[Any] = []
        for given in asked:
            options = ReadOptions.parse(given)
            ledger = Ledger()
            spots = [
                (t.start, t.gtid)
                for split in plan_splits([str(tmp_path)], options, 50_000)
                for t in LogReader.of_split(split, options, ledger).transactions()
            ]
            # a transaction without a wanted table may be read, or only counted
            found.append(None if options.chooses_rows else spots)
            assert not ledger.join_problems()
            found.append(dict(ledger.transactions))
        return found

    before = read()
    write_indexes(tmp_path)
    assert read() == before


def test_bytes_are_saved(golden: Path, tmp_path: Path) -> None:
    shutil.copy(golden / "mysql-9.7/types-full/binlog.000001", tmp_path)
    table = min(binlake.open(tmp_path).tables())

    def read_bytes() -> int:
        log = binlake.open(tmp_path, table=table)
        assert sum(batch.num_rows for batch in log.changes())
        return log.ledger.total.bytes

    before = read_bytes()
    write_indexes(tmp_path)
    assert read_bytes() < before / 2


@pytest.mark.parametrize("harm", ["grown", "other", "garbage", "renamed"])
def test_a_mismatched_index_is_ignored_with_a_warning(
    golden: Path, tmp_path: Path, harm: str
) -> None:
    log = tmp_path / "binlog.000001"
    shutil.copy(golden / "mysql-9.7/types-full/binlog.000001", log)
    (path,) = resolve([str(log)])[0].files
    index = tmp_path / "binlog.000001.index.parquet"
    index.write_bytes(index_of(path).to_bytes())
    if harm == "grown":
        *_, last = binlake.open(log).events()
        log.write_bytes(log.read_bytes()[: last.pos])  # the index is of what it became
    elif harm == "other":
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
    elif harm == "garbage":
        index.write_bytes(b"PAR1 and nothing")
    else:
        index.rename(tmp_path / "binlog.000002.index.parquet")
        shutil.copy(golden / "mysql-9.7/types-noblob/binlog.000001", tmp_path / "binlog.000002")
        log = tmp_path / "binlog.000002"
    read = binlake.open(log, table="no.such", verify_checksum=False)
    list(read.changes())
    assert any("ignored the index" in sentence for sentence in read.ledger.warnings)


def test_no_damage_to_an_index_changes_an_answer(golden: Path, tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    shutil.copy(golden / "mysql-9.7/types-full/binlog.000001", log)
    table = next(iter(binlake.open(log).tables()))
    expected = _flat([batch.to_pylist() for batch in binlake.open(log, table=table).changes()])
    write_indexes(tmp_path)
    index = tmp_path / "binlog.000001.index.parquet"
    whole = index.read_bytes()
    chance = random.Random(1)
    ignored = 0
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        index.write_bytes(damaged)
        read = binlake.open(log, table=table)
        assert _flat([batch.to_pylist() for batch in read.changes()]) == expected
        ignored += any("ignored the index" in sentence for sentence in read.ledger.warnings)
    assert ignored > 30


def test_locate_asks_the_index(golden: Path, tmp_path: Path) -> None:
    from binlake.stream.positions import gtid_search

    for path in sorted((golden / "mysql-9.7/gtid").glob("binlog.0*")):
        shutil.copy(path, tmp_path / path.name)
    (chain,) = resolve([str(tmp_path)])
    gtids = [t.gtid for t in binlake.open(tmp_path).transactions() if t.gtid]
    wanted = [Gtid.parse(text) for text in gtids]
    before = [gtid_search.locate(chain, gtid) for gtid in wanted]
    write_indexes(tmp_path)
    assert [gtid_search.locate(chain, gtid) for gtid in wanted] == before
