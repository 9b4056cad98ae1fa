"""The large logs of the benchmark (benchmarks/large.py): valid, and as large as they should be."""

from __future__ import annotations

import itertools
from pathlib import Path

import binlake
from benchmarks.large import copies, write_large
from binlake.cli.main import main

LOG = Path(__file__).resolve().parents[2] / "demo" / "mysql-9.7" / "binlog.000001"


def test_copies_add_up(tmp_path: Path) -> None:
    """Each copy has the same rows; positions, checksums and GTIDs are right."""
    start, *turns = itertools.islice(copies(LOG), 4)
    rows = {}
    for count in (1, 3):
        log = tmp_path / f"{count}" / "binlog.000001"
        log.parent.mkdir()
        log.write_bytes(start + b"".join(turns[:count]))
        assert main(["verify", str(log)]) == 0
        rows[count] = sum(sum(of.values()) for of in binlake.open(log).tables().values())
    assert rows[3] == 3 * rows[1] > 0


def test_a_log_has_the_size_that_was_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    for size in (200_000, 1_500_000):
        write_large(LOG, log, size)
        assert size <= log.stat().st_size < size + 100_000
        assert main(["verify", str(log)]) == 0
