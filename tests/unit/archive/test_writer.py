"""Blocks become files: what is there after every single step is right, and nothing is overwritten."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from binlake.archive.folder import Folder
from binlake.archive.folders import open_folder
from binlake.archive.layout import STATE, ArchiveState
from binlake.archive.retention import purge
from binlake.archive.store import StoreFolder
from binlake.archive.writer import AnotherHistory, HistoryWriter
from binlake.errors import ServerError, SourceError
from binlake.source.replica.follower import Block
from support.logs.log_builder import GTID, QUERY, ROWS, XID, LogBuilder, query_body

UUID = "78157433-e595-11f1-a5e0-02fc00000001"
STATE_0 = ArchiveState(UUID, "mysql")


@dataclass(frozen=True)
class Sent:
    """Logs as a server sends them: events back to back."""

    logs: dict[str, bytes]

    def blocks(self, size: int, file: str = "", start: int = 4) -> list[Block]:
        """Blocks of about `size` bytes, from a place on."""
        found = []
        for name, data in self.logs.items():
            if name < file:
                continue
            at = begun = start if name == file else 4
            while at < len(data):
                at += int.from_bytes(data[at + 9 : at + 13], "little")
                if at - begun >= size or at == len(data):
                    found.append(Block(name, begun, data[begun:at], 0.0, UUID))
                    begun = at
        return found


@pytest.fixture
def sent(golden: Path) -> Sent:
    paths = sorted((golden / "mysql-9.7/rotation").glob("binlog.00000[1-4]"))
    return Sent({path.name: path.read_bytes() for path in paths})


@pytest.fixture(params=["local", "store"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    """A directory, and the same as an object store: through pyarrow's file system."""
    if request.param == "local":
        return open_folder(str(tmp_path / "a"))
    return store_at(tmp_path / "a", monkeypatch)


def store_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    from pyarrow import fs

    from binlake.archive import store as module
    from binlake.source import bytes as source_bytes

    def file_system_for(uri: str) -> tuple[fs.FileSystem, str]:
        assert uri.startswith("test://")
        return fs.LocalFileSystem(), uri.removeprefix("test:/")

    monkeypatch.setattr(module, "file_system_for", file_system_for)
    monkeypatch.setattr(source_bytes, "file_system_for", file_system_for)
    return open_folder(f"test:/{path}")


def files(folder: Folder) -> dict[str, bytes]:
    """The logs that are there under their names."""
    return {n: folder.read(n) or b"" for n in folder.sizes() if n[-6:].isdigit()}


def test_all_of_it(folder: Folder, sent: Sent) -> None:
    writer = HistoryWriter(folder, STATE_0)
    assert writer.resume() is None
    for block in sent.blocks(700):
        writer.take(block)
        writer.sync()
    writer.close()
    *complete, last = sent.logs
    assert writer.finished == complete
    assert {n: files(folder)[n] for n in complete} == {n: sent.logs[n] for n in complete}
    if not isinstance(folder, StoreFolder):
        assert files(folder) == sent.logs
    state = ArchiveState.from_bytes(folder.read(STATE) or b"", "")
    assert (state.file, state.offset) == (last, len(sent.logs[last]))
    assert (folder.read("binlog.index") or b"").decode().split() == [f"./{n}" for n in sent.logs]


def test_retention_keeps_the_growing_log_in_the_index_file(folder: Folder, sent: Sent) -> None:
    """In a store the growing log has no object of its name yet."""
    writer = HistoryWriter(folder, STATE_0)
    writer.resume()
    for block in sent.blocks(700):
        writer.take(block)
        writer.sync()
    first, *kept = sent.logs
    purge(folder, [first])
    writer.close()
    assert (folder.read("binlog.index") or b"").decode().split() == [f"./{n}" for n in kept]


