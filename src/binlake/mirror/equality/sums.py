"""Checksums of parts of a table, on the server and of the lake's rows.

Each row is in one of 65,536 slots, by the CRC32 of its key: both sides can compute the slot of a row, whatever the collation
of the key is. For a table without a key, the whole row determines it. A part is the rows of consecutive slots. Samples are slots,
too: the number of parts follows the server's estimate of the number of rows, which differs from one comparison to the next.
A part's checksum is its number of rows and the sum of 64 bits of each row's digest.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from binlake.format.sql_names import quoted_name
from binlake.mirror.equality.value_texts import (
    NULL,
    SEPARATOR,
    Hash,
    Texts,
    exact_sql,
    is_text,
    sql_text,
    texts_of,
)
from binlake.snapshot.table_rows import text_rows
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.answers import large_number, whole_number
from binlake.source.replica.connection import ServerConnection

_BITS = 16  # hexadecimal digits of a digest that are added up
_SLOTS = 65_536
# a value takes more than 100 bytes as a text, and a table of the lake's scan may have 20 million of them
_VALUES_AS_TEXTS = 200_000
#: Instead of the part of a row that the sample does not have.
NO_PART = -1


@dataclass(frozen=True, slots=True)
class Sample:
    """The slots whose rows are compared: `size` of them from `first` on. After the last slot comes slot 0."""

    first: int = 0
    size: int = _SLOTS

    @classmethod
    def of(cls, share: float, number: int) -> Sample:
        """A share of the slots. Consecutive numbers choose consecutive slots, so that each slot has its turn."""
        size = min(_SLOTS, math.ceil(share * _SLOTS))
        return cls(number * size % _SLOTS, size)

    def condition(self, slot: str) -> str:
        """The slots, as an SQL condition; empty for all slots."""
        if self.size == _SLOTS:
            return ""
        return f"MOD({slot} + {_SLOTS - self.first}, {_SLOTS}) < {self.size}"

    def __contains__(self, slot: int) -> bool:
        return (slot - self.first) % _SLOTS < self.size


#: All slots.
ALL_ROWS = Sample()


@dataclass(frozen=True, slots=True)
class PartSum:
    """How many rows a part has, and the sum of their digests; -1 where a row has none."""

    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class TableParts:
    """How a table is divided: into `count` parts, of which the slots of `sample` are compared.

    `fields` are the compared columns as the lake has them, in order. `digest` is a hash that the server
    knows.
    """

    table: SourceTable
    digest: Hash
    fields: tuple[pa.Field, ...]
    count: int
    sample: Sample = ALL_ROWS

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that decide the part of a row."""
        return self.table.key or tuple(field.name for field in self.fields)

    @property
    def has_all_rows(self) -> bool:
        """Whether all rows are compared, not a sample of them."""
        return self.sample.size == _SLOTS

    @property
    def has_floats(self) -> bool:
        """Whether the server may write compared values in another way: in fewer digits, or with an exponent."""
        return self._any_is_float(field.name for field in self.fields)

    @property
    def may_misplace(self) -> bool:
        """Whether the two sides may count a row to different parts: servers shorten long floats, and show bytes that the character
        set does not map in another way.
        """
        return self._any_is_float(self.key) or self._may_be_hex(self.key)

    def _may_be_hex(self, names: Iterable[str]) -> bool:
        """Whether the lake may have bytes in hexadecimal form for the text of some columns."""
        if self.table.options.invalid == "error":
            return False
        source = self.table.arrow_schema
        return any(is_text(source.field(name).type) for name in names)

    def _any_is_float(self, names: Iterable[str]) -> bool:
        source, wanted = self.table.arrow_schema, frozenset(names)
        return any(
            pa.types.is_floating(kind)
            for f in self.fields
            if f.name in wanted
            for kind in (f.type, source.field(f.name).type)
        )

    @property
    def number_sql(self) -> str:
        """SQL for the number of a row's part."""
        return f"{self._slot_sql} * {self.count} DIV {_SLOTS}"

    @property
    def _slot_sql(self) -> str:
        return f"MOD(CRC32({self._joined(self.key)}), {_SLOTS})"

    def number_of(self, key: bytes) -> int:
        """The part of a row with this key (its text), NO_PART if the sample does not have the row."""
        slot = zlib.crc32(key) % _SLOTS
        return slot * self.count // _SLOTS if slot in self.sample else NO_PART

    def condition(self, numbers: Iterable[int]) -> str:
        """The rows of some parts, as an SQL condition."""
        of_parts = f"{self.number_sql} IN ({', '.join(map(str, sorted(numbers)))})"
        return " AND ".join(filter(None, [of_parts, self.sample.condition(self._slot_sql)]))

    def of_server(self, server: ServerConnection) -> dict[int, PartSum]:
        """The checksums of the server's rows, in the transaction that is open. Raises ServerError."""
        row = self._joined([field.name for field in self.fields])
        digest = f"LEFT({self.digest.sql(row)}, {_BITS})"
        if exact := self._exact_sql:
            digest = f"IF({exact}, {digest}, NULL)"
        sampled = self.sample.condition(self._slot_sql)
        some = f" WHERE {sampled}" if sampled else ""
        found = text_rows(
            server,
            f"SELECT CONCAT({self.number_sql}), CONCAT(COUNT(*)), CONCAT(COUNT({digest})),"
            f" CONCAT(SUM(CAST(CONV({digest}, 16, 10) AS UNSIGNED)))"
            f" FROM {self.table.sql_name}{some} GROUP BY 1",  # a name could be that of a column
            4,
        )
        parts = {}
        for number, rows, digests, total in found:
            # a row without a digest is larger than max_allowed_packet or has a shortened text: its part is compared by rows
            whole = rows == digests
            parts[whole_number(number, "part")] = PartSum(
                whole_number(rows, "COUNT(*)"), large_number(total, "SUM") if whole else -1
            )
        return parts

    def of_rows(self, tables: Iterable[pa.Table]) -> dict[int, PartSum]:
        """The checksums of rows, as binlake computes them."""
        rows: dict[int, int] = defaultdict(int)
        totals: dict[int, int] = defaultdict(int)
        for _, texts in RowTexts.pieces(tables, self):
            for number, row in zip(texts.numbers, texts.rows, strict=True):
                if number != NO_PART:
                    rows[number] += 1
                    totals[number] += int(self.digest.hex(row)[:_BITS], 16)
        return {number: PartSum(count, totals[number]) for number, count in rows.items()}

    @property
    def _exact_sql(self) -> str:
        """An SQL condition: no other row has the same text. Empty where this is always so."""
        columns = {column.name: column for column in self.table.definition.columns}
        source = self.table.arrow_schema
        conditions = [
            exact_sql(columns[f.name], quoted_name(f.name), source.field(f.name).type, f.type)
            for f in self.fields
        ]
        return " AND ".join(filter(None, conditions))

    def _joined(self, names: Sequence[str]) -> str:
        columns = {column.name: column for column in self.table.definition.columns}
        source, lake = self.table.arrow_schema, {field.name: field.type for field in self.fields}
        texts = [
            sql_text(
                columns[name], quoted_name(name), source.field(name).type, lake[name], self.digest
            )
            for name in names
        ]
        return f"CONCAT_WS('{SEPARATOR}', {', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Rows as texts: by column, whole (`rows`), their keys (`keys`; whole rows where there is none), and
    the `numbers` of their parts (NO_PART where the sample does not have the row).
    """

    columns: list[Texts]
    rows: list[bytes]
    keys: list[bytes]
    numbers: list[int]

    @classmethod
    def pieces(
        cls, tables: Iterable[pa.Table], parts: TableParts
    ) -> Iterator[tuple[pa.Table, RowTexts]]:
        """Rows and their texts, in pieces of a bounded number of values."""
        most = max(1, _VALUES_AS_TEXTS // len(parts.fields))
        for table in tables:
            for start in range(0, table.num_rows, most):
                piece = table.slice(start, most)
                yield piece, cls.of(piece, parts)

    @classmethod
    def of(cls, table: pa.Table, parts: TableParts) -> RowTexts:
        """The texts of the compared columns of some rows."""
        columns = [
            texts_of(table.column(field.name).combine_chunks(), parts.digest.hex)
            for field in parts.fields
        ]
        rows = _joined(columns, table.num_rows)
        names = [field.name for field in parts.fields]
        key = [columns[names.index(name)] for name in parts.table.key]
        keys = _joined(key, table.num_rows) if key else rows
        return cls(columns, rows, keys, list(map(parts.number_of, keys)))


def _joined(columns: Sequence[Texts], count: int) -> list[bytes]:
    if not columns:
        return [b""] * count
    lists = [[NULL if text is None else text for text in column] for column in columns]
    return [SEPARATOR.join(row).encode() for row in zip(*lists, strict=True)]
