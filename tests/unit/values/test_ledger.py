from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields
from pathlib import Path

from binlake.values.ledger import Ledger, RenamedColumn, SkippedRange
from binlake.values.position import Position


def _task(start: int, end: int) -> Ledger:
    ledger = Ledger()
    ledger.plan("binlog.000001", 4, 300)
    ledger.cover("binlog.000001", start, end)
    counts = ledger.file("binlog.000001")
    counts.bytes += end - start
    counts.events_by_type.update({15: 1, 30: 2})
    counts.verified += 3
    ledger.add_rows("shop", "orders", "insert", 2)
    ledger.transactions["committed"] += 1
    ledger.warn("the log tells no signs")
    return ledger


def test_tasks_add_up() -> None:
    total = Ledger()
    total += _task(4, 100)
    total += _task(100, 300)
    assert total.total.bytes == 296
    assert total.total.events == 6
    assert total.total.events_by_type == Counter({30: 4, 15: 2})
    assert total.rows == {("shop", "orders"): Counter({"insert": 4})}
    assert total.transactions == {"committed": 2}
    assert total.warnings == ["the log tells no signs"]
    assert total.join_problems() == []


def test_adding_leaves_the_other_alone() -> None:
    first, total = _task(4, 100), Ledger()
    total += first
    total += _task(100, 300)
    assert first.total.bytes == 96
    assert first.rows == {("shop", "orders"): Counter({"insert": 2})}


def test_json_round_trip() -> None:
    ledger = _task(4, 300)
    ledger.add_rows("shop", "orders", "delete", 1)
    ledger.unshown["DDL"] += 1
    ledger.zero_dates["shop.orders.paid"] += 2
    ledger.skipped.append(SkippedRange("binlog.000001", 200, 250, "bad checksum"))
    ledger.decoded_bytes = 17
    text = json.dumps(ledger.to_json())
    assert Ledger.from_json(json.loads(text)) == ledger


def _everything(factor: int) -> Ledger:
    """A ledger with something in each field."""
    ledger = Ledger()
    counts = ledger.file("binlog.000001")
    counts.bytes, counts.verified, counts.bad, counts.unchecked = 296 * factor, 3, 1, 2
    counts.events_by_type.update({15: 1, 30: 2 * factor})
    ledger.plan("binlog.000001", 4, 300 * factor)
    ledger.cover("binlog.000001", 300 * (factor - 1), 300 * factor)
    ledger.add_rows("shop", "orders", "insert", 2 * factor)
    ledger.add_rows("shop", "orders", "delete", 1)
    ledger.names["shop", "orders"] = {"DDL"} if factor == 1 else {"schema"}
    ledger.transactions.update({"committed": factor, "prepared": -1})
    ledger.unshown["DDL"] += factor
    ledger.unshown_of_others = factor
    ledger.decoded_bytes = 17 * factor
    ledger.zero_dates["shop.orders.paid"] += 2
    ledger.json_differences["shop.orders"] += 3
    ledger.skipped.append(SkippedRange("binlog.000001", 200 * factor, 250 * factor, "bad"))
    ledger.renamed.append(RenamedColumn("binlog.000001", factor, "shop", "orders", "a", "b"))
    ledger.columns.update({"id": factor == 2, "state": False})
    ledger.where_columns["id"] = factor == 1
    ledger.warn("the log has no signs")
    return ledger


def test_the_json_of_every_field() -> None:
    """Other programs read it, and parts of a read by other versions: names, order and forms stay."""
    ledger = Ledger()
    ledger += _everything(1)
    ledger += _everything(2)
    empty = Ledger()
    for field in fields(Ledger):
        assert getattr(ledger, field.name) != getattr(empty, field.name), "each is added up"
    written = json.dumps(ledger.to_json(), indent=1) + "\n"
    assert written == (Path(__file__).parent / "ledger.json").read_text()
    assert Ledger.from_json(json.loads(written)) == ledger


def test_json_counts_are_those_of_verify() -> None:
    (entry,) = _task(4, 300).to_json()["files"]
    assert entry == {
        "file": "binlog.000001",
        "bytes": 296,
        "events": 3,
        "types": {"15": 1, "30": 2},
        "checksum": {"verified": 3, "bad": 0, "none": 0},
    }


