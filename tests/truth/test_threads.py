"""Reading with several threads gives exactly what one thread gives: rows, errors and counts.

Portions begin with a single transaction each and grow, so the logs are cut at many places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake
from binlake.errors import BinlogError
from binlake.source.resolve import resolve
from binlake.stream import spread
from binlake.table.counting.indexing import index_of
from binlake.values.options import ReadOptions
from support.logs.corpus_files import FILES, Listed, keys_beside
from support.logs.mutations import all_or_a_third
from support.oracles.reading import command, flags_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GOLDEN_FILES = sorted(GOLDEN.glob("*/*/binlog.0*"))
THREADS = 3

#: Ways to read: what is compared, one item after the other.
Reads = Callable[[binlake.Log], Iterator[Any]]


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "_LEAST_PORTION_BYTES", 1)


def _generic(log: binlake.Log) -> Iterator[Any]:
    for batch in log.changes():
        yield from batch.to_pylist()


def _typed(log: binlake.Log) -> Iterator[Any]:
    """Rows by definition: in a batch, one table's come after the other's."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for batch in log.changes("*.*"):
        rows = found.setdefault(tuple(map(str, batch.schema)), [])
        rows += zip(*(_texts(column) for column in batch.columns), strict=True)
    yield from sorted(found.items())


def _texts(column: pa.Array) -> list[str]:
    return [str(value) for value in column]


def _stats(log: binlake.Log) -> Iterator[Any]:
    yield log.stats()


def _outcome(path: Path, read: Reads, **options: Any) -> tuple[list[Any], str, dict[str, Any]]:
    """The items, the error behind them, and what the ledger says where there is none."""
    items: list[Any] = []
    try:
        log = binlake.open(path, **options)
        items.extend(read(log))  # those before an error stay
    except BinlogError as error:
        return items, f"{type(error).__name__}: {error}", {}
    ledger = json.loads(json.dumps(log.ledger.to_json()))
    ledger["warnings"].sort()
    return items, "", ledger


def _compare(path: Path, read: Reads, **options: Any) -> None:
    wanted = _outcome(path, read, threads=1, **options)
    assert _outcome(path, read, threads=THREADS, **options) == wanted


def _name(path: Path) -> str:
    return "/".join(path.parts[-3:])


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=_name)
def test_golden_logs(path: Path) -> None:
    _compare(path, _generic, **keys_beside(path))


@pytest.mark.parametrize("path", all_or_a_third(GOLDEN_FILES, 1), ids=_name)
@pytest.mark.parametrize("read", [_typed, _stats])
def test_golden_logs_read_in_other_ways(path: Path, read: Reads) -> None:
    _compare(path, read, **keys_beside(path))


@pytest.mark.parametrize("path", all_or_a_third(GOLDEN_FILES), ids=_name)
@pytest.mark.parametrize("made", ["index", "sql"])
def test_output_does_not_depend_on_threads(path: Path, made: str) -> None:
    make = _index if made == "index" else _script
    assert make(path, THREADS) == make(path, 1)


def _index(path: Path, threads: int) -> bytes | str:
    """The index of a log, or why it has none; `binlake index` would write it beside the golden log."""
    options = ReadOptions.parse({"threads": threads, **keys_beside(path)})
    (chain,) = resolve([str(path)])
    try:
        return index_of(chain.files[0], options).to_bytes()
    except BinlogError as error:
        return str(error)


def _script(path: Path, threads: int) -> tuple[int, bytes, str]:
    """The exit code, output and messages of `binlake sql`."""
    return command("sql", str(path), *flags_of(threads=threads, **keys_beside(path)))


@pytest.mark.fuzz
@pytest.mark.parametrize("file", all_or_a_third(FILES), ids=lambda file: file.name)
def test_corpus_files(file: Listed) -> None:
    options = {"assume_charset": "utf8mb4", "invalid": "hex", "on_error": "skip"}
    _compare(file.path, _generic, **options, **file.keys)
    _compare(file.path, _stats, on_error="skip", **file.keys)
