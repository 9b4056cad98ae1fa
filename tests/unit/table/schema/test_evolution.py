"""A table whose definition changes: united by name, promoted without loss, misfits apart."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from binlake.table.schema.evolution import Evolution, promoted


@pytest.mark.parametrize(
    ("older", "newer", "common"),
    [
        (pa.int8(), pa.int32(), pa.int32()),
        (pa.int64(), pa.int8(), pa.int64()),
        (pa.int64(), pa.decimal128(20, 0), pa.decimal128(20, 0)),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal128(12, 4)),
        (pa.decimal128(38, 0), pa.decimal128(10, 9), None),  # would need 39 digits and more
        (pa.int32(), pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int16(), pa.float32(), pa.float32()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int64(), pa.float64(), None),  # 2**53 + 1 would be lost
        (pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), None),
        (pa.int32(), pa.string(), pa.string()),
        (pa.string(), pa.int32(), None),
        (pa.string(), pa.binary(), None),
    ],
)
def test_promotion_loses_nothing(
    older: pa.DataType, newer: pa.DataType, common: pa.DataType
) -> None:
    assert promoted(older, newer) == common


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def _united(*batches: pa.RecordBatch) -> Evolution:
    return Evolution.of("shop.t", [batch.schema for batch in batches])


def test_columns_are_united_by_name_in_the_newest_order() -> None:
    old = _batch(id=pa.array([1]), gone=pa.array(["x"]), state=pa.array(["a"]))
    new = _batch(added=pa.array([2.5]), state=pa.array(["b"]), id=pa.array([2]))
    united = _united(old, new)
    assert united.schema.names == ["added", "state", "id", "gone"]
    assert united.conform(old).fitting.to_pylist() == [
        {"added": None, "state": "a", "id": 1, "gone": "x"}
    ]
    assert united.conform(new).misfits is None


def _conform(
    values: list[Any], older: pa.DataType, newer: pa.DataType
) -> tuple[list[Any], list[Any]]:
    old = _batch(id=pa.array(range(len(values))), v=pa.array(values, older))
    new = _batch(id=pa.array([99]), v=pa.nulls(1, newer))
    fitting, misfits = _united(old, new).conform(old)
    assert fitting.schema.field("v").type == (promoted(older, newer) or newer)
    if misfits is not None:
        assert misfits.schema == old.schema
    return fitting.column("v").to_pylist(), [] if misfits is None else misfits.column(
        "v"
    ).to_pylist()


def test_rows_that_do_not_fit_the_newest_type_go_aside_whole() -> None:
    values = ["12", "abc", None, "007", "-5", "99999999999"]
    assert _conform(values, pa.string(), pa.int32()) == (
        [12, None, -5],
        ["abc", "007", "99999999999"],
    )


def test_integers_that_a_double_cannot_hold_go_aside() -> None:
    values = [1, 2**53, 2**53 + 1]
    assert _conform(values, pa.int64(), pa.float64()) == ([1.0, 2.0**53], [2**53 + 1])


def test_wall_clock_times_do_not_become_instants() -> None:
    fitting, misfits = _conform([0, None], pa.timestamp("us"), pa.timestamp("us", "UTC"))
    assert fitting == [None]
    assert len(misfits) == 1


@pytest.mark.parametrize("swap", [False, True])
def test_days_do_not_become_instants(swap: bool) -> None:
    day = pa.record_batch({"v": pa.array([date(2026, 11, 21)], pa.date32())})
    instant = day.set_column(0, "v", day["v"].cast(pa.timestamp("us", "UTC")))
    older, newer = (instant, day) if swap else (day, instant)
    evolution = Evolution.of("shop.t", [older.schema, newer.schema])
    fitting, misfits = evolution.conform(older)
    assert fitting.num_rows == 0
    assert misfits is not None
    assert misfits.equals(older)


def test_decimals_become_plain_text() -> None:
    values = [Decimal("0.00000001"), Decimal("-12.50000000"), None]
    assert _conform(values, pa.decimal128(18, 8), pa.string()) == (
        ["0.00000001", "-12.50000000", None],
        [],
    )


def test_types_that_cannot_be_merged_are_reported_and_numbered() -> None:
    old = _batch(v=pa.array(["x"]))
    new = _batch(v=pa.array([1]))
    united = _united(old, new)
    assert len(united.notes) == 1
    assert "shop.t.v" in united.notes[0]
    assert united.number(old.schema) == 1
    assert united.number(new.schema) == 2
    assert _united(old, old).notes == ()


def test_before_images_are_united_member_by_member() -> None:
    old = _batch(
        b=pa.array(
            [{"id": 1, "gone": "x"}, None], pa.struct([("id", pa.int32()), ("gone", pa.string())])
        )
    )
    new = _batch(
        b=pa.array(
            [{"id": 2, "added": "y"}], pa.struct([("id", pa.int64()), ("added", pa.string())])
        )
    )
    united = _united(old, new)
    assert united.notes == ()
    fitting, misfits = united.conform(old)
    assert misfits is None
    assert fitting.column("b").to_pylist() == [{"id": 1, "added": None, "gone": "x"}, None]


def test_a_before_image_that_does_not_fit_takes_its_row_aside() -> None:
    old = _batch(b=pa.array([{"v": "x"}, {"v": "7"}]))
    new = _batch(b=pa.array([{"v": 1}]))
    fitting, misfits = _united(old, new).conform(old)
    assert fitting.column("b").to_pylist() == [{"v": 7}]
    assert misfits is not None
    assert misfits.column("b").to_pylist() == [{"v": "x"}]


def test_dropped_columns_stand_before_the_metadata_columns() -> None:
    def schema(*names: str) -> pa.Schema:
        told = [pa.field(name, pa.int32(), metadata={"mysql.type": "int"}) for name in names]
        return pa.schema([*told, pa.field("_op", pa.string()), pa.field("_ts", pa.int64())])

    united = Evolution.of("shop.t", [schema("id", "gone"), schema("id", "b")])
    assert united.schema.names == ["id", "b", "gone", "_op", "_ts"]


def test_renamed_columns_are_one_under_the_newest_name() -> None:
    before = pa.struct([("id", pa.int32()), ("a", pa.int32())])
    old = _batch(id=pa.array([1]), A=pa.array([5]), _before=pa.array([{"id": 1, "a": 4}], before))
    middle = _batch(id=pa.array([2]), b=pa.array([6]))
    newer = pa.struct([("id", pa.int32()), ("c", pa.int64()), ("a", pa.string())])
    new = _batch(
        id=pa.array([3]), c=pa.array([7]), a=pa.array(["again"]), _before=pa.nulls(1, newer)
    )
    schemas = [batch.schema for batch in (old, middle, new)]
    united = Evolution.of("shop.t", schemas, [[("a", "b")], [("B", "c")]])
    assert united.schema.names == ["id", "c", "a", "_before"]
    assert united.conform(old).fitting.to_pylist() == [
        {"id": 1, "c": 5, "a": None, "_before": {"id": 1, "c": 4, "a": None}}
    ]
    assert united.conform(middle).fitting.column("c").to_pylist() == [6]
    assert united.conform(new).fitting.column("a").to_pylist() == ["again"]
    assert [note.split(":")[0] for note in united.notes] == ["shop.t.c"] * 2
    assert "renamed from A" in united.notes[1]
