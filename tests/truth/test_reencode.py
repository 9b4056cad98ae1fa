"""Events are all of a log: decoded and encoded again they are the bytes that were there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from binlake.errors import BinlogError
from binlake.format.event_types import (
    PARTIAL_UPDATE_ROWS_EVENT,
    TRANSACTION_PAYLOAD_EVENT,
    Role,
    codes_of,
)
from binlake.source.log_file import LogFile
from binlake.stream.problems import Problem
from binlake.stream.reencode import reencode_problems
from binlake.table.row_bytes import RowBytes
from corpus_files import FILES, Listed

DECODED_ROWS = codes_of(Role.ROWS) - {PARTIAL_UPDATE_ROWS_EVENT}
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LOGS = sorted(
    path for path in GOLDEN.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\xfebin"
)

#: Events that the makers of these files broke on purpose, by the file's name and position.
BROKEN = {
    ("invalid_row_v2_tag.001", 256),
    ("invalid_row_v2_tag.001", 287),
    ("invalid_row_v2_tag.001", 320),
    ("corrupt-relay-bin.000624", 91204),
}

# fractions in the old temporal format: nothing in the log tells their width
UNDECODABLE = r"generated/mariadb.*/rows-old-temporal/binlog\.000002"


def problems_of(path: Path) -> tuple[list[Problem], Counter[int], int]:
    """What is not the same again, the events looked at, by type, and how many rows were the same."""
    problems: list[Problem] = []
    seen: Counter[int] = Counter()
    rows, inside = RowBytes(), RowBytes()
    with LogFile.open(str(path)) as log:
        try:
            for window in log.windows(verify=False):
                problems += reencode_problems(window, rows, inside)
                seen.update(window.frame(i).type_code for i in range(len(window)))
        except BinlogError:
            pass  # the rest of the file is encrypted, cut, or no log: other tests say what is due
    return problems, seen, rows.rows + inside.rows


def test_there_are_golden_logs() -> None:
    assert len(LOGS) > 50


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.relative_to(GOLDEN).as_posix())
def test_golden_logs(path: Path, figure: Callable[..., None]) -> None:
    problems, seen, rows = problems_of(path)
    figure("reencoded", logs="golden", types=dict(seen), rows=rows, differing=len(problems))
    assert problems == []
    assert seen
    assert rows or not set(seen) & (DECODED_ROWS | {TRANSACTION_PAYLOAD_EVENT})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_corpus(file: Listed, figure: Callable[..., None]) -> None:
    try:
        problems, seen, rows = problems_of(file.path)
    except BinlogError:
        return
    left = [p for p in problems if (file.path.name, p.pos) not in BROKEN]
    if file.matches(UNDECODABLE):
        left = [p for p in left if "cannot be decoded" not in p.message]
    figure("reencoded", logs="corpus", types=dict(seen), rows=rows, differing=len(left))
    assert left == []
