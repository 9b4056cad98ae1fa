"""The key of the row whose history is read, and which row changes concern it.

    key = RowKey((4711,))
    read_changes(…, rows=KeyRows(key))

Values are compared as the server compares them in a key (`table/where/`). A row that changes its key
is followed by the exact values in its images.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import BinlogError, MissingContextError, OptionError
from binlake.source.arrays import array, scalar
from binlake.table.plan import TableTypes
from binlake.table.types.base import ColumnType, UndecodableType
from binlake.table.types.enum_set import EnumType
from binlake.table.types.floating import FloatingType
from binlake.table.types.sql_types import sql_type
from binlake.table.where.comparing import COMPARE, Test
from binlake.table.where.dates import MOMENTS, moment_test
from binlake.table.where.images import Rows
from binlake.table.where.numbers import NUMBERS, number_test
from binlake.table.where.texts import bytes_test, is_bytes, is_text, text_test
from binlake.table.where.truth import Doubt, Truth, both, either
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition
from binlake.values.quantities import counted
from binlake.values.similar_names import did_you_mean

if TYPE_CHECKING:
    from binlake.stream.index.key_lookup import LooksUpBlocks

_INTEGER = re.compile(r"[+-]?\d+")
_NAME_IT = "name its columns and values with --key COLUMN=VALUE, in Python as keywords"


@dataclass(frozen=True, slots=True)
class RowKey:
    """The values of a key. `columns` names their columns. Without it, they are the values of the
    primary key's columns, in its order.
    """

    values: tuple[object, ...]
    columns: tuple[str, ...] = ()

    @classmethod
    def of_columns(cls, key: Mapping[str, object]) -> RowKey:
        """The key whose columns have these values."""
        return cls(tuple(key.values()), tuple(key))

    def names(self, definition: TableDefinition) -> tuple[str, ...]:
        """Return the columns of the key in a table, as it spells them.

        Raises MissingContextError if the log does not contain the primary key, OptionError if the
        table does not have such a key.
        """
        table = definition.full_name
        if self.columns:
            there = {column.name.casefold(): column.name for column in definition.columns}
            for name in self.columns:
                if name.casefold() not in there:
                    listed = f"it has {', '.join(there.values())}"
                    raise OptionError(
                        f"table {table} has no column {name!r}",
                        name="key",
                        hint=f"{did_you_mean(name, there.values())} {listed}".lstrip(),
                    )
            return tuple(there[name.casefold()] for name in self.columns)
        names = tuple(definition.columns[i].name for i in definition.primary_key)
        if not names:
            raise MissingContextError(
                f"{table}: the log contains no primary key of the table",
                hint=f"{_NAME_IT}, or give the table's definition with --schema",
            )
        if len(names) != len(self.values):
            shown = ", ".join(repr(str(value)) for value in self.values)
            raise OptionError(
                f"{table}: the primary key is ({', '.join(names)}), but"
                f" {counted(len(self.values), 'value')} given: {shown}",
                name="KEY",
                hint="give the values in this order, before the files; a value that is also the name of"
                " a file needs --key COLUMN=VALUE",
            )
        return names


class KeyRows:
    """Chooses the changes of rows with a key.

    Without `followed`, also all changes of keys: with them, `table/row_history/lives.py` finds the
    other keys that the rows had. `followed` are such keys, as `BoundKey.texts` has them.
    """

    def __init__(self, key: RowKey, followed: frozenset[str] | None = None) -> None:
        self._key = key
        self._followed = followed

    def columns(self, definition: TableDefinition) -> tuple[str, ...]:
        """The columns of the key. Raises MissingContextError, OptionError."""
        return self._key.names(definition)

    def bind(self, types: TableTypes, ledger: Ledger) -> BoundKey:
        """The key in a table. Raises OptionError for a value that its columns cannot have."""
        return BoundKey(self._key, types, ledger.warn, self._followed)

    def lookup(self, options: ReadOptions) -> LooksUpBlocks | None:
        """Where changes of the row, and of keys, are. For followed keys, only the texts are known."""
        if self._followed is not None:
            return None
        from binlake.stream.index.key_lookup import RowLookup

        return RowLookup(options, self._key.values, self._key.columns)


@dataclass(frozen=True, slots=True)
class _Part:
    """A column of the key, by its index among the decoded ones; `test` compares it with the value."""

    index: int
    kind: ColumnType
    test: Test
    doubtful: Callable[[pa.Array, pa.Array | None], pa.Array | None] | None
    doubt: Doubt


class BoundKey:
    """The key in one table definition."""

    def __init__(
        self,
        key: RowKey,
        types: TableTypes,
        warn: Callable[[str], None],
        followed: frozenset[str] | None = None,
    ) -> None:
        self.names = key.names(types.definition)
        self._table = types.definition.full_name
        self._lacking = Doubt(
            f"{self._table}: row images lack columns of the key (binlog_row_image); such changes are"
            " left out",
            True,
        )
        indexes = {name: index for index, name in enumerate(types.names)}
        self._parts = [
            self._part(indexes[name], types.columns[indexes[name]], value, warn)
            for name, value in zip(self.names, key.values, strict=True)
        ]
        self._followed: pa.Array | None = None
        if followed is not None:
            self._followed = array(sorted(followed), pa.large_string())

    def truth(self, rows: Rows) -> Truth:
        """Which changes `KeyRows` chooses."""
        asked = either(self.asked(rows, "before"), self.asked(rows, "after"))
        if self._followed is None:
            return either(asked, Truth(self.moved(rows)))
        for image in ("before", "after"):
            found = pc.is_in(self.texts(rows, image), value_set=self._followed)
            asked = either(asked, Truth(found))
        return asked

    def compiled(self) -> None:
        """Return None: arrays decide, because they also contain the keys that a row had."""
        return

    def asked(self, rows: Rows, image: str) -> Truth:
        """In which changes an image has the key; false where there is no image."""
        truths = []
        for part in self._parts:
            cells = rows.cells(part.index, image)
            truth = Truth(part.test(cells.values, None))
            if part.doubtful is not None:
                truth = truth.doubted(part.doubt, part.doubtful(cells.values, None))
            truths.append(truth.doubted(self._lacking, cells.lacking))
        return reduce(both, truths).only(rows.exist(image))

    def moved(self, rows: Rows) -> pa.Array:
        """Which changes are updates of the key."""
        moved = pa.repeat(scalar(False), rows.count)
        for part in self._parts:
            before, after = (rows.cells(part.index, image).values for image in ("before", "after"))
            equal = pc.fill_null(COMPARE["="](before, after), scalar(False))
            nulls = pc.and_(pc.is_null(before), pc.is_null(after))
            moved = pc.or_(moved, pc.invert(pc.or_(equal, nulls)))
        return pc.and_(moved, rows.are_updates)

    def texts(self, rows: Rows, image: str) -> pa.Array:
        """The key in an image, exactly, as SQL literals; null where there is no image."""
        literals = [
            part.kind.to_sql(rows.cells(part.index, image).values).fill_null("NULL")
            for part in self._parts
        ]
        separator = scalar(", ", pa.large_string())
        text = pc.binary_join_element_wise(*literals, separator)
        exist = rows.exist(image)
        return text if exist is None else pc.if_else(exist, text, scalar(None, text.type))

    # -- values --------------------------------------------------------------------------------

    def _part(
        self, index: int, kind: ColumnType, value: object, warn: Callable[[str], None]
    ) -> _Part:
        name = kind.column.name
        doubtful = None
        sentence = ""
        try:
            if isinstance(kind, UndecodableType):
                raise ValueError(kind.plan.why or "its values cannot be decoded")
            if isinstance(kind, NUMBERS):
                test = number_test(kind, "=", _number(kind, value))
            elif isinstance(kind, MOMENTS):
                test = moment_test(kind, "=", _text(value))
            elif is_text(kind):
                test, doubtful, sentence = self._text_test(kind, _text(value), warn)
            elif is_bytes(kind):
                test = bytes_test("=", _bytes(value))
            elif isinstance(kind, EnumType) or pa.types.is_string(kind.arrow_type):
                test = _exactly(_text(value).lower())  # UUID, INET6; ENUM by number
            else:
                raise ValueError("binlake does not compare such values")
        except ValueError as error:
            if isinstance(error, BinlogError):
                raise
            raise OptionError(
                f"{self._table}: key column {name} is {sql_type(kind.column, kind.charset)},"
                f" not {_text(value)!r}: {error}",
                name="KEY",
                value=value,
            ) from None
        return _Part(index, kind, test, doubtful, Doubt(sentence, True))

    def _text_test(
        self, kind: ColumnType, value: str, warn: Callable[[str], None]
    ) -> tuple[Test, Callable[[pa.Array, pa.Array | None], pa.Array | None] | None, str]:
        name = kind.column.name
        try:
            test, doubtful, _ = text_test(kind, None, "=", value)
        except ValueError as error:
            warn(
                f"{self._table}: key column {name} is compared exactly, upper and lower case"
                f" included: {str(error).partition(';')[0]}"
            )
            return _exactly(value, kind), None, ""
        sentence = (
            f"{self._table}: there are values of {name} that may equal {value!r} under the column's"
            " collation, which binlake does not know for all characters; changes of these rows are"
            " left out: give their own value to see them"
        )
        return test, doubtful, sentence


def _exactly(value: str, kind: ColumnType | None = None) -> Test:
    literal = scalar(value, pa.string())

    def test(values: pa.Array, _: pa.Array | None) -> pa.Array:
        if isinstance(kind, EnumType) and not pa.types.is_string(values.type):
            values = kind.texts(values)
        return pc.equal(values.cast(pa.string()), literal)

    return test


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _bytes(value: object) -> bytes | str:
    if isinstance(value, bytes):
        return value
    text = _text(value)
    if re.fullmatch(r"0[xX](?:[0-9a-fA-F]{2})*", text):
        return bytes.fromhex(text[2:])
    return text


def _number(kind: ColumnType, value: object) -> int | Decimal | float:
    """A value of the key as a number. Raises ValueError."""
    text = _text(value).strip()
    if isinstance(kind, FloatingType):
        return float(text)
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise ValueError("expected a number") from None
    if not number.is_finite():
        raise ValueError("expected a number")
    return number
