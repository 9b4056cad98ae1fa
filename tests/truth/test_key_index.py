"""A key index beside a log saves reading and changes nothing: conditions on keys, with it and without."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake
from binlake.archive.finishing import compress
from binlake.cli.main import main
from binlake.errors import BinlogError, OptionError, UnsupportedError
from binlake.source.log_file import LogFile
from binlake.source.resolve import resolve
from binlake.stream.index import passages
from binlake.stream.index.key_index import KeyIndex
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import plan_splits
from binlake.stream.spread import Spread
from binlake.table.counting.indexing import index_of
from binlake.table.reading import as_they_are, decoded
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.table.where.key_indexing import key_index_of
from binlake.values.ledger import Ledger
from binlake.values.log_names import index_path, key_index_path
from binlake.values.options import ReadOptions
from support.logs.log_builder import ROTATE, TABLE_MAP, query_body
from support.logs.table_log import (
    INSERT,
    LONG_STATEMENT,
    UPDATE,
    Log,
    image,
    rows_body,
    table_map,
    write_keyed_log,
)

CASES = [
    "mysql-5.6.24/gtid",
    "mysql-9.7/rotation",
    "mysql-9.7/schema",
    "mysql-9.7/transactions",
    "mysql-9.7/types-compressed",
    "mysql-9.7/types-full",
    "mysql-9.7/types-minimal",
    "mariadb-10.11/transactions",
    "mariadb-11.8/schema",
    "mariadb-11.8/types-full",
]


@pytest.fixture(autouse=True)
def _jump_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden logs are small: without this nothing in them is worth passing over."""
    monkeypatch.setattr(passages, "_WORTH_A_JUMP_BYTES", 1)


def copy_of(folder: Path, into: Path) -> Path:
    for path in sorted(folder.glob("binlog.0*")):
        shutil.copy(path, into / path.name)
    return into


def write_indexes(folder: Path) -> None:
    """Both indexes of every log, in blocks of one transaction as far as numbers reach."""
    for chain in resolve([str(folder)]):
        history = SchemaHistory(declared_schema(ReadOptions()))
        for path in chain.files:
            index = index_of(path)
            keys = key_index_of(path, index, None, history, least_block_bytes=1)
            Path(index_path(path.path)).write_bytes(index.to_bytes())
            Path(key_index_path(path.path)).write_bytes(keys.to_bytes())


def conditions(folder: Path) -> Iterator[dict[str, Any]]:
    """Conditions on the key columns of the logs, made of values that are in them, and of others."""
    log = binlake.open(folder)
    for name in list(log.tables())[:12]:
        batches = list(binlake.open(folder, table=name).changes(name))
        if not batches:
            continue
        about = batches[-1].schema.metadata or {}
        for column in json.loads(about.get(b"binlake.primary_key", b"[]")):
            kinds = [b.schema.field(column).type for b in batches if column in b.schema.names]
            values = [v for b in batches if column in b.schema.names for v in b[column].to_pylist()]
            yield from of_column(name, column, values[:1] + values[-1:] if kinds else [])


def of_column(table: str, column: str, values: list[Any]) -> Iterator[dict[str, Any]]:
    for value in dict.fromkeys(values):
        if isinstance(value, bytes):
            texts = [f"0x{value.hex()}"] if value else []
        elif isinstance(value, int):
            texts = [str(value), str(value + 1_000_003)]
        elif isinstance(value, str):
            quoted = value.replace("\\", "\\\\").replace("'", "''")
            texts = [f"'{quoted}'", f"'{quoted.swapcase()}  '", "'no such key'"]
        else:
            texts = []
        for text in texts:
            yield {"table": table, "where": f"`{column}` = {text}"}
            yield {"table": table, "where": f"before.`{column}` <=> {text}", "op": "update"}
            yield {"where": f"`{column}` IN ({text}, {texts[-1]})", "whole_transaction": True}
        if isinstance(value, int):
            yield {"table": table, "where": f"`{column}` > {value} AND `{column}` <= {value} + 0"}
            yield {"table": table, "where": f"{value} >= `{column}`"}
            yield {"table": table, "where": f"`{column}` = {value} AND nosuch = 1"}
            yield {"table": table, "where": f"`{column}` = 'x'"}
            yield {"table": table, "where": f"NOT `{column}` = {value}"}


