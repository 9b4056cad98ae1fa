"""Encode the values of row images again and compare the result with the log: `verify --reencode`.

Rows are decoded as for `rows` (the server's text); each column type makes wire bytes from its
values (`table/types`), and an image is a null bitmap followed by these bytes. The following are not
compared: JSON
documents with gaps, JSON differences, and rows that cannot be decoded (pre-releases of MySQL 5.1,
columns from before 5.0, MariaDB's old temporals without digits in any DDL).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from binlake.core.rows.table_sink import BothImages, TableBuffers, TableSink
from binlake.core.rows.walk import NO_LIMIT, RowWalker
from binlake.errors import BinlogError, MissingContextError, UnsupportedError
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import table_map_of
from binlake.format.event_types import (
    PARTIAL_UPDATE_ROWS_EVENT,
    TABLE_MAP_EVENT,
    Role,
    codes_of,
    event_name,
)
from binlake.stream.event_at import event_at
from binlake.stream.verify.problems import Kind, Problem
from binlake.table.checks.logged_fractions import LoggedFractions
from binlake.table.images import Image
from binlake.table.plan import TableTypes, TypesOfTables
from binlake.table.resolve import silent
from binlake.table.types.base import ColumnType, Target
from binlake.values.frame import EventFormat
from binlake.values.options import ReadOptions
from binlake.values.plan import Kernel

if TYPE_CHECKING:
    from binlake.source.window import Window

_ROWS = codes_of(Role.ROWS)
_OPTIONS = ReadOptions.parse(
    {"invalid": "hex"}
)  # values that are not text must come out unchanged, too
# The bits of a null bitmap that no column has: set, but since MySQL 8.0.3 clear.
_SPARE_BITS_SET, _SPARE_BITS_CLEAR = 0xFF, 0
_FIRST_WITH_CLEAR_BITS = (8, 0, 3)
_SHOWN_BYTES = 16


class RowBytes:
    """Compares the row images of one log; called with its windows, in order.

    `rows` counts the row changes that came out the same.
    """

    def __init__(self, fractions: LoggedFractions | None = None) -> None:
        self.rows = 0
        self._fractions = fractions or LoggedFractions()
        # unknown facts do not matter, since bytes are compared
        self._types = TypesOfTables(_OPTIONS, Target.TEXT, silent)
        self._start()

    def _start(self) -> None:
        """Start again, also after an error, when the walker no longer knows the tables of the
        statement.
        """
        self._walker = RowWalker(self._resolve, NO_LIMIT)
        self._walker.begin_transaction(None, 0, None, 0)

    def __call__(self, window: Window) -> Iterator[Problem]:
        """Return the differences in the rows events of a window."""
        if window.format.has_permuted_types or window.format.binlog_version < 4:
            return
        self._fractions.begin(window)
        statements = set(self._fractions.statements(window))
        for index in range(len(window)):
            code = window.block.type_code[index]
            if index in statements and self._fractions.take(window, index):
                self._walker.forget_tables()
            elif code == TABLE_MAP_EVENT or code in _ROWS:
                message = self._event(window, index)
                if message is not None:
                    place = window.frame(index).offset
                    yield Problem(place, Kind.REENCODED, f"{event_name(code)}: {message}")

    def _event(self, window: Window, index: int) -> str | None:
        """Take a TABLE_MAP; for a rows event, return the differences."""
        try:
            self._walker.set_format(window.format)
            self._walker.run_rows(window.data, window.base, window.block, index, index + 1)
            found = self._walker.finish().tables
            if not found:
                return None
            event = event_at(window, index)
            assert isinstance(event, RowsEvent)
            ((sink, buffers),) = found
            return self._compare(event, sink.purpose, buffers, window.format)
        except (UnsupportedError, MissingContextError):
            self._start()  # rows that cannot be decoded
        except BinlogError as error:
            self._start()
            if self._fractions.is_untold(window, index):
                return None
            return f"its rows cannot be decoded: {error.message}"
        return None

    def _compare(
        self, event: RowsEvent, types: TableTypes, buffers: TableBuffers, fmt: EventFormat
    ) -> str | None:
        spare = _spare_bits(fmt)
        sides = []
        if event.operation != "insert":
            sides.append(
                _Side("before", types, Image.of(types, buffers.before), event.present, spare)
            )
        if event.operation != "delete":
            present = event.present if event.present_after is None else event.present_after
            partial = event.frame.type_code == PARTIAL_UPDATE_ROWS_EVENT
            make = _PartialSide if partial else _Side
            sides.append(make("after", types, Image.of(types, buffers.after), present, spare))
        stored = event.inflate(fmt)
        pos = 0
        for row in range(buffers.count):
            for side in sides:
                try:
                    pos = side.end(stored, pos, row)
                except ValueError as error:
                    return f"row {row}, {error}"
        if pos != len(stored):
            return f"{len(stored) - pos} bytes follow the last row"
        self.rows += buffers.count
        return None

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        """Return the sink of a table; None if the log does not describe its columns."""
        event = table_map_of(body, fmt)
        if event.description.columns.metadata is None:
            return None
        definition = self._fractions.complete(event, event.definition())
        types = self._types.types(definition)
        sink = BothImages(types.plan.columns)
        sink.purpose = types
        return sink


class _Side:
    """The images before or after the changes of one event."""

    def __init__(
        self, name: str, types: TableTypes, image: Image, present: bytes, spare: int
    ) -> None:
        self._name = name
        self._spare = spare
        self._columns: list[tuple[ColumnType, Sequence[Any]]] = [
            (kind, column.to_pylist())
            for kind, column in zip(types.columns, image.columns, strict=True)
            if present[kind.column.ordinal >> 3] >> (kind.column.ordinal & 7) & 1
        ]

    def end(self, stored: memoryview, pos: int, row: int) -> int:
        """Return where the image of a row ends, which begins at `pos`. Raises ValueError if it
        differs.
        """
        pos = self._end_of_nulls(stored, pos, row)
        for kind, values in self._columns:
            if values[row] is not None:
                pos = self._end_of_value(kind, values[row], stored, pos)
        return pos

    def _end_of_nulls(self, stored: memoryview, pos: int, row: int) -> int:
        nulls = bytearray((self._spare,)) * ((len(self._columns) + 7) // 8)
        for at, (_, values) in enumerate(self._columns):
            bit = 1 << (at & 7)
            nulls[at >> 3] = nulls[at >> 3] & ~bit | (bit if values[row] is None else 0)
        if stored[pos : pos + len(nulls)] != nulls:
            shown = stored[pos : pos + len(nulls)].hex()
            raise ValueError(f"{self._name} image: nulls are stored as {shown}, not {nulls.hex()}")
        return pos + len(nulls)

    def _end_of_value(self, kind: ColumnType, value: Any, stored: memoryview, pos: int) -> int:
        end = kind.end_of_same(stored, pos, value)
        if end < 0:
            made = kind.to_wire(value)[:_SHOWN_BYTES].hex()
            shown = stored[pos : pos + _SHOWN_BYTES].hex()
            raise ValueError(f"{self._name} image: {kind.name} is stored as {shown}…, not {made}")
        return end


class _PartialSide(_Side):
    """The images after PARTIAL_UPDATE_ROWS: a JSON value may be differences, which are kept.

    An image begins with value options (one byte so far); where bit 0 is set, with one bit for each
    JSON column of the table (`core/rows/partial.pyx`).
    """

    def __init__(
        self, name: str, types: TableTypes, image: Image, present: bytes, spare: int
    ) -> None:
        super().__init__(name, types, image, present, spare)
        plans = types.plan.columns
        self._json = [i for i, plan in enumerate(plans) if plan.kernel is Kernel.JSON]

    def end(self, stored: memoryview, pos: int, row: int) -> int:
        options = stored[pos]
        pos += 1
        differs: set[int] = set()
        if options:
            size = (len(self._json) + 7) // 8
            bits = int.from_bytes(stored[pos : pos + size], "little")
            if bits >> len(self._json):
                raise ValueError(f"{self._name} image: bits without a column are set in {bits:#x}")
            differs = {ordinal for i, ordinal in enumerate(self._json) if bits >> i & 1}
            pos += size
        pos = self._end_of_nulls(stored, pos, row)
        for kind, values in self._columns:
            if values[row] is None:
                continue
            if kind.column.ordinal in differs:
                pos += 4 + int.from_bytes(stored[pos : pos + 4], "little")
            else:
                pos = self._end_of_value(kind, values[row], stored, pos)
        return pos


def _spare_bits(fmt: EventFormat) -> int:
    clear = fmt.flavour == "mysql" and fmt.version >= _FIRST_WITH_CLEAR_BITS
    return _SPARE_BITS_CLEAR if clear else _SPARE_BITS_SET
