"""Complete logs: indexed, compressed, and in the end removed, in an order that loses nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.archive import finishing
from binlake.archive.archiver import ArchiveOptions, Archiver
from binlake.archive.finishing import (
    Finish,
    Finisher,
    finish_log,
    remove_leftovers,
    unfinished_logs,
)
from binlake.archive.folder import Folder
from binlake.archive.folders import open_folder
from binlake.archive.retention import purge
from binlake.cli.main import main
from binlake.errors import SourceError
from binlake.source.bytes import open_reader
from binlake.source.replica.url import ServerUrl
from binlake.values.log_names import index_path
from support.logs.log_builder import LogBuilder
from support.servers.archiving import until
from support.servers.fake_server import fake_server
from support.servers.fake_source import source, whole


def content(folder: Folder, name: str) -> bytes:
    with open_reader(folder.path_of(name)) as reader:
        return reader.read_at(0, 1 << 20)


def test_a_log_is_indexed_and_compressed(folder: Folder) -> None:
    before = [t.gtid for t in binlake.open(folder.path).transactions()]
    whole = content(folder, "binlog.000001")
    names = unfinished_logs(folder, Finish("zstd"), "binlog.000005")
    assert names == [f"binlog.00000{n}" for n in (1, 2, 3, 4)]
    for name in names:
        finish_log(folder, name, Finish("zstd"))
    sizes = folder.sizes()
    assert "binlog.000001" not in sizes
    assert {"binlog.000001.zst", "binlog.000001.index.parquet", "binlog.000005"} <= set(sizes)
    assert content(folder, "binlog.000001.zst") == whole
    assert [t.gtid for t in binlake.open(folder.path).transactions()] == before
    assert [t.gtid for t in binlake.open(folder.path_of("binlog.index")).transactions()] == before
    assert unfinished_logs(folder, Finish("zstd"), "binlog.000005") == []
    finish_log(folder, "binlog.000001", Finish("zstd"))  # done already


def test_a_log_gets_a_key_index_if_wanted(folder: Folder) -> None:
    finish = Finish("zstd", key_index=True)
    assert Finish.of_words(*finish.to_words()) == finish
    finish_log(folder, "binlog.000001", finish)
    finish_log(folder, "binlog.000002", Finish("zstd"))
    keys = {name for name in folder.sizes() if name.endswith(".keys.arrow")}
    assert keys == {"binlog.000001.keys.arrow"}
    purge(folder, ["binlog.000001"])
    assert not keys & folder.sizes().keys()


def test_a_log_that_another_process_finishes_meanwhile(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill, the finishing process of the killed archiver may be faster than the new one."""
    listings = [folder.sizes()]
    finish_log(folder, "binlog.000001", Finish("zstd"))
    Path(folder.path_of("binlog.000001.index.parquet")).unlink()
    now = folder.sizes
    monkeypatch.setattr(folder, "sizes", lambda: listings.pop() if listings else now())
    finish_log(folder, "binlog.000001", Finish("zstd"))
    assert listings == []
    monkeypatch.undo()
    monkeypatch.setattr(folder, "sizes", lambda: {"binlog.000009": 4})
    with pytest.raises(SourceError, match=r"binlog\.000009 does not exist"):
        finish_log(folder, "binlog.000009", Finish("zstd"))


