"""ENUM and SET: a number on the wire, the members' text if the log or a schema contains them.

ENUM: index of the member from 1, 1 or 2 bytes; 0 is the empty string of an invalid value. If '' is
a member, too, the text target keeps the index, because text does not distinguish the two, but SQL
does.
SET: bitmap of members, 1 to 8 bytes. Without members the number itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.errors import MalformedError
from binlake.source.arrays import array, scalar
from binlake.table.text.json_text import number
from binlake.table.text.json_values import integers, strings
from binlake.table.text.shared_texts import spread_texts
from binlake.table.text.sql_text import string_literal
from binlake.table.types.base import (
    Buffers,
    ColumnContext,
    ColumnType,
    Target,
    fixed_bytes,
    fixed_width,
)
from binlake.table.types.missing_metadata import Missing
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

_INVALID = scalar("0", pa.large_string())


class EnumType(ColumnType):
    """ENUM."""

    def __init__(self, column: ColumnDefinition, context: ColumnContext) -> None:
        self.members: Sequence[str] | None = column.members
        self._keeps_index = self._is_ambiguous(column, context)
        super().__init__(column, context)
        if self.members is None:
            context.note_missing(Missing.MEMBERS, column)

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        if self.column.length not in (1, 2):
            return self._undecodable(f"an ENUM of {self.column.length} bytes does not exist")
        longest = max((len(member.encode()) for member in self.members or ()), default=0)
        plan = self._plan(Kernel.FIXED_UINT, self.column.length, finished_bytes=longest)
        return plan, self._type_of(pa.int32())

    def finish(self, buffers: Buffers) -> pa.Array:
        indexes = fixed_width(pa.uint64(), buffers)
        if self.members is None:
            return indexes.cast(self.arrow_type)
        self._check(indexes, len(self.members))
        return indexes.cast(self.arrow_type) if self._keeps_index else self.texts(indexes)

    def _is_ambiguous(self, column: ColumnDefinition, context: ColumnContext) -> bool:
        return context.target is Target.TEXT and "" in (column.members or ())

    def texts(self, values: pa.Array) -> pa.Array:
        """The members' text; of an invalid value the empty one."""
        if not self._keeps_index and pa.types.is_string(values.type):
            return values
        return spread_texts(array(["", *(self.members or ())], pa.string()), values)

    def to_json(self, values: pa.Array) -> ValueColumn:
        return integers(values) if self.members is None else strings(self.texts(values))

    def to_wire(self, value: int | str) -> bytes:
        number = self._number(value) if isinstance(value, str) else value
        return fixed_bytes(number, self.column.length, "little")

    def end_of_same(self, stored: memoryview, pos: int, value: Any) -> int:
        if value == "":  # that of an invalid value, or of a member that is empty
            end = pos + self.column.length
            number = int.from_bytes(stored[pos:end], "little")
            return end if end <= len(stored) and self._is_empty(number) else -1
        return super().end_of_same(stored, pos, value)

    def _number(self, text: str) -> int:
        return ("", *(self.members or ())).index(text)

    def _is_empty(self, number: int) -> bool:
        members = ("", *(self.members or ()))
        return number < len(members) and members[number] == ""

    def to_sql(self, values: pa.Array) -> pa.Array:
        if self.members is None:
            return number(values)
        literals = string_literal(self.texts(values))
        invalid = self.sql_needs_any_value(values)
        return literals if invalid is None else pc.if_else(invalid, _INVALID, literals)

    def sql_needs_any_value(self, values: pa.Array) -> pa.Array | None:
        """The rows with value 0, which a server that is not strict stores for an invalid value."""
        if self.members is None or self._keeps_index:
            zero = pc.equal(values, scalar(0, values.type))
        else:
            zero = pc.equal(values, scalar(""))
        return zero if pc.any(zero).as_py() else None

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        # as texts '' and the invalid value are the same; a number compares the index
        compared = number(values).fill_null(scalar("NULL")) if self._keeps_index else literals
        return super().sql_equal(values, compared)

    def sql_key_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        return super().sql_key_equal(values, number(values) if self._keeps_index else literals)

    def _type_of(self, numeric: pa.DataType) -> pa.DataType:
        return numeric if self.members is None or self._keeps_index else pa.string()

    def _check(self, values: pa.Array, largest: int) -> None:
        if len(values) and (pc.max(values).as_py() or 0) > largest:
            row = pc.index(pc.greater(values, scalar(largest, pa.uint64())), scalar(True)).as_py()
            raise self._no_member(values[row].as_py(), row)

    def _no_member(self, value: int, row: int) -> MalformedError:
        count = len(self.members or ())
        return self._malformed(f"value {value} has no member (it has {count})", row)


class SetType(EnumType):
    """SET: the members of the bitmap, in their order, with commas."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        width = self.column.length
        if width not in (1, 2, 3, 4, 8):
            return self._undecodable(f"a SET of {width} bytes does not exist")
        numeric = pa.int64()
        if width == 8:  # as BIT(64)
            numeric = pa.uint64() if self.context.target is Target.TEXT else pa.decimal128(20, 0)
        of_all = sum(len(member.encode()) + 1 for member in self.members or ())
        plan = self._plan(Kernel.FIXED_UINT, width, finished_bytes=of_all)
        return plan, self._type_of(numeric)

    def finish(self, buffers: Buffers) -> pa.Array:
        bitmaps = fixed_width(pa.uint64(), buffers)
        if self.members is None:
            return bitmaps.cast(self.arrow_type)
        self._check(bitmaps, (1 << len(self.members)) - 1)
        coded = bitmaps.dictionary_encode()  # few different bitmaps, many rows
        texts = [self._text(bitmap) for bitmap in coded.dictionary.to_pylist()]
        return array(texts, pa.string()).take(coded.indices)

    def _is_ambiguous(self, column: ColumnDefinition, context: ColumnContext) -> bool:
        return False

    def sql_needs_any_value(self, values: pa.Array) -> pa.Array | None:
        return None  # no members is a value like any other

    def _text(self, bitmap: int) -> str:
        assert self.members is not None
        return ",".join(member for bit, member in enumerate(self.members) if bitmap >> bit & 1)

    def _number(self, text: str) -> int:
        members = list(self.members or ())
        return sum(1 << members.index(member) for member in text.split(",")) if text else 0

    def _is_empty(self, number: int) -> bool:
        return self._text(number) == ""
