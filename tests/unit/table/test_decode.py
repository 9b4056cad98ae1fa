"""From log files to batches and lines: what the decoder makes of small logs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import SchemaError
from binlake.table.row_json import change_batch, change_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.decoded_rows import ADA, BOB, json_rows, typed_rows
from support.logs.log_builder import QUERY, RELAY, ROTATE, TABLE_MAP, XID, query_body
from support.logs.table_log import (
    DELETE,
    INSERT,
    UPDATE,
    Log,
    Row,
    day,
    decode,
    image,
    rows_body,
    table_map,
)
from support.oracles.reading import task_lines

ROWS_QUERY = 29


def _all_operations() -> Log:
    log = Log()
    log.insert(ADA, BOB, gno=5)
    after: Row = (1, 'A "d" \\ a\n', ADA[2])
    log.commit(
        (TABLE_MAP, table_map()),
        (UPDATE, rows_body(image(ADA), image(after), bitmaps=(7, 7))),
        (TABLE_MAP, table_map()),
        (DELETE, rows_body(image(BOB))),
    )
    return log


def test_the_output_contract_to_the_letter(tmp_path: Path) -> None:
    log = _all_operations()
    first, second, update, delete = json_rows(log.save(tmp_path))
    assert list(first) == [
        "op", "database", "table", "ts", "gtid", "server_id", "file", "pos", "end_pos", "row",
        "before", "after",
    ]  # fmt: skip
    insert_at = log.offsets[4]
    assert first == {
        "op": "insert",
        "database": "shop",
        "table": "t",
        "ts": "2023-11-14T22:13:20.000000Z",
        "gtid": "00010203-0405-0607-0809-0a0b0c0d0e0f:5",
        "server_id": 1,
        "file": "binlog.000001",
        "pos": insert_at,
        "end_pos": log.offsets[5],
        "row": 0,
        "before": None,
        "after": {"id": 1, "name": "Ada", "day": "2026-11-21"},
    }
    assert (second["pos"], second["row"]) == (insert_at, 1)
    assert second["after"] == {"id": 2, "name": None, "day": "0000-00-00"}
    assert update["before"] == {"id": 1, "name": "Ada", "day": "2026-11-21"}
    assert update["after"]["name"] == 'A "d" \\ a\n'
    assert update["gtid"] is None
    assert (delete["op"], delete["row"], delete["after"]) == ("delete", 0, None)
    assert delete["before"] == second["after"]


def test_the_generic_view_has_the_same_rows(tmp_path: Path) -> None:
    path = _all_operations().save(tmp_path)
    options = ReadOptions()
    (changes,) = decode(path)
    batch = change_batch(changes, options)
    assert batch.schema == change_schema(options)
    rows = batch.to_pylist()
    for row, line in zip(rows, json_rows(path), strict=True):
        for name in ("before", "after"):
            assert row[name] is None if line[name] is None else json.loads(row[name]) == line[name]
        assert row.pop("ts") == datetime.fromisoformat(line["ts"])
        for name in (
            "op",
            "database",
            "table",
            "gtid",
            "server_id",
            "file",
            "pos",
            "end_pos",
            "row",
        ):
            assert row[name] == line[name]
        assert (row["source_file"], row["source_pos"]) == (None, None)  # no relay log


def test_absent_is_not_null(tmp_path: Path) -> None:
    log = Log()
    log.insert((3, None, None), present=0b011)
    after: Row = (None, None, day(2026, 1, 2))
    log.commit(
        (TABLE_MAP, table_map()),
        (UPDATE, rows_body(image(ADA, 0b001), image(after, 0b110), bitmaps=(0b001, 0b110))),
        (TABLE_MAP, table_map()),
        (DELETE, rows_body(image(ADA))),
    )
    path = log.save(tmp_path)
    insert, update, delete = json_rows(path)
    assert insert["after"] == {"id": 3, "name": None}
    assert (update["before"], update["after"]) == ({"id": 1}, {"name": None, "day": "2026-01-02"})
    assert delete["before"] == {"id": 1, "name": "Ada", "day": "2026-11-21"}
    insert, update, delete = typed_rows(path, before=True)
    assert (insert["id"], insert["name"], insert["day"], insert["_absent"]) == (
        3,
        None,
        None,
        ["day"],
    )
    # the update did not assign the id: its value is the one before
    assert (update["id"], update["day"], update["_absent"]) == (1, date(2026, 1, 2), None)
    assert update["_before"] == {"id": 1, "name": None, "day": None}
    assert (delete["_absent"], delete["_before"]) == (None, None)


@pytest.mark.parametrize("before", [False, True])
def test_unassigned_columns_of_an_update_keep_their_values(tmp_path: Path, before: bool) -> None:
    """Any images of updates, mixed with whole ones, in one batch and in many."""
    log = Log()
    rows: list[tuple[Row, int, Row, int]] = [
        (ADA, 0b111, (1, "Eve", None), 0b010),  # FULL_NODUP
        (ADA, 0b001, (1, None, ADA[2]), 0b100),  # MINIMAL
        (BOB, 0b101, (None, "x", None), 0b010),  # a null is carried, too
        (ADA, 0b011, (None, None, BOB[2]), 0b110),  # assigned NULL; a zero date
        (ADA, 0b111, BOB, 0b111),
        (ADA, 0b000, (7, None, None), 0b001),
    ]
    for old, had, new, has in rows:
        body = rows_body(image(old, had), image(new, has), bitmaps=(had, has))
        log.commit((TABLE_MAP, table_map()), (UPDATE, body))
        log.insert((9, "plain", None))
    path = log.save(tmp_path)
    wanted = [
        (1, "Eve", date(2026, 11, 21), None),
        (1, None, date(2026, 11, 21), ["name"]),
        (2, "x", None, None),
        (1, None, None, None),
        (2, None, None, None),
        (7, None, None, ["name", "day"]),
    ]
    for batch_bytes in (1, 1 << 20):
        found = typed_rows(path, before=before, batch_bytes=batch_bytes)
        assert [(r["id"], r["name"], r["day"], r["_absent"]) for r in found[::2]] == wanted
        assert {(r["id"], r["name"], r["day"]) for r in found[1::2]} == {(9, "plain", None)}
    names = typed_rows(path, columns="name")
    assert [(row["name"], row["_absent"]) for row in names[::2]] == [
        (name, ["name"] if absent and "name" in absent else None) for _, name, _, absent in wanted
    ]


@pytest.mark.parametrize(("version", "told"), [("11.8.6-MariaDB", "absent"), ("9.7.4", "carried")])
@pytest.mark.parametrize("by", ["ddl", "schema"])
@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_a_computed_column_is_not_carried_over(
    tmp_path: Path, version: str, told: str, by: str, kind: str
) -> None:
    """MariaDB leaves a virtual column out of an after-image although its value changed."""
    create = f"CREATE TABLE t (id INT UNSIGNED, name VARCHAR(20) CHARSET utf8mb4 AS (CONCAT('n', id)) {kind}, day DATE)"
    log = Log(version)
    if by == "ddl":
        log.add(QUERY, query_body(create.encode()))
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map())
    log.add(UPDATE, rows_body(image(ADA), image((2, None, None), 0b001), bitmaps=(7, 0b001)))
    log.add(XID, bytes(8))
    given: dict[str, Any] = {}
    if by == "schema":
        (tmp_path / "schema.sql").write_text(f"USE shop;\n{create};")
        given["schema"] = str(tmp_path / "schema.sql")
    (row,) = typed_rows(log.save(tmp_path), **given)
    if (told, kind) == ("absent", "VIRTUAL"):
        assert (row["id"], row["name"], row["_absent"]) == (2, None, ["name"])
    else:
        assert (row["id"], row["name"], row["_absent"]) == (2, "Ada", None)
    assert row["day"] == date(2026, 11, 21)


def test_typed_rows_and_their_metadata(tmp_path: Path) -> None:
    log = _all_operations()
    path = log.save(tmp_path)
    insert, _, update, delete = typed_rows(path, thread_id=True)
    assert list(insert) == [
        "id", "name", "day", "_op", "_ts", "_gtid", "_server_id", "_log_file", "_log_pos", "_row", "_seq",
        "_absent", "_thread_id",
    ]  # fmt: skip
    assert insert["day"] == date(2026, 11, 21)
    assert insert["_ts"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert insert["_seq"] == {"file": 0, "pos": log.offsets[4], "row": 0}
    assert insert["_thread_id"] == 7
    assert update["name"] == 'A "d" \\ a\n'
    assert (delete["_op"], delete["id"]) == ("delete", 2)
    (changes,) = decode(path, Target.TYPED)
    (found,) = changes.table_batches(ReadOptions())
    assert found.definition.full_name == "shop.t"
    assert found.batch.schema.field("id").type == pa.int64()
    assert found.batch.schema.metadata[b"binlake.table"] == b"shop.t"


def test_options_that_choose(tmp_path: Path) -> None:
    log = _all_operations()
    log.insert((9, "x", None), table="other")
    path = log.save(tmp_path)
    assert [line["op"] for line in json_rows(path, op="update,delete")] == ["update", "delete"]
    assert {line["table"] for line in json_rows(path, table="shop.o*")} == {"other"}
    assert {line["table"] for line in json_rows(path, exclude_table="*.other")} == {"t"}
    assert json_rows(path, columns="Name,missing")[0]["after"] == {"name": "Ada"}
    ledger = Ledger()
    assert len(typed_rows(path, ledger, columns="id", table="shop.t")) == 4
    assert ledger.rows == {("shop", "t"): {"insert": 2, "update": 1, "delete": 1}}


def test_statement_and_thread(tmp_path: Path) -> None:
    log = Log()
    insert = (INSERT, rows_body(image(ADA)))
    log.commit(
        (ROWS_QUERY, b"\x05INSERT INTO t (1)"),
        (TABLE_MAP, table_map()), insert,
        (ROWS_QUERY, b"\x05second"), (TABLE_MAP, table_map()), insert,
    )  # fmt: skip
    log.insert(ADA)
    path = log.save(tmp_path)
    lines = json_rows(path, query=True, thread_id=True)
    assert [line["query"] for line in lines] == ["INSERT INTO t (1)", "second", None]
    assert [line["thread_id"] for line in lines] == [7, 7, 7]
    assert [row["_query"] for row in typed_rows(path, query=True)] == [
        "INSERT INTO t (1)",
        "second",
        None,
    ]


@pytest.mark.parametrize("batch_bytes", [1, 300, 1 << 20])
def test_flushing_anywhere_changes_nothing(tmp_path: Path, batch_bytes: int) -> None:
    log = Log()
    for n in range(20):
        log.commit(
            (TABLE_MAP, table_map("a", 1)), (TABLE_MAP, table_map("b", 2)),
            (INSERT, rows_body(image((n, "x" * n, None)), image((n, None, None)), table_id=1, flags=0)),
            (INSERT, rows_body(image((n, "y", None)), table_id=2)),
            gno=n + 1,
        )  # fmt: skip
    path = log.save(tmp_path)
    lines = json_rows(path, batch_bytes=batch_bytes)
    # two statements end in one event pair each: table b's rows come after a's
    assert [(line["table"], line["after"]["id"]) for line in lines] == [
        (table, n) for n in range(20) for table in "aab"
    ]
    assert [line["gtid"].rpartition(":")[2] for line in lines] == [
        str(n + 1) for n in range(20) for _ in range(3)
    ]
    assert lines == json_rows(path)


def test_a_column_named_like_a_metadata_column(tmp_path: Path) -> None:
    log = Log()
    names = ("id", "_seq", "day")
    log.commit((TABLE_MAP, table_map(names=names)), (INSERT, rows_body(image(ADA))))
    path = log.save(tmp_path)
    with pytest.raises(SchemaError, match=r"shop\.t has a column _seq.*metadata_prefix"):
        typed_rows(path)
    (row,) = typed_rows(path, metadata_prefix="binlog_")
    assert row["_seq"] == "Ada"
    assert row["binlog_op"] == "insert"
    assert json_rows(path)[0]["after"]["_seq"] == "Ada"  # nothing to collide with


def test_schema_file_names_columns_and_signs(tmp_path: Path) -> None:
    log = Log()
    bare = table_map().partition(bytes([1, 1, 0x80]))[0]
    log.commit((TABLE_MAP, bare), (INSERT, rows_body(image((2**32 - 1, "Ada", None)))))
    path = log.save(tmp_path)
    ledger = Ledger()
    (line,) = json_rows(path, ledger)
    assert line["after"] == {"col_0": -1, "col_1": "0x416461", "col_2": None}
    assert ledger.warnings == [  # one line for a table, whatever is not told
        (
            "shop.t: the log does not contain the names of the columns (called col_0, col_1 …), the sign of"
            " col_0 (read as signed) and the character set of col_1 (given as bytes); the option schema"
            " and the option assume_charset can provide it"
        )
    ]
    declared = tmp_path / "schema.sql"
    declared.write_text(
        "CREATE TABLE shop.t (id int unsigned, name varchar(20), day date) DEFAULT CHARSET=utf8mb4"
    )
    ledger = Ledger()
    (line,) = json_rows(path, ledger, schema=str(declared))
    assert line["after"] == {"id": 2**32 - 1, "name": "Ada", "day": None}
    assert ledger.warnings == []
    declared.write_text("CREATE TABLE t (id int unsigned, name int, day date)")
    (line,) = json_rows(path, ledger, schema=str(declared))
    assert "col_0" in line["after"]
    assert "column name is declared as int" in ledger.warnings[0]


def test_rows_of_a_relay_log_contain_the_position_on_the_source(tmp_path: Path) -> None:
    log = Log(flags=RELAY)
    log.add(ROTATE, b"\x04\0\0\0\0\0\0\0source.000042", log_pos=0, flags=0x20)
    log.add_format("8.0.36", 1, log_pos=0)
    log.add(34, b"\0" + bytes(24), log_pos=1000)
    log.add(2, b"\x07\0\0\0\0\0\0\0\x04\0\0\0\0shop\0BEGIN", log_pos=1100)
    log.add(TABLE_MAP, table_map(), log_pos=1200)
    body = rows_body(image(ADA))
    rows_at = log.add(INSERT, body, log_pos=1300)
    log.add(XID, bytes(8), log_pos=1331)
    (line,) = json_rows(log.save(tmp_path, "relay.000003"))
    assert line["pos"] == rows_at
    assert line["source_file"] == "source.000042"
    assert line["source_pos"] == 1300 - (19 + len(body) + 4)
    (changes,) = decode(tmp_path / "relay.000003")
    (row,) = change_batch(changes, ReadOptions()).to_pylist()
    assert (row["source_file"], row["source_pos"]) == (line["source_file"], line["source_pos"])
    assert "source_pos" not in json_rows(_all_operations().save(tmp_path))[0]


def test_a_relay_log_continues_the_sources_file_of_the_one_before(tmp_path: Path) -> None:
    """Servers before 5.6, and MariaDB, do not repeat it where a relay log was rotated by size."""
    first = Log("5.5.62", None)
    first.add(ROTATE, b"\x04\0\0\0\0\0\0\0source.000041", log_pos=0)
    first.add(ROTATE, b"\x04\0\0\0\0\0\0\0source.000042", log_pos=0)
    first.insert((1, "a", None))
    first.add(ROTATE, b"\x04\0\0\0\0\0\0\0./relay.000002")
    for number in (2, 3):
        relay = Log("5.5.62", None, flags=RELAY)
        relay.insert((number, "b", None))
        relay.add(ROTATE, b"\x04\0\0\0\0\0\0\0./relay.%06d" % (number + 1))
        relay.save(tmp_path, f"relay.{number:06}")
    third = Log("5.5.62", None, flags=RELAY)
    third.insert((4, "c", None))
    third.add(ROTATE, b"\x04\0\0\0\0\0\0\0source.000043", log_pos=0)
    third.insert((5, "d", None))
    third.save(tmp_path, "relay.000004")
    first.save(tmp_path, "relay.000001")
    lines = json_rows(tmp_path)
    assert [(line["after"]["id"], line["source_file"]) for line in lines] == [
        (1, "source.000042"),
        (2, "source.000042"),
        (3, "source.000042"),
        (4, "source.000042"),
        (5, "source.000043"),
    ]
    in_tasks = task_lines(tmp_path, max_partition_bytes=4096)
    assert [line["source_file"] for line in in_tasks] == [line["source_file"] for line in lines]
    assert [line["source_file"] for line in json_rows(tmp_path / "relay.000003")] == [None]