def _problems(*ranges: tuple[int, int]) -> list[str]:
    ledger = Ledger()
    ledger.plan("b.1", 4, 300)
    for start, end in ranges:
        ledger.cover("b.1", start, end)
    return ledger.join_problems()


def test_ranges_that_do_not_join() -> None:
    assert _problems((4, 100), (100, 100), (100, 300)) == []
    assert _problems((100, 300), (4, 100)) == []
    assert _problems((4, 100), (120, 300)) == ["b.1: bytes 100 to 120 were not read"]
    assert _problems((4, 100), (90, 300)) == ["b.1: bytes 90 to 100 were read twice"]
    assert _problems((4, 300), (4, 300)) == ["b.1: bytes 4 to 300 were read twice"]
    assert _problems((4, 200)) == ["b.1: bytes 200 to 300 were not read"]
    assert _problems((4, 310)) == ["b.1: bytes 300 to 310 were read but not planned"]
    assert _problems() == ["b.1: bytes 4 to 300 were not read"]


def test_an_unplanned_file_is_a_problem() -> None:
    ledger = Ledger()
    ledger.cover("b.2", 4, 10)
    assert ledger.join_problems() == ["b.2: bytes 4 to 10 were read but not planned"]


def test_remarks_name_all_that_was_left_out() -> None:
    ledger = _task(4, 300)
    assert ledger.remarks() == ["the log tells no signs"]
    ledger.transactions["rolled back"] += 1
    ledger.unshown.update({"DDL": 2, "TRUNCATE": 0})
    ledger.zero_dates["shop.orders.paid"] += 1
    ledger.skipped.append(SkippedRange("b.1", 5, 9, "bad checksum"))
    text = "\n".join(ledger.remarks())
    for part in ("bytes 5 to 9", "bad checksum", "rolled back", "DDL: 2", "shop.orders.paid"):
        assert part in text
    assert "TRUNCATE" not in text


def test_where_names_came_from() -> None:
    ledger = Ledger(names={("shop", f"t{n}"): {"ddl", "metadata"} for n in range(7)})
    other = Ledger(names={("shop", "t0"): {"schema"}, ("shop", "told"): {"metadata"}})
    ledger += other
    assert ledger.names["shop", "t0"] == {"ddl", "metadata", "schema"}
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert ledger.remarks() == [
        "names of columns from DDL in the log: shop.t0, shop.t1, shop.t2, shop.t3, shop.t4 and 2 more",
        "names of columns from the schema: shop.t0",
    ]


def test_lines_say_that_the_ranges_join_only_if_they_do() -> None:
    assert any("proven to join" in line for line in _task(4, 300).lines())
    assert not any("proven to join" in line for line in _task(4, 200).lines())


def test_position_json() -> None:
    position = Position("uuid", "binlog.000001", 1 << 40, "0-1-5")
    assert Position.from_json(position.to_json()) == position
    assert str(position) == "binlog.000001:1099511627776"


def test_a_table_that_was_altered_often_has_one_remark() -> None:
    """A line for each table and kind of remark, and their number: stderr is read by people."""
    ledger = Ledger()
    for table in ("shop.a", "shop.b"):
        for columns in range(1, 121):
            listed = ", ".join(f"col_{n}" for n in range(columns))
            ledger.warn(f"{table}: the log does not contain the sign of {listed}; --schema can")
    ledger.warn("shop.a: the declaration at schema.sql:3 does not fit")
    ledger.warn("binlog.000001: the file ends inside an event")
    ledger.warn("binlog.000002: the file ends inside an event")
    first, second, *others = Ledger.from_json(ledger.to_json()).remarks()
    assert first.startswith("shop.a: the log does not contain the sign of col_0, col_1,")
    assert first.endswith("col_119; --schema can (the last of 120 such remarks)")
    assert second.startswith("shop.b: ")
    assert others == [
        "shop.a: the declaration at schema.sql:3 does not fit",
        "binlog.000001: the file ends inside an event",
        "binlog.000002: the file ends inside an event",
    ]
    assert len(ledger.warnings) == 243
