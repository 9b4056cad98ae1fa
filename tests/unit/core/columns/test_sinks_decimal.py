"""DECIMAL of 1 to 65 digits against Python's decimal, through an encoder of its own."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.core.columns.sink import SinkBuffers, make_sink
from binlake.errors import MalformedError, TruncatedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.values.wire_values import decimal_bytes

EXACT = Context(prec=80)


def decode(kernel: Kernel, precision: int, scale: int, wire: bytes, count: int = 1) -> SinkBuffers:
    plan = ColumnPlan(ColumnDefinition(0, "c", 246), kernel, precision, scale)
    return make_sink(plan).decode(wire, count)


def text(precision: int, scale: int, wire: bytes) -> str:
    return bytes(decode(Kernel.DECIMAL_TEXT, precision, scale, wire).data).decode("ascii")


def unscaled(precision: int, scale: int, wire: bytes) -> int:
    data = decode(Kernel.DECIMAL, precision, scale, wire).data
    return int.from_bytes(data, "little", signed=True)


@pytest.mark.parametrize(
    ("wire", "precision", "scale", "value"),
    [
        ("807b01c8", 6, 3, "123.456"),
        ("7f84fe37", 6, 3, "-123.456"),
        ("8000", 3, 2, "0.00"),
        ("7fcd", 3, 2, "-0.50"),
        ("80", 1, 0, "0"),
        ("89", 1, 0, "9"),
        ("76", 1, 0, "-9"),
        ("b2", 2, 2, "0.50"),
    ],
)
def test_examples(wire: str, precision: int, scale: int, value: str) -> None:
    raw = bytes.fromhex(wire)
    assert raw == decimal_bytes(Decimal(value), precision, scale)
    assert text(precision, scale, raw) == value
    assert unscaled(precision, scale, raw) == int(Decimal(value).scaleb(scale))


@st.composite
def decimals(draw: st.DrawFn) -> tuple[int, int, Decimal]:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    digits = draw(st.integers(0, precision))
    number = draw(st.integers(-(10**digits) + 1, 10**digits - 1))
    return precision, scale, Decimal(number).scaleb(-scale, EXACT)


@settings(max_examples=400, deadline=None)
@given(decimals())
def test_any_decimal(case: tuple[int, int, Decimal]) -> None:
    precision, scale, value = case
    with localcontext(EXACT):
        wire = decimal_bytes(value, precision, scale)
        assert text(precision, scale, wire) == f"{value:.{scale}f}"
        if precision <= 38:
            assert unscaled(precision, scale, wire) == int(value.scaleb(scale))


@pytest.mark.parametrize("precision", range(1, 66))
def test_extremes_of_every_precision(precision: int) -> None:
    with localcontext(EXACT):
        for scale in {0, precision // 2, precision}:
            if scale > 30:
                continue
            top = Decimal(10**precision - 1).scaleb(-scale)
            for value in (top, -top, top - top):
                wire = decimal_bytes(value, precision, scale)
                assert text(precision, scale, wire) == f"{value:.{scale}f}"
                if precision <= 38:
                    assert unscaled(precision, scale, wire) == int(value.scaleb(scale))


def test_values_follow_each_other() -> None:
    values = [Decimal("-1.5"), Decimal(0), Decimal("99999999.9")]
    wire = b"".join(decimal_bytes(v, 9, 1) for v in values)
    found = decode(Kernel.DECIMAL_TEXT, 9, 1, wire, 3)
    assert found.offsets is not None
    assert found.offsets.cast("B").cast("i").tolist() == [0, 4, 7, 17]
    assert bytes(found.data) == b"-1.50.099999999.9"


@pytest.mark.parametrize(
    ("precision", "scale", "wire"),
    [
        (9, 0, "bb9aca00"),  # 1,000,000,000 in a group of nine digits
        (9, 9, "bb9aca00"),
        (1, 0, "8a"),
        (2, 0, "e4"),
        (3, 1, "e401"),
        (3, 2, "800a00"[:2] + "64"),
    ],
)
def test_digits_that_cannot_be(precision: int, scale: int, wire: str) -> None:
    for kernel in (Kernel.DECIMAL, Kernel.DECIMAL_TEXT):
        with pytest.raises(MalformedError):
            decode(kernel, precision, scale, bytes.fromhex(wire))


def test_every_cut_is_truncated() -> None:
    wire = decimal_bytes(Decimal("12345678901234567890.123"), 30, 3)
    for cut in range(len(wire)):
        for kernel in (Kernel.DECIMAL, Kernel.DECIMAL_TEXT):
            with pytest.raises(TruncatedError):
                decode(kernel, 30, 3, wire[:cut])


@pytest.mark.parametrize(("precision", "scale"), [(66, 0), (5, 6), (5, -1)])
def test_columns_that_do_not_exist(precision: int, scale: int) -> None:
    with pytest.raises(MalformedError):
        decode(Kernel.DECIMAL_TEXT, precision, scale, bytes(40))
