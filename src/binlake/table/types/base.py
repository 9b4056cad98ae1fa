"""The interface of every family of column types, and the values that its faces exchange.

A `ColumnType` is made for one column of one table and one target. Its faces:

- `plan`: which compiled kernel reads the wire bytes (`values.plan.ColumnPlan`),
- `arrow_type` and `field()`: the Arrow type of the result, and MySQL's name of it,
- `finish(buffers)`: the kernel's buffers as an Arrow array of `arrow_type`,
- `to_json(array)`: such an array as JSON values to be written (server-text target only),
- `to_wire(value)`: one value of such an array as a row image has it.
- `to_sql(array)`, `sql_equal(array, literals)`: as SQL literals, and as conditions that a row
  has these values (server-text target only).

One file of this package holds one family; `registry.py` picks the family of a column.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol, Self

import pyarrow as pa

from binlake.core.text.text_rows import ValueColumn
from binlake.errors import MalformedError, UnsupportedError
from binlake.format import column_types as ct
from binlake.format.sql_names import quoted_name
from binlake.table.text.json_text import join
from binlake.table.text.json_values import raw_values
from binlake.table.types.missing_metadata import Missing
from binlake.table.types.sql_types import sql_type
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel, TableDefinition

# Arrow's string and binary layouts count with int32
MAX_COLUMN_BYTES = 0x7FFF_FFFF


class Target(Enum):
    """The form in which a decoded value is requested."""

    TYPED = "typed"  # the Arrow type of docs/values.md
    # as TYPED, but the lists of absent columns refer to one list of names
    EXPORTED = "exported"
    TEXT = "text"  # the server's text if a type cannot represent all values of the server


class Buffers(Protocol):
    """The contents of a finished sink of `core/`: the buffers of one Arrow array.

    `offsets` is None for fixed-width kernels, else `count + 1` int32. `validity` is None when
    nothing is null.
    """

    @property
    def count(self) -> int: ...
    @property
    def null_count(self) -> int: ...
    @property
    def validity(self) -> Any: ...
    @property
    def offsets(self) -> Any: ...
    @property
    def data(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ByteValues:
    """Variable-width values made outside the core (inflated, converted), as `Buffers`."""

    count: int
    null_count: int
    validity: Any
    offsets: Any
    data: Any


@dataclass(frozen=True, slots=True)
class ColumnContext:
    """The context of a column for its family: its table, the options, the target.

    `warn` receives sentences for the ledger, which keeps each sentence once. `missing` collects
    the names of the columns for which the log lacks something.
    """

    table: TableDefinition
    options: ReadOptions
    target: Target
    warn: Callable[[str], None]
    missing: dict[Missing, list[str]] = field(default_factory=dict)

    def note_missing(self, what: Missing, column: ColumnDefinition) -> None:
        """Note that the log lacks something about a column."""
        self.missing.setdefault(what, []).append(column.name)


class ColumnType(ABC):
    """One column of one table, for one target: all faces of its type."""

    plan: ColumnPlan
    arrow_type: pa.DataType

    def __init__(self, column: ColumnDefinition, context: ColumnContext) -> None:
        self.column = column
        self.context = context
        self.plan, self.arrow_type = self.decide()

    def of_table(self, context: ColumnContext) -> Self:
        """The type of the same column of another table, which `context` names."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.context = context
        return made

    @abstractmethod
    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        """The kernel that decodes this column, and the Arrow type of the result of `finish`."""

    def finish(self, buffers: Buffers) -> pa.Array:
        """The kernel's buffers as an array of `arrow_type`.

        Raises MalformedError with `row` (ordinal in the buffers) in its context.
        """
        values = var_width if self.arrow_type in (pa.string(), pa.binary()) else fixed_width
        return values(self.arrow_type, buffers)

    @abstractmethod
    def to_json(self, values: pa.Array) -> ValueColumn:
        """Convert the result of `finish` for the text target to JSON values."""

    @abstractmethod
    def to_wire(self, value: Any) -> bytes:
        """Return one value (not null) of the result of `finish` for the text target, as in a row image.

        Raises ValueError for a value that no such column can have.
        """

    def end_of_same(self, stored: memoryview, pos: int, value: Any) -> int:
        """Return the end of the value at `pos` of a row image, if it equals `value`; else -1.

        If `to_wire` determines the bytes, they are compared.
        """
        made = self.to_wire(value)
        end = pos + len(made)
        return end if stored[pos:end] == made else -1

    @abstractmethod
    def to_sql(self, values: pa.Array) -> pa.Array:
        """Convert the result of `finish` for the text target to SQL literals (large_string, null stays null)."""

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        """Return conditions that the column has exactly these values; `literals` are the results of
        `to_sql`, with NULL for null.
        """
        return join(f"{self.sql_name} <=> ", literals)

    def sql_key_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        """Return conditions that the column, part of a key, equals the row's value, compared as the key does."""
        return join(f"{self.sql_name} = ", literals)

    def sql_needs_any_value(self, values: pa.Array) -> pa.Array | None:
        """The values (bool) that a strict server accepts from row events, but not from statements;
        None if there are none.
        """
        return None

    @property
    def sql_name(self) -> str:
        """The column's name, quoted for SQL."""
        return quoted_name(self.column.name)

    @property
    def name(self) -> str:
        """`database.table.column`, as messages spell it."""
        return f"{self.context.table.full_name}.{self.column.name}"

    @property
    def charset(self) -> str | None:
        """Name of the character set; None for types without one, and if it is unknown."""
        return None

    def field(self) -> pa.Field:
        """The Arrow field. Every column is nullable: an image may lack it."""
        column = self.column
        known: dict[str, Any] = {
            "mysql.type": sql_type(column, self.charset),
            "mysql.length": column.length or None,
            "mysql.precision": column.precision or None,
            "mysql.fractional_digits": column.decimals or None,
            "mysql.charset": self.charset,
            "mysql.members": json.dumps(column.members, ensure_ascii=False)
            if column.members
            else None,
            "binlake.name_source": self.context.table.name_source,
        }
        metadata = {key: str(value) for key, value in known.items() if value is not None}
        return pa.field(column.name, self.arrow_type, nullable=True, metadata=metadata)

    def _plan(self, kernel: Kernel | None, p0: int = 0, p1: int = 0, **more: Any) -> ColumnPlan:
        text_target = self.context.target is Target.TEXT
        return ColumnPlan(self.column, kernel, p0, p1, text_target=text_target, **more)

    def _undecodable(self, why: str) -> tuple[ColumnPlan, pa.DataType]:
        """A plan without a kernel: the core raises `why` if a row contains such a column."""
        return self._plan(None, why=f"column {self.name}: {why}"), pa.string()

    def _too_large(self) -> UnsupportedError:
        return UnsupportedError(
            f"column {self.name}: one batch would hold more than 2 GiB of it",
            hint="lower batch_bytes",
        )

    def _malformed(self, message: str, row: int, hint: str | None = None) -> MalformedError:
        return MalformedError(f"column {self.name}: {message}", hint=hint, row=row)


