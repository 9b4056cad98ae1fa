"""The expression of the option `where`: its syntax tree, and the parser of MySQL's syntax.

    parse_where("before.state = 'new' AND total >= 10")

sqlglot parses the text. This module accepts what binlake can evaluate as a server does, and refuses
the rest with one sentence. It knows no table: `table/where/` binds the names to columns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from binlake.printable import truncated

if TYPE_CHECKING:
    from sqlglot import exp

#: The image of an unqualified column: the image for which the expression is evaluated.
ROW = "row"
_IMAGES = ("before", "after")
#: Operators of comparisons, and those that mean the same with the operands exchanged.
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column; `image` is "before", "after" or `ROW`."""

    name: str
    image: str = ROW

    def __str__(self) -> str:
        return self.name if self.image == ROW else f"{self.image}.{self.name}"


@dataclass(frozen=True, slots=True)
class Document:
    """The value at a path in a JSON column; `unquoted` as `->>` returns it."""

    column: ColumnName
    path: tuple[str | int, ...]
    unquoted: bool

    def __str__(self) -> str:
        return f"{self.column}{'->>' if self.unquoted else '->'}…"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int, Decimal, float, str, bytes, or None for NULL. `is_moment`: its keyword (DATE,
    TIME, TIMESTAMP) makes it a date or time in every comparison.
    """

    value: int | Decimal | float | str | bytes | None
    is_moment: bool = False

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, bytes):
            return f"0x{value.hex()}"
        return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True)
class Collated:
    """An operand with the collation of the comparison; `binary` for the operator BINARY."""

    operand: ColumnName | Document | Literal
    collation: str

    def __str__(self) -> str:
        return str(self.operand)


Operand = ColumnName | Document | Literal | Collated


def uncollated(operand: Operand) -> ColumnName | Document | Literal:
    """The operand without its collation."""
    return operand.operand if isinstance(operand, Collated) else operand


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of = <> < <= > >= <=>."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Like:
    """LIKE; `escape` is one character."""

    operand: Operand
    pattern: str
    escape: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """IS NULL."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Changed:
    """Whether an update changes a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """NOT."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """AND of all parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """OR of all parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """XOR of two."""

    left: Condition
    right: Condition


_SILENT = logging.NullHandler()

Condition = Comparison | Like | IsNull | Changed | Not | Both | Either | OneOf


@cache
def parse_where(text: str) -> Condition:
    """Parse a condition in MySQL's syntax.

    Raises ValueError with one sentence if the text is not an expression, or if binlake cannot evaluate it.
    """
    if not text.strip():
        raise ValueError("expected an expression that is not empty")
    import sqlglot
    from sqlglot.errors import SqlglotError

    # without a handler, Python prints sqlglot's messages, whatever their length and characters
    logging.getLogger("sqlglot").addHandler(_SILENT)
    try:
        parsed = sqlglot.parse_one(text, dialect="mysql")
    except SqlglotError as error:
        raise ValueError(_syntax_error(text, error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    try:
        condition = _Reader().condition(parsed)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not any(True for _ in column_names(condition)):
        raise ValueError("it names no column")
    return condition


def names_in(where: str) -> tuple[str, ...]:
    """The columns that an expression names, each once. Raises OptionError."""
    return tuple(dict.fromkeys(name.name for name in column_names(parse_where(where))))


def column_names(condition: Condition) -> Iterator[ColumnName]:
    """Every column that a condition names; of `changed`, both images."""
    match condition:
        case Changed(name):
            yield ColumnName(name, "before")
            yield ColumnName(name, "after")
        case Not(part):
            yield from column_names(part)
        case Both(parts) | Either(parts):
            for part in parts:
                yield from column_names(part)
        case OneOf(left, right):
            yield from column_names(left)
            yield from column_names(right)
        case Comparison(_, left, right):
            yield from _named(left)
            yield from _named(right)
        case Like(operand, _, _) | IsNull(operand):
            yield from _named(operand)


def _named(operand: Operand) -> Iterator[ColumnName]:
    match operand:
        case ColumnName():
            yield operand
        case Document(column, _, _):
            yield column
        case Collated(inner, _):
            yield from _named(inner)


def _syntax_error(text: str, error: Exception) -> str:
    for found in getattr(error, "errors", ()):
        place = found.get("highlight") or ""
        if place:
            return f"syntax error at {place!r}"
    return "not an expression in MySQL's syntax"


class _Reader:
    """Converts sqlglot's tree. Raises ValueError."""

    def condition(self, node: exp.Expr) -> Condition:
        from sqlglot import exp

        negated = bool(node.args.get("negate"))
        if negated:
            plain = node.copy()
            plain.set("negate", None)
            return Not(self.condition(plain))
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.And() | exp.Or():
                parts = tuple(map(self.condition, node.flatten()))
                return Both(parts) if isinstance(node, exp.And) else Either(parts)
            case exp.Xor():
                return OneOf(self.condition(node.this), self.condition(node.expression))
            case exp.In():
                return self._in(node)
            case exp.Between():
                value = self.operand(node.this)
                low, high = self.operand(node.args["low"]), self.operand(node.args["high"])
                if len({_is_double(low), _is_double(high)}) > 1:
                    raise ValueError(
                        "BETWEEN takes two numbers with an exponent, or two without: 1e3 is a DOUBLE"
                    )
                return Both((Comparison(">=", value, low), Comparison("<=", value, high)))
            case exp.Escape() if isinstance(node.this, exp.Like):
                if node.this.args.get("negate"):
                    plain = node.copy()
                    plain.this.set("negate", None)
                    return Not(self.condition(plain))
                return self._like(node.this, self._text(node.expression, "ESCAPE"))
            case exp.Like():
                return self._like(node, "\\")
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self.operand(node.this))
            case exp.Anonymous() if node.name.lower() == "changed" and len(node.expressions) == 1:
                return self._changed(node)
        operator = _OPERATORS.get(type(node).__name__)
        if operator is not None:
            return Comparison(operator, self.operand(node.this), self.operand(node.expression))
        raise ValueError(f"{_shown(node)} is not a condition that binlake can decide; {_CAN}")

    def operand(self, node: exp.Expr) -> Operand:
        from sqlglot import exp

        match node:
            case exp.Paren():
                return self.operand(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Cast() if node.to.sql(dialect="mysql").upper() == "BINARY":
                return Collated(self._plain_operand(node.this), "binary")
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string:
                kind = node.to.this.name
                if kind in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME"):
                    return Literal(str(node.this.this), is_moment=True)
            case exp.Collate():
                return Collated(self._plain_operand(node.this), node.expression.name.lower())
            case exp.JSONExtract() | exp.JSONExtractScalar():
                return self._document(node, unquoted=isinstance(node, exp.JSONExtractScalar))
            case exp.Anonymous() if node.name.upper() == "JSON_UNQUOTE":
                inner = node.expressions[0] if len(node.expressions) == 1 else node
                if isinstance(inner, exp.JSONExtract):
                    return self._document(inner, unquoted=True)
        return self._literal(node)

    def _plain_operand(self, node: exp.Expr) -> ColumnName | Document | Literal:
        operand = self.operand(node)
        if isinstance(operand, Collated):
            raise ValueError(f"{_shown(node)} has two collations")
        return operand

    def _column(self, node: exp.Column) -> ColumnName:
        if node.args.get("db") is not None:
            raise ValueError(
                f"{_shown(node)}: name the column alone; the option table chooses tables"
            )
        image = node.table.lower()
        if image and image not in _IMAGES:
            raise ValueError(
                f"{_shown(node)}: a column is named alone, or as before.{node.name} or after.{node.name}"
            )
        return ColumnName(node.name, image or ROW)

    def _changed(self, node: exp.Anonymous) -> Changed:
        column = self.operand(node.expressions[0])
        if not isinstance(column, ColumnName) or column.image != ROW:
            raise ValueError("changed() takes the name of a column")
        return Changed(column.name)

    def _in(self, node: exp.In) -> Condition:
        if not node.expressions or any(node.args.get(arg) for arg in ("query", "unnest", "field")):
            raise ValueError("IN takes a list of constants")
        value = self.operand(node.this)
        return Either(
            tuple(Comparison("=", value, self.operand(item)) for item in node.expressions)
        )

    def _like(self, node: exp.Like, escape: str) -> Like:
        from sqlglot import exp

        pattern, operand = node.expression, self.operand(node.this)
        if isinstance(pattern, exp.Cast | exp.Collate):
            over = self.operand(pattern)
            assert isinstance(over, Collated)
            operand, pattern = Collated(uncollated(operand), over.collation), pattern.this
        if len(escape) != 1:
            raise ValueError("ESCAPE takes one character")
        return Like(operand, self._text(pattern, "LIKE"), escape)

    def _text(self, node: exp.Expr, what: str) -> str:
        value = self._literal(node).value
        if not isinstance(value, str):
            raise ValueError(f"{what} takes a text")
        return value

    def _document(self, node: exp.Expr, *, unquoted: bool) -> Document:
        from sqlglot import exp

        column = self.operand(node.this)
        path = node.expression
        if not isinstance(column, ColumnName):
            raise ValueError(f"{_shown(node)}: a path is taken of a column")
        if node.args.get("expressions"):
            raise ValueError(f"{_shown(node)}: JSON_EXTRACT takes one path here")
        steps: list[str | int] = []
        for step in path.expressions[1:] if isinstance(path, exp.JSONPath) else [path]:
            plain = isinstance(step, exp.JSONPathKey | exp.JSONPathSubscript)
            if not plain or not isinstance(step.this, str | int):
                raise ValueError(f"{_shown(node)}: a path has keys and indexes only, like $.a.b[0]")
            steps.append(step.this)
        return Document(column, tuple(steps), unquoted)

    def _literal(self, node: exp.Expr) -> Literal:
        from sqlglot import exp

        match node:
            case exp.Literal():
                text = str(node.this)
                return Literal(text if node.is_string else _number(text))
            case exp.Neg():
                value = self._literal(node.this).value
                if isinstance(value, Decimal):
                    return Literal(value.copy_negate())  # a minus sign would round it
                if isinstance(value, int | float):
                    return Literal(-value)
            case exp.Null():
                return Literal(None)
            case exp.Boolean():
                return Literal(bool(node.this))  # 1 or 0, except for JSON
            case exp.HexString():
                digits = str(node.this)
                return Literal(bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0")))
            case exp.BitString():
                return Literal(int(str(node.this), 2))
        raise ValueError(f"{_shown(node)} is neither a column nor a constant; {_CAN}")


_OPERATORS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
}
_CAN = (
    "supported are = <> < <= > >= <=> IN BETWEEN LIKE IS NULL AND OR NOT XOR changed(column), "
    "JSON paths, BINARY and COLLATE"
)


def _number(text: str) -> int | Decimal | float:
    if re.fullmatch(r"\d+", text):
        return int(text)
    if "e" in text.lower():
        return float(text)
    return Decimal(text.rstrip("."))


def _is_double(operand: Operand) -> bool:
    return isinstance(operand, Literal) and isinstance(operand.value, float)


def _shown(node: Any) -> str:
    return truncated(str(node.sql(dialect="mysql")), 80)
