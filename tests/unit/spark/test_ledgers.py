"""The ledgers of tasks become one: in directories and stores, whatever the order, with retries."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

pytest.importorskip("pyspark", reason="needs the extra [spark]")

import binlake.source.bytes
import binlake.spark.ledgers as ledgers
from binlake.errors import OptionError, SourceError
from binlake.follow.offsets import StreamOffset
from binlake.spark.driver import SessionDriver
from binlake.spark.ledger_collector import LedgerCollector, ReadPart
from binlake.spark.ledger_watcher import LedgerWatcher
from binlake.spark.ledgers import ReadLedger, batch_sums, collected_ledger, name_of_batch
from binlake.spark.options import SourceOptions
from binlake.stream.lanes import usable_cores
from binlake.table.log_part import TaskSize
from binlake.values.ledger import Ledger, SkippedRange
from binlake.values.position import Position
from support.servers.archiving import until

#: The name of the thread in tests: those of other tests in this process may still wait.
WATCHER = "binlake-ledger of a test"
Deliver = Callable[..., list[dict[str, Any]]]


def of_task(number: int) -> Ledger:
    ledger = Ledger()
    ledger.add_rows("shop", "orders", "insert", number + 1)
    ledger.unshown["DDL"] += 1
    ledger.skipped.append(SkippedRange("binlog.000001", number, number + 1, "bad"))
    return ledger


@pytest.fixture(params=["a directory", "a store"])
def ledger_path(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Path]:
    """The option, and where its files are."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    if request.param == "a directory":
        return str(tmp_path / "kept"), tmp_path / "kept"
    (tmp_path / "bucket").mkdir()
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())

    def found(uri: str) -> tuple[Any, str]:
        return store, uri.partition("://")[2]

    for module in (binlake.source.bytes, ledgers):
        monkeypatch.setattr(module, "file_system_for", found)
    return "s3://bucket", tmp_path / "bucket"


def collected(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 1, 0, 2]])
def test_the_last_task_adds_up(ledger_path: tuple[str, Path], order: list[int]) -> None:
    option, folder = ledger_path
    read = ReadLedger("r1", "/logs", option, facts={"view": "changes"})
    for task in order:
        assert collected(folder) == []
        read.for_task(task, 3).deliver(of_task(task))
    [kept] = collected(folder)
    assert (kept["read"], kept["view"], kept["tasks"]) == ("r1", "changes", 3)
    assert kept["unshown"] == {"DDL": 3}
    assert kept["rows"][0]["insert"] == 1 + 2 + 3
    assert len(kept["skipped"]) == 3
    assert not [path for path in folder.rglob("*") if "000" in path.name]


def test_a_second_action_on_the_same_plan_writes_the_same(ledger_path: tuple[str, Path]) -> None:
    option, folder = ledger_path
    read = ReadLedger("r1", "/logs", option)
    for _ in range(2):
        for task in range(2):
            read.for_task(task, 2).deliver(of_task(task))
    [kept] = collected(folder)
    assert kept["unshown"] == {"DDL": 2}


def test_a_failed_read_keeps_the_ledgers_of_its_tasks(ledger_path: tuple[str, Path]) -> None:
    option, folder = ledger_path
    read = ReadLedger("r1", "/logs", option)
    read.for_task(0, 2).deliver(of_task(0))
    read.for_task(1, 2).failed(of_task(1), SourceError("gone"))
    assert collected(folder) == []
    parts = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    assert [part.get("error") for part in parts] == [None, "gone"]


def test_a_read_of_nothing_has_a_ledger(ledger_path: tuple[str, Path]) -> None:
    option, folder = ledger_path
    ReadLedger("r1", "/logs", option).deliver_nothing()
    assert [kept["events"] for kept in collected(folder)] == [{}]