class UndecodableType(ColumnType):
    """A column whose values the log alone does not determine, except NULL.

    `why` is the reason of another type that could not make a plan for the column.
    """

    def __init__(self, column: ColumnDefinition, context: ColumnContext, why: str = "") -> None:
        self._why = why
        super().__init__(column, context)

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        if self.column.type_code == ct.MYSQL_TYPE_NULL:
            return self._plan(Kernel.NULL), pa.string()
        if self._why:
            return self._plan(None, why=self._why), pa.string()
        reason = {
            ct.MYSQL_TYPE_DECIMAL: "DECIMAL of before MySQL 5.0: its width is not in the log",
            ct.MYSQL_TYPE_TYPED_ARRAY: "TYPED_ARRAY belongs to an index and is not expected in a log",
        }
        code = self.column.type_code
        return self._undecodable(
            reason.get(code, f"no value of {ct.column_type_name(code)} is known")
        )

    def finish(self, buffers: Buffers) -> pa.Array:
        return pa.nulls(buffers.count, self.arrow_type)

    def to_json(self, values: pa.Array) -> ValueColumn:
        return raw_values(values)

    def to_wire(self, value: Any) -> bytes:
        raise ValueError("nothing is known of its values")

    def to_sql(self, values: pa.Array) -> pa.Array:
        return values.cast(pa.large_string())  # all null


def _validity(buffers: Buffers) -> pa.Buffer | None:
    return None if buffers.validity is None else pa.py_buffer(buffers.validity)


def fixed_width(arrow_type: pa.DataType, buffers: Buffers) -> pa.Array:
    """An array over the values of a fixed-width kernel, without copying."""
    return pa.Array.from_buffers(
        arrow_type,
        buffers.count,
        [_validity(buffers), pa.py_buffer(buffers.data)],
        buffers.null_count,
    )


def var_width(arrow_type: pa.DataType, buffers: Buffers) -> pa.Array:
    """A string or binary array over a variable-width kernel's values, without copying."""
    return pa.Array.from_buffers(
        arrow_type,
        buffers.count,
        [_validity(buffers), pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)],
        buffers.null_count,
    )


def fixed_bytes(
    value: int, width: int, order: Literal["little", "big"], *, signed: bool = False
) -> bytes:
    """Return a number in `width` bytes. Raises ValueError if it does not fit."""
    try:
        return value.to_bytes(width, order, signed=signed)
    except OverflowError:
        raise ValueError(f"{value} does not fit into {width} bytes") from None
