"""A condition bound to the columns of one table definition.

    bound = BoundCondition(parse_where("total >= 10"), types)
    bound.truth(Rows(changes))

`types` are those of the text target, with the columns that the condition needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.images import row_condition as core
from binlake.core.images.row_condition import RowCondition
from binlake.errors import BinlogError, OptionError, UnsupportedError
from binlake.source.arrays import scalar
from binlake.table.plan import TableTypes
from binlake.table.types.base import ColumnType, UndecodableType
from binlake.table.types.sql_types import sql_type
from binlake.table.where import compiled
from binlake.table.where.comparing import COMPARE, Operator, Test
from binlake.table.where.compiled import Steps
from binlake.table.where.dates import MOMENTS, moment_pair, moment_test
from binlake.table.where.documents import DocumentTests, is_document
from binlake.table.where.images import Cells, Rows
from binlake.table.where.numbers import (
    FLOAT_DOUBT,
    NUMBERS,
    float_doubt,
    number_pair,
    number_test,
)
from binlake.table.where.texts import (
    bytes_test,
    is_bytes,
    is_text,
    like_test,
    or_false,
    text_pair,
    text_test,
)
from binlake.table.where.truth import Doubt, Truth, both, either, negated, one_of, repeated
from binlake.values.where import (
    MIRRORED,
    ROW,
    Both,
    Changed,
    Collated,
    ColumnName,
    Comparison,
    Condition,
    Document,
    Either,
    IsNull,
    Like,
    Literal,
    Not,
    OneOf,
    Operand,
    column_names,
    uncollated,
)

T = TypeVar("T")

#: A condition of rows, for the image that unqualified columns mean.
Decide = Callable[[Rows, str], Truth]


@dataclass(frozen=True, slots=True)
class _Decider:
    """A condition in both forms: over arrays, and for the core, if it can decide it."""

    decide: Decide
    steps: Steps = None


class BoundCondition:
    """Decides a condition for the rows of a table. Raises OptionError for a comparison that the
    types of the columns do not allow.

    An unqualified column means either image: a row matches if the condition is true for its
    before-image or for its after-image.
    """

    def __init__(self, condition: Condition, types: TableTypes) -> None:
        self._types = types
        self._indexes = {name.casefold(): i for i, name in enumerate(types.names)}
        self._lacking = Doubt(
            f"table {types.definition.full_name}: row images lack columns that --where needs "
            "(binlog_row_image); changes whose result depends on them are left out",
            True,
        )
        self._names_rows = any(name.image == ROW for name in column_names(condition))
        decider = self._condition(condition)
        self._decide = decider.decide
        self._steps = decider.steps

    def compiled(self) -> RowCondition | None:
        """The condition for the core; None if only `truth` decides it."""
        return compiled.compiled(self._steps, self._types, of_either=self._names_rows)

    def truth(self, rows: Rows) -> Truth:
        """The condition's result for each row. Raises BinlogError."""
        if not self._names_rows:
            return self._decide(rows, ROW)
        before, after = (
            self._decide(rows, image).only(rows.exist(image)) for image in ("before", "after")
        )
        return either(before, after)

    # -- conditions ----------------------------------------------------------------------------

    def _condition(self, condition: Condition) -> _Decider:
        match condition:
            case Not(part):
                inner = self._condition(part)
                return _Decider(
                    lambda rows, image: negated(inner.decide(rows, image)),
                    compiled.applied(core.NOT, inner.steps),
                )
            case Both(parts) | Either(parts):
                join, code = (both, core.AND) if isinstance(condition, Both) else (either, core.OR)
                deciders = [self._condition(part) for part in parts]
                return _Decider(
                    lambda rows, image: reduce(join, (d.decide(rows, image) for d in deciders)),
                    compiled.joined(code, [d.steps for d in deciders]),
                )
            case OneOf(left, right):
                one, other = self._condition(left), self._condition(right)
                return _Decider(
                    lambda rows, image: one_of(one.decide(rows, image), other.decide(rows, image)),
                    compiled.joined(core.XOR, (one.steps, other.steps)),
                )
            case Changed(name):
                return self._changed(name)
            case IsNull(operand):
                return self._is_null(operand)
            case Like(operand, pattern, escape):
                return _Decider(self._like(operand, pattern, escape))
            case Comparison():
                return self._comparison(condition)

    def _comparison(self, comparison: Comparison) -> _Decider:
        sign, left, right = comparison.operator, comparison.left, comparison.right
        if isinstance(uncollated(left), Literal) and not isinstance(uncollated(right), Literal):
            sign, left, right = MIRRORED.get(sign, sign), right, left
        if sign == "<>":
            return self._condition(Not(Comparison("=", left, right)))
        collation = _collation(left, right)
        one, other = uncollated(left), uncollated(right)
        if isinstance(one, Literal):
            raise self._wrong(str(one), "", "two constants: name a column")
        if isinstance(other, Literal):
            if other.value is None:
                if sign == "<=>":
                    return self._is_null(one)
                return _Decider(lambda rows, _: repeated(None, rows.count), compiled.UNKNOWN)
            if sign == "<=>":
                return _never_null(self._with_constant(one, "=", other, collation))
            return self._with_constant(one, sign, other, collation)  # type: ignore[arg-type]
        if isinstance(one, Document) or isinstance(other, Document):
            raise self._wrong(str(one), "", "a path is compared with a constant")
        if sign == "<=>":
            equal = _never_null(_Decider(self._of_two(one, "=", other, collation))).decide
            nulls = self._condition(Both((IsNull(one), IsNull(other)))).decide
            return _Decider(lambda rows, image: either(equal(rows, image), nulls(rows, image)))
        return _Decider(self._of_two(one, sign, other, collation))  # type: ignore[arg-type]

    def _with_constant(
        self,
        operand: ColumnName | Document,
        sign: Operator,
        literal: Literal,
        collation: str | None,
    ) -> _Decider:
        value = literal.value
        if isinstance(operand, Document):
            kind, index = self._column(operand.column)
            tests = self._tests(kind, operand)
            test_of = self._checked(operand, kind, lambda: tests.compare(sign, value))
            return _Decider(self._of_document(operand, index, tests, test_of))
        kind, index = self._column(operand)

        def make() -> tuple[Test, Callable[..., pa.Array | None] | None, str]:
            if literal.is_moment and not isinstance(kind, MOMENTS):
                raise ValueError("it is neither a date nor a time")
            if collation is not None and not is_text(kind):
                raise ValueError("only text has a collation, and BINARY is for text")
            if isinstance(kind, NUMBERS):
                return number_test(kind, sign, value), float_doubt(kind, value), FLOAT_DOUBT
            if isinstance(kind, MOMENTS):
                return moment_test(kind, sign, value), None, ""
            if is_text(kind):
                return text_test(kind, collation, sign, value)
            if is_bytes(kind):
                return bytes_test(sign, value), None, ""
            raise ValueError("binlake compares it with IS NULL and changed() only")

        test, doubtful, sentence = self._checked(operand, kind, make)

        def decide(rows: Rows, image: str) -> Truth:
            cells = self._cells(rows, operand, index, image)
            truth = Truth(test(cells.values, None))
            if doubtful is not None:
                truth = truth.doubted(Doubt(sentence, False), doubtful(cells.values, None))
            return truth.doubted(self._lacking, cells.lacking)

        ordinal = self._types.ordinals[index]
        return _Decider(decide, compiled.compares(operand, kind, ordinal, sign, value))

    def _of_two(
        self, left: ColumnName, sign: Operator, right: ColumnName, collation: str | None
    ) -> Decide:
        one, first = self._column(left)
        other, second = self._column(right)

        def make() -> tuple[Test, Callable[..., pa.Array | None] | None, str]:
            if is_text(one) and is_text(other):
                return text_pair(one, other, collation, sign)
            if collation is not None:
                raise ValueError("only text has a collation, and BINARY is for text")
            if isinstance(one, NUMBERS) and isinstance(other, NUMBERS):
                return number_pair(one, other, sign), None, ""
            if isinstance(one, MOMENTS) and isinstance(other, MOMENTS):
                return moment_pair(one, other, sign), None, ""
            if is_bytes(one) and is_bytes(other):
                return COMPARE[sign], None, ""
            raise ValueError(
                f"{right} is {sql_type(other.column, other.charset)}, and binlake compares columns of "
                "one kind only"
            )

        test, doubtful, sentence = self._checked(left, one, make)

        def decide(rows: Rows, image: str) -> Truth:
            cells = self._cells(rows, left, first, image), self._cells(rows, right, second, image)
            values = [part.values for part in cells]
            truth = Truth(test(*values))
            if doubtful is not None:
                truth = truth.doubted(Doubt(sentence, False), doubtful(*values))
            for part in cells:
                truth = truth.doubted(self._lacking, part.lacking)
            return truth

        return decide

    def _like(self, operand: Operand, pattern: str, escape: str) -> Decide:
        collation, plain = _collation(operand), uncollated(operand)
        if isinstance(plain, Literal):
            raise self._wrong(str(plain), "", "LIKE needs a column")
        if isinstance(plain, Document):
            kind, index = self._column(plain.column)
            tests = self._tests(kind, plain)
            return self._of_document(
                plain, index, tests, self._checked(plain, kind, lambda: tests.like(pattern, escape))
            )
        kind, index = self._column(plain)

        def make() -> tuple[Test, Callable[..., pa.Array | None], str]:
            if not is_text(kind):
                raise ValueError("LIKE is for text")
            return like_test(kind, collation, pattern, escape)

        test, doubtful, sentence = self._checked(plain, kind, make)

        def decide(rows: Rows, image: str) -> Truth:
            cells = self._cells(rows, plain, index, image)
            truth = Truth(test(cells.values, None))
            truth = truth.doubted(Doubt(sentence, False), doubtful(cells.values, None))
            return truth.doubted(self._lacking, cells.lacking)

        return decide

    def _is_null(self, operand: Operand) -> _Decider:
        plain = uncollated(operand)
        if isinstance(plain, Literal):
            raise self._wrong(str(plain), "", "IS NULL needs a column")
        if isinstance(plain, Document):
            kind, index = self._column(plain.column)
            tests = self._tests(kind, plain)
            return _Decider(
                self._of_document(plain, index, tests, lambda values, _: tests.is_null(values))
            )
        kind, index = self._column(plain)

        def decide(rows: Rows, image: str) -> Truth:
            cells = self._cells(rows, plain, index, image)
            return Truth(pc.is_null(cells.values)).doubted(self._lacking, cells.lacking)

        return _Decider(decide, compiled.is_null(plain, kind, self._types.ordinals[index]))

    def _changed(self, name: str) -> _Decider:
        """An update whose after-image has another value; one without the column leaves it as it was."""
        kind, index = self._column(ColumnName(name))
        if pa.types.is_nested(kind.arrow_type):
            raise self._wrong(name, _described(kind), "binlake compares it with IS NULL only")

        def decide(rows: Rows, _: str) -> Truth:
            before, after = rows.cells(index, "before"), rows.cells(index, "after")
            equal = COMPARE["="](before.values, after.values)
            nulls = pc.and_(pc.is_null(before.values), pc.is_null(after.values))
            same = pc.or_(pc.fill_null(equal, scalar(False)), nulls)
            in_after = rows.logged(index, "after")
            truth = Truth(pc.and_(pc.invert(same), in_after))
            if before.lacking is not None:
                truth = truth.doubted(self._lacking, pc.and_(before.lacking, in_after))
            return truth.only(rows.are_updates)

        return _Decider(decide, compiled.changed(kind, self._types.ordinals[index]))

    def _of_document(
        self, document: Document, index: int, tests: DocumentTests, test: Test
    ) -> Decide:
        unknown = Doubt(
            f"column {self._types.columns[index].name}: an image has only the differences of a JSON "
            "document, and --where needs the document (binlog_row_value_options)",
            True,
        )

        def decide(rows: Rows, image: str) -> Truth:
            cells = self._cells(rows, document.column, index, image)
            try:
                truth = Truth(test(cells.values, None))
            except ValueError as error:
                raise UnsupportedError(f"option where: {document}: {error}") from None
            truth = truth.doubted(unknown, or_false(tests.undecided(cells.values)))
            return truth.doubted(self._lacking, cells.lacking)

        return decide

    # -- columns -------------------------------------------------------------------------------

    def _column(self, name: ColumnName) -> tuple[ColumnType, int]:
        index = self._indexes[name.name.casefold()]
        kind = self._types.columns[index]
        if isinstance(kind, UndecodableType):
            raise UnsupportedError(f"option where: {kind.plan.why}")
        return kind, index

    def _cells(self, rows: Rows, name: ColumnName, index: int, image: str) -> Cells:
        return rows.cells(index, image if name.image == ROW else name.image)

    def _tests(self, kind: ColumnType, document: Document) -> DocumentTests:
        if not is_document(kind):
            raise self._wrong(str(document.column), _described(kind), "only JSON has paths")
        return DocumentTests(kind, document)

    def _checked(
        self, operand: ColumnName | Document, kind: ColumnType, make: Callable[[], T]
    ) -> T:
        try:
            return make()
        except ValueError as error:
            if isinstance(error, BinlogError):
                raise
            raise self._wrong(str(operand), _described(kind), str(error)) from None

    def _wrong(self, operand: str, described: str, why: str) -> OptionError:
        where = f"{self._types.definition.full_name}: {operand}"
        return OptionError(f"option where: {where}{described}: {why}", name="where", value=operand)


def _described(kind: ColumnType) -> str:
    return f" is {sql_type(kind.column, kind.charset)}"


def _collation(*operands: Operand) -> str | None:
    named = {operand.collation for operand in operands if isinstance(operand, Collated)}
    if len(named) > 1:
        raise OptionError(
            f"option where: {' and '.join(sorted(named))}: name one collation", name="where"
        )
    return named.pop() if named else None


def _never_null(decider: _Decider) -> _Decider:
    """Turn the result of `=` into the result of `<=>`: NULL becomes false, except where the log lacks the value."""

    def decided(rows: Rows, image: str) -> Truth:
        truth = decider.decide(rows, image)
        plain = Truth(pc.fill_null(truth.value, scalar(False)))
        for doubt, where in truth.doubts.items():
            plain = plain.doubted(doubt, where)
        return plain

    return _Decider(decided, compiled.applied(core.NEVER_NULL, decider.steps))
