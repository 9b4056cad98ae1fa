"""Long events of compressed logs: as many bytes as the compressed ones justify."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from binlake.errors import UnsupportedError
from binlake.source.log_file import LogFile
from support.logs.log_builder import XID, LogBuilder

IGNORABLE = 28
SMALL = 4 << 20  # an event may inflate to a quarter
PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstandard.compress}


def log_of(content: bytes) -> bytes:
    log = LogBuilder("8.0.36")
    log.add(IGNORABLE, content)
    log.add(XID, bytes(8))
    return log.bytes()


def lengths(path: Path, max_memory: int = SMALL) -> list[int]:
    with LogFile.open(str(path), max_memory=max_memory) as log:
        windows = list(log.windows(window_bytes=1 << 16))
    return [window.frame(i).length for window in windows for i in range(len(window))]


@pytest.mark.parametrize("suffix", PACK)
def test_out_of_all_proportion(tmp_path: Path, suffix: str) -> None:
    content = bytes(40 << 20)
    path = tmp_path / f"binlog.000001.{suffix}"
    path.write_bytes(PACK[suffix](log_of(content)))
    with pytest.raises(UnsupportedError, match="inflates to an event of 41,943,0") as caught:
        lengths(path)
    assert "max_memory" in (caught.value.hint or "")
    assert caught.value.file == "binlog.000001"
    assert lengths(path, 4 * len(content) + 400)[1] > len(content)


def test_a_log_that_is_opened_again_has_the_same_limit(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001.gz"
    path.write_bytes(gzip.compress(log_of(bytes(2 << 20))))
    with (
        LogFile.open(str(path), max_memory=SMALL) as log,
        log.reopen() as again,
        pytest.raises(UnsupportedError, match="inflates to an event of 2,097,1"),
    ):
        list(again.windows(window_bytes=1 << 16))


@pytest.mark.parametrize("suffix", PACK)
def test_a_long_event_that_hardly_compresses(tmp_path: Path, suffix: str) -> None:
    content = os.urandom(8 << 20)
    path = tmp_path / f"binlog.000001.{suffix}"
    path.write_bytes(PACK[suffix](log_of(content)))
    assert lengths(path)[1] > len(content)


@pytest.mark.parametrize("suffix", PACK)
def test_a_long_event_that_is_cut_off(tmp_path: Path, suffix: str) -> None:
    raw = log_of(os.urandom(8 << 20))[: 6 << 20]
    path = tmp_path / f"binlog.000001.{suffix}"
    path.write_bytes(PACK[suffix](raw))
    with pytest.raises(Exception, match="the file ends inside"):
        lengths(path)


def test_an_uncompressed_log_has_no_such_limit(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log_of(bytes(40 << 20)))
    assert lengths(path)[1] > 40 << 20
