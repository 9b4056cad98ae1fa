from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlake.source.log_file import LogFile
from binlake.stream.sql.statements import xid_of_statement
from binlake.values.ledger import Ledger
from support.logs.stream_log import (
    COMPLETED_XA,
    PREPARED_XA,
    SID,
    STANDALONE,
    XA_PREPARE,
    StreamLog,
    outcomes,
    rows_in,
    transactions,
    without_zeros,
    xa_prepare_body,
    xa_text,
)

ORPHAN = "XA COMMIT whose XA PREPARE is not in the input"


def test_changes_are_shown_at_xa_commit_with_their_own_positions(tmp_path: Path) -> None:
    log = StreamLog().xa_prepared(1, b"x").plain(2).xa_decided(3, b"x").plain(4)
    found = list(transactions(log.write(tmp_path)))
    assert [t.gtid for t in found] == [f"{SID}:2", f"{SID}:3", f"{SID}:4"]
    committed = found[1]
    assert committed.start.offset == log.offsets[1]
    assert committed.decided.offset > found[0].start.offset
    assert committed.xa_xid == "X'78',X'',1"
    assert rows_in(committed) == 1


@pytest.mark.parametrize(
    ("verb", "shown", "all_of_them"),
    [(b"COMMIT", ["committed"], ["committed"]), (b"ROLLBACK", [], ["rolled back"])],
)
def test_the_decision_decides(
    verb: bytes, shown: list[str], all_of_them: list[str], tmp_path: Path
) -> None:
    path = StreamLog().xa_prepared(1, b"x").xa_decided(2, b"x", verb).write(tmp_path)
    ledger = Ledger()
    assert [t.outcome for t in transactions(path, ledger=ledger)] == shown
    assert without_zeros(dict(ledger.transactions)) == {all_of_them[0]: 1}
    assert outcomes(path) == all_of_them


def test_a_transaction_that_stays_prepared_is_counted(tmp_path: Path) -> None:
    path, ledger = StreamLog().xa_prepared(1, b"x").write(tmp_path), Ledger()
    assert list(transactions(path, ledger=ledger)) == []
    assert without_zeros(dict(ledger.transactions)) == {"prepared": 1}
    assert outcomes(path) == ["prepared"]