def test_one_summary_where_tasks_run_in_the_drivers_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'one'},{tmp_path / 'two'}")
    read = ReadLedger("r1", "/logs (shop.orders)", None, awaited=True)
    for task in range(2):
        read.for_task(task, 2).deliver(of_task(task))
    told = capfd.readouterr().err.splitlines()
    assert told == [
        "binlake: /logs (shop.orders): binlog.000001: bytes 0 to 1 were skipped: bad",
        "binlake: /logs (shop.orders): binlog.000001: bytes 1 to 2 were skipped: bad",
        "binlake: /logs (shop.orders): changes that rows cannot show: DDL: 2",
    ]
    ledger, was_told = collected_ledger(read)
    assert ledger is not None
    assert was_told
    assert batch_sums(ledger)["skipped_bytes"] == 2
    assert collected_ledger(read) == (None, False)  # kept until it was asked for


def test_tasks_on_other_machines_report_their_own_ledgers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    read = replace(ReadLedger("r1", "/logs", None), driver_dirs="/the/drivers")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    read.for_task(0, 2).deliver(of_task(0))
    assert "DDL: 1" in capfd.readouterr().err
    read.for_task(1, 2).deliver(Ledger())
    assert capfd.readouterr().err == ""


@pytest.fixture
def collector() -> Iterator[LedgerCollector]:
    running = LedgerCollector("127.0.0.1", "127.0.0.1", 0, ledgers.print_remarks, lambda: 7)
    yield running
    running.close()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 1, 0, 2]])
def test_the_driver_reports_the_sum_of_ledgers_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    collector: LedgerCollector,
    order: list[int],
) -> None:
    read = ReadLedger("r1", "/logs", None, collector=collector.address, driver_dirs="/the/drivers")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    for _ in range(2):  # a second action on the same plan
        for task in order:
            read.for_task(task, 3).deliver(of_task(task))
        told = capfd.readouterr().err.splitlines()
        assert told.count("binlake: /logs: changes that rows cannot show: DDL: 3") == 1
        assert told.count("binlake: /logs: binlog.000001: bytes 2 to 3 were skipped: bad") == 2


def test_a_collector_believes_only_tasks(collector: LedgerCollector) -> None:
    address, part = collector.address, ReadPart("r1", "/logs", 0, 1)
    assert address.send(part, Ledger())
    assert not replace(address, secret="guessed").send(part, Ledger())
    for said in (b"", b"GET / HTTP/1.1", b"[]", b"{}", b'{"secret": "\\u00e4"}', b"\xff"):
        with socket.create_connection((address.host, address.port), 60) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(10) == b""
    assert address.send(part, Ledger())


def test_a_collector_knows_the_cores_of_a_cluster(collector: LedgerCollector) -> None:
    address = collector.address
    assert SessionDriver(address).task_size(None) == TaskSize(cores=7)
    assert SessionDriver(address).task_size(1000) == TaskSize(1000)
    assert replace(address, secret="guessed").cores() is None
    collector.close()
    assert SessionDriver(address).task_size(None) == TaskSize(cores=usable_cores())
    assert SessionDriver(cores=3).task_size(None) == TaskSize(cores=3)


def test_a_collector_keeps_few_reads_that_never_end() -> None:
    told: list[str] = []
    monitored = LedgerCollector(
        "127.0.0.1", "127.0.0.1", 0, lambda label, _: told.append(label), lambda: 7
    )
    for number in range(100):
        monitored.address.send(ReadPart(f"failed {number}", "", 0, 2), Ledger())
    monitored.address.send(ReadPart("failed 0", "lost", 1, 2), Ledger())
    monitored.address.send(ReadPart("failed 99", "kept", 1, 2), Ledger())
    monitored.close()
    assert told == ["kept"]


def test_a_driver_that_cannot_be_reached_stops_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = LedgerCollector("127.0.0.1", "127.0.0.1", 0, ledgers.print_remarks, lambda: 7)
    gone.close()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    ReadLedger("r1", "/logs", None, collector=gone.address, driver_dirs="/the/drivers").deliver(
        of_task(0)
    )
    assert "DDL: 1" in capfd.readouterr().err


