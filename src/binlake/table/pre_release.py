"""Convert rows of pre-releases of MySQL 5.1 (up to 5.1.17) into the form of 5.1 and later.

Source: MySQL 5.1 and MariaDB sql/rpl_record_old.cc, pack_row_old. Their TABLE_MAP contains only
the types of columns. A row image is the null bytes of the server's own record, then a value of
every column in the image, even for NULL (its default):

    null bytes  bit 0 is set and means nothing, unless the table has a VARCHAR, BLOB or TEXT column;
                then one bit for each column that may be NULL, in order; the bits left over are set
    values      as in all later versions

So reading them needs to know which columns may be NULL and how long they are, from the DDL of the
log or a schema. An image must fit that exactly. Rows of one event become a TABLE_MAP and a rows
event of version 1, in a window of their own, at the place of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from binlake.core.events.frames import FrameBlock, scan
from binlake.errors import BinlogError, MalformedError, UnsupportedError
from binlake.events.body.writer import lenenc_bytes
from binlake.events.common.format_description import effective_type
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.format import column_types as ct
from binlake.format import event_types as types
from binlake.format.charsets import CHARSETS
from binlake.format.event_header import HEADER, HEADER_BYTES
from binlake.stream.event_at import event_at
from binlake.stream.runs import Piece
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable, member_bytes
from binlake.values.frame import Frame

#: Returns the table of a name at the current place; None if there is no declaration.
Declarations = Callable[[str, str], DeclaredTable | None]

_ROWS = {
    types.PRE_GA_WRITE_ROWS_EVENT: types.WRITE_ROWS_EVENT_V1,
    types.PRE_GA_UPDATE_ROWS_EVENT: types.UPDATE_ROWS_EVENT_V1,
    types.PRE_GA_DELETE_ROWS_EVENT: types.DELETE_ROWS_EVENT_V1,
}
_TABLE_ID = 1

_LONGEST_SHORT = 255  # the longest value with a length prefix of one byte
_CHAR_BYTES = 3  # at most, in a server of that time
_MAKE_RECORDS_VARY = frozenset((ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_BLOB))


class _Column(NamedTuple):
    """The layout of the values of a column: `width` bytes, or bytes after a length of `prefix`
    bytes.
    """

    type_code: int
    metadata: bytes
    width: int
    prefix: int
    nullable: bool


def with_described_rows(pieces: Iterable[Piece], declared: Declarations) -> Iterator[Piece]:
    """Yield the pieces of a transaction, each rows event with a TABLE_MAP that describes its
    columns.

    Raises UnsupportedError for tables without a declaration, or whose rows cannot be separated by
    the declaration; MalformedError for images that do not fit it.
    """
    tables: dict[int, TableMapEvent] = {}
    for piece in pieces:
        window = piece.window
        for index in range(piece.first, piece.last):
            frame = window.frame(index)
            code = effective_type(frame.type_code, window.format)
            if code == types.TABLE_MAP_EVENT:
                event = event_at(window, index)
                assert isinstance(event, TableMapEvent)
                tables[event.table_id] = event
            elif code in _ROWS:
                try:
                    yield _described(piece, index, code, tables, declared)
                except BinlogError as error:
                    raise error.at(
                        file=window.file.name,
                        event_pos=frame.offset,
                        event_type=types.event_name(code),
                    ) from None


def _described(
    piece: Piece, index: int, code: int, tables: dict[int, TableMapEvent], declared: Declarations
) -> Piece:
    """Return the rows event `index` of a piece as two events that need nothing else."""
    rows = event_at(piece.window, index)
    assert isinstance(rows, RowsEvent)
    table = tables.get(rows.table_id)
    if table is None:
        raise MalformedError(f"no table map for table id {rows.table_id}")
    columns = _columns(table, declared(table.database, table.table))
    if len(columns) != rows.width:
        raise MalformedError(f"a row of {rows.width} columns, but the table has {len(columns)}")
    frame = piece.window.frame(index)
    data = _event(frame, types.TABLE_MAP_EVENT, _table_map(table, columns))
    data += _event(frame, _ROWS[code], _rows_body(rows, columns))
    block = FrameBlock(2)
    scan(data, frame.offset, 0, len(data), HEADER_BYTES, block)
    made = replace(
        piece.window,
        data=data,
        base=frame.offset,
        block=block,
        format=replace(piece.window.format, post_header_lengths=b"", checksum_bytes=0),
    )
    return Piece(made, 0, 2, frame)


def _columns(table: TableMapEvent, declared: DeclaredTable | None) -> list[_Column]:
    """Return the layout of the values of a table. Raises UnsupportedError."""
    name = f"{table.database}.{table.table}"
    types_of_log = table.description.columns.types
    if declared is None or len(declared.columns) != len(types_of_log):
        raise UnsupportedError(
            f"the log does not describe the columns of {name}: pre-releases of MySQL 5.1 log "
            "their types only, and no DDL in the log fits them",
            hint="declare the table with the option schema",
        )
    found = []
    for code, column in zip(types_of_log, declared.columns, strict=True):
        where = f"{name}.{column.name}"
        if code not in column.type_codes and not _is_string_of(code, column):
            raise UnsupportedError(
                f"{where} is declared as {column.sql}, but the log has another type"
            )
        found.append(_column(column, _nullable(column, declared, where), where))
    return found


def _is_string_of(code: int, column: DeclaredColumn) -> bool:
    """Whether the types match: ENUM and SET are strings to a TABLE_MAP, a date is one of the new
    ones.
    """
    return code == ct.MYSQL_TYPE_STRING and column.members is not None


def _nullable(column: DeclaredColumn, declared: DeclaredTable, where: str) -> bool:
    if column.name.lower() in map(str.lower, declared.primary_key):
        return False
    if column.nullable is not None:
        return column.nullable
    if declared.line:  # `binlake schema` and others leave it out
        raise UnsupportedError(
            f"the declaration of {where} does not state whether it may be NULL",
            hint="write NULL or NOT NULL after the types of all columns",
        )
    return not column.sql.startswith("timestamp")


def _column(column: DeclaredColumn, nullable: bool, where: str) -> _Column:
    codes = column.type_codes
    for known in ct.COLUMN_TYPES.values():
        if known.code in codes and known.value_bytes:
            metadata = bytes((known.value_bytes,) * known.metadata_bytes)
            return _Column(known.code, metadata, known.value_bytes, 0, nullable)
    if ct.MYSQL_TYPE_NEWDECIMAL in codes:
        digits, decimals = column.length, column.decimals
        width = sum(4 * (n // 9) + (n % 9 + 1) // 2 for n in (digits - decimals, decimals))
        return _Column(ct.MYSQL_TYPE_NEWDECIMAL, bytes((digits, decimals)), width, 0, nullable)
    if column.members is not None:
        kind = ct.MYSQL_TYPE_ENUM if ct.MYSQL_TYPE_ENUM in codes else ct.MYSQL_TYPE_SET
        width = member_bytes(kind, len(column.members))
        return _Column(ct.MYSQL_TYPE_STRING, bytes((kind, width)), width, 0, nullable)
    if ct.MYSQL_TYPE_BLOB in codes:
        prefix = 3 if column.sql == "long" else ct.blob_length_bytes(column.sql)
        return _Column(ct.MYSQL_TYPE_BLOB, bytes((prefix,)), 0, prefix, nullable)
    if ct.MYSQL_TYPE_STRING in codes or ct.MYSQL_TYPE_VARCHAR in codes:
        size = _string_bytes(column, where)
        prefix = 1 if size <= _LONGEST_SHORT else 2
        if ct.MYSQL_TYPE_VARCHAR in codes:
            return _Column(ct.MYSQL_TYPE_VARCHAR, size.to_bytes(2, "little"), 0, prefix, nullable)
        head = ct.MYSQL_TYPE_STRING ^ (size & 0x300) >> 4
        return _Column(ct.MYSQL_TYPE_STRING, bytes((head, size & 0xFF)), 0, prefix, nullable)
    raise UnsupportedError(
        f"{where}: the format of {column.sql} in pre-releases of MySQL 5.1 is unknown"
    )


def _string_bytes(column: DeclaredColumn, where: str) -> int:
    """Return how many bytes a value may have; if the charset is unknown, any number with the right
    prefix.
    """
    if column.charset is not None:
        known = CHARSETS.get(column.charset)
        return column.length * (1 if known is None else known.max_bytes)
    if column.length > _LONGEST_SHORT or column.length * _CHAR_BYTES <= _LONGEST_SHORT:
        return column.length
    raise UnsupportedError(
        f"{where}: the length of its values depends on its character set, which the DDL does "
        "not name",
        hint="declare the table with the option schema",
    )


def _table_map(table: TableMapEvent, columns: list[_Column]) -> bytes:
    """Return the body of a TABLE_MAP event that describes its columns."""
    names = b"".join(
        bytes((len(raw),)) + raw + b"\0" for raw in (table.database.encode(), table.table.encode())
    )
    count = lenenc_bytes(len(columns)) + bytes(column.type_code for column in columns)
    metadata = b"".join(column.metadata for column in columns)
    nullable = sum(column.nullable << i for i, column in enumerate(columns))
    bitmap = nullable.to_bytes((len(columns) + 7) // 8, "little")
    head = _TABLE_ID.to_bytes(6, "little") + bytes(2)
    return head + names + count + lenenc_bytes(len(metadata)) + metadata + bitmap


def _rows_body(rows: RowsEvent, columns: list[_Column]) -> bytes:
    """Return the body of a rows event of version 1 with the same rows."""
    present = [i for i in range(len(columns)) if rows.present[i >> 3] >> (i & 7) & 1]
    images = b"".join(_images(rows.rows, columns, present))
    bitmaps = rows.present * (2 if rows.operation == "update" else 1)
    head = _TABLE_ID.to_bytes(6, "little") + rows.flags.to_bytes(2, "little")
    return head + lenenc_bytes(rows.width) + bitmaps + images


def _images(data: memoryview, columns: list[_Column], present: list[int]) -> Iterator[bytes]:
    """Yield the images of an event, one by one, in the form of later servers."""
    # a packed record, with a column of varying length, has no bit of its own
    varies = any(column.type_code in _MAKE_RECORDS_VARY for column in columns)
    bit = 0 if varies else 1
    null_bits: dict[int, int] = {}
    for ordinal, column in enumerate(columns):
        if column.nullable:
            null_bits[ordinal] = bit
            bit += 1
    size = (bit + 7) // 8
    filler = (1 << 8 * size) - (1 << bit) | (0 if varies else 1)
    pos = 0
    while pos < len(data):
        nulls = int.from_bytes(data[pos : pos + size], "little")
        if nulls & filler != filler:
            raise MalformedError(
                f"null bytes 0x{bytes(data[pos : pos + size]).hex()} do not fit the"
                " declaration of the table"
            )
        pos += size
        values = []
        bitmap = 0
        for place, ordinal in enumerate(present):
            column = columns[ordinal]
            end = _end_of_value(data, pos, column)
            if nulls >> null_bits.get(ordinal, 0) & 1 and ordinal in null_bits:
                bitmap |= 1 << place
            else:
                values.append(bytes(data[pos:end]))
            pos = end
        yield bitmap.to_bytes((len(present) + 7) // 8, "little") + b"".join(values)


def _end_of_value(data: memoryview, pos: int, column: _Column) -> int:
    end = pos + column.width
    if column.prefix:
        length = int.from_bytes(data[pos : pos + column.prefix], "little")
        end = pos + column.prefix + length
    if end > len(data):
        raise MalformedError("the rows do not fit the declaration of the table")
    return end


def _event(frame: Frame, code: int, body: bytes) -> bytes:
    length = HEADER_BYTES + len(body)
    return HEADER.pack(frame.timestamp, code, frame.server_id, length, 0, frame.flags) + body