def test_one_phase_commits_at_once(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(b"XA START " + xa_text(b"x")).rows()
    log.query(b"XA END " + xa_text(b"x"))
    log.add(XA_PREPARE, xa_prepare_body(b"x", one_phase=True))
    assert [rows_in(t) for t in transactions(log.write(tmp_path))] == [1]


def test_rollback_of_a_transaction_that_was_not_prepared(tmp_path: Path) -> None:
    """MySQL logs it whole when it changed other engines' tables too."""
    log = StreamLog().gtid(1).query(b"XA START " + xa_text(b"x")).rows()
    log.query(b"XA END " + xa_text(b"x")).query(b"XA ROLLBACK " + xa_text(b"x")).plain(2)
    assert outcomes(log.write(tmp_path)) == ["rolled back", "committed"]


def test_mariadb(tmp_path: Path) -> None:
    log = StreamLog(version="10.11.6-MariaDB")
    log.maria(1, PREPARED_XA, xid=b"x").rows().query(b"XA END " + xa_text(b"x"))
    log.add(XA_PREPARE, xa_prepare_body(b"x"))
    log.maria(2, COMPLETED_XA | STANDALONE, xid=b"x").query(b"XA COMMIT " + xa_text(b"x"))
    [found] = transactions(log.write(tmp_path))
    assert (found.gtid, rows_in(found), found.outcome) == ("0-1-2", 1, "committed")


def test_the_commit_may_be_in_a_later_file(tmp_path: Path) -> None:
    first = StreamLog().xa_prepared(1, b"x").plain(2).rotate("binlog.000002").write(tmp_path)
    StreamLog().plain(3).rotate("binlog.000003").write(tmp_path, "binlog.000002")
    last = StreamLog().xa_decided(4, b"x").write(tmp_path, "binlog.000003")
    found = list(transactions(tmp_path))
    assert [t.gtid for t in found] == [f"{SID}:2", f"{SID}:3", f"{SID}:4"]
    assert found[2].start.file == "binlog.000001"
    # the prepared part is looked for before a start position, too
    [late] = transactions(tmp_path, start="binlog.000003:4")
    assert (rows_in(late), late.start.file) == (1, "binlog.000001")
    ledger = Ledger()
    [orphan] = transactions(last, ledger=ledger)
    assert rows_in(orphan) == 0
    assert ledger.unshown == {ORPHAN: 1}
    assert outcomes(first) == ["committed", "prepared"]


def test_files_that_were_searched_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[LogFile] = []
    open_file = LogFile.open

    def noted(*given: Any, **more: Any) -> LogFile:
        opened.append(open_file(*given, **more))
        return opened[-1]

    monkeypatch.setattr(LogFile, "open", staticmethod(noted))
    names = [f"binlog.{number:06}" for number in range(1, 7)]
    StreamLog().xa_prepared(1, b"x").rotate(names[1]).write(tmp_path)
    for number in range(1, 5):
        StreamLog().plain(1 + number).rotate(names[number + 1]).write(tmp_path, names[number])
    StreamLog().xa_decided(6, b"x").xa_prepared(7, b"y").write(tmp_path, names[5])
    for found in transactions(tmp_path, start=f"{names[5]}:4"):
        assert sum(not file.closed for file in opened) == 1  # the one that is read
        assert rows_in(found) == 1
    assert len(opened) > len(names)
    opened.clear()
    # whether it is decided after the part that is read
    list(transactions(tmp_path, stop=f"{names[1]}:4", uncommitted=True))
    assert opened
    assert all(file.closed for file in opened)


def test_a_decision_is_not_found_twice(tmp_path: Path) -> None:
    log = StreamLog().xa_prepared(1, b"x").xa_decided(2, b"x").xa_decided(3, b"x")
    ledger = Ledger()
    found = list(transactions(log.write(tmp_path), ledger=ledger))
    assert [rows_in(t) for t in found] == [1, 0]
    assert ledger.unshown == {ORPHAN: 1}


def test_a_name_may_be_used_again(tmp_path: Path) -> None:
    log = StreamLog().xa_prepared(1, b"x").xa_decided(2, b"x", b"ROLLBACK")
    log.xa_prepared(3, b"x").xa_decided(4, b"x")
    assert outcomes(log.write(tmp_path)) == ["rolled back", "committed"]


def test_a_filter_by_position_takes_either_part(tmp_path: Path) -> None:
    log = StreamLog().xa_prepared(1, b"x").plain(2).xa_decided(3, b"x")
    path = log.write(tmp_path)
    for offset in (log.offsets[2], log.offsets[-1]):
        [found] = transactions(path, at=f"binlog.000001:{offset}")
        assert found.gtid == f"{SID}:3"


def test_a_position_finds_the_other_part_in_another_file(tmp_path: Path) -> None:
    first = StreamLog().plain(1).xa_prepared(2, b"x").rotate("binlog.000002")
    first.write(tmp_path)
    StreamLog().plain(3).rotate("binlog.000003").write(tmp_path, "binlog.000002")
    last = StreamLog().xa_decided(4, b"x").plain(5)
    last.write(tmp_path, "binlog.000003")
    for at in (f"binlog.000001:{first.offsets[8]}", f"binlog.000003:{last.offsets[2]}"):
        [found] = transactions(tmp_path, at=at)
        assert (found.gtid, found.start.file, rows_in(found)) == (f"{SID}:4", "binlog.000001", 1)


@pytest.mark.parametrize(
    ("text", "xid"),
    [
        (b"XA COMMIT X'6f6e65',X'6231',7", (7, b"one", b"b1")),
        (b"XA ROLLBACK x'00ff27'", (1, b"\x00\xff'", b"")),
        (b"XA COMMIT 'o''n\\'e','b' , 0x10", (16, b"o'n'e", b"b")),
        (b'xa commit "q"', (1, b"q", b"")),
        (b"XA COMMIT 0x6f", (1, b"o", b"")),
        (b"XA COMMIT X'',X'',1", (1, b"", b"")),
        (b"XA RECOVER", None),
        (b"XA COMMIT X'6'", None),
    ],
)
def test_names_of_xa_transactions(text: bytes, xid: tuple[int, bytes, bytes] | None) -> None:
    assert xid_of_statement(text) == xid
