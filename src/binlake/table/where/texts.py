"""Comparisons of texts under their collation, and of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.format.collations import charset_of, collation_name
from binlake.source.arrays import array, scalar
from binlake.table.types.base import ColumnType
from binlake.table.types.binary import BinaryType, UnknownTextType
from binlake.table.types.compressed import CompressedType
from binlake.table.types.enum_set import EnumType
from binlake.table.types.json import JsonType
from binlake.table.types.network import UuidType
from binlake.table.types.spatial import GeometryType
from binlake.table.types.text import TextType
from binlake.table.types.vector import VectorType
from binlake.table.where.collations import TextRules, rules_of
from binlake.table.where.comparing import COMPARE, Operator, Test

_ADVICE = "write BINARY before the column, or COLLATE {bin} after it, to compare exactly"


class TextTest(NamedTuple):
    """A test of texts. `doubtful` returns the rows (bool) that binlake cannot compare, None for
    none; `sentence` is the reason.
    """

    test: Test
    doubtful: Callable[[pa.Array, pa.Array | None], pa.Array | None]
    sentence: str


def is_text(kind: ColumnType) -> bool:
    """Whether a column is compared as text."""
    if isinstance(kind, CompressedType):
        return is_text(kind.inner)
    if isinstance(kind, EnumType):
        return kind.members is not None
    return isinstance(kind, TextType) and not isinstance(kind, JsonType)


def is_bytes(kind: ColumnType) -> bool:
    """Whether a column is compared as bytes."""
    if isinstance(kind, CompressedType):
        return is_bytes(kind.inner)
    others = (UnknownTextType, UuidType, GeometryType, VectorType)
    return isinstance(kind, BinaryType) and not isinstance(kind, others)


def text_test(
    kind: ColumnType, collation: str | None, operator: Operator, value: object
) -> TextTest:
    """The test of a column against a constant. Raises ValueError with what is wrong with it."""
    if not isinstance(value, str):
        raise ValueError("compare it with a text in quotes")
    rules = _rules(kind, collation)
    _check_constant(rules, value)
    ordered = operator != "="
    if ordered:
        _check_order(kind, rules, value)
    literal = rules.keys(array([value], pa.string()))[0]

    def test(values: pa.Array, _: pa.Array | None) -> pa.Array:
        texts = _strings(kind, values)
        if operator == "=":
            return COMPARE[operator](rules.keys(texts), literal)
        return rules.compared(operator, texts, array([value] * len(texts), pa.string()))

    def may_equal(values: pa.Array, _: pa.Array | None) -> pa.Array | None:
        return or_false(rules.may_equal(_strings(kind, values), value))

    return TextTest(test, _unordered(kind, rules) if ordered else may_equal, _sentence(kind, rules))


def text_pair(
    left: ColumnType, right: ColumnType, collation: str | None, operator: Operator
) -> TextTest:
    """The test of two columns. Raises ValueError."""
    rules = _rules(left, collation)
    if rules != _rules(right, collation):
        raise ValueError("their collations differ; name one with COLLATE")
    if operator != "=" and not rules.orders:
        raise ValueError(_no_order(left, rules))
    if operator == "=" and not rules.ascii_only:
        return TextTest(_keys_test(left, right, rules, operator), lambda _first, _second: None, "")
    one, other = _unordered(left, rules), _unordered(right, rules)

    def doubtful(first: pa.Array, second: pa.Array | None) -> pa.Array | None:
        rows = one(first, None), other(second, None)
        return rows[0] if rows[1] is None else rows[1] if rows[0] is None else pc.or_(*rows)

    test = _keys_test(left, right, rules, operator)
    return TextTest(test, doubtful, _sentence(left, rules))


def _keys_test(left: ColumnType, right: ColumnType, rules: TextRules, operator: Operator) -> Test:
    def test(first: pa.Array, second: pa.Array | None) -> pa.Array:
        return rules.compared(operator, _strings(left, first), _strings(right, second))

    return test


def like_test(kind: ColumnType, collation: str | None, pattern: str, escape: str) -> TextTest:
    """The test of a column with LIKE. Raises ValueError."""
    rules = _rules(kind, collation)

    def test(values: pa.Array, _: pa.Array | None) -> pa.Array:
        return rules.like(_strings(kind, values), pattern, escape)

    def may_match(values: pa.Array, _: pa.Array | None) -> pa.Array | None:
        return or_false(rules.may_be_like(_strings(kind, values), pattern, escape))

    return TextTest(test, may_match, _sentence(kind, rules))


def bytes_test(operator: Operator, value: object) -> Test:
    """The test of a column of bytes against a constant. Raises ValueError."""
    raw = value.encode() if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        raise ValueError("compare it with bytes, like 0x4d5a or 'MZ'")
    literal = array([raw], pa.binary())[0]
    return lambda values, _: COMPARE[operator](values, literal)


def collation_of(kind: ColumnType) -> tuple[str, str | None]:
    """The character set and the collation of a text column; None if unknown."""
    column = kind.column
    flavour = kind.context.table.flavour
    name = None
    if column.collation_id is not None and column.is_collation_known:
        name = collation_name(column.collation_id, flavour)
    return charset_of(column.collation_id) or kind.charset or "", name


def _rules(kind: ColumnType, asked: str | None) -> TextRules:
    charset, own = collation_of(kind)
    rules = rules_of(charset, asked or own)
    if rules is not None:
        return rules
    if asked is not None:
        raise ValueError(
            f"binlake cannot compare {charset or 'its'} text under {asked} as the server does"
        )
    if own is None:
        raise ValueError(
            "the log does not name its collation (binlog_row_metadata=FULL); name one with COLLATE, or "
            f"{_advice(kind)}"
        )
    raise ValueError(f"binlake cannot compare text of {own} as the server does; {_advice(kind)}")


def _advice(kind: ColumnType) -> str:
    charset = collation_of(kind)[0]
    return _ADVICE.format(bin=f"{charset or 'utf8mb4'}_bin")


def _advised(kind: ColumnType, rules: TextRules) -> str:
    """Return the advice as the end of a sentence; "" if the comparison is exact already."""
    is_exact = rules.collation == "binary" or rules.collation.endswith("_bin")
    return "" if is_exact else f"; {_advice(kind)}"


def _check_constant(rules: TextRules, value: str) -> None:
    """Raises ValueError for a constant that cannot be compared."""
    if rules.collation == "binary" and not value.isascii() and rules.ordered:
        raise ValueError("BINARY compares bytes of another character set; use ASCII, or COLLATE")


def _check_order(kind: ColumnType, rules: TextRules, value: str) -> None:
    """Raises ValueError for a constant whose order is not known."""
    if not rules.orders:
        raise ValueError(_no_order(kind, rules))
    in_order = rules.in_order(array([value], pa.string()))
    if in_order is not None and not in_order[0].as_py():
        raise ValueError(
            f"binlake does not know the order of {value!r} under {rules.collation}{_advised(kind, rules)}"
        )


def _no_order(kind: ColumnType, rules: TextRules) -> str:
    return (
        f"binlake does not know the order of texts under {rules.collation}{_advised(kind, rules)}"
    )


def _unordered(
    kind: ColumnType, rules: TextRules
) -> Callable[[pa.Array | None, pa.Array | None], pa.Array | None]:
    """Return a function that finds the texts without a known order."""

    def rows(values: pa.Array | None, _: pa.Array | None) -> pa.Array | None:
        in_order = rules.in_order(_strings(kind, values))
        return None if in_order is None else or_false(pc.invert(in_order))

    return rows


def or_false(rows: pa.Array | None) -> pa.Array | None:
    """The rows, with false instead of null."""
    return None if rows is None else pc.fill_null(rows, scalar(False))


def _sentence(kind: ColumnType, rules: TextRules) -> str:
    return (
        f"column {kind.name} has a text with characters that binlake cannot compare under "
        f"{rules.collation} as the server does{_advised(kind, rules)}"
    )


def _strings(kind: ColumnType, values: pa.Array | None) -> pa.Array:
    assert values is not None
    if isinstance(kind, EnumType) and not pa.types.is_string(values.type):
        return kind.texts(values)
    return values
