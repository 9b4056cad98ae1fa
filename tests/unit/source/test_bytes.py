"""Readers: the same bytes from every kind of input, and bad endings told apart."""

from __future__ import annotations

import gzip
import io
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from binlake.archive.folders import open_folder
from binlake.errors import MalformedError, OptionError, SourceError, TruncatedError
from binlake.source.bytes import file_system_for, is_uri, local_path, open_reader, write_whole
from binlake.source.log_file import LogFile
from binlake.source.reader import ByteReader, holds_secret
from binlake.source.resolve import resolve
from binlake.source.stores.heads import ObjectHeads
from binlake.source.streams import StreamReader

STREAMS: list[StreamReader] = []
DATA = b"\xfebin" + random.Random(3).randbytes(700_000) + bytes(300_000)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def stream(data: bytes, *, reopenable: bool = False, spill_bytes: int = 1 << 20) -> StreamReader:
    reader = StreamReader(
        "s", lambda: io.BytesIO(data), reopenable=reopenable, spill_bytes=spill_bytes
    )
    STREAMS.append(reader)
    return reader


@pytest.fixture(autouse=True)
def _close_streams() -> Iterator[None]:
    yield
    while STREAMS:
        STREAMS.pop().close()


def read_all(reader: ByteReader, size: int = 70_001) -> bytes:
    parts, offset = [], 0
    while part := reader.read_at(offset, size):
        parts.append(part)
        offset += len(part)
        reader.release(offset)
    return b"".join(parts)


