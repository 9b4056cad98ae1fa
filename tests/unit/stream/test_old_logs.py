"""Logs of MySQL 3.23 to 4.1, from the file to the output."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.errors import BinlogError, TruncatedError
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.old.load_data import CreateFileEvent, LoadEvent
from binlake.events.old.start_v3 import StartV3Event
from binlake.source.log_file import Damage, LogFile
from binlake.stream.verify.chains import verify
from binlake.stream.verify.reencode import Reencoding
from binlake.values.ledger import Ledger
from support.logs.memory_reader import MemoryReader
from support.logs.stream_log import outcomes
from support.oracles.reading import binlog_reader, events, lines_of, row_lines, task_lines
from unit.stream.old_log import QUERY, STOP, OldLog, query_body, shop

VERSIONS = pytest.mark.parametrize("version", [1, 3])


@VERSIONS
def test_every_event_is_found_and_typed(tmp_path: Path, version: int) -> None:
    log = shop(version)
    found = list(events(log.write(tmp_path)))
    assert [event.frame.offset for event in found] == log.offsets
    start, create = found[0], found[1]
    assert isinstance(start, StartV3Event)
    assert (start.binlog_version, start.server_version[:2]) == (
        version,
        {1: "3.", 3: "4."}[version],
    )
    assert isinstance(create, QueryEvent)
    assert create.to_fields() == {
        "thread_id": 7,
        "exec_time": 2,
        "error_code": 0,
        "database": "shop",
        "status_unknown": "",
        "status": {},
        "sql": "CREATE TABLE orders (id INT)",
    }
    load = next(event for event in found if isinstance(event, LoadEvent))
    assert isinstance(load, CreateFileEvent) == (version == 3)
    assert (load.database, load.table, load.file) == ("shop", "orders", "/tmp/x.csv")
    last = found[-1]
    assert isinstance(last, RotateEvent)
    assert (last.next_file, last.position) == ("binlog.002", 4)


@VERSIONS
def test_files_verify_and_are_the_same_encoded_again(tmp_path: Path, version: int) -> None:
    first = shop(version).write(tmp_path)
    second = OldLog(version).start().add(STOP).write(tmp_path, "binlog.002")
    again = Reencoding()
    report = verify([str(first), str(second)], checks=[again])
    assert report.ok, report.to_json()
    assert report.files[0].algorithm is None
    assert report.files[0].successor == "binlog.002"
    assert again.events == sum(file.types.total() for file in report.files)


@VERSIONS
def test_changes_without_row_events_are_counted(tmp_path: Path, version: int) -> None:
    path = shop(version).write(tmp_path)
    log = binlake.open(path)
    assert list(lines_of(log)) == []
    assert {kind: count for kind, count in log.ledger.unshown.items() if count} == {
        "DDL": 1,
        "statement DML": 2,
        "LOAD DATA": 1,
    }
    assert outcomes(path) == ["committed"] * 4


@VERSIONS
def test_inspect_shows_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    log = shop(version)
    path = str(log.write(tmp_path))
    assert main(["inspect", path]) == 0
    assert "[shop] CREATE TABLE orders (id INT)" in capsys.readouterr().out
    assert main(["inspect", path, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["pos"] for line in lines] == log.offsets
    assert lines[0]["end_pos"] == lines[1]["pos"]
    # as the header says: where the event starts, or nothing
    assert [line["log_pos"] for line in lines] == (
        log.offsets if version == 3 else [0] * len(lines)
    )
    assert lines[1]["checksum"] == "none"


@VERSIONS
def test_every_cut_delivers_earlier_events_and_reports_the_cut(version: int) -> None:
    log = shop(version)
    for cut in range(23, len(log.data)):
        whole = [end for end in [*log.offsets[1:], len(log.data)] if end <= cut]
        with LogFile(MemoryReader(bytes(log.data[:cut])), "binlog.001") as file:
            found: list[int] = []
            try:
                for window in file.windows():
                    found += (window.frame(i).end for i in range(len(window)))
            except TruncatedError:
                assert cut not in whole
            else:
                assert cut in whole
        assert found == whole


@VERSIONS
def test_any_changed_byte_gives_events_or_an_error(tmp_path: Path, version: int) -> None:
    log = shop(version)
    path = tmp_path / "binlog.001"
    for at in range(4, len(log.data), 3):
        for value in (0, 0x7F, 0xFF):
            data = bytearray(log.data)
            data[at] = value
            path.write_bytes(data)
            try:
                for event in events(path):
                    json.dumps(event.to_fields())
                list(row_lines(path))
            except BinlogError:
                pass


def test_a_damaged_log_continues_at_the_next_transaction(tmp_path: Path) -> None:
    log = shop(3)
    broken = log.offsets[2]
    log.data[broken + 9 : broken + 13] = struct.pack("<I", 3)  # a length less than a header's
    path = log.write(tmp_path)
    ledger = Ledger()
    with LogFile.open(str(path)) as file:
        found = [
            window.frame(i).offset
            for window in file.windows(on_damage=Damage.SKIP, ledger=ledger)
            for i in range(len(window))
        ]
    assert found[:2] == log.offsets[:2]
    # behind the COMMIT is the first place where a transaction is known to start
    assert found[2:] == log.offsets[7:]
    assert [(r.start, r.end) for r in ledger.skipped] == [(broken, log.offsets[7])]


def test_a_damaged_log_of_version_1_is_lost_from_there_on(tmp_path: Path) -> None:
    log = shop(1)
    broken = log.offsets[2]
    log.data[broken + 9 : broken + 13] = struct.pack("<I", 3)
    ledger = Ledger()
    with LogFile.open(str(log.write(tmp_path))) as file:
        found = sum(len(window) for window in file.windows(on_damage=Damage.SKIP, ledger=ledger))
    assert found == 2
    assert [(r.start, r.end) for r in ledger.skipped] == [(broken, len(log.data))]


@VERSIONS
def test_such_a_log_is_one_split(tmp_path: Path, version: int) -> None:
    log = OldLog(version).start()
    for _ in range(200):
        log.query(b"INSERT INTO orders VALUES (1)")
    path = log.write(tmp_path)
    options = {"max_partition_bytes": 1000, "ddl_scan_bytes": 0}
    assert len(binlog_reader(path, **options).partitions()) > 5
    ledger = Ledger()
    assert list(task_lines(path, ledger=ledger, **options)) == []
    assert ledger.unshown["statement DML"] == 200
    assert ledger.join_problems() == []


def test_relay_logs_of_mysql_4_begin_with_the_sources_rotate(tmp_path: Path) -> None:
    log = OldLog(3)
    log.add(4, struct.pack("<Q", 4) + b"source-bin.007", log_pos=0)
    log.add(1, bytes(OldLog(3).start().data[4 + 19 :]), log_pos=4)
    log.add(QUERY, query_body(b"INSERT INTO orders VALUES (1)"), log_pos=79)
    path = log.write(tmp_path, "relay-bin.001")
    with LogFile.open(str(path)) as file:
        assert file.is_relay
        assert file.format is not None
        assert file.format.binlog_version == 3
    assert [event.frame.log_pos for event in events(path)] == [0, 4, 79]
    assert verify([str(path)]).ok
    assert outcomes(path) == ["committed"]
