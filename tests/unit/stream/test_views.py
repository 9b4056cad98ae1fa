from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlake
from binlake.errors import FormatError, OptionError
from binlake.events.raw import RawEvent
from binlake.stream.views import BATCH_ROWS, VIEWS, RowCounts, transaction_rows
from binlake.values.options import ReadOptions
from support.logs.log_builder import ROWS, TABLE_MAP
from support.logs.stream_log import (
    EPOCH,
    SECOND,
    SID,
    StreamLog,
    rows_body,
    table_map_body,
    transactions,
)


def table(path: Path, view: str, *columns: str, **options: Any) -> pa.Table:
    log = binlake.open(path, **options)
    return pa.Table.from_batches(log.view(view, columns), VIEWS[view].schema(columns))


def log() -> StreamLog:
    made = StreamLog().gtid(1, commit_us=EPOCH * SECOND + 250_000).query(b"BEGIN", thread=9)
    made.rows(2).xid().gtid(2).query(b"CREATE TABLE `t` (a INT)", thread=8)
    made.xa_prepared(3, b"x")
    return made


def test_events(tmp_path: Path) -> None:
    made = log()
    found = table(made.write(tmp_path), "events").to_pylist()
    assert [row["pos"] for row in found] == made.offsets
    begin = found[2]
    assert begin | {"event": json.loads(begin["event"])["sql"]} == {
        "file": "binlog.000001",
        "pos": made.offsets[2],
        "end_pos": made.offsets[3],
        "log_pos": made.offsets[3],
        "type": "QUERY_EVENT",
        "code": 2,
        "ts": datetime.fromtimestamp(EPOCH, UTC),
        "server_id": 1,
        "flags": [],
        "size": made.offsets[3] - made.offsets[2],
        "checksum": "ok",
        "inner": None,
        "event": "BEGIN",
    }


def test_an_unused_event_is_not_decoded(tmp_path: Path) -> None:
    made = log()
    made.add(35, b"\x05" + bytes(7))  # claims five sets that are not there
    path = made.write(tmp_path)
    assert table(path, "events", "type", "pos").num_rows == len(made.offsets)
    with pytest.raises(binlake.BinlogError):
        table(path, "events", "event")


def test_a_bad_checksum_is_a_value(tmp_path: Path) -> None:
    made = log()
    made.data[made.offsets[2] + 20] ^= 1
    found = table(made.write(tmp_path), "events", "checksum", "pos").to_pylist()
    assert [row["pos"] for row in found if row["checksum"] == "bad"] == [made.offsets[2]]


def test_transactions(tmp_path: Path) -> None:
    made = log()
    first, second, prepared = table(
        made.write(tmp_path), "transactions", uncommitted=True
    ).to_pylist()
    assert first == {
        "gtid": f"{SID}:1",
        "outcome": "committed",
        "commit_ts": datetime.fromtimestamp(EPOCH, UTC) + timedelta(microseconds=250_000),
        "original_commit_ts": datetime.fromtimestamp(EPOCH, UTC) + timedelta(microseconds=250_000),
        "duration": timedelta(0),
        "file": "binlog.000001",
        "pos": made.offsets[1],
        "end_pos": made.offsets[6],
        "bytes": made.offsets[6] - made.offsets[1],
        "server_id": 1,
        "thread_id": 9,
        "last_committed": 0,
        "sequence_number": 1,
        "commit_id": None,
        "flags": ["MAY_HAVE_SBR"],
        "xid": made.offsets[5],
        "xa_xid": None,
        "tables": ["shop.t"],
        "inserts": 2,
        "updates": 0,
        "deletes": 0,
        "statements": 0,
    }
    assert (second["inserts"], second["statements"], second["tables"]) == (0, 1, [])
    assert (prepared["outcome"], prepared["xa_xid"]) == ("prepared", "X'78',X'',1")


def test_statements(tmp_path: Path) -> None:
    made = log()
    found = table(made.write(tmp_path), "statements").to_pylist()
    assert [(row["sql"][:8], row["kind"], row["outcome"]) for row in found] == [
        ("BEGIN", "transaction control", "committed"),
        ("CREATE T", "DDL", "committed"),
        ("XA START", "transaction control", "prepared"),
        ("XA END X", "transaction control", "prepared"),
    ]
    ddl = found[1]
    assert (ddl["gtid"], ddl["thread_id"], ddl["database"], ddl["pos"]) == (
        f"{SID}:2",
        8,
        "shop",
        made.offsets[7],
    )


def test_a_load_data_statement_has_its_text(tmp_path: Path) -> None:
    made = StreamLog()
    text = b"LOAD DATA INFILE 'x' INTO TABLE t"
    head = (7).to_bytes(4, "little") + bytes(4) + b"\x04" + bytes(4)
    made.add(18, head + bytes(13) + b"shop\0" + text)
    [row] = table(made.write(tmp_path), "statements").to_pylist()
    assert (row["sql"], row["kind"], row["database"]) == (text.decode(), "LOAD DATA", "shop")


