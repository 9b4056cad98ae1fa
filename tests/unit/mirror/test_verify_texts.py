"""The texts of values that both sides of a comparison make: one for each value."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.mirror.equality.sums import PartSum, RowTexts, Sample, TableParts
from binlake.mirror.equality.value_texts import MD5, SHA256, texts_of
from binlake.snapshot.tables import SourceTable
from binlake.values.plan import ColumnDefinition, TableDefinition

# the shortest digits that read back the same, with an exponent from 10**15 on
_REALS = {
    -0.0: "-0", 0.1: "0.1", 1.5: "1.5", 1e22: "1e22", 1e15: "1e15", 1e14: "100000000000000",
    5e-324: "5e-324", 1e300: "1e300", -2.5: "-2.5", 16777217.0: "16777217",
}  # fmt: skip


def test_doubles_as_a_server_writes_them() -> None:
    values = [*_REALS]
    assert texts_of(pa.array(values), MD5.hex) == list(_REALS.values())


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (Decimal("-0.050"), pa.decimal128(9, 3), "-0.050"),
        (Decimal("0.000000001"), pa.decimal128(38, 30), "0.000000001000000000000000000000"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 60), pa.timestamp("us"), "2026-01-02 03:04:05.000060"),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"), "0001-01-01 00:00:00.000000"),
        (dt.date(1000, 1, 1), pa.date32(), "1000-01-01"),
        (dt.timedelta(seconds=-1, microseconds=1), pa.duration("us"), "-999999"),
        (255, pa.int16(), "255"),
    ],
)  # fmt: skip
def test_texts(value: Any, kind: pa.DataType, text: str) -> None:
    assert texts_of(pa.array([value, None], kind), MD5.hex) == [text, None]


@given(st.lists(st.floats(allow_nan=False), max_size=30))
def test_equal_texts_are_equal_doubles(values: list[float]) -> None:
    texts = texts_of(pa.array(values, pa.float64()), MD5.hex)
    assert [float(text or "") for text in texts] == values
    assert len(set(texts)) == len({(value, str(value)[0]) for value in values})


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.binary()), min_size=2, max_size=9))
def test_rows_are_distinguished(rows: list[tuple[str | None, bytes | None]]) -> None:
    definition = TableDefinition(
        "d", "t", (ColumnDefinition(0, "a", 15), ColumnDefinition(1, "b", 15))
    )
    fields = (pa.field("a", pa.string()), pa.field("b", pa.binary()))
    parts = TableParts(SourceTable("d", "t", definition, ()), SHA256, fields, 7)
    try:
        table = pa.table(list(zip(*rows, strict=True)), schema=pa.schema(fields))
    except UnicodeEncodeError:
        return  # half a surrogate pair, which no server stores
    texts = RowTexts.of(table, parts)
    assert len(set(texts.rows)) == len(set(rows))
    sums = parts.of_rows([table])
    assert sum(part.rows for part in sums.values()) == len(rows)
    assert parts.of_rows([table.slice(0, 1), table.slice(1)]) == sums
    assert parts.of_rows([table, table.slice(0, 1)]) != sums
    assert parts.of_rows([table.slice(1)]) != sums
    assert PartSum(0, 0) not in sums.values()


@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.5, 0.7])
def test_consecutive_samples_have_all_rows(share: float) -> None:
    """Whatever the number of parts is, which follows the server's estimate of the number of rows."""
    definition = TableDefinition("d", "t", (ColumnDefinition(0, "id", 8),))
    fields = (pa.field("id", pa.int64()),)
    rows = pa.table({"id": range(5000)})
    compared: set[bytes] = set()
    for number in range(math.ceil(1 / share)):
        count = 2000 + 17 * number
        sample = Sample.of(share, 40 + number)
        parts = TableParts(
            SourceTable("d", "t", definition, ("id",)), SHA256, fields, count, sample
        )
        texts = RowTexts.of(rows, parts)
        of_sample = {key for key, part in zip(texts.keys, texts.numbers, strict=True) if part >= 0}
        assert len(of_sample) == pytest.approx(5000 * share, rel=0.1)
        assert max(texts.numbers) < count
        assert sum(part.rows for part in parts.of_rows([rows]).values()) == len(of_sample)
        compared |= of_sample
    assert len(compared) == 5000
