"""The values of new columns in the rows of older files, as Iceberg's JSON and in Arrow."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from binlake.mirror.tables.schema import (
    iceberg_schema,
    older_rows,
    storage_schema,
    with_initial_default,
)


@pytest.mark.parametrize(
    ("kind", "value", "json", "stored"),
    [
        (pa.int8(), -5, -5, -5),
        (pa.int64(), 1 << 62, 1 << 62, 1 << 62),
        (pa.bool_(), True, True, True),
        (pa.float32(), 0.10000000149011612, 0.10000000149011612, 0.10000000149011612),
        (pa.float64(), -0.0015, -0.0015, -0.0015),
        (pa.decimal128(20, 0), Decimal(18446744073709551615), "18446744073709551615", Decimal(18446744073709551615)),
        (pa.decimal128(9, 3), Decimal("-0.500"), "-0.500", Decimal("-0.500")),
        (pa.string(), "12", "12", "12"),
        (pa.string(), "", "", ""),
        (pa.binary(), b"\x00\xff", "00FF", b"\x00\xff"),
    ],
)  # fmt: skip
def test_values(kind: pa.DataType, value: Any, json: Any, stored: Any) -> None:
    plain = iceberg_schema(pa.schema([("c", kind)]))
    made = with_initial_default(plain, pa.scalar(value, kind))
    assert made["fields"][0]["initial-default"] == json
    field = storage_schema(made).field(0)
    found = older_rows(field, 2)
    assert found.type == field.type
    assert found.to_pylist() == [stored, stored]
    assert with_initial_default(plain, None) == plain
    assert older_rows(storage_schema(plain).field(0), 2).to_pylist() == [None, None]


def test_a_date_of_another_writer() -> None:
    made = iceberg_schema(pa.schema([("c", pa.date32())]))
    made["fields"][0]["initial-default"] = "2020-02-29"
    assert older_rows(storage_schema(made).field(0), 1).to_pylist() == [date(2020, 2, 29)]


def test_a_wider_type_keeps_the_value() -> None:
    narrow = with_initial_default(iceberg_schema(pa.schema([("c", pa.decimal128(4, 2))])), pa.scalar(Decimal("1.50")))  # fmt: skip
    narrow["fields"][0]["type"] = "decimal(20, 2)"
    found = older_rows(storage_schema(narrow).field(0), 1)
    assert found.type == pa.decimal128(20, 2)
    assert found.to_pylist() == [Decimal("1.50")]
