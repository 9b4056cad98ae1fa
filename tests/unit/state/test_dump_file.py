"""Compressed dumps: whole, damaged, and made to inflate to much more than their size."""

from __future__ import annotations

import gzip
import io
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from typing_extensions import Buffer

from binlake.errors import SourceError
from binlake.state.dump import Dump
from binlake.state.parquet_rows import is_parquet
from binlake.table.schema.dump_text import WINDOW_BYTES
from binlake.values.options import ReadOptions

START = (
    b"-- MySQL dump 10.13\nUSE shop;\n"
    b"CREATE TABLE `t` (`a` int NOT NULL, `b` longblob, PRIMARY KEY (`a`)) DEFAULT CHARSET=utf8mb4;\n"
)
INSERT = b"INSERT INTO `t` VALUES (1,NULL);\n"
END = b"\n-- Dump completed on 2026-01-01\n"
MB = 1 << 20
SMALL = ReadOptions(max_memory=16 * MB)
Compress = Callable[[bytes], bytes]


class _Disk(io.BytesIO):
    """A file that keeps nothing of what is written into it but its size."""

    written_bytes = 0

    def write(self, data: Buffer, /) -> int:
        size = memoryview(data).nbytes
        self.written_bytes += size
        return size


def rows(path: Path, options: ReadOptions = SMALL, window_bytes: int = WINDOW_BYTES) -> int:
    with Dump(str(path), "shop", "t", "mysql", options, window_bytes=window_bytes) as dump:
        return sum(batch.num_rows for batch in dump.batches())


def written(folder: Path, data: bytes) -> Path:
    path = folder / "dump.sql.packed"
    path.write_bytes(data)
    return path


@pytest.fixture(params=["gz", "zst"])
def compress(request: pytest.FixtureRequest) -> Compress:
    return gzip.compress if request.param == "gz" else zstandard.ZstdCompressor().compress


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    os.mkfifo(path)
    assert not is_parquet(str(path))
    with pytest.raises(SourceError, match="is not a regular file; binlake reads a dump twice"):
        rows(path)


def test_a_compressed_dump_is_detected_without_its_extension(
    tmp_path: Path, compress: Compress
) -> None:
    assert rows(written(tmp_path, compress(START + INSERT + END))) == 1


def test_the_parts_of_a_dump_may_be_compressed_separately(
    tmp_path: Path, compress: Compress
) -> None:
    assert rows(written(tmp_path, compress(START) + compress(INSERT) + compress(END))) == 1


@pytest.mark.parametrize("filler", [b"\0", b" ", b";", b"\n", b"''"])
def test_a_bomb_is_refused_before_it_fills_the_disk(
    filler: bytes, tmp_path: Path, compress: Compress, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: disk)
    bomb = compress(START + INSERT + filler * (64 * MB // len(filler)))
    path = written(tmp_path, bomb)
    with pytest.raises(SourceError) as error:
        rows(path)
    most = SMALL.max_memory + 100 * len(bomb)
    assert f"{path} inflates to more than {most:,} bytes" in str(error.value)
    assert "decompress it first, or raise the option max_memory" in str(error.value)
    assert disk.written_bytes <= most


def test_more_memory_allows_more(tmp_path: Path, compress: Compress) -> None:
    path = written(tmp_path, compress(START + INSERT + b"\n" * (2 * MB) + END))
    with pytest.raises(SourceError, match="inflates to more than"):
        rows(path, ReadOptions(max_memory=MB))
    assert rows(path, ReadOptions(max_memory=4 * MB)) == 1


@pytest.mark.parametrize("opening", [b"INSERT INTO `t` VALUES (2,'", b"/* ", b"SET @x = '"])
def test_one_statement_of_a_bomb_takes_little_memory(
    opening: bytes, tmp_path: Path, compress: Compress
) -> None:
    """The statement would fit into the inflated file, but not into memory."""
    path = written(tmp_path, compress(START + INSERT + opening + b"x" * (14 * MB) + END))
    tracemalloc.start()
    try:
        with pytest.raises(
            SourceError, match=r"line [45]: a statement, text or comment of more than"
        ):
            rows(path)
        assert tracemalloc.get_traced_memory()[1] < 24 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("filler", [b"\n", b" \n", b"a,", b"#\n", b"''"])
def test_text_without_meaning_is_no_long_statement(filler: bytes, tmp_path: Path) -> None:
    """It is longer than the limit of a statement, and read in parts."""
    size, options = MB * 3 // 2, ReadOptions(max_memory=4 * MB)
    packed = gzip.compress(START + INSERT + filler * (size // len(filler)) + END)
    most_bytes = options.max_memory // 4 + 32 * len(packed)
    assert most_bytes < size, "this test needs a text that is longer than a statement may be"
    window_bytes = MB * 3 // 4  # a token of newlines has up to 512 KB
    assert rows(written(tmp_path, packed), options, window_bytes) == 1


def test_damage_is_an_error(tmp_path: Path, compress: Compress) -> None:
    whole = compress(START + INSERT + bytes(range(256)) * 500 + END)
    for data, words in (
        (whole[:-3], "ends inside"),
        (whole + b"more", "other data follows"),
        (compress(b""), "is empty"),
    ):
        with pytest.raises(SourceError, match=words):
            rows(written(tmp_path, data))


def test_a_full_disk_is_an_error_that_names_the_directory(
    tmp_path: Path, compress: Compress, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full.open("wb", buffering=0))
    with pytest.raises(SourceError, match=r"cannot inflate .* into a file in .*No space left"):
        rows(written(tmp_path, compress(START + INSERT + END)))
