"""Any cut of any log gives the rows of the whole log, and the ranges join.

With BINLAKE_FUZZ_CASES from 100,000 on (`make fuzz`), small logs are cut at every byte, and others at 1,000 places; otherwise a
log is cut at 250 places, half of which are beside the bounds of events.
A file cut at all its bytes at once is the hardest plan: the pieces' rows are those of the whole
only if every single cut is decided alike by the piece that ends there and the one that begins.
Tasks take no names from DDL that the driver has not read, so neither does the whole here; with the DDL as
a schema they have them, too (test_schema_history.py). The planner does not cut at any byte, so the
pieces are made here; Spark's data source reads them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from binlake.errors import BinlogError
from binlake.stream.positions.splits import Split, plan_files
from binlake.values.ledger import Ledger
from support.logs.corpus_files import FILES, Listed, keys_beside
from support.logs.mutations import IS_THOROUGH, all_or_a_third, frames
from support.oracles.reading import Line, binlog_reader, split_lines, task_lines

if TYPE_CHECKING:
    from binlake.spark.batch import BinlogReader

pytestmark = pytest.mark.fuzz

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EVERY_BYTE = 4096 if IS_THOROUGH else 256  # files up to this size are cut at every byte
CUTS = 1000 if IS_THOROUGH else 250

OPTIONS: dict[str, Any] = {"assume_charset": "utf8mb4", "invalid": "hex", "ddl_scan_bytes": 0}


def _cuts(path: Path) -> list[int]:
    size = path.stat().st_size
    if size <= EVERY_BYTE:
        return list(range(size + 1))
    chance = random.Random(path.name)
    beside = {at + move for at, _, _ in frames(path.read_bytes()) for move in (-1, 0, 1)}
    chosen = chance.sample(sorted(beside), min(CUTS // 2, len(beside)))
    return sorted({*chosen, *chance.sample(range(size), CUTS - len(chosen))})


def _pieces(reader: BinlogReader, cuts: Sequence[int]) -> list[Split]:
    (whole,) = plan_files(reader.options.paths, reader.options.read)
    bounds = [whole.start, *cuts]
    ends: list[int | None] = [*cuts, whole.end]
    return [replace(whole, start=a, end=b) for a, b in zip(bounds, ends, strict=True)]


def _tasks(pieces: Sequence[Split], chance: random.Random) -> Iterator[Sequence[Split]]:
    """The pieces in tasks of one to four, as the planner packs small files."""
    at = 0
    while at < len(pieces):
        count = chance.randint(1, 4)
        yield pieces[at : at + count]
        at += count


def _split_rows(path: Path, cuts: Sequence[int]) -> list[Line]:
    ledger = Ledger()
    reader = binlog_reader(path, **OPTIONS, **keys_beside(path))
    tasks = _tasks(_pieces(reader, cuts), random.Random(path.name))
    lines = list(split_lines(reader, tasks, ledger))
    assert ledger.join_problems() == []
    return lines


GOLDEN_FILES = [
    path for path in sorted(GOLDEN.glob("*/*/binlog.0*")) if "partial-json" not in path.parts
]


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_golden_logs(path: Path) -> None:
    whole = list(task_lines(path, **OPTIONS, **keys_beside(path)))
    assert _split_rows(path, _cuts(path)) == whole


@pytest.mark.parametrize("file", all_or_a_third(FILES), ids=lambda file: file.name)
def test_corpus_files(file: Listed) -> None:
    if file.path.suffix == ".gz":
        return  # a compressed file is one split
    try:
        whole = list(task_lines(file.path, **OPTIONS, **file.keys))
    except BinlogError:
        return  # what cannot be read whole has no rows to compare; see test_corpus
    assert _split_rows(file.path, _cuts(file.path)) == whole
