"""A file that a thread writes: nothing lost or moved, failures told, no page written to after it goes."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from binlake.archive import growing
from binlake.archive.growing import GrowingFile, Write, write_cached, write_uncached
from binlake.source.bytes import write_whole

PAGE = growing._PAGE_BYTES
SIZES = (1, 4, 19, 300, PAGE - 1, PAGE, PAGE + 1, 200_000, 1 << 20)


@pytest.fixture
def pieces() -> list[bytes]:
    chosen = random.Random(7)
    return [chosen.randbytes(chosen.choice(SIZES)) for _ in range(120)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "binlog.000001"


def grown(
    path: Path,
    flags: int = os.O_RDWR,
    *,
    write: Write = write_cached,
    write_pages: Write = write_uncached,
) -> GrowingFile:
    descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    return GrowingFile(descriptor, path.stat().st_size, write, write_pages)


def append_all(
    path: Path,
    pieces: list[bytes],
    *,
    write: Write = write_cached,
    write_pages: Write = write_uncached,
) -> None:
    with closing(grown(path, write=write, write_pages=write_pages)) as file:
        for piece in pieces:
            file.append(piece)
        assert file.size == sum(map(len, pieces))
        file.flush()


def test_pieces_of_all_sizes(path: Path, pieces: list[bytes]) -> None:
    append_all(path, pieces)
    assert path.read_bytes() == b"".join(pieces)


def test_going_on_at_the_end(path: Path, pieces: list[bytes]) -> None:
    path.write_bytes(b"what was there")
    with closing(grown(path)) as file:
        for piece in pieces:
            file.append(piece)
        assert file.sync() == file.size
    assert path.read_bytes() == b"what was there" + b"".join(pieces)


def test_the_system_may_take_less_than_it_is_given(path: Path, pieces: list[bytes]) -> None:
    def some(descriptor: int, data: memoryview, at: int) -> int:
        return os.pwrite(descriptor, data[:9999], at)

    append_all(path, pieces[:30], write=some, write_pages=some)
    assert path.read_bytes() == b"".join(pieces[:30])


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_kernels_and_file_systems_that_only_cache(
    path: Path, pieces: list[bytes], code: int
) -> None:
    asked = []

    def refused(descriptor: int, data: memoryview, at: int) -> int:
        asked.append(at)
        raise OSError(code, os.strerror(code))

    append_all(path, pieces, write_pages=refused)
    assert path.read_bytes() == b"".join(pieces)
    assert len(asked) == 1, "asked once a file"


def test_whole_pages_leave_the_cache_once(path: Path, pieces: list[bytes]) -> None:
    gone: set[int] = set()
    cached: set[int] = set()

    def pages(data: memoryview, at: int) -> set[int]:
        return set(range(at // PAGE, -(-(at + len(data)) // PAGE)))

    def uncached(descriptor: int, data: memoryview, at: int) -> int:
        assert at % PAGE == len(data) % PAGE == 0
        assert not pages(data, at) & (gone | cached)
        gone.update(pages(data, at))
        return os.pwrite(descriptor, data, at)

    def ordinary(descriptor: int, data: memoryview, at: int) -> int:
        assert not pages(data, at) & gone
        cached.update(pages(data, at))
        return os.pwrite(descriptor, data, at)

    append_all(path, pieces, write=ordinary, write_pages=uncached)
    assert gone
    assert path.read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_failed_file_repeats_its_error(path: Path, size: int) -> None:
    path.write_bytes(b"")
    with closing(grown(path, os.O_RDONLY)) as file:
        with pytest.raises(OSError, match="Bad file"):  # noqa: PT012 - of a large piece later
            file.append(b"x" * size)
            file.flush()
        for again in (lambda: file.append(b"y"), file.flush, file.sync):
            with pytest.raises(OSError, match="Bad file"):
                again()
    assert path.read_bytes() == b""


def test_a_sync_that_failed_is_not_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells of lost pages once, and of the next sync that all is well."""
    failures = iter([OSError(errno.EIO, "Input/output error")])

    def fdatasync(descriptor: int) -> None:
        for failure in failures:
            raise failure

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with closing(grown(path)) as file:
        file.append(b"x")
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output"):
                file.sync()


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Pieces that `held` writes are not written before this is set."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def held(let_go: threading.Event) -> Write:
    def write(descriptor: int, data: memoryview, at: int) -> int:
        assert let_go.wait(120)
        return os.pwrite(descriptor, data, at)

    return write