@pytest.mark.parametrize("size", [1, 500, 100_000])
def test_going_on_after_every_block(folder: Folder, sent: Sent, size: int) -> None:
    """A writer per block, never closed: as if each had been killed once its block was durable."""
    for _ in range(200):
        writer = HistoryWriter(folder, STATE_0)
        start = writer.resume()
        coming = sent.blocks(size, start.file, start.offset) if start else sent.blocks(size)
        for block in coming:
            before = writer.end
            writer.take(block)
            if writer.end != before:
                writer.sync()
                if size > 1 or len(files(folder)) % 2:
                    break
        else:
            break
        folder.unlock()
    writer.close()
    last = max(sent.logs)
    found = files(folder)
    assert {n: found[n] for n in sent.logs if n != last} == {
        n: data for n, data in sent.logs.items() if n != last
    }
    with folder.open_log(last).reader() as log:
        assert log.read_at(0, 1 << 20) == sent.logs[last]


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 20, 130, 700, 1500])
def test_the_tail_after_a_crash(tmp_path: Path, sent: Sent, cut: int) -> None:
    """Whatever is behind the last whole event goes; what is before it is asked for from its last transaction on."""
    folder = open_folder(str(tmp_path))
    (name, whole), *_ = sent.logs.items()
    (tmp_path / name).write_bytes(whole[:cut] + b"\xff" * 50)
    writer = HistoryWriter(folder, STATE_0)
    start = writer.resume()
    for block in sent.blocks(300, start.file, start.offset) if start else sent.blocks(300):
        writer.take(block)
    writer.close()
    assert files(folder) == sent.logs


def test_another_log_of_the_same_name_is_not_written_over(
    tmp_path: Path, sent: Sent, golden: Path
) -> None:
    folder = open_folder(str(tmp_path))
    writer = HistoryWriter(folder, STATE_0)
    writer.resume()
    for block in sent.blocks(500)[:3]:
        writer.take(block)
    writer.close()
    before = files(folder)
    other = Sent({"binlog.000001": (golden / "mysql-9.7/types-full/binlog.000001").read_bytes()})
    writer = HistoryWriter(folder, STATE_0)
    start = writer.resume()
    assert start is not None
    (first, *_) = other.blocks(100)
    with pytest.raises(AnotherHistory):
        writer.take(Block(start.file, start.offset, first.data, 0.0, UUID))
    writer.close()
    assert files(folder) == before


def test_blocks_that_do_not_follow_are_refused(tmp_path: Path, sent: Sent) -> None:
    folder = open_folder(str(tmp_path))
    writer = HistoryWriter(folder, STATE_0)
    writer.resume()
    first, second, third, *_ = sent.blocks(1)
    writer.take(first)
    with pytest.raises(ServerError, match="the next position is"):
        writer.take(third)
    for name in ("binlog.000003", "other.000002", "binlog.000001.000002"):
        with pytest.raises(AnotherHistory):
            writer.take(Block(name, 4, second.data, 0.0, UUID))
    for name in ("../binlog.000002", "binlog.index", "archive.json"):
        with pytest.raises(ServerError, match="refuses"):
            writer.take(Block(name, 4, second.data, 0.0, UUID))
    with pytest.raises(ServerError, match="not with its first event"):
        writer.take(Block("binlog.000002", 100, second.data, 0.0, UUID))
    writer.take(second)
    writer.close()
    assert set(folder.sizes()) == {"binlog.000001", "binlog.index", "archive.json", "archive.lock"}


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    writer = HistoryWriter(open_folder(str(tmp_path / "new" / "a")), STATE_0)
    writer.resume()
    other = HistoryWriter(open_folder(str(tmp_path / "new" / "a")), STATE_0)
    with pytest.raises(SourceError, match="another process writes this archive"):
        other.resume()
    writer.close()
    other.resume()
    other.close()


