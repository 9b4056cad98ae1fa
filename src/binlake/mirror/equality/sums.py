"""Checksums of parts of a table, on the server and of the lake's rows.

A part is the rows whose keys have one value of CRC32 modulo the number of parts: both sides can
compute the part of a row, whatever the collation of the key is. For a table without a key, the
whole row determines it.
A part's checksum is its number of rows and the sum of 64 bits of each row's digest.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from binlake.format.sql_names import quoted_name
from binlake.mirror.equality.value_texts import NULL, SEPARATOR, Hash, Texts, sql_text, texts_of
from binlake.snapshot.table_rows import text_rows
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.answers import large_number, whole_number
from binlake.source.replica.connection import ServerConnection

_BITS = 16  # hexadecimal digits of a digest that are added up


@dataclass(frozen=True, slots=True)
class PartSum:
    """How many rows a part has, and the sum of their digests; -1 where a row has none."""

    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class TableParts:
    """How a table is divided: into `count` parts, of which `looked_at` are compared, from the part `first` on.

    After the last part comes part 0.

    `fields` are the compared columns as the lake has them, in order. `digest` is a hash that the server
    knows.
    """

    table: SourceTable
    digest: Hash
    fields: tuple[pa.Field, ...]
    count: int
    looked_at: int
    first: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that decide the part of a row."""
        return self.table.key or tuple(field.name for field in self.fields)

    @property
    def may_misplace(self) -> bool:
        """Whether the two sides may count a row to different parts: servers shorten long floats."""
        return any(pa.types.is_floating(f.type) for f in self.fields if f.name in self.key)

    @property
    def number_sql(self) -> str:
        """SQL for the number of a row's part."""
        return f"MOD(CRC32({self._joined(self.key)}), {self.count})"

    def condition(self, numbers: Iterable[int]) -> str:
        """The rows of some parts, as an SQL condition."""
        return f"{self.number_sql} IN ({', '.join(map(str, sorted(numbers)))})"

    def of_server(self, server: ServerConnection) -> dict[int, PartSum]:
        """The checksums of the server's rows, in the transaction that is open. Raises ServerError."""
        row = self._joined([field.name for field in self.fields])
        digest = f"LEFT({self.digest.sql(row)}, {_BITS})"
        # the numbers as counted from `first`, as in `_is_looked_at`
        number = f"MOD({self.number_sql} + {self.count - self.first}, {self.count})"
        some = f" WHERE {number} < {self.looked_at}" if self.looked_at < self.count else ""
        found = text_rows(
            server,
            f"SELECT CONCAT({self.number_sql}) AS part, CONCAT(COUNT(*)), CONCAT(COUNT({digest})),"
            f" CONCAT(SUM(CAST(CONV({digest}, 16, 10) AS UNSIGNED)))"
            f" FROM {self.table.sql_name}{some} GROUP BY part",
            4,
        )
        parts = {}
        for number, rows, digests, total in found:
            # a row without a digest is larger than max_allowed_packet: its part is compared by rows
            whole = rows == digests
            parts[whole_number(number, "part")] = PartSum(
                whole_number(rows, "COUNT(*)"), large_number(total, "SUM") if whole else -1
            )
        return parts

    def of_rows(self, tables: Iterable[pa.Table]) -> dict[int, PartSum]:
        """The checksums of the lake's rows."""
        rows: dict[int, int] = defaultdict(int)
        totals: dict[int, int] = defaultdict(int)
        for table in tables:
            texts = RowTexts.of(table, self)
            for number, row in zip(texts.numbers, texts.rows, strict=True):
                if self._is_looked_at(number):
                    rows[number] += 1
                    totals[number] += int(self.digest.hex(row)[:_BITS], 16)
        return {number: PartSum(count, totals[number]) for number, count in rows.items()}

    def _is_looked_at(self, number: int) -> bool:
        return (number - self.first) % self.count < self.looked_at

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
    the `numbers` of their parts.
    """

    columns: list[Texts]
    rows: list[bytes]
    keys: list[bytes]
    numbers: list[int]

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
        numbers = [zlib.crc32(one) % parts.count for one in keys]
        return cls(columns, rows, keys, numbers)


def _joined(columns: Sequence[Texts], count: int) -> list[bytes]:
    if not columns:
        return [b""] * count
    lists = [[NULL if text is None else text for text in column] for column in columns]
    return [SEPARATOR.join(row).encode() for row in zip(*lists, strict=True)]