def test_memory_is_bounded(path: Path, held: Write, let_go: threading.Event) -> None:
    piece = b"x" * (1 << 20)
    with closing(grown(path, write_pages=held)) as file:

        def append() -> None:
            for _ in range(40):
                file.append(piece)

        thread = threading.Thread(target=append)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "the appender waits"
        assert file.size <= growing._MOST_HELD_BYTES + len(piece)
        let_go.set()
        thread.join()
        file.flush()
    assert path.stat().st_size == 40 << 20


def test_a_sync_covers_written_bytes(
    path: Path, held: Write, let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []
    monkeypatch.setattr(os, "fdatasync", lambda d: lengths.append(os.fstat(d).st_size))
    found = []
    with closing(grown(path, write_pages=held)) as file:
        file.append(b"x" * (1 << 20))
        thread = threading.Thread(target=lambda: found.append(file.sync()))
        thread.start()
        thread.join(0.2)
        assert not lengths, "nothing is synced that is not written"
        let_go.set()
        thread.join()
    assert found == [1 << 20]
    assert lengths[0] >= found[0]


def unlucky(descriptor: int, data: memoryview, at: int) -> int:
    """For a reason that is not the system's."""
    raise MemoryError


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_every_end_of_the_writing_is_reported(path: Path, size: int) -> None:
    errors = []

    def fail() -> None:
        with closing(grown(path, write=unlucky, write_pages=unlucky)) as file:
            for step in (lambda: file.append(b"x" * size), file.flush, file.sync):
                try:
                    step()
                except OSError as error:
                    errors.append(str(error))

    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for a thread that is dead"
    assert len(errors) >= 2
    assert all("MemoryError" in text for text in errors)


def test_a_python_that_knows_no_flags_caches(path: Path, pieces: list[bytes]) -> None:
    def refused(descriptor: int, data: memoryview, at: int) -> int:
        raise NotImplementedError("pwritev2: not available on this platform")

    done = threading.Event()

    def append() -> None:
        append_all(path, pieces, write_pages=refused)
        done.set()

    thread = threading.Thread(target=append, daemon=True)
    thread.start()
    assert done.wait(60)
    assert path.read_bytes() == b"".join(pieces)


def test_a_thread_that_does_not_start_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    piece = b"x" * (1 << 20)
    with closing(grown(path)) as file:
        file.append(b"abc")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(OSError, match="new thread"):
                file.append(piece)
        assert file.sync() == file.size == 3
        file.append(piece)
        file.flush()
    assert path.read_bytes() == b"abc" + piece


@pytest.mark.parametrize("code", [None, errno.ENOTSUP, errno.EIO])
def test_where_a_drive_has_a_cache_it_is_emptied(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    """macOS: its fsync leaves bytes in the drive, and a file system may not know the call that does not."""
    asked: list[int] = []
    synced: list[int] = []

    def control(descriptor: int, command: int) -> int:
        asked.append(command)
        if code is not None:
            raise OSError(code, os.strerror(code))
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    with closing(grown(path)) as file:
        file.append(b"x")
        if code == errno.EIO:
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
        else:
            file.sync()
    assert asked == [51]
    assert len(synced) == (code == errno.ENOTSUP)
    if code != errno.EIO:
        write_whole(str(path), b"all of it")
        assert asked == [51, 51, 51], "the file and its directory"