def answer(folder: Path, options: dict[str, Any]) -> Any:
    """All that a read of logs with these options says, but how much of them was read."""
    try:
        log = binlake.open(folder, **options)
        rows = [row for batch in log.changes() for row in batch.to_pylist()]
    except (OptionError, UnsupportedError) as error:
        return str(error)
    told = json.loads(json.dumps(log.ledger.to_json()))
    kept = ("rows", "names", "unshown", "zero_dates", "skipped", "warnings")
    outcomes = {name: count for name, count in log.ledger.transactions.items() if count}
    return rows, {name: told[name] for name in kept}, outcomes, log.ledger.remarks()


@pytest.mark.parametrize("case", CASES)
def test_a_key_index_changes_no_answer(case: str, golden: Path, tmp_path: Path) -> None:
    folder = copy_of(golden / case, tmp_path)
    found = list(conditions(folder))
    assert found
    asked = found[:: max(1, len(found) // 12)]
    before = [answer(folder, options) for options in asked]
    write_indexes(folder)
    for options, expected in zip(asked, before, strict=True):
        assert answer(folder, options) == expected, options


@pytest.mark.parametrize(
    "case", ["mysql-9.7/schema", "mysql-9.7/transactions", "mariadb-11.8/types-full"]
)
def test_a_history_is_the_same(case: str, golden: Path, tmp_path: Path) -> None:
    folder = copy_of(golden / case, tmp_path)
    keys = dict.fromkeys(
        (name, value)
        for name in binlake.open(folder).tables()
        for value in (1, 2, 3, "x", "999999")
    )

    def histories() -> list[Any]:
        found: list[Any] = []
        for name, value in keys:
            log = binlake.open(folder)
            try:
                found.append([list(log.history(name, value).to_json()), log.ledger.remarks()])
            except BinlogError as error:
                found.append(str(error))
        return found

    before = histories()
    assert sum(len(one[0]) > 1 for one in before if not isinstance(one, str))
    write_indexes(folder)
    assert histories() == before


def test_splits_read_with_a_key_index_give_the_same(golden: Path, tmp_path: Path) -> None:
    folder = copy_of(golden / "mysql-9.7/transactions", tmp_path)
    table = next(iter(binlake.open(folder).tables()))
    options = ReadOptions.parse({"table": table, "where": "id = 3"})

    def read() -> Any:
        ledger = Ledger()
        rows = []
        for split in plan_splits([str(folder)], options, 700):
            reader = LogReader.of_split(split, options, ledger)
            spread = Spread[Any](options, ledger, lambda *_: None)
            schema = declared_schema(options)
            for changes in decoded(reader, spread, Target.TYPED, schema, as_they_are):
                rows += [row for b in changes.table_batches(options) for row in b.batch.to_pylist()]
        assert not ledger.join_problems()
        return rows, dict(ledger.transactions)

    before = read()
    assert before[0]
    write_indexes(folder)
    assert read() == before


# -- what is read ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three logs of 2 MB with ascending keys, indexed by the command."""
    folder = tmp_path_factory.mktemp("indexed")
    for number in (1, 2, 3):
        keys = range(number * 10_000, number * 10_000 + 4_000)
        write_keyed_log(folder / f"binlog.00000{number}", keys)
    assert main(["index", "--keys", str(folder)]) == 0
    return folder


@pytest.fixture
def logs(indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of these, with the real size of a jump."""
    monkeypatch.undo()
    return shutil.copytree(indexed, tmp_path / "logs", copy_function=shutil.copy2)


def read(path: Path, where: str, **options: Any) -> tuple[list[int], int]:
    """The keys of the rows that match, and how many bytes were read for them."""
    log = binlake.open(path, where=where, **options)
    return keys_of(log), log.ledger.total.bytes


def keys_of(log: binlake.Log) -> list[int]:
    """The key of each row change."""
    return [json.loads(row["after"])["id"] for batch in log.changes() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("id = 22000", [22_000]),
        ("id = 22000.0", [22_000]),
        ("22000 <=> after.id", [22_000]),
        ("id IN (12000, 32000)", [12_000, 32_000]),
        ("id BETWEEN 22000 AND 22002", [22_000, 22_001, 22_002]),
        ("name = 'NAME22000 '", [22_000]),
        ("id = 22000 AND name = 'Name22001'", []),
        ("id = 5", []),
    ],
)
def test_only_the_blocks_with_the_key_are_read(logs: Path, where: str, found: list[int]) -> None:
    size = sum(path.stat().st_size for path in logs.glob("binlog.00000?"))
    rows, read_bytes = read(logs, where)
    assert rows == found
    assert read_bytes < 0.5 * size  # of three logs of four blocks, and always the first one


def test_a_log_without_the_key_is_not_opened(logs: Path) -> None:
    log = binlake.open(logs, where="id = 11000")
    assert keys_of(log) == [11_000]
    assert list(log.ledger.files) == ["binlog.000001"]
    assert log.ledger.transactions["committed"] == 120


def test_of_a_log_with_ddl_only_the_ddl_and_the_blocks_with_the_key_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without the other index, which is read much more slowly."""
    monkeypatch.undo()
    path = tmp_path / "binlog.000001"
    ddl = query_body(b"CREATE TABLE other (id INT)")
    write_keyed_log(path, range(10_000, 14_000), {10_000: ddl, 12_000: ddl})
    asked = [(11_150, "Name11150"), (11_150, "no name")]
    expected = [list(binlake.open(path).history("shop.t", *key).to_json()) for key in asked]
    assert [len(entries) for entries in expected] == [1, 0]
    assert main(["index", "--keys", str(path)]) == 0
    Path(index_path(str(path))).unlink()
    for key, entries in zip(asked, expected, strict=True):
        log = binlake.open(path)
        assert list(log.history("shop.t", *key).to_json()) == entries
        assert log.ledger.total.bytes < 0.35 * path.stat().st_size
        assert log.ledger.unshown["DDL"] == 0
        assert log.ledger.transactions["committed"] == 42


@pytest.mark.parametrize("column", ["id", None])
def test_a_history_reads_only_the_blocks_with_the_key(logs: Path, column: str | None) -> None:
    log = binlake.open(logs)
    asked: dict[str, Any] = {} if column is None else {column: 22_000}
    history = log.history("shop.t", *(() if asked else (22_000, "Name22000")), **asked)
    assert [change.key["id"] for change in history.changes] == [22_000]
    size = sum(path.stat().st_size for path in logs.glob("binlog.00000?"))
    assert log.ledger.total.bytes < 0.5 * size


def test_a_history_follows_keys_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks with updates of keys are read, whatever the keys are."""
    described = table_map() + bytes([8, 1, 0])
    log = Log()
    for key in range(1, 200):
        row = (key, "x" * 20, None)
        inserted = rows_body(image(row))
        log.commit(LONG_STATEMENT, (TABLE_MAP, described), (INSERT, inserted), gno=key)
    moved = rows_body(image((5, "x" * 20, None)), image((7777, "x" * 20, None)), bitmaps=(7, 7))
    log.commit((TABLE_MAP, described), (UPDATE, moved), gno=500)
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    expected = list(binlake.open(path).history("shop.t", 7777).to_json())
    assert [entry["op"] for entry in expected] == ["insert", "update"]
    write_indexes(tmp_path)
    for key in (5, 7777):
        assert list(binlake.open(path).history("shop.t", key).to_json()) == expected


def test_a_key_index_is_small(logs: Path) -> None:
    for path in logs.glob("binlog.00000?"):
        assert Path(key_index_path(str(path))).stat().st_size <= 0.02 * path.stat().st_size + 2048


def test_a_compressed_log_without_the_key_is_not_inflated(logs: Path) -> None:
    for path in sorted(logs.glob("binlog.00000?")):
        compress(str(path), f"{path}.zst")
        path.unlink()
    log = binlake.open(logs, where="id = 11000")
    assert keys_of(log) == [11_000]
    assert list(log.ledger.files) == ["binlog.000001"]


@pytest.mark.parametrize("where", ["id = 'x'", "id = 11000 AND day = 5", "id = 1 AND nosuch = 2"])
def test_errors_of_a_condition_are_reported_without_matching_rows(logs: Path, where: str) -> None:
    with pytest.raises(OptionError, match="option where"):
        read(logs, where, table="shop.t")


def test_floats_and_other_collations_do_not_use_the_key_index(logs: Path) -> None:
    everything = read(logs, "id > 0")[1]
    assert read(logs, "id = 22000e0") == ([22_000], everything)
    assert read(logs, "name COLLATE utf8mb4_bin = 'Name22000'") == ([22_000], everything)


@pytest.mark.parametrize("harm", ["replaced", "grown", "garbage", "cut", "renamed"])
def test_a_mismatched_key_index_is_ignored_with_a_warning(logs: Path, harm: str) -> None:
    log, keys = logs / "binlog.000003", logs / "binlog.000003.keys.arrow"
    expected = [32_000]
    if harm == "replaced":
        write_keyed_log(log, range(50_000, 54_000))
        expected = []
    elif harm == "grown":
        with log.open("ab") as file:
            file.write(bytes(10))
    elif harm == "garbage":
        keys.write_bytes(b"ARROW1 and nothing")
    elif harm == "cut":
        keys.write_bytes(keys.read_bytes()[:-100])
    else:
        shutil.copy(logs / "binlog.000002.keys.arrow", keys)
    Path(index_path(str(log))).unlink()
    opened = binlake.open(logs, where="id = 32000", on_error="skip")
    assert keys_of(opened) == expected
    assert any("ignored the key index" in sentence for sentence in opened.ledger.warnings)


def test_no_prefix_and_no_mutation_of_a_key_index_changes_an_answer(logs: Path) -> None:
    keys = logs / "binlog.000001.keys.arrow"
    whole = keys.read_bytes()
    chance = random.Random(1)
    ignored = 0
    for number in range(200):
        data = bytearray(whole[: chance.randrange(len(whole))] if number % 4 == 0 else whole)
        if number % 4 and data:
            data[chance.randrange(min(len(data), 4096) * number % 3 or len(data))] ^= (
                1 << number % 8
            )
        keys.write_bytes(data)
        log = binlake.open(logs / "binlog.000001", where="id = 11000 AND name = 'Name11000'")
        assert keys_of(log) == [11_000], number
        ignored += any("ignored the key index" in sentence for sentence in log.ledger.warnings)
    assert ignored > 50


def test_a_damaged_key_list_is_ignored_with_a_warning(logs: Path) -> None:
    keys = logs / "binlog.000001.keys.arrow"
    whole = keys.read_bytes()
    index = KeyIndex.of_file(pa.BufferReader(whole))
    pairs = index.columns("shop.t")["id"].pairs
    assert pairs is not None
    at = whole.index(bytes(pairs.pairs[:4096])) + 2000  # in the first page
    keys.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    warnings = []
    for key in range(10_000, 14_000, 131):
        log = binlake.open(logs / "binlog.000001", where=f"id = {key}")
        assert keys_of(log) == [key]
        warnings += log.ledger.warnings
    assert any("of a list is damaged" in sentence for sentence in warnings)


def test_lists_that_are_too_long_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hashes of short rows alone would take a quarter of the log; bounds are kept."""
    log = Log()
    described = table_map() + bytes([8, 1, 0])
    for first in range(1, 60_001, 500):
        images = [image((key, None, None), 0b1) for key in range(first, first + 500)]
        log.commit((TABLE_MAP, described), (INSERT, rows_body(*images, bitmaps=(1,))), gno=first)
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    (found,) = resolve([str(path)])[0].files
    keys = key_index_of(found, index_of(found), least_block_bytes=30_000)
    assert len(keys.to_bytes()) < 0.02 * path.stat().st_size + 4096
    column = keys.columns("shop.t")["id"]
    assert column.pairs is None
    assert column.equal(1) == 1
    assert column.equal(70_000) == 0
    assert column.within(59_999, None) == 1 << len(keys.blocks.starts) - 1


def test_an_encrypted_log_gets_no_key_index(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(golden / "mysql-9.7/encrypted", tmp_path / "logs")
    keyring = next((tmp_path / "logs").glob("*key*"))
    closed = str(tmp_path / "logs/binlog.000001")
    main(["index", "--keys", "--keyring", str(keyring), closed])
    assert "cannot have a key index: the log is encrypted" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "logs").glob("*.parquet")] == [
        "binlog.000001.index.parquet"
    ]
    assert not list((tmp_path / "logs").glob("*.keys.arrow"))


class _TimedLog(Log):
    """A log whose events have the time `clock`, in seconds since 1970."""

    clock = 1_700_000_000

    def add(self, type_code: int, body: bytes = b"", **options: int) -> int:
        return super().add(type_code, body, timestamp=self.clock, **options)


def timed_logs(folder: Path) -> None:
    """Three logs of ten transactions each, one a second, and nothing else."""
    described = table_map() + bytes([8, 2, 0, 1])  # SIMPLE_PRIMARY_KEY
    for number in range(3):
        log = _TimedLog()
        for n in range(10):
            key = 10 * number + n
            log.clock = 1_700_000_000 + key
            rows = rows_body(image((key, f"Name{key}", None)))
            log.commit(LONG_STATEMENT, (TABLE_MAP, described), (INSERT, rows), gno=key + 1)
        log.add(ROTATE, struct.pack("<Q", 4) + f"binlog.{number + 2:06d}".encode())
        (folder / f"binlog.{number + 1:06d}").write_bytes(log.bytes())
    write_indexes(folder)


@pytest.mark.parametrize("bounds", [(5, 25), (10, 20), (None, 9), (29, None), (30, None), (9, 11)])
def test_times_of_logs_that_need_not_be_opened(
    bounds: tuple[int | None, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_logs(tmp_path)
    since, until = (b and dt.datetime.fromtimestamp(1_700_000_000 + b, dt.UTC) for b in bounds)
    given = {name: moment for name, moment in (("since", since), ("until", until)) if moment}
    opened: list[str] = []
    windows = LogFile.windows

    def noted(log: LogFile, *args: Any, **options: Any) -> Any:
        opened.append(log.name)
        return windows(log, *args, **options)

    monkeypatch.setattr(LogFile, "windows", noted)

    def found() -> tuple[object, object]:
        log = binlake.open(tmp_path, **given)
        history = log.history("shop.t", 15, "Name15")
        return list(history.to_json()), dict(log.ledger.transactions)

    with_index = found()
    assert set(opened) <= {
        "binlog.000001",
        "binlog.000002",
    }  # the first one tells what the table is
    for path in (*tmp_path.glob("*.keys.arrow"), *tmp_path.glob("*.index.parquet")):
        path.unlink()
    assert found() == with_index
    low, high = bounds
    assert with_index[1] == ({"committed": n} if (n := max((high or 30) - (low or 0), 0)) else {})