def test_a_file_that_disappears_while_a_directory_is_listed(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    (tmp_path / "binlog.000001").write_bytes(b"1")
    (tmp_path / "binlog.000002").symlink_to("binlog.000003")  # as if it had just been removed
    assert folder.sizes() == {"binlog.000001": 1}


def test_logs_left_unfinished_by_a_kill_are_finished(folder: Folder) -> None:
    finish_log(folder, "binlog.000001", Finish())
    shutil.copy(folder.path_of("binlog.000002"), folder.path_of("binlog.000002.77.partial"))
    Path(folder.path_of("binlog.000002.zst")).write_bytes(b"half of it")
    assert unfinished_logs(folder, Finish(), "binlog.000005") == [
        f"binlog.00000{n}" for n in (2, 3, 4)
    ]
    assert unfinished_logs(folder, Finish(index=False), "binlog.000005") == []
    whole = content(folder, "binlog.000002")
    finish_log(folder, "binlog.000002", Finish("zstd"))
    assert content(folder, "binlog.000002.zst") == whole


def test_a_log_is_kept_if_its_compressed_copy_differs(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another(path: str) -> Any:
        """The bytes that are read back belong to another log."""
        return open_reader(folder.path_of("binlog.000002") if path.endswith(".zst") else path)

    monkeypatch.setattr(finishing, "open_reader", another)
    with pytest.raises(SourceError, match="the log stays uncompressed"):
        finish_log(folder, "binlog.000001", Finish("zstd"))
    assert "binlog.000001" in folder.sizes()


def test_a_damaged_log_is_kept_unchanged(folder: Folder) -> None:
    path = Path(folder.path_of("binlog.000001"))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(binlake.BinlogError, match="bad checksum"):
        finish_log(folder, "binlog.000001", Finish("zstd"))
    assert path.read_bytes() == data


def stopped(folder: Folder, name: str, *, bytes: int) -> tuple[subprocess.Popen[bytes], Path]:
    """A process that compresses a log, stopped in the middle of it, and the file that it writes."""
    command = [sys.executable, "-m", finishing.__name__, folder.path, "zstd", "no-index"]

    def partials() -> list[Path]:
        """With bytes in them: an empty one may not be locked yet."""
        found = [entry for entry in os.scandir(folder.path) if entry.name.endswith(".partial")]
        with contextlib.suppress(FileNotFoundError):  # it has just been renamed
            return [Path(entry.path) for entry in found if entry.stat().st_size]
        return []

    for _ in range(50):  # one that is done before we look comes too early
        Path(folder.path_of(f"{name}.zst")).unlink(missing_ok=True)
        Path(folder.path_of(name)).write_bytes(os.urandom(1 << 20) * (bytes >> 20))
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        process.stdin.write(f"{name}\n".encode())
        process.stdin.close()
        until(partial(_is_seen, partials, process))
        process.send_signal(signal.SIGSTOP)
        until(partial(_is_stopped, process))
        if process.poll() is None and partials():
            (unfinished,) = partials()
            return process, unfinished
        process.kill()
        process.wait()
    raise AssertionError("it is always done already")


def _is_seen(partials: Callable[[], list[Path]], process: subprocess.Popen[bytes]) -> bool:
    """Or it has ended."""
    return bool(partials()) or process.poll() is not None


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Or it has ended."""
    if process.poll() is not None:
        return True
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZX"


def test_partial_files_of_killed_processes_are_removed(folder: Folder) -> None:
    process, left = stopped(folder, "binlog.000002", bytes=160 << 20)
    process.kill()
    process.wait()
    assert left.exists()
    for name in ("archive.json", "binlog.index", "binlog.000001.index.parquet"):
        Path(folder.path_of(f"{name}.123.partial")).touch()
    not_ours = [f"{name}.123.partial" for name in ("dump.sql", "binlog.000001", "a.zst")]
    for name in not_ours:
        Path(folder.path_of(name)).touch()
    assert len(remove_leftovers(folder)) == 4
    assert not left.exists()
    assert {name for name in folder.sizes() if name.endswith(".partial")} == set(not_ours)
    assert "binlog.000002" in folder.sizes()


def test_partial_files_of_running_processes_stay(folder: Folder) -> None:
    process, partial = stopped(folder, "binlog.000002", bytes=160 << 20)
    try:
        assert remove_leftovers(folder) == []
        assert partial.exists()
    finally:
        process.kill()
        process.wait()
    assert remove_leftovers(folder) == [partial.name]


def test_a_failed_finish_is_retried(folder: Folder) -> None:
    """Not at once, not only when the next connection is made."""
    in_the_way = Path(folder.path_of("binlog.000001.zst"))
    in_the_way.mkdir()
    said: list[str] = []
    finisher = Finisher(folder, Finish("zstd"), said.append, pause_s=3.0)
    finisher.begin("binlog.000003")
    finisher.wait()
    assert said == ["1 log could not be finished; the next try is in 3 s"]
    assert "binlog.000001" in folder.sizes()
    assert "binlog.000002.zst" in folder.sizes()
    in_the_way.rmdir()

    def done() -> bool:
        finisher.poll()
        return "binlog.000001.zst" in folder.sizes() and "binlog.000001" not in folder.sizes()

    until(done)
    finisher.wait()
    assert len(said) == 1
    assert not [name for name in folder.sizes() if name.endswith(".partial")]


def test_the_pause_grows_and_a_killed_process_is_a_failure(folder: Folder) -> None:
    said: list[str] = []
    finisher = Finisher(folder, Finish("zstd"), said.append, longest_pause_s=100.0)
    for _ in range(3):
        finisher.forget(["binlog.000001"])  # else it is tried again only after the pause
        finisher.add(["binlog.000001"])
        assert finisher._process is not None
        finisher._process._running.kill()
        finisher._process._running.wait()
        finisher.poll()
        assert finisher._process is None, "not again at once"
    assert [line.rpartition("in ")[2] for line in said] == ["30 s", "60 s", "100 s"]
    assert "signal 9" in said[0]


@pytest.mark.parametrize("base", ["binlog", "a\u2028b c\x85 "])
def test_a_damaged_log_is_not_retried(folder: Folder, base: str) -> None:
    """For every name; the archiver retried a name with another line end again and again."""
    path = Path(folder.path_of(f"{base}.000001"))
    Path(folder.path_of("binlog.000001")).rename(path)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    said: list[str] = []
    finisher = Finisher(folder, Finish("zstd"), said.append)
    finisher.begin("binlog.000003")
    finisher.wait()
    assert said == []
    assert finisher._failed == []
    assert "binlog.000002.zst" in folder.sizes()
    assert finisher.unfinished == finisher.failed == 1, "it is counted"
    again: list[Callable[[], object]] = [
        lambda: finisher.begin("binlog.000003"), lambda: finisher.add([path.name])
    ]  # fmt: skip
    for begin in again:
        begin()
        assert finisher._process is None, "not begun again by the next connection"
    assert finisher.unfinished == 1
    finisher.forget([path.name])
    assert finisher.unfinished == 0


def test_a_log_that_can_have_no_index_is_begun_once(folder: Folder) -> None:
    said: list[str] = []
    finisher = Finisher(folder, Finish(), said.append)
    finisher.begin("binlog.000003")
    finisher.wait()
    Path(folder.path_of(index_path("binlog.000001"))).unlink()
    finisher.begin("binlog.000003")
    assert finisher._process is None
    assert (finisher.unfinished, said) == (0, [])


def test_a_process_stays_for_the_logs_that_come_later(folder: Folder) -> None:
    finisher = Finisher(folder, Finish())
    finisher.add(["binlog.000001"])
    process = finisher._process
    assert process is not None

    def done() -> bool:
        finisher.poll()
        return finisher.unfinished == 0

    def has_process() -> bool:
        return finisher._process is not None

    until(done)
    assert [finisher._process] == [process]  # an attribute that mypy would take to stay
    finisher.add(["binlog.000002", "binlog.000003"])
    finisher.wait()
    assert process.code == 0
    assert not has_process()
    assert {index_path(f"binlog.00000{n}") for n in (1, 2, 3)} <= set(folder.sizes())


def test_a_directory_that_cannot_be_read_when_the_process_ends(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its logs have failed until the next attempt: they are neither forgotten nor always in progress."""
    finisher = Finisher(folder, Finish("zstd"), pause_s=0.0)
    finisher.add(["binlog.000001", "binlog.000002"])
    process = finisher._process
    assert process is not None
    process._running.kill()
    process._running.wait()

    def refused() -> dict[str, int]:
        raise SourceError("the store does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(folder, "sizes", refused)
        finisher._hear()
    assert (finisher.unfinished, finisher.failed) == (2, 2)
    finisher.poll()
    finisher.wait()
    assert (finisher.unfinished, finisher.failed) == (0, 0)
    assert {"binlog.000001.zst", "binlog.000002.zst"} <= set(folder.sizes())


def test_more_logs_than_a_process_gets_at_a_time(folder: Folder) -> None:
    whole = content(folder, "binlog.000001")
    names = [f"binlog.{number:06}" for number in range(1000, 1250)]
    for name in names:
        Path(folder.path_of(name)).write_bytes(whole)
    finisher = Finisher(folder, Finish())
    finisher.add(names)
    finisher.wait()
    assert (finisher.unfinished, finisher.failed) == (0, 0)
    assert {index_path(name) for name in names} <= set(folder.sizes())


def busy(folder: Folder, closed: threading.Event | None = None) -> tuple[Finisher, Path]:
    """One whose process is in the middle of a log, and what that writes."""
    os.truncate(folder.path_of("binlog.000002"), 1 << 30)  # a hole, which takes no room
    finisher = Finisher(folder, Finish("zstd", index=False), closed=closed)
    finisher.add(["binlog.000002", "binlog.000003"])
    partials = Path(folder.path).glob
    until(lambda: list(partials("binlog.000002*.partial")))
    return finisher, next(iter(partials("binlog.000002*.partial")))


def test_stop_ends_the_running_finish(folder: Folder) -> None:
    finisher, partial = busy(folder)
    process = finisher._process
    assert process is not None
    finisher.add(["binlog.000004"])
    finisher.stop()
    assert process.code == -signal.SIGTERM
    assert finisher.unfinished == 0
    assert "binlog.000002" in folder.sizes()
    for name in ("binlog.000003", "binlog.000004"):  # which the second thread may have finished
        assert {name, f"{name}.zst"} & folder.sizes().keys()
    left = remove_leftovers(folder)
    assert partial.name in left
    assert len(left) <= 2  # the process finishes two logs at a time
    assert not list(Path(folder.path).glob("*.partial"))
    finisher.stop()


def test_a_closed_finisher_neither_waits_nor_starts_more(folder: Folder) -> None:
    closed = threading.Event()
    finisher, _ = busy(folder, closed)
    process = finisher._process
    assert process is not None
    timer = threading.Timer(0.1, closed.set)
    timer.start()
    finisher.wait()
    assert process.code is None, "it came back before the process had ended"
    finisher.stop()
    finisher.add(["binlog.000004"])
    assert finisher._process is None


@pytest.mark.parametrize("closed", [True, False])
def test_an_archiver_waits_unless_it_is_closed(
    folder: Folder,
    closed: bool,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Told(Finisher):
        """The files of other logs, which are complete already."""

        def __init__(self, _: Folder, *given: Any) -> None:
            super().__init__(folder, Finish("zstd"), *given[1:])

        def begin(self, growing: str) -> None:
            if closed:
                archiver.close()
            super().begin("binlog.000005")

        def wait(self) -> None:
            asked.append("wait")
            super().wait()

        def stop(self) -> None:
            asked.append("stop")
            super().stop()

    monkeypatch.setattr("binlake.archive.archiver.Finisher", Told)
    root = open_folder(str(tmp_path_factory.mktemp("archive")))
    made = LogBuilder()
    made.transaction(b"row", gtid=None)
    with fake_server(source(made, [whole, whole], [])) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        archiver = Archiver([ServerUrl.parse(url)], root, ArchiveOptions(until_current=True))
        archiver.run()
    assert "wait" in asked
    assert asked.count("stop") == closed
    assert asked[-1] == ("stop" if closed else "wait")
    assert ("binlog.000001.zst" in folder.sizes()) is not closed
    assert archiver.failed == 0


def test_a_second_interrupt_does_not_wait() -> None:
    code = """if True:
        import os, signal
        from binlake.interrupts import end_by_signal
        asked = []
        before = signal.getsignal(signal.SIGTERM)
        try:
            with end_by_signal(lambda: asked.append(1)):
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGTERM)
                assert asked == [1, 1]
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            assert signal.getsignal(signal.SIGTERM) is before
            print("at once")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "at once\n"


@pytest.mark.parametrize("until", ["--until-current", "--once"])
@pytest.mark.parametrize("failed", [0, 2])
def test_the_end_of_a_run_reports_unfinished_logs(
    failed: int,
    until: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Archiver, "run", lambda _: None)
    monkeypatch.setattr(Archiver, "failed", failed)
    command = ["archive", "mysql://repl@db1/", str(tmp_path), until, "-q"]
    assert main(command) == (1 if failed else 0)
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "2 complete logs could not be indexed" in line] == lines
