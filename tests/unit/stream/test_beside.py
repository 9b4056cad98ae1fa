"""Files beside a log: they may change while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlake.errors import SourceError
from binlake.stream.index.beside import read_beside


def test_a_file_that_is_truncated_while_it_is_in_use_ends_no_process(tmp_path: Path) -> None:
    """A memory mapping would raise SIGBUS here."""
    path = tmp_path / "binlog.000001.idx"
    path.write_bytes(b"x" * (1 << 20))
    data = read_beside(str(path), 1 << 20)
    assert data is not None
    os.truncate(path, 0)
    assert data.to_pybytes() == b"x" * (1 << 20)


def test_a_missing_file_is_read_as_none(tmp_path: Path) -> None:
    assert read_beside(str(tmp_path / "no.idx"), None) is None
    assert read_beside((tmp_path / "no.idx").as_uri(), None) is None
    assert read_beside("mysql://repl@db1/binlog.000001.index.parquet", None) is None


def test_a_store_that_cannot_be_opened_is_an_error() -> None:
    """It is no reason to read the whole log without a word."""
    with pytest.raises(SourceError, match=r"cannot open unknown://bucket/no\.idx"):
        read_beside("unknown://bucket/no.idx", None)