def test_a_long_summary_is_cut(capfd: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger()
    for number in range(40):
        ledger.warn(f"warning {number}")
    ledgers.print_remarks("/logs", ledger)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 13
    assert lines[-1].startswith("binlake: /logs: and 28 more; ")


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    read = ReadLedger("r1", "/logs", str(tmp_path / "file" / "below"))
    with pytest.raises(SourceError, match=r"cannot write the ledger to .*option ledger_path"):
        read.deliver(Ledger())


def test_a_batch_that_is_repeated_has_the_same_name() -> None:
    options = SourceOptions.parse({"path": "/logs", "since": "2026-11-21"})
    key = StreamOffset(Position("", "binlog.000001", 77, ""), sums={"batches": 3}).key
    names = {name_of_batch("binlog.000001", 77, key, options.identity) for _ in range(2)}
    other = SourceOptions.parse({"path": "/logs"})
    names.add(name_of_batch("binlog.000001", 77, key, other.identity))
    assert len(names) == 2


@pytest.mark.parametrize("value", ["", "mysql://u@db1/", "s3://u:secret@bucket/x"])
def test_a_path_that_can_keep_nothing_is_refused(value: str) -> None:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse({"path": "/logs", "ledger_path": value})
    assert "secret" not in str(caught.value)


def test_offsets_carry_the_sums() -> None:
    offset = StreamOffset(Position("", "binlog.000001", 77, ""), sums={"batches": 3})
    again = StreamOffset.from_json(json.loads(json.dumps(offset.to_json())))
    assert again == offset
    with pytest.raises(SourceError):
        StreamOffset.from_json({**offset.to_json(), "ledger": {"batches": "3"}})
    with pytest.raises(SourceError):
        StreamOffset.from_json({**offset.to_json(), "ledger": 3})


def test_one_thread_waits_for_the_sums_of_all_reads(ledger_path: tuple[str, Path]) -> None:
    """It ends once they are there, and begins again for the next read."""
    shown: list[str] = []
    watcher = LedgerWatcher(lambda label, _: shown.append(label), look_s=0.01, name=WATCHER)
    reads = [ReadLedger(f"read{n}", f"/logs{n}", ledger_path[0]) for n in range(3)]
    for read in reads[:2]:
        watcher.add(read)
    assert len(waiting()) == 1
    for read in reversed(reads[:2]):
        read.deliver(of_task(0))
        until(lambda label=read.label: label in shown)  # type: ignore[misc]
    until(lambda: not waiting())
    watcher.add(reads[2])
    assert len(waiting()) == 1
    watcher.close()
    assert not waiting()
    assert shown == ["/logs1", "/logs0"]


def test_nothing_waits_longer_than_its_time(ledger_path: tuple[str, Path]) -> None:
    watcher = LedgerWatcher(look_s=0.01, patience_s=0.02, name=WATCHER)
    watcher.add(ReadLedger("read", "/logs", ledger_path[0]))
    until(lambda: not waiting())


def test_a_file_that_is_no_ledger_does_not_stop_the_others(ledger_path: tuple[str, Path]) -> None:
    shown: list[str] = []
    watcher = LedgerWatcher(lambda label, _: shown.append(label), look_s=0.01, name=WATCHER)
    bad, good = (ReadLedger(name, f"/{name}", ledger_path[0]) for name in ("bad", "good"))
    ledgers._folder(ledger_path[0]).put("bad.json", b"[]")
    watcher.add(bad)
    watcher.add(good)
    good.deliver(of_task(0))
    until(lambda: shown == ["/good"])
    until(lambda: not waiting())


def waiting() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == WATCHER]


def test_ledgers_are_not_for_other_users(tmp_path: Path) -> None:
    """They name the files, tables and texts of a log."""
    folder = ledgers._folder(str(tmp_path / "kept"))
    folder.add("read", "00000", b"{}")
    folder.put("read.json", b"{}")
    made = [tmp_path / "kept", *(tmp_path / "kept").rglob("*")]
    assert len(made) == 5
    assert not [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o027]
