"""The attempts to copy a table, in a file that cannot always be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.errors import BinlogError, SourceError
from binlake.mirror.followed.copy_attempts import CopyAttempts


def fail(attempts: CopyAttempts, path: Path, error: BinlogError | None) -> None:
    """An attempt that ends with an error, or well, after its file has become a directory."""
    with attempts.another("t, chunk 1"):
        path.unlink()
        path.mkdir()
        if error is not None:
            raise error


def test_a_file_that_cannot_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "t.attempts"
    with pytest.raises(SourceError, match=r"cannot write .*t\.attempts"):
        fail(CopyAttempts(path, "the first copy"), path, None)


def test_a_file_that_cannot_be_written_does_not_hide_the_error_of_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "t.attempts"
    error = BinlogError("Spark failed: Python worker exited unexpectedly")
    with pytest.raises(BinlogError, match="t, chunk 1: Spark failed"):
        fail(CopyAttempts(path, "the first copy"), path, error)
