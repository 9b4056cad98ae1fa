"""Comparisons of numbers: exact for integers and DECIMAL, as doubles once a float takes part."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar
from binlake.table.types.base import ColumnType
from binlake.table.types.bit import BitType
from binlake.table.types.decimal import DecimalType
from binlake.table.types.floating import FloatingType
from binlake.table.types.integer import IntegerType, YearType
from binlake.table.where.comparing import COMPARE, Operator, Test, constant

NUMBERS = (IntegerType, YearType, BitType, DecimalType, FloatingType)
_INTEGER_DIGITS = 20
_MOST_DIGITS = 76  # of Arrow's decimal256
_EXACT_DECIMAL128 = 38


def number_test(kind: ColumnType, operator: Operator, value: object) -> Test:
    """The test of a column against a constant. Raises ValueError with what is wrong with it."""
    if not isinstance(value, int | Decimal | float):
        raise ValueError("compare it with a number, without quotes")
    if isinstance(kind, YearType) and 0 <= value < 100:
        raise ValueError("compare it with a year of four digits")
    if isinstance(kind, FloatingType) and not isinstance(value, float):
        raise ValueError(
            "servers round FLOAT(M,D) to compare it, but not FLOAT, and a log does not distinguish the two; write the "
            f"constant with an exponent to compare exactly: {value}e0"
        )
    if isinstance(value, float):
        return _double_test(kind, operator, value)
    return _exact_test(kind, operator, Fraction(value))  # TRUE is 1


FLOAT_DOUBT = (
    "a row has the FLOAT that is nearest to the constant: for MySQL the two are equal if the column is FLOAT(M,D), and"
    " different if it is FLOAT, and a log does not distinguish these types; compare with a range"
)


def float_doubt(kind: ColumnType, value: object) -> Callable[[pa.Array, object], pa.Array] | None:
    """Return a function that finds the rows that `FLOAT_DOUBT` concerns, for a comparison that `number_test` accepts; None if there are none."""
    if not isinstance(value, float) or not pa.types.is_float32(kind.arrow_type):
        return None
    try:
        (nearest,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    if nearest == value or math.isnan(value):
        return None
    literal = scalar(nearest, pa.float64())
    return lambda values, _: pc.fill_null(pc.equal(_doubles(values), literal), scalar(False))


def number_pair(left: ColumnType, right: ColumnType, operator: Operator) -> Test:
    """The test of two columns. Raises ValueError."""
    if isinstance(left, FloatingType) or isinstance(right, FloatingType):
        raise ValueError("FLOAT and DOUBLE columns are compared with constants only")
    if not isinstance(left, DecimalType) and not isinstance(right, DecimalType):
        common = pa.decimal128(_INTEGER_DIGITS, 0)
    else:
        scale = max(_scale(left), _scale(right))
        whole = max(_precision(kind) - _scale(kind) for kind in (left, right))
        if whole + scale > _MOST_DIGITS:
            raise ValueError("together they have more digits than binlake compares")
        common = pa.decimal256(whole + scale, scale)
    return lambda one, other: COMPARE[operator](
        *(a.cast(common) for a in (one, other) if a is not None)
    )


def _double_test(kind: ColumnType, operator: Operator, value: int | Decimal | float) -> Test:
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{value} is beyond a DOUBLE") from None
    literal = scalar(number, pa.float64())
    if _is_signed_as_double(kind):
        return lambda values, _: COMPARE[operator](_doubles(values.view(pa.int64())), literal)
    return lambda values, _: COMPARE[operator](_doubles(values), literal)


def _is_signed_as_double(kind: ColumnType) -> bool:
    """Whether the server takes the highest bit of a column for a sign when it makes doubles of the values."""
    is_mariadb = kind.context.table.flavour == "mariadb"
    return is_mariadb and isinstance(kind, BitType) and pa.types.is_uint64(kind.arrow_type)


def integer_range(kind: ColumnType, operator: Operator, value: object) -> tuple[int, int] | None:
    """The least and the greatest value of an integer column for which a comparison that `number_test` takes is true
    (for no value, if the first is greater); None if integers do not decide it.
    """
    if not isinstance(kind, IntegerType | YearType | BitType) or not isinstance(
        value, int | Decimal
    ):
        return None
    low, high = _range(kind)
    found = _bound(kind, operator, Fraction(value))
    if isinstance(found, bool):
        return (low, high) if found else (1, 0)
    operator, bound = found
    return {
        "=": (bound, bound),
        "<": (low, bound - 1),
        "<=": (low, bound),
        ">": (bound + 1, high),
        ">=": (bound, high),
    }[operator]


def _exact_test(kind: ColumnType, operator: Operator, value: Fraction) -> Test:
    found = _bound(kind, operator, value)
    if isinstance(found, bool):
        return lambda values, _: constant(values, found)
    sign, bound = found
    if not isinstance(kind, DecimalType):
        literal = scalar(bound, kind.arrow_type)
        return lambda values, _: COMPARE[sign](values, literal)
    common = _decimal(_precision(kind), _scale(kind))
    literal = array([_digits(bound, _scale(kind))], pa.string()).cast(common)[0]
    return lambda values, _: COMPARE[sign](values.cast(common), literal)


def _bound(kind: ColumnType, operator: Operator, value: Fraction) -> tuple[Operator, int] | bool:
    """Return an equivalent comparison with a value that the column can hold, without its point; a bool if it has one result for
    all values.
    """
    scaled = value * 10 ** _scale(kind)
    bound = math.floor(scaled)
    if scaled != bound:  # between two values of the column
        if operator == "=":
            return False
        operator = "<=" if operator in ("<", "<=") else ">"
    low, high = _range(kind)
    if not low <= bound <= high:
        is_less = bound > high  # every value of the column is
        return operator != "=" and (operator in ("<", "<=")) == is_less
    return operator, bound


def _digits(bound: int, scale: int) -> str:
    """`bound` divided by 10 ** `scale`, exactly."""
    digits = str(abs(bound)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if bound < 0 else "") + whole + ("." + fraction if fraction else "")


def _doubles(values: pa.Array) -> pa.Array:
    return values.cast(pa.float64(), safe=False)


def _scale(kind: ColumnType) -> int:
    return kind.column.decimals if isinstance(kind, DecimalType) else 0


def _precision(kind: ColumnType) -> int:
    return kind.column.precision if isinstance(kind, DecimalType) else _INTEGER_DIGITS


def _decimal(precision: int, scale: int) -> pa.DataType:
    make = pa.decimal128 if precision <= _EXACT_DECIMAL128 else pa.decimal256
    return make(precision, scale)


def _range(kind: ColumnType) -> tuple[int, int]:
    """The least and the greatest value that the column's array can hold, without its point."""
    if isinstance(kind, DecimalType):
        most = 10 ** _precision(kind) - 1
        return -most, most
    bits = kind.arrow_type.bit_width
    if pa.types.is_signed_integer(kind.arrow_type):
        return -(1 << bits - 1), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1
