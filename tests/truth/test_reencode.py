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
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.stream.verify.problems import Problem
from binlake.stream.verify.reencode import reencode_problems
from binlake.table.checks.row_bytes import RowBytes
from binlake.values.options import ReadOptions
from support.logs.corpus_files import FILES, Listed, keys_beside
from support.oracles.reading import row_lines

DECODED_ROWS = codes_of(Role.ROWS)
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LOGS = sorted(
    path
    for path in GOLDEN.rglob("*")
    if path.is_file() and path.read_bytes()[:4] in (b"\xfebin", b"\xfdbin")
)

#: Events that the makers of these files broke on purpose, by the file's name and position.
BROKEN = {
    ("invalid_row_v2_tag.001", 256),
    ("invalid_row_v2_tag.001", 287),
    ("invalid_row_v2_tag.001", 320),
    ("corrupt-relay-bin.000624", 91204),
}


def problems_of(path: Path) -> tuple[list[Problem], Counter[int], int]:
    """Events that differ after encoding, the number of checked events by type, and the number of equal rows.

    The check of `binlake verify` on windows, because the command does not return the types that it has checked.
    """
    problems: list[Problem] = []
    seen: Counter[int] = Counter()
    rows, inside = RowBytes(), RowBytes()
    keyring = Keyring.of(ReadOptions.parse(keys_beside(path)))
    with LogFile.open(str(path), keyring=keyring) as log:
        try:
            for window in log.windows(verify=False):
                problems += reencode_problems(window, rows, inside)
                seen.update(window.frame(i).type_code for i in range(len(window)))
        except BinlogError:
            pass  # the rest of the file is cut, or no log: other tests say what is due
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


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8"])
def test_fractional_digits_known_only_from_ddl(server: str, corpus: Path) -> None:
    path = corpus / f"generated/{server}/rows-old-temporal/binlog.000002"
    problems, _, rows = problems_of(path)
    assert (problems, rows) == ([], sum(1 for _ in row_lines(path)))


def test_json_differences() -> None:
    """The other columns of updates with differences are compared as all are."""
    path = GOLDEN / "mysql-9.7/partial-json/binlog.000001"
    problems, seen, rows = problems_of(path)
    assert seen[PARTIAL_UPDATE_ROWS_EVENT] > 10
    assert (problems, rows) == ([], sum(1 for _ in row_lines(path)))


def test_damage_beside_json_differences(tmp_path: Path) -> None:
    """Whatever bit of such an event is another one: a problem, or other values."""
    log = bytearray((GOLDEN / "mysql-9.7/partial-json/binlog.000001").read_bytes())
    start, end = 3749, 4230
    assert log[start + 4] == PARTIAL_UPDATE_ROWS_EVENT
    found = set()
    for at in range(start + 19, end - 4):
        damaged = log.copy()
        damaged[at] ^= 0x10
        path = tmp_path / "binlog.000001"
        path.write_bytes(damaged)
        problems, _, _ = problems_of(path)
        found |= {p.message.partition("image: ")[2][:20] for p in problems}
    assert "nulls are stored as " in found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_corpus(file: Listed, figure: Callable[..., None]) -> None:
    try:
        problems, seen, rows = problems_of(file.path)
    except BinlogError:
        return
    left = [p for p in problems if (file.path.name, p.pos) not in BROKEN]
    figure("reencoded", logs="corpus", types=dict(seen), rows=rows, differing=len(left))
    assert left == []
