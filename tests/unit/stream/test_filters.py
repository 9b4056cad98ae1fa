"""Filters choose transactions, natively in runs and one by one alike, and spare the others."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import MalformedError, OptionError
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import plan_splits
from binlake.stream.runs import PlainRun
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.stream_log import EPOCH, SECOND, SID, STANDALONE, StreamLog, runs, transactions

T0 = EPOCH * SECOND


def log_of_six() -> StreamLog:
    """Transactions 1 to 6, a second apart; 3 is a DDL, 5 cannot be plain."""
    log = StreamLog()
    for gno in range(1, 7):
        log.gtid(gno, commit_us=T0 + gno * SECOND)
        if gno == 3:
            log.query(b"CREATE TABLE x (a INT)", thread=3)
            continue
        log.query(b"BEGIN", thread=gno)
        if gno == 5:
            log.query(b"SAVEPOINT s")
        log.rows().xid()
    return log


def chosen(path: Path, **options: Any) -> list[int]:
    one_by_one = [int((t.gtid or ":0").rpartition(":")[2]) for t in transactions(path, **options)]
    ledger = Ledger()
    in_runs = sum(
        run.groups if isinstance(run, PlainRun) else 1
        for run in runs(path, ledger=ledger, **options)
    )
    assert in_runs == len(one_by_one) == ledger.transactions["committed"]
    return one_by_one


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"since": f"@{EPOCH + 3}"}, [3, 4, 5, 6]),
        ({"until": f"@{EPOCH + 3}"}, [1, 2]),
        ({"since": f"@{EPOCH + 2}", "until": f"@{EPOCH + 5}"}, [2, 3, 4]),
        ({"since": f"@{EPOCH + 2}.000001", "until": f"@{EPOCH + 2}.500000"}, []),
        ({"gtid": f"{SID}:2-3:6"}, [2, 3, 6]),
        ({"gtid": "0-1-5"}, []),
        ({"exclude_gtid": f"{SID}:2-5"}, [1, 6]),
        ({"gtid": f"{SID}:1-4", "exclude_gtid": f"{SID}:2"}, [1, 3, 4]),
        ({"server_id": "1"}, [1, 2, 3, 4, 5, 6]),
        ({"server_id": "2,3"}, []),
        ({"thread": "2,3,5"}, [2, 3, 5]),
        ({"at": f"{SID}:5"}, [5]),
        ({"at": f"{SID}:9"}, []),
    ],
)
def test_filters_by_properties_of_a_transaction(
    options: dict[str, str], expected: list[int], tmp_path: Path
) -> None:
    assert chosen(log_of_six().write(tmp_path), **options) == expected


def starts(log: StreamLog) -> list[int]:
    return [offset for offset, code in zip(log.offsets, log.types, strict=True) if code == 33]


def test_start_and_stop_are_where_transactions_start(tmp_path: Path) -> None:
    log = log_of_six()
    path, at = log.write(tmp_path), starts(log)
    assert chosen(path, start=f"binlog.000001:{at[2]}") == [3, 4, 5, 6]
    assert chosen(path, start=str(at[2] + 1)) == [4, 5, 6]
    assert chosen(path, stop=str(at[2])) == [1, 2]
    assert chosen(path, stop=str(at[2] + 1)) == [1, 2, 3]
    assert chosen(path, start=str(at[1]), stop=str(at[4])) == [2, 3, 4]
    assert chosen(path, start=str(len(log.data))) == []


def test_groups_after_the_stop_are_not_read(tmp_path: Path) -> None:
    log = log_of_six()
    at = starts(log)
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes() + b"\1" * 40)

    def groups(**options: str) -> list[int]:
        chains = resolve([str(path)])
        (reader,) = LogReader.of_chains(chains, ReadOptions.parse(options), Ledger())
        return [ended.group.start.offset for ended in reader.groups()]

    assert groups(stop=str(at[4])) == at[:4]
    with pytest.raises(MalformedError):
        groups()


def test_a_bare_position_is_in_the_first_file_for_start_in_the_last_for_stop(
    tmp_path: Path,
) -> None:
    logs = [StreamLog().plain(2 * n + 1).plain(2 * n + 2) for n in range(3)]
    for number, log in enumerate(logs, 1):
        log.write(tmp_path, f"binlog.{number:06d}")
    second = starts(logs[0])[1]
    assert chosen(tmp_path, start=str(second)) == [2, 3, 4, 5, 6]
    assert chosen(tmp_path, stop=str(second)) == [1, 2, 3, 4, 5]
    assert chosen(tmp_path, start=str(second), stop=str(second)) == [2, 3, 4, 5]
    splits = plan_splits([str(tmp_path)], ReadOptions.parse({"stop": str(second)}), 1 << 20)
    assert [split.log.name for split in splits] == [f"binlog.00000{n}" for n in (1, 2, 3)]
    tasks = (LogReader.of_split(split, ReadOptions(), Ledger()) for split in splits)
    assert [t.gtid for task in tasks for t in task.transactions()] == [
        f"{SID}:{n}" for n in range(1, 6)
    ]


def test_a_bare_at_names_no_file_of_several(tmp_path: Path) -> None:
    for number in (1, 2):
        StreamLog().plain(number).write(tmp_path, f"binlog.{number:06d}")
    with pytest.raises(OptionError, match=r"use FILE:POS, for example binlog\.000002:200"):
        list(transactions(tmp_path, at="200"))


def test_a_stop_before_the_start_is_a_mistake(tmp_path: Path) -> None:
    path = log_of_six().write(tmp_path)
    with pytest.raises(OptionError, match="stop") as caught:
        list(transactions(path, start="500", stop="binlog.000001:400"))
    assert caught.value.name == "stop"


def test_at_is_the_transaction_around_a_position(tmp_path: Path) -> None:
    log = log_of_six()
    path, at = log.write(tmp_path), [*starts(log), len(log.data)]
    for gno in range(1, 7):
        assert chosen(path, at=f"binlog.000001:{at[gno - 1] + 30}") == [gno]
        assert chosen(path, at=f"binlog.000001:{at[gno] - 1}") == [gno]


def test_at_a_start_is_the_transaction_that_starts_there(tmp_path: Path) -> None:
    """A position between two transactions selects the later one, and a message names the other."""
    log = log_of_six()
    path, at = log.write(tmp_path), [*starts(log), len(log.data)]
    for gno in range(1, 7):
        assert chosen(path, at=f"binlog.000001:{at[gno - 1]}") == [gno]
    ledger = Ledger()
    list(transactions(path, at=f"binlog.000001:{at[3]}", ledger=ledger))
    [remark] = ledger.warnings
    assert remark.endswith(f"the one that ends there is at=binlog.000001:{at[2]}")
    # an end position is what a replica's error names: where no other transaction starts it is meant
    assert chosen(path, at=f"binlog.000001:{at[6]}") == [6]
    log.rotate("binlog.000002")
    assert chosen(log.write(tmp_path), at=f"binlog.000001:{at[6]}") == [6]


def test_at_a_position_between_two_windows_or_splits(tmp_path: Path) -> None:
    """The transaction at a position is reported even if another task reads it."""
    log = StreamLog()
    for gno in range(1, 40):
        log.plain(gno)
    path, at = log.write(tmp_path), starts(log)
    for gno in (1, 2, 20, 39):
        options = ReadOptions.parse({"at": f"binlog.000001:{at[gno - 1]}"})
        splits = plan_splits([str(path)], options, 300)
        tasks = [LogReader.of_split(split, options, Ledger()) for split in splits]
        found = [t.gtid for task in tasks for t in task.transactions()]
        assert found == [f"{SID}:{gno}"]
        tasks = [LogReader.of_split(split, options, Ledger()) for split in splits]
        counted = 0
        for run in (run for task in tasks for run in task.runs()):
            assert isinstance(run, PlainRun)
            counted += run.groups
        assert counted == 1


def test_at_a_position_of_a_log_without_gtids(tmp_path: Path) -> None:
    log = StreamLog(version="5.5.60-log", alg=None)
    ends = []
    for _ in range(3):
        log.query(b"BEGIN").rows().xid()
        ends.append(len(log.data))
    path = log.write(tmp_path)
    for end, start in zip(ends, (ends[0], ends[1], ends[1]), strict=True):
        [found] = transactions(path, at=str(end))
        assert found.start.offset == start
    packed = tmp_path / "packed.000001.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    [found] = transactions(packed, at=str(ends[0]))
    assert found.start.offset == ends[0]


def test_at_a_position_before_a_checkpoint_is_the_transaction_that_ends_there(
    tmp_path: Path,
) -> None:
    log = StreamLog(version="10.11.6-MariaDB")
    log.maria(1).rows().xid()
    end = len(log.data)
    log.add(161, (13).to_bytes(4, "little") + b"binlog.000001")
    log.maria(2).rows().xid()
    path = log.write(tmp_path)
    assert [t.gtid for t in transactions(path, at=str(end))] == ["0-1-1"]


def test_at_an_xa_transaction_is_its_rows_and_nothing_between(tmp_path: Path) -> None:
    """Its XA COMMIT may be in a later file; other transactions of that file are not meant."""
    first = StreamLog().plain(1)
    at = len(first.data)
    first.xa_prepared(2, b"x")
    ends = len(first.data)
    first.plain(3).write(tmp_path, "binlog.000001")
    second = StreamLog().plain(4)
    commit = len(second.data)
    second.xa_decided(5, b"x").plain(6).write(tmp_path, "binlog.000002")
    for place in (f"binlog.000001:{at}", f"binlog.000001:{at + 30}", f"binlog.000002:{commit}"):
        assert chosen(tmp_path, at=place) == [5]
    assert chosen(tmp_path, at=f"binlog.000001:{ends}") == [3]


def test_files_outside_the_range_are_not_even_opened(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        StreamLog().plain(number).write(tmp_path, f"binlog.{number:06d}")
    (tmp_path / "binlog.000001").write_bytes(b"not a log")
    (tmp_path / "binlog.000003").write_bytes(b"not a log")
    only: dict[str, Any] = {"start": "binlog.000002:4", "stop": "binlog.000003:4"}
    assert [t.gtid for t in transactions(tmp_path, **only)] == [f"{SID}:2"]
    [found] = transactions(tmp_path, at="binlog.000002:200")
    assert found.gtid == f"{SID}:2"


@pytest.mark.parametrize(
    "options",
    [
        {"start": "binlog.000009:4"},
        {"at": "nonsense"},
        {"gtid": "nonsense"},
        {"exclude_gtid": ":"},
    ],
)
def test_wrong_values_name_the_option(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        list(transactions(log_of_six().write(tmp_path), **options))
    assert caught.value.name == next(iter(options))


def test_mariadb(tmp_path: Path) -> None:
    log = StreamLog(version="10.11.6-MariaDB")
    log.maria(1).rows().xid().maria(2, STANDALONE).query(b"DROP TABLE t").maria(3).rows().xid()
    path = log.write(tmp_path)
    assert [t.gtid for t in transactions(path, gtid="0-1:2-3")] == ["0-1-2", "0-1-3"]
    assert [t.gtid for t in transactions(path, exclude_gtid="0-1-2")] == ["0-1-1", "0-1-3"]
    assert [t.gtid for t in transactions(path, at="0-1-3")] == ["0-1-3"]
    ledger = Ledger()
    found = list(transactions(path, thread="7", ledger=ledger))
    assert [t.gtid for t in found] == ["0-1-2"]  # the others do not say
    assert "thread" in ledger.warnings[0]


def test_a_filtered_group_is_not_counted(tmp_path: Path) -> None:
    ledger = Ledger()
    path = log_of_six().write(tmp_path)
    assert list(transactions(path, ledger=ledger, gtid=f"{SID}:99")) == []
    assert not any(ledger.transactions.values())
    assert not ledger.unshown