def local(tmp_path: Path, data: bytes, name: str = "binlog.000001") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, zstd, lambda d: gzip.compress(d[:99]) + gzip.compress(d[99:]),
     lambda d: zstd(d[:99]) + zstd(d[99:]), lambda d: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd(d)],
    ids=["plain", "gz", "zst", "gz members", "zst frames", "zst skippable"],
)  # fmt: skip
def test_every_input_yields_the_same_bytes(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(DATA)
    path = local(tmp_path, packed, "no suffix")
    for source in (path, Path(path).as_uri()):
        with open_reader(local_path(source)) as reader:
            assert read_all(reader) == DATA
            assert reader.size == len(DATA)
            assert reader.damage is None
    with stream(packed) as reader:
        assert read_all(reader) == DATA
        assert reader.damage is None


def test_a_named_pipe_is_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Opened for both, a pipe does not wait for the other end.
    both = os.open(path, os.O_RDWR)
    try:
        os.write(both, b"\xfebin and more")
        with open_reader(str(path)) as reader:
            assert not reader.seekable
            assert reader.interactive
            assert reader.read_at(0, 4) == b"\xfebin"
    finally:
        os.close(both)


def test_pyarrow_file_systems_read_by_uri(tmp_path: Path) -> None:
    from binlake.source.bytes import RemoteReader

    path = local(tmp_path, DATA)
    with RemoteReader(Path(path).as_uri()) as reader:
        assert reader.read_at(100, 50) == DATA[100:150]
        assert reader.read_at(len(DATA) - 5, 50) == DATA[-5:]
        assert reader.read_at(len(DATA), 50) == b""
    with pytest.raises(SourceError, match="nowhere"):
        open_reader("nowhere://x/y")
    with pytest.raises(SourceError, match="does not exist"):
        RemoteReader((tmp_path / "absent").as_uri())


def test_credentials_in_a_uri_are_not_shown() -> None:
    with pytest.raises(SourceError) as caught:
        open_reader("nowhere://user:secret@host/path?token=secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "shown", "helps"),
    [
        ("s3://AKIA:geheim@bucket/logs", "s3://bucket/logs", "AWS_PROFILE"),
        ("s3a://AKIA:ge/he/geheim@bucket/logs", "s3a://bucket/logs", "AWS_PROFILE"),
        ("s3://bucket/logs?region=eu&secret_key=geheim", "s3://bucket/logs", "AWS_PROFILE"),
        ("abfs://c@acc.dfs.core.windows.net/x?client_secret=geheim", "abfs://acc.dfs", "AZURE_"),
        ("abfss://:geheim@acc/x", "abfss://acc/x", "AZURE_"),
        ("gs://bucket/x?access_token=geheim", "gs://bucket/x", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_credentials_in_a_uri_are_refused(uri: str, shown: str, helps: str) -> None:
    """By what reads, by what writes, by what lists: in a line that shows none."""
    for use in (
        open_reader,
        open_folder,
        lambda uri: resolve([uri]),
        lambda u: write_whole(u, b""),
    ):
        with pytest.raises((SourceError, OptionError)) as caught:
            use(uri)
        assert "geheim" not in str(caught.value)
        assert shown in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(SourceError, match=helps):
        open_reader(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/logs?region=eu&endpoint_override=localhost:9000",
        "s3://bucket/who:what@where",
        "hdfs://repl@name:8020/logs/a@b",
        "abfs://container@acc.dfs.core.windows.net/x",
        "gs://anonymous@bucket/x",
    ],
)
def test_a_uri_without_credentials(uri: str) -> None:
    assert not holds_secret(uri)


def test_a_log_in_hdfs_without_the_library_of_hadoop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(SourceError, match=r"cannot open hdfs://name:8020/logs/b\.000001") as caught:
        open_reader("hdfs://name:8020/logs/b.000001")
    assert "libhdfs: install Hadoop on this machine" in str(caught.value)


def test_uris_and_local_paths() -> None:
    assert is_uri("s3://bucket/key")
    assert not is_uri("file:///tmp/x")
    assert not is_uri("/tmp/a://b")
    assert local_path("file:///tmp/a%20b") == "/tmp/a b"
    assert local_path("/tmp/x") == "/tmp/x"
    with pytest.raises(SourceError):
        local_path("file://elsewhere/tmp/x")


def test_a_local_length_is_pinned(tmp_path: Path) -> None:
    path = local(tmp_path, DATA[:1000])
    with open_reader(path) as reader:
        with Path(path).open("ab") as file:
            file.write(b"grown")
        assert reader.size == 1000
        assert reader.read_at(990, 100) == DATA[990:1000]
        os.truncate(path, 500)
        with pytest.raises(SourceError, match="shorter"):
            reader.read_at(400, 200)
    with open_reader(path, 400) as reader:
        assert reader.read_at(0, 9999) == DATA[:400]
    with pytest.raises(SourceError, match="500 bytes, but had 501 when"):
        open_reader(path, 501)


def test_an_open_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        open_reader(str(tmp_path / "absent"))
    with pytest.raises(SourceError, match="is a directory"):
        open_reader(str(tmp_path))
    reader = open_reader(local(tmp_path, b"abcd"))
    reader.close()
    reader.close()
    with pytest.raises(SourceError, match="closed"):
        reader.read_at(0, 1)


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
def test_every_cut_of_compressed_data_is_reported_after_the_good_bytes(
    pack: Callable[[bytes], bytes],
) -> None:
    data = b"\xfebin" + random.Random(4).randbytes(60) + b"the same again " * 40
    packed = pack(data)
    for cut in range(4, len(packed)):
        reader = stream(packed[:cut])
        got = read_all(reader)
        assert data.startswith(got)
        assert isinstance(reader.damage, TruncatedError), cut
        assert reader.size == len(got)


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
def test_data_after_the_compressed_data_is_reported(pack: Callable[[bytes], bytes]) -> None:
    for garbage in (b"x", b"garbage that is no member", DATA[:100]):
        reader = stream(pack(DATA) + garbage)
        assert read_all(reader) == DATA
        assert isinstance(reader.damage, MalformedError)


def test_zero_padding_after_gzip_is_no_damage() -> None:
    reader = stream(gzip.compress(DATA) + bytes(200_000))
    assert read_all(reader) == DATA
    assert reader.damage is None


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
def test_flipped_bits_of_compressed_data_never_escape_as_another_error(
    pack: Callable[[bytes], bytes],
) -> None:
    data = DATA[:300] + b"text " * 100
    packed = pack(data)
    for bit in range(32, 8 * len(packed)):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        reader = stream(bytes(damaged))
        read_all(reader)  # gzip's last bytes may be wrong without notice of zstd (no checksum)
        assert reader.damage is None or isinstance(reader.damage, (MalformedError, TruncatedError))


class CountingSource(io.BytesIO):
    """Knows how much was taken from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        CountingSource.taken += len(data)
        return data


def test_a_stream_is_read_no_further_than_asked() -> None:
    CountingSource.taken = 0
    reader = StreamReader("s", lambda: CountingSource(bytes(10 << 20)), reopenable=False)
    reader.read_at(0, 100)
    assert CountingSource.taken < 1 << 20


@pytest.mark.parametrize("spill_bytes", [1, 50_000, 1 << 30])
def test_a_stream_keeps_only_retained_bytes(spill_bytes: int) -> None:
    reader = stream(DATA, spill_bytes=spill_bytes)
    assert reader.read_at(500_000, 10) == DATA[500_000:500_010]
    assert reader.read_at(0, 10) == DATA[:10], "nothing was released yet"
    reader.retain(400_000)
    reader.release(900_000)
    assert reader.read_at(900_000, 10) == DATA[900_000:900_010]
    assert reader.read_at(400_000, 300_000) == DATA[400_000:700_000]
    with pytest.raises(SourceError, match="already passed"):
        reader.read_at(399_999, 1)
    reader.retain(None)
    with pytest.raises(SourceError, match="already passed"):
        reader.read_at(400_000, 1)
    assert reader.read_at(900_000, 1 << 20) == DATA[900_000:]
    reader.close()
    with pytest.raises(SourceError, match="closed"):
        reader.read_at(900_000, 1)


def test_random_reads_of_a_spilling_stream_equal_the_bytes() -> None:
    rng = random.Random(5)
    reader = stream(DATA, spill_bytes=30_000)
    floor = 0
    for _ in range(300):
        offset = rng.randrange(floor, len(DATA))
        size = rng.randrange(100_000)
        assert reader.read_at(offset, size) == DATA[offset : offset + size]
        if rng.random() < 0.1:
            floor = min(len(DATA) - 1, floor + rng.randrange(20_000))
            reader.release(floor)


def test_a_compressed_file_can_be_read_again(tmp_path: Path) -> None:
    path = local(tmp_path, gzip.compress(DATA))
    with open_reader(path) as reader:
        assert read_all(reader) == DATA
        assert reader.read_at(10, 20) == DATA[10:30]
        assert read_all(reader) == DATA


def test_an_error_of_the_source_is_a_source_error() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() >= 1000:
                raise OSError(5, "Input/output error")
            return super().read(min(size or 1, 1000))

    def opened() -> Any:
        return Broken(DATA)

    reader = StreamReader("s", opened, reopenable=False)
    with pytest.raises(SourceError, match="Input/output error"):
        read_all(reader)


def test_a_zstd_bomb_is_inflated_piece_by_piece() -> None:
    import resource

    packed = zstd(bytes(1 << 30))
    assert len(packed) < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader = stream(packed)
    reader.read_at(0, 1000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) << 10 < 400 << 20


class StoredObject:
    """An object of a store, and what was asked of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests: list[tuple[int, int]] = []

    def open_input_file(self, _: str) -> StoredObject:
        return self

    def size(self) -> int:
        return len(self.data)

    def read_at(self, size: int, offset: int) -> bytes:
        self.requests.append((offset, size))
        return self.data[offset : offset + size]

    def close(self) -> None:
        pass


def stored(monkeypatch: pytest.MonkeyPatch, data: bytes) -> StoredObject:
    found = StoredObject(data)
    monkeypatch.setattr("binlake.source.bytes.file_system_for", lambda _: (found, "log"))
    return found


def test_a_small_log_in_a_store_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parents[2] / "golden" / "mysql-9.7" / "gtid" / "binlog.000001"
    found = stored(monkeypatch, path.read_bytes())
    with LogFile.open(str(path)) as log:
        expected = [window.data for window in log.windows()]
    with LogFile.open("s3://bucket/binlog.000001") as log:
        assert [window.data for window in log.windows()] == expected
    assert found.requests == [(0, path.stat().st_size)]


def test_ranges_beyond_the_head_of_an_object_are_asked_for_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = stored(monkeypatch, DATA)
    with open_reader("s3://bucket/binlog.000001") as reader:
        assert reader.read_at(10, 20) == DATA[10:30]
        assert reader.read_at(65_000, 1000) == DATA[65_000:66_000]
        assert reader.read_at(len(DATA) - 5, 50) == DATA[-5:]
        assert read_all(reader) == DATA
    assert found.requests[:3] == [(0, 65_536), (65_000, 1000), (len(DATA) - 5, 5)]


def test_a_kept_head_costs_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stored(monkeypatch, DATA)
    heads = ObjectHeads()
    for _ in range(2):
        with open_reader("s3://bucket/log", len(DATA), kept=heads.of("log", "1")) as reader:
            assert reader.read_at(10, 20) == DATA[10:30]
    assert found.requests == [(0, 65_536)]
    with open_reader("s3://bucket/log", len(DATA), kept=heads.of("log", "1")) as reader:
        assert reader.read_at(len(DATA) - 5, 50) == DATA[-5:]
    with open_reader("s3://bucket/log", len(DATA), kept=heads.of("log", "2")) as reader:
        assert reader.read_at(10, 20) == DATA[10:30]
    assert found.requests == [(0, 65_536), (len(DATA) - 5, 5), (0, 65_536)]
    with pytest.raises(SourceError, match="is closed"):
        reader.read_at(10, 20)


def test_kept_heads_are_bounded() -> None:
    heads = ObjectHeads(100)
    for name in "abc":
        heads.of(name, "").keep(bytes(40))
        assert heads.of("a", "").data is not None
    assert heads.of("b", "").data is None
    assert heads.of("c", "").data is not None
    heads.of("d", "").keep(bytes(200))
    assert all(heads.of(name, "").data is None for name in "abcd")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://logs",
        "s3://logs/",
        "s3://logs/db1/binlog.000001",
        "s3://logs/a//b/../c",
        "s3://logs/a+b=c@d:e,f~g!h",
        "s3://logs/a%20b/%C3%A4",
        "s3://logs/a?region=eu-west-1",
        "s3a://logs/db1/binlog.000001",
        "S3://logs/a",
    ],
)
def test_paths_in_s3_are_those_of_pyarrow(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    found, path = file_system_for(uri)
    plain = "s3://" + uri.partition("://")[2]
    region = "&" if "?" in plain else "?region=us-east-1&"
    expected, expected_path = fs.FileSystem.from_uri(f"{plain}{region}scheme=http")
    assert path == expected_path
    assert found.type_name == expected.type_name == "s3"


def test_objects_of_a_bucket_share_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    first, _ = file_system_for("s3://logs/a")
    assert file_system_for("s3a://logs/b")[0] is first
    assert file_system_for("s3://others/a")[0] is not first
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert file_system_for("s3://logs/a")[0] is not first