@pytest.fixture
def syncing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing becomes durable before this is set."""
    let_go = threading.Event()
    real = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        assert let_go.wait(30)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    yield let_go
    let_go.set()


def test_synced_bytes_are_reported_when_they_are_durable(
    tmp_path: Path, sent: Sent, syncing: threading.Event
) -> None:
    writer = HistoryWriter(open_folder(str(tmp_path)), STATE_0)
    writer.resume()
    first, second, *_ = sent.blocks(300)
    writer.take(first)
    assert writer.sync_soon("a")
    writer.take(second)
    assert not writer.sync_soon("a,b"), "one at a time"
    assert writer.state == STATE_0
    assert not writer.syncs
    syncing.set()
    writer.settle()
    # as far as when it was asked for, though more is there by now
    assert (writer.state.offset, writer.state.gtid_set) == (first.end, "a")
    assert len(writer.syncs) == 1
    assert writer.sync("a,b") == (second.file, second.end)
    assert writer.state.gtid_set == "a,b"
    writer.close()


def test_a_log_begins_when_the_one_before_it_is_durable(
    tmp_path: Path, sent: Sent, syncing: threading.Event
) -> None:
    writer = HistoryWriter(open_folder(str(tmp_path)), STATE_0)
    writer.resume()
    one, other, *_ = sent.logs
    blocks = [block for block in sent.blocks(100_000) if block.file in (one, other)]
    writer.take(blocks[0])
    assert writer.sync_soon("")

    def take_rest() -> None:
        for block in blocks[1:]:
            writer.take(block)

    thread = threading.Thread(target=take_rest)
    thread.start()
    thread.join(0.2)
    assert not (tmp_path / other).exists()
    syncing.set()
    thread.join()
    assert (tmp_path / other).exists()
    writer.close()


def test_a_failure_meanwhile_ends_it(
    tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fdatasync(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    writer = HistoryWriter(open_folder(str(tmp_path)), STATE_0)
    writer.resume()
    writer.take(sent.blocks(300)[0])
    writer.sync_soon("")
    with pytest.raises(SourceError, match="Input/output"):
        writer.settle()
    with pytest.raises(SourceError, match="Input/output"):
        writer.close()
    assert ArchiveState.from_bytes((tmp_path / STATE).read_bytes(), "").offset == 0


@pytest.fixture
def unchecked() -> Sent:
    """A log of transactions with GTIDs and without checksums, of 200 kB."""
    made = LogBuilder(alg=0)
    for number in range(1, 9):
        gtid = bytes(1) + bytes(16) + number.to_bytes(8, "little") + bytes(17)
        made.add(GTID, gtid)
        made.add(QUERY, query_body(b"BEGIN"))
        made.add(ROWS, bytes([number]) * 25_000)
        made.add(XID, bytes(8))
    return Sent({"binlog.000001": made.bytes()})


@pytest.mark.parametrize("durable", [None, 0, 4, 60_000, 150_000])
@pytest.mark.parametrize("hole", [70_000, 130_000, 190_000])
def test_pages_that_never_reached_the_disk(
    tmp_path: Path, unchecked: Sent, durable: int | None, hole: int
) -> None:
    """Without checksums nothing tells zeros in an event from what was there, but the server."""
    folder = open_folder(str(tmp_path))
    ((name, whole),) = unchecked.logs.items()
    ends = [block.end for block in unchecked.blocks(1)]
    state = STATE_0
    if durable is not None:
        durable = max((end for end in (4, *ends) if end <= durable), default=0)
        state = replace(STATE_0, file=name, offset=durable)
        hole = max(hole, durable)
    end = (hole // 4096 + 1) * 4096
    (tmp_path / name).write_bytes(whole[:hole] + bytes(end - hole) + whole[end:])
    writer = HistoryWriter(folder, state)
    start = writer.resume()
    assert start is not None
    assert start.offset <= max(durable or 0, 4)
    assert durable is None or start.offset > durable - 30_000 or start.offset == 4
    blocks = unchecked.blocks(9000, start.file, start.offset)
    for block in blocks:
        writer.take(block)
    writer.close()
    assert files(folder) == unchecked.logs


@pytest.mark.parametrize("other", [b"\xff" * 10, bytes(10)])
def test_differing_bytes_are_another_log(tmp_path: Path, unchecked: Sent, other: bytes) -> None:
    ((name, whole),) = unchecked.logs.items()
    kept = whole[:130_000] + other + whole[130_010:]
    (tmp_path / name).write_bytes(kept)
    writer = HistoryWriter(open_folder(str(tmp_path)), STATE_0)
    start = writer.resume()
    assert start is not None

    def take_all() -> None:
        for block in unchecked.blocks(9000, start.file, start.offset):
            writer.take(block)

    with pytest.raises(AnotherHistory):
        take_all()
    writer.close()
    assert (tmp_path / name).read_bytes() == kept


def test_bytes_of_a_killed_process_are_synced_before_they_are_reported(
    tmp_path: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, whole), *_ = sent.logs.items()
    (tmp_path / name).write_bytes(whole)
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda d: synced.append(os.fstat(d).st_size))
    writer = HistoryWriter(open_folder(str(tmp_path)), STATE_0)
    writer.resume()
    assert synced == [len(whole)]
    writer.close()


def test_an_event_that_cannot_be_decoded_is_kept(tmp_path: Path) -> None:
    """Recovery looks for GTIDs at the beginning; what it does not need it does not judge."""
    made = LogBuilder()
    made.transaction(b"row", gtid=None)  # its table map is none
    (tmp_path / "binlog.000001").write_bytes(made.bytes())
    writer = HistoryWriter(open_folder(str(tmp_path)), STATE_0)
    writer.resume()
    assert writer.end == ("binlog.000001", len(made.data))
    writer.close()
