from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlake.source.bytes import LocalReader
from binlake.stream.groups.transaction_frames import HELD_BYTES
from binlake.values.ledger import Ledger
from support.logs.log_builder import ROWS
from support.logs.stream_log import StreamLog, frames_of, rows_in, transactions, transactions_in


def rows_kept(
    script: str, tmp_path: Path, rows: int = 1, held_bytes: int = HELD_BYTES, **options: Any
) -> list[int]:
    """Which of the rows events of a transaction count; `r` in the script is a rows event of `rows` rows."""
    log, row_offsets = StreamLog().gtid(1).query(b"BEGIN"), []
    for word in script.split():
        if word == "r":
            log.rows(rows)
            row_offsets.append(log.offsets[-1])
        else:
            verb, name = word.split(":")
            text = {"s": b"SAVEPOINT `%b`", "b": b"ROLLBACK TO `%b`", "x": b"RELEASE SAVEPOINT %b"}
            log.query(text[verb] % name.encode())
    [found] = transactions_in(log.xid().write(tmp_path), held_bytes, **options)
    kept = [offset for code, offset in frames_of(found) if code == ROWS]
    return [row_offsets.index(offset) for offset in kept]


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ("r s:a r b:a r", [0, 2]),
        ("s:a r r b:a r b:a r", [3]),
        ("s:a r s:b r b:b r b:a r", [3]),
        ("s:a r s:b r b:a r", [2]),
        ("s:a r s:A r b:a r", [0, 2]),  # set again under the same name: it moves
        ("s:a r x:a r", [0, 1]),
        ("r s:a r s:b r b:b", [0, 1]),
        ("s:a r b:a s:a r b:a r", [2]),
    ],
)
def test_rollback_to_removes_changes_since_the_savepoint(
    script: str, kept: list[int], tmp_path: Path
) -> None:
    assert rows_kept(script, tmp_path) == kept
    assert rows_kept(script, tmp_path, uncommitted=True) == list(range(script.count("r")))


@pytest.mark.parametrize("held_bytes", [10, HELD_BYTES])
def test_it_does_so_across_windows(held_bytes: int, tmp_path: Path) -> None:
    rows = LocalReader.window_bytes // 8  # of 5 bytes each: no window has two such rows events
    kept = rows_kept("r s:a r r b:a r", tmp_path, rows=rows, held_bytes=held_bytes)
    assert kept == [0, 3]


def test_an_unknown_savepoint_is_reported(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").rows().query(b"ROLLBACK TO `lost`").xid()
    ledger = Ledger()
    [found] = transactions(log.write(tmp_path), ledger=ledger)
    assert rows_in(found) == 1
    assert "lost" in ledger.warnings[0]


def test_rolled_back_statements_are_counted_separately(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").query(b"INSERT INTO a VALUES (1)")
    log.query(b"SAVEPOINT s").query(b"INSERT INTO a VALUES (2)").query(b"ROLLBACK TO s").xid()
    ledger = Ledger()
    list(transactions(log.write(tmp_path), ledger=ledger))
    assert ledger.unshown == {"statement DML": 1, "statement in a rolled back transaction": 1}
