"""Small logs with one table, made row by row."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.table.batches import Changes
from binlake.table.decode import ChangeDecoder
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import (
    GTID,
    QUERY,
    ROTATE,
    ROWS,
    TABLE_MAP,
    XID,
    LogBuilder,
    query_body,
)

INSERT, UPDATE, DELETE = ROWS, ROWS + 1, ROWS + 2
STMT_END = 0x01
ALL = 0b111  # id, name, day
# A ROWS_QUERY_EVENT of 50 kB: beside it, the keys of a transaction are few bytes.
LONG_STATEMENT = 29, bytes([255]) + b"/*" + b"x" * 50_000 + b"*/"

Row = tuple[int | None, str | None, bytes | None]


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def table_map(
    table: str = "t", table_id: int = 7, names: Sequence[str] = ("id", "name", "day")
) -> bytes:
    """shop.`table` (id INT UNSIGNED, name VARCHAR(20) utf8mb4, day DATE), full metadata."""
    body = table_id.to_bytes(6, "little") + struct.pack("<H", 1)
    body += short(b"shop") + b"\0" + short(table.encode()) + b"\0"
    body += short(bytes([3, 15, 10])) + short(struct.pack("<H", 80)) + bytes([ALL])
    body += bytes([1, 1, 0x80])  # SIGNEDNESS: the first numeric column is unsigned
    body += bytes([2, 1, 45])  # DEFAULT_CHARSET utf8mb4_general_ci
    listed = b"".join(short(name.encode()) for name in names)
    return body + bytes([4]) + short(listed)


def image(row: Row, present: int = ALL) -> bytes:
    """Null bitmap and values of the columns that are present."""
    columns = [i for i in range(3) if present >> i & 1]
    nulls = sum(1 << k for k, i in enumerate(columns) if row[i] is None)
    values = b""
    for i in columns:
        value = row[i]
        if isinstance(value, int):
            values += struct.pack("<I", value)
        elif isinstance(value, str):
            values += short(value.encode("utf-8", "surrogateescape"))
        elif value is not None:
            values += value
    return (bytes([nulls]) if columns else b"") + values


def rows_body(
    *images: bytes, bitmaps: Sequence[int] = (ALL,), table_id: int = 7, flags: int = STMT_END
) -> bytes:
    head = table_id.to_bytes(6, "little") + struct.pack("<HH", flags, 2) + bytes([3])
    return head + bytes(bitmaps) + b"".join(images)


def day(year: int, month: int, dom: int) -> bytes:
    return (year << 9 | month << 5 | dom).to_bytes(3, "little")


def save_log_of_one_name(folder: Path) -> Path:
    """A log with a row in each of two tables that are both called shop.b.c: table `b.c` of database `shop`, with the
    key id, and table `c` of database `shop.b`, with the key name.
    """
    one = table_map("b.c") + bytes([8, 1, 0])  # SIMPLE_PRIMARY_KEY
    other = table_map("c", 8).replace(short(b"shop"), short(b"shop.b")) + bytes([8, 1, 1])
    log = Log()
    log.commit(
        (TABLE_MAP, one),
        (TABLE_MAP, other),
        (INSERT, rows_body(image((1, "a", None)), flags=0)),
        (INSERT, rows_body(image((2, "b", None)), table_id=8)),
    )
    return log.save(folder)


class Log(LogBuilder):
    """A log of transactions on shop.t."""

    def commit(self, *events: tuple[int, bytes], gno: int = 0) -> int:
        """GTID, BEGIN, the events, XID; the offset of the first."""
        start = len(self.data)
        gtid = b"\0" + bytes(range(16)) + struct.pack("<q", gno)
        self.add(GTID if gno else 34, gtid)
        self.add(QUERY, query_body(b"BEGIN"))
        for type_code, body in events:
            self.add(type_code, body)
        self.add(XID, struct.pack("<Q", start))
        return start

    def insert(self, *rows: Row, table: str = "t", present: int = ALL, gno: int = 0) -> int:
        """One transaction that inserts rows."""
        images = [image(row, present) for row in rows]
        body = rows_body(*images, bitmaps=(present,))
        return self.commit((TABLE_MAP, table_map(table)), (INSERT, body), gno=gno)

    def save(self, folder: Path, name: str = "binlog.000001") -> Path:
        path = folder / name
        path.write_bytes(self.bytes())
        return path


def write_keyed_log(path: Path, keys: range, statements: Mapping[int, bytes] | None = None) -> None:
    """A log of transactions that insert 100 rows each into shop.t, whose primary key is (id, name).

    `statements` are bodies of QUERY events that stand before the transactions with these first keys.
    """
    described = table_map() + bytes([8, 2, 0, 1])  # SIMPLE_PRIMARY_KEY
    log = Log()
    for first in range(keys.start, keys.stop, 100):
        rows = [(key, f"Name{key}", day(2026, 1, 1)) for key in range(first, first + 100)]
        if statements and first in statements:
            log.add(QUERY, statements[first])
        events = [LONG_STATEMENT, (TABLE_MAP, described)]
        log.commit(*events, (INSERT, rows_body(*map(image, rows))), gno=first)
    log.add(ROTATE, struct.pack("<Q", 4) + b"binlog.000099")
    path.write_bytes(log.bytes())


def decode(
    path: Path, target: Target = Target.TEXT, ledger: Ledger | None = None, **given: Any
) -> Iterator[Changes]:
    options = ReadOptions.parse(given)
    held = ledger or Ledger()
    for reader in LogReader.of_chains(resolve([str(path)]), options, held):
        yield from ChangeDecoder(options, target, held).read(reader)
