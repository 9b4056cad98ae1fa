"""Events are all of a log: decoded and encoded again they are the bytes that were there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from binlake.errors import BinlogError
from binlake.source.log_file import LogFile
from binlake.stream.problems import Problem
from binlake.stream.reencode import reencode_problems
from corpus_files import FILES, Listed

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


def problems_of(path: Path) -> tuple[list[Problem], Counter[int]]:
    """What is not the same again, and the events that were looked at, by type."""
    problems: list[Problem] = []
    seen: Counter[int] = Counter()
    with LogFile.open(str(path)) as log:
        try:
            for window in log.windows(verify=False):
                problems += reencode_problems(window)
                seen.update(window.frame(i).type_code for i in range(len(window)))
        except BinlogError:
            pass  # the rest of the file is encrypted, cut, or no log: other tests say what is due
    return problems, seen


def test_there_are_golden_logs() -> None:
    assert len(LOGS) > 50


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.relative_to(GOLDEN).as_posix())
def test_golden_logs(path: Path) -> None:
    problems, seen = problems_of(path)
    assert problems == []
    assert seen


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_corpus(file: Listed) -> None:
    try:
        problems, _ = problems_of(file.path)
    except BinlogError:
        return
    assert {(file.path.name, p.pos) for p in problems} <= BROKEN, problems