def test_columns_are_chosen_by_name_and_order(tmp_path: Path) -> None:
    path = log().write(tmp_path)
    assert table(path, "events", "size", "file").schema.names == ["size", "file"]
    with pytest.raises(OptionError, match="no column 'colour'"):
        table(path, "events", "colour")
    with pytest.raises(OptionError, match="unknown view 'rows'"):
        list(binlake.open(path).view("rows"))


def test_views_take_filters(tmp_path: Path) -> None:
    path = log().write(tmp_path)
    assert table(path, "statements", "sql", gtid=f"{SID}:2").num_rows == 1
    assert table(path, "transactions", "gtid", gtid=f"{SID}:2").num_rows == 1
    assert table(path, "events", "type", gtid=f"{SID}:2").to_pylist() == [
        {"type": "GTID_LOG_EVENT"},
        {"type": "QUERY_EVENT"},
    ]


def test_batches_are_bounded(tmp_path: Path) -> None:
    made = StreamLog()
    for gno in range(1, BATCH_ROWS // 5 + 20):
        made.plain(gno)
    path = made.write(tmp_path)
    sizes = [batch.num_rows for batch in binlake.open(path).view("events", ["pos"])]
    assert sizes == [BATCH_ROWS, len(made.offsets) - BATCH_ROWS]


def test_counts_may_be_unknown(tmp_path: Path) -> None:
    rows = transaction_rows(
        transactions(log().write(tmp_path)),
        lambda _: RowCounts((), None, None, None),
        ReadOptions(table=("shop.t",)),
    )
    [batch] = VIEWS["transactions"].batches(rows, ["inserts"])
    assert batch.to_pylist() == [{"inserts": None}, {"inserts": None}]


def test_filtered_events_belong_to_matching_rows(tmp_path: Path) -> None:
    path = log().write(tmp_path)
    everything = binlake.open(path).events()
    kinds = [event.type for event in everything]
    for options, shown in (
        ({"table": "shop.t"}, True),
        ({"table": "shop.[t]"}, False),  # no wildcard
        ({"table": "shop.o*"}, False),
        ({"exclude_table": "shop.?"}, False),
        ({"op": "delete"}, False),
        ({"op": "insert"}, True),
    ):
        opened = binlake.open(path, **options)
        found = [event.type for event in opened.events()]
        assert ("TABLE_MAP_EVENT" in found, bool(found)) == (shown, shown), options
        assert len(found) < len(kinds)
        assert bool(list(opened.transactions())) == shown
        assert bool(list(opened.view("transactions", ["pos"]))) == shown
        assert bool(list(opened.view("events", ["pos"]))) == shown
        with pytest.raises(OptionError, match="changes, transactions or events"):
            list(opened.view("statements"))


@pytest.mark.parametrize("options", [{}, {"table": "shop.t"}, {"server_id": 1}])
def test_on_error_skip_shows_events_that_cannot_be_decoded(
    options: dict[str, Any], tmp_path: Path
) -> None:
    made = StreamLog(alg=0).plain(1).gtid(2).query(b"BEGIN").rows()
    made.add(TABLE_MAP, table_map_body(9)[:-3])
    made.xid().plain(3)
    path = made.write(tmp_path)
    with pytest.raises(FormatError):
        [event.event for event in binlake.open(path, **options).events()]
    opened = binlake.open(path, on_error="skip", **options)
    found = [(event.pos, event.event) for event in opened.events()]
    assert [pos for pos, event in found if isinstance(event, RawEvent)] == [made.offsets[10]]
    assert found[-1][0] == made.offsets[-1]
    [lost] = opened.ledger.skipped
    assert (lost.start, lost.end) == (made.offsets[10], made.offsets[11])


def test_on_error_skip_continues_after_a_corrupt_payload(tmp_path: Path) -> None:
    made = StreamLog().gtid(1).payload(b"rubbish").plain(2)
    path = made.write(tmp_path)
    with pytest.raises(FormatError):
        list(binlake.open(path).events())
    opened = binlake.open(path, on_error="skip")
    assert [event.pos for event in opened.events()] == made.offsets
    [lost] = opened.ledger.skipped
    assert lost.start == made.offsets[2]


def test_transactions_with_rows_that_cannot_be_counted(tmp_path: Path) -> None:
    made = StreamLog(alg=0).plain(1).gtid(2).query(b"BEGIN")
    made.add(TABLE_MAP, table_map_body())
    made.add(ROWS, rows_body(2)[:-1])
    path = made.xid().plain(3).write(tmp_path)
    with pytest.raises(FormatError):
        table(path, "transactions")
    found = table(path, "transactions", "inserts", on_error="skip", table="shop.t")
    assert found["inserts"].to_pylist() == [1, None, 1]
