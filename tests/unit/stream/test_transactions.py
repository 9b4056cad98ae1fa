"""The grammar of transaction groups: every form that servers write, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import ChecksumError, FormatError, IncompleteError, UnsupportedError
from binlake.stream.runs import PlainRun, Transaction
from binlake.values.ledger import Ledger
from support.logs.log_builder import GTID, MARIADB_GTID, QUERY, ROWS, TABLE_MAP, XID, query_body
from support.logs.stream_log import (
    ANNOTATE,
    ANONYMOUS,
    EPOCH,
    INCIDENT,
    INTVAR,
    SECOND,
    SID,
    STANDALONE,
    STOP,
    StreamLog,
    counts,
    frames_of,
    gtid_body,
    mariadb_gtid_body,
    outcomes,
    rows_body,
    rows_in,
    runs,
    table_map_body,
    transactions,
    transactions_in,
    without_zeros,
)

VIEW_CHANGE, LARGE_TRANSACTION_HEADER = 37, 43

C, R, T = "committed", "rolled back", "torn"


def old() -> StreamLog:
    return StreamLog(version="5.5.40-log", alg=None)


def maria() -> StreamLog:
    return StreamLog(version="10.11.6-MariaDB-log")


def with_prefix(log: StreamLog) -> StreamLog:
    log.add(INTVAR, bytes(9))
    return log.query(b"INSERT INTO t VALUES (NULL)")


def standalone_rows(log: StreamLog) -> StreamLog:
    log.maria(1, STANDALONE)
    log.add(ANNOTATE, b"INSERT")
    log.add(TABLE_MAP, table_map_body())
    log.add(ROWS, rows_body(flags=0))
    log.add(ROWS, rows_body())
    return log


def incident(log: StreamLog) -> StreamLog:
    log.add(INCIDENT, b"\x01\x00\x04lost")
    return log


def large() -> StreamLog:
    """The file is one large transaction, which its header event announces."""
    log = StreamLog()
    log.add(LARGE_TRANSACTION_HEADER, b"\x01" + bytes(8) + b"\x10" + bytes(50), flags=0x80)
    return log


def view_change(log: StreamLog) -> StreamLog:
    log.gtid(1).query(b"BEGIN")
    log.add(VIEW_CHANGE, b"1:2".ljust(40, b"\0") + bytes(12))
    return log.query(b"COMMIT")


FORMS: dict[str, tuple[StreamLog, list[str]]] = {
    "gtid begin xid": (StreamLog().plain(1), [C]),
    "gtid begin commit": (StreamLog().gtid(1).query(b"BEGIN").rows().query(b"COMMIT"), [C]),
    "gtid begin rollback": (StreamLog().gtid(1).query(b"BEGIN").rows().query(b"ROLLBACK"), [R]),
    "gtid ddl": (StreamLog().gtid(1).query(b"CREATE TABLE t (a INT)").plain(2), [C, C]),
    "gtid prefix statement": (with_prefix(StreamLog().gtid(1)), [C]),
    "gtid alone is torn": (StreamLog().gtid(1).gtid(2).query(b"DROP TABLE t"), [T, C]),
    "gtid rollback": (StreamLog().gtid(1).query(b"ROLLBACK"), [R]),
    "begin xid, no gtid": (old().query(b"BEGIN").rows().xid(), [C]),
    "statement, no gtid": (old().query(b"INSERT INTO t VALUES (1)"), [C]),
    "prefix statement, no gtid": (with_prefix(with_prefix(old())), [C, C]),
    "begin statements commit": (
        with_prefix(old().query(b"BEGIN")).query(b"DELETE FROM t").query(b"COMMIT"),
        [C],
    ),
    "begin in begin": (old().query(b"BEGIN").rows().query(b"BEGIN").rows().xid(), [T, C]),
    "rows without begin": (old().rows().rows(), [C, C]),
    "xid alone": (old().xid(), [C]),
    "mariadb gtid xid": (maria().maria(1).rows().xid(), [C]),
    "mariadb gtid commit": (maria().maria(1).rows().query(b"COMMIT"), [C]),
    "mariadb gtid rollback": (maria().maria(1).rows().query(b"ROLLBACK"), [R]),
    "mariadb standalone": (maria().maria(1, STANDALONE).query(b"DROP TABLE t"), [C]),
    "mariadb standalone rows": (standalone_rows(maria()).maria(2).rows().xid(), [C, C]),
    "mariadb create select": (
        maria().maria(1).query(b"CREATE TABLE t (a INT)").rows().xid(),
        [C],
    ),
    "mariadb transaction cut by another": (maria().maria(1).rows().maria(2).rows().xid(), [T, C]),
    "incident": (incident(StreamLog().gtid(1)).plain(2), [C, C]),
    "the log ends inside": (StreamLog().plain(1).gtid(2).query(b"BEGIN").rows(), [C, T]),
    "rotate inside": (
        StreamLog().gtid(2).query(b"BEGIN").rows().rotate("binlog.000002"),
        [T],
    ),
    "large transaction header": (large().plain(1).plain(2), [C, C]),
    "view change": (view_change(StreamLog()).plain(2), [C, C]),
    "nothing": (StreamLog(), []),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_ends_as_the_servers_mean_it(form: str, tmp_path: Path) -> None:
    log, expected = FORMS[form]
    assert outcomes(log.write(tmp_path)) == expected


@pytest.mark.parametrize("form", FORMS)
def test_only_committed_ones_are_given_and_all_are_counted(form: str, tmp_path: Path) -> None:
    log, expected = FORMS[form]
    path, ledger = log.write(tmp_path), Ledger()
    found = list(runs(path, ledger=ledger))
    assert sum(counts(found)) == expected.count(C)
    assert without_zeros(dict(ledger.transactions)) == {
        kind: expected.count(kind) for kind in sorted(set(expected))
    }
    assert [t.outcome for t in transactions(path)] == [C] * expected.count(C)


@pytest.mark.parametrize("form", FORMS)
def test_no_prefix_of_a_log_gives_another_error_than_ours(form: str, tmp_path: Path) -> None:
    log, _ = FORMS[form]
    whole = log.bytes()
    starts = {t.start.offset: t.outcome for t in transactions(log.write(tmp_path))}
    for size in log.offsets:
        path = tmp_path / "binlog.000009"
        path.write_bytes(whole[:size])
        if size == 4:
            continue  # not even a format
        for transaction in transactions(path):
            assert starts.get(transaction.start.offset) == transaction.outcome


def test_plain_ones_come_in_runs_and_the_others_alone(tmp_path: Path) -> None:
    log = StreamLog().plain(1).plain(2).gtid(3).query(b"DROP TABLE x").plain(4)
    found = list(runs(log.write(tmp_path)))
    assert [type(run) for run in found] == [PlainRun, Transaction, PlainRun]
    assert counts(found) == (3, 1)
    first = found[0]
    assert isinstance(first, PlainRun)
    assert first.bytes == log.offsets[11] - log.offsets[1]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_transaction_lasts_from_its_first_statement(tmp_path: Path, flavour: str) -> None:
    """Servers log the GTID event first, with the time of the COMMIT."""
    log = StreamLog() if flavour == "mysql" else maria()
    if flavour == "mysql":
        log.add(GTID, gtid_body(5, (EPOCH + 9) * SECOND + 250_000), timestamp=EPOCH + 9)
        log.add(QUERY, query_body(b"BEGIN"), timestamp=EPOCH + 1)
    else:
        log.add(MARIADB_GTID, mariadb_gtid_body(5), timestamp=EPOCH + 9)
    log.add(TABLE_MAP, table_map_body(), timestamp=EPOCH + 1)
    log.add(ROWS, rows_body(), timestamp=EPOCH + 1)
    log.add(XID, bytes(8), timestamp=EPOCH + 9)
    [found] = transactions(log.write(tmp_path))
    assert found.duration_us == 8 * SECOND


def test_a_duration_is_in_whole_seconds(tmp_path: Path) -> None:
    log = StreamLog()
    log.gtid(1, commit_us=(EPOCH + 3) * SECOND + 999_999).query(b"BEGIN").rows().xid()
    log.gtid(2, commit_us=EPOCH * SECOND - 1).query(b"BEGIN").rows().xid()
    found = transactions(log.write(tmp_path))
    assert [t.duration_us for t in found] == [3 * SECOND, 0]


def test_facts_of_a_transaction(tmp_path: Path) -> None:
    log = StreamLog()
    log.gtid(5, commit_us=EPOCH * SECOND + 250_000).query(b"BEGIN", thread=42).rows(3).xid()
    [found] = transactions(log.write(tmp_path))
    assert found.gtid == f"{SID}:5"
    assert found.commit_us == EPOCH * SECOND + 250_000
    assert found.duration_us == 0
    assert (found.thread_id, found.server_id) == (42, 1)
    assert (found.start.file, found.start.offset) == ("binlog.000001", log.offsets[1])
    assert found.end.offset == len(log.data)
    assert found.bytes == len(log.data) - log.offsets[1]
    assert found.decided == found.start
    assert [code for code, _ in frames_of(found)] == [33, 2, 19, 30, 16]


def test_the_first_event_supplies_a_missing_commit_timestamp(tmp_path: Path) -> None:
    log = StreamLog(version="5.7.30")
    log.add(ANONYMOUS, gtid_body(0))
    log.query(b"BEGIN").rows().xid()
    [found] = transactions(log.write(tmp_path))
    assert found.gtid is None
    assert found.commit_us == EPOCH * SECOND


def test_a_group_across_windows_is_one_transaction(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN")
    for _ in range(3):
        log.add(TABLE_MAP, table_map_body())
        log.add(ROWS, rows_body(600_000))
    log.xid().plain(2)
    big, small = transactions(log.write(tmp_path))
    assert rows_in(big) == 3
    assert small.start == big.end
    assert len({id(piece.window) for piece in big.pieces()}) > 1


def test_frames_dropped_to_bound_memory_are_read_again(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(b"BEGIN").rows().rows().xid()
    path = log.write(tmp_path)
    [held] = [frames_of(t) for t in transactions(path)]
    [reread] = [(frames_of(t), frames_of(t)) for t in transactions_in(path, held_bytes=10)]
    assert reread == (held, held)


def test_statements_are_counted_by_kind(tmp_path: Path) -> None:
    ledger = Ledger()
    log = old().query(b"BEGIN").query(b"INSERT INTO t VALUES (1)").query(b"COMMIT")
    log.query(b"TRUNCATE TABLE t").query(b"/* x */ create table u (a int)").query(b"GRANT ALL")
    incident(log)
    log.query(b"BEGIN").query(b"UPDATE t SET a=1").query(b"ROLLBACK")
    list(runs(log.write(tmp_path), ledger=ledger))
    assert ledger.unshown == {
        "statement DML": 1,
        "TRUNCATE": 1,
        "DDL": 1,
        "account management": 1,
        "INCIDENT": 1,
        "statement in a rolled back transaction": 1,
    }


def test_on_unshown_error_names_the_place(tmp_path: Path) -> None:
    log = StreamLog().plain(1).gtid(2).query(b"TRUNCATE t")
    with pytest.raises(IncompleteError) as caught:
        list(runs(log.write(tmp_path), on_unshown="error"))
    assert caught.value.event_pos == log.offsets[-2]


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        (b"TRUNCATE other", False),
        (b"DROP TABLE IF EXISTS `other`,`shop`.`x` /* generated by server */", False),
        (b"CREATE TABLE other (t INT)", False),
        (b"CREATE DEFINER=`a`@`b` VIEW v AS SELECT * FROM shop.t", False),
        (b"TRUNCATE shop.t", True),
        (b"ALTER TABLE shop.T ADD x INT", True),
        (b"DROP TABLE other, shop.t", True),
        (b"RENAME TABLE other TO shop.t", True),
        (b"ALTER TABLE other RENAME TO shop.t", True),
        (b"DROP DATABASE shop", True),
        (b"DROP /* shop.t */ TABLE other", True),
        (b"DROP /* by the nightly job */ TABLE other", False),
        (b"CREATE TABLE other (t INT) -- not t itself", True),
        (b"CREATE TABLE other (id INT) -- for reports", False),
        (b"ALTER TABLE other /*!50100 EXCHANGE PARTITION p WITH TABLE t */", True),
        (b'CREATE TABLE other (id INT /* "quoted */)', True),
        (b"DROP DATABASE SHOP", True),
        (b"DROP DATABASE other", False),
        (b"DROP SCHEMA IF EXISTS `sh``op` /* generated by server */", False),
        (b"DROP /* all */ DATABASE x;", False),
        (b"DROP /* all */ DATABASE shop", True),
        (b'DROP DATABASE "shop"', True),
        (b"DROP DATABASE x -- shop", False),
        (b"DROP DATABASE /*!50000 shop */", True),
        (b"ALTER DATABASE shop CHARACTER SET latin1", False),
        (b"ALTER DATABASE `#mysql50#shop` UPGRADE DATA DIRECTORY NAME", True),
        (b"UPDATE other SET a = 1", False),
        (b"UPDATE other SET a = f(1)", True),
        (b"UPDATE t SET a = 1", True),
    ],
)
def test_ddl_of_tables_that_are_not_wanted_is_no_error(
    tmp_path: Path, sql: bytes, refused: bool
) -> None:
    """Where the text tells which tables a statement changes."""
    path = StreamLog().plain(1).gtid(2).query(sql).write(tmp_path)
    ledger = Ledger()
    options: dict[str, Any] = {"on_unshown": "error", "table": "shop.t"}
    if refused:
        with pytest.raises(IncompleteError):
            list(runs(path, **options))
        return
    list(runs(path, ledger=ledger, **options))
    assert sum(ledger.unshown.values()) == 1
    with pytest.raises(IncompleteError):
        list(runs(path, on_unshown="error"))


def test_a_two_phase_alter_counts_once(tmp_path: Path) -> None:
    ledger = Ledger()
    log = maria()
    for seq, extra in ((1, b"\x02"), (2, b"\x04" + bytes(8))):
        log.add(162, seq.to_bytes(8, "little") + bytes(4) + b"\x21" + extra + bytes(8))
        log.query(b"ALTER TABLE t ADD b INT")
    list(runs(log.write(tmp_path), ledger=ledger))
    assert ledger.unshown == {"DDL": 1}


def test_unknown_events(tmp_path: Path) -> None:
    log = StreamLog().gtid(1)
    log.add(100, bytes(900), flags=0x80)  # Aurora pads with such an event
    log.query(b"BEGIN").rows().xid()
    assert outcomes(log.write(tmp_path)) == [C]
    log.add(200, b"")
    with pytest.raises(UnsupportedError) as caught:
        outcomes(log.write(tmp_path))
    assert caught.value.event_type == "UNKNOWN_EVENT_200"


def test_a_cut_query_event_is_a_format_error(tmp_path: Path) -> None:
    log = StreamLog().plain(1).gtid(2)
    cut = log.add(QUERY, b"\0" * 9)
    log.plain(3)
    path = log.write(tmp_path)
    found: list[str | None] = []
    with pytest.raises(FormatError) as caught:
        found.extend(t.gtid for t in transactions(path))
    assert (caught.value.file, caught.value.event_pos) == ("binlog.000001", cut)
    assert found == [f"{SID}:1"]  # what comes before it in the same window is not lost
    ledger = Ledger()
    skipping = transactions(path, on_error="skip", ledger=ledger)
    assert [t.gtid for t in skipping] == [f"{SID}:1", f"{SID}:3"]
    assert [r.start for r in ledger.skipped] == [cut]


@pytest.mark.parametrize("code", [GTID, ANONYMOUS, 42], ids=["GTID", "anonymous", "tagged"])
@pytest.mark.parametrize("body", [b"", b"\2\2"], ids=["empty", "cut"])
@pytest.mark.parametrize("begin", [b"BEGIN", b"XA START X'61',X'',1"], ids=["BEGIN", "XA START"])
def test_a_cut_gtid_event_loses_its_transaction(
    tmp_path: Path, code: int, body: bytes, begin: bytes
) -> None:
    """All of it: the BEGIN behind it does not begin one without a GTID."""
    log = StreamLog().plain(1)
    cut = log.add(code, body)
    log.query(begin).rows().xid().plain(3)
    path = log.write(tmp_path)
    with pytest.raises(FormatError) as caught:
        list(transactions(path))
    assert caught.value.event_pos == cut
    ledger = Ledger()
    found = list(transactions(path, on_error="skip", ledger=ledger))
    assert [(t.gtid, rows_in(t)) for t in found] == [(f"{SID}:1", 1), (f"{SID}:3", 1)]
    assert [r.start for r in ledger.skipped] == [cut]
    # with the rows decoded, and with a filter that looks at GTIDs
    opened = binlake.open(path, on_error="skip")
    assert [row["gtid"] for row in opened.to_arrow().to_pylist()] == [f"{SID}:1", f"{SID}:3"]
    assert [r.start for r in opened.ledger.skipped] == [cut]
    chosen = transactions(path, on_error="skip", gtid=f"{SID}:2-9")
    assert [t.gtid for t in chosen] == [f"{SID}:3"]


def test_a_cut_gtid_event_of_mariadb_loses_its_transaction(tmp_path: Path) -> None:
    log = StreamLog(version="11.8.2-MariaDB-log").maria(1).rows().xid()
    cut = log.add(MARIADB_GTID, b"\2\0\0")
    log.rows().xid().maria(3).rows().xid()
    ledger = Ledger()
    found = list(transactions(log.write(tmp_path), on_error="skip", ledger=ledger))
    assert [t.gtid for t in found] == ["0-1-1", "0-1-3"]
    assert [r.start for r in ledger.skipped] == [cut]


def test_a_bad_checksum_ends_the_read_after_intact_transactions(tmp_path: Path) -> None:
    log, ledger = StreamLog().plain(1).plain(2).plain(3), Ledger()
    log.data[log.offsets[9] + 25] ^= 1
    found: list[str | None] = []
    with pytest.raises(ChecksumError):
        found.extend(t.gtid for t in transactions(log.write(tmp_path), ledger=ledger))
    assert found == [f"{SID}:1"]
    assert without_zeros(dict(ledger.transactions)) == {C: 1, T: 1}


def test_on_error_skip_continues_after_the_damage(tmp_path: Path) -> None:
    log, ledger = StreamLog().plain(1).plain(2).plain(3), Ledger()
    log.data[log.offsets[9] + 25] ^= 1
    found = list(transactions(log.write(tmp_path), ledger=ledger, on_error="skip"))
    assert [t.gtid for t in found] == [f"{SID}:1", f"{SID}:3"]
    assert without_zeros(dict(ledger.transactions)) == {C: 2, T: 1}
    assert len(ledger.skipped) == 1


def test_stop_between_transactions_changes_nothing(tmp_path: Path) -> None:
    log = StreamLog().plain(1)
    log.add(STOP)
    assert outcomes(log.write(tmp_path)) == [C]


@pytest.mark.parametrize(
    "make", [lambda: StreamLog().plain(1), lambda: old().query(b"DROP DATABASE d")]
)
def test_several_files_are_one_sequence(make: Callable[[], StreamLog], tmp_path: Path) -> None:
    for number in (3, 1, 2):
        make().write(tmp_path, f"binlog.{number:06d}")
    found = list(transactions(tmp_path))
    assert [t.start.file for t in found] == ["binlog.000001", "binlog.000002", "binlog.000003"]
    assert [t.start.ordinal for t in found] == [0, 1, 2]
