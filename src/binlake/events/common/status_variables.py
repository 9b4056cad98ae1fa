"""The status variables of QUERY events: reading, writing and showing them.

Codes, names and layouts: format/query_status.py. A variable is kept as (code,
value), in the log's order: a tuple of integers, bytes, a tuple of those. An unknown code ends
the parsing, since the length of its data is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from binlake.errors import MalformedError
from binlake.events.base import text_or_hex
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.flags import FL_COMMIT_ALTER, FL_ROLLBACK_ALTER
from binlake.format.query_status import (
    OVER_MAX_DBS_IN_EVENT_MTS,
    Q_AUTO_INCREMENT,
    Q_CHARSET_CODE,
    STATUS_VARIABLES,
    StatusVariable,
)

#: Code and value of one variable.
StatusItem = tuple[int, Any]

# GTID_FLAGS3 carries the sequence number of a START ALTER with these bits (FL_COMMIT_ALTER_E1,
# FL_ROLLBACK_ALTER_E1 of MariaDB's GTID event)
_ALTER_END = FL_COMMIT_ALTER | FL_ROLLBACK_ALTER

_PARTS = {
    Q_AUTO_INCREMENT: ("increment", "offset"),
    Q_CHARSET_CODE: ("client", "connection", "server"),
}


class _Layout(NamedTuple):
    """Reader, writer and rendering of the data of a variable."""

    read: Callable[[BodyReader, StatusVariable], Any]
    write: Callable[[BodyWriter, StatusVariable, Any], None]
    show: Callable[[StatusVariable, Any], Any]


# --- integers: as many as `widths` has


def _read_integers(reader: BodyReader, variable: StatusVariable) -> tuple[int, ...]:
    cursor = reader.at(variable.name)
    return tuple(cursor.le_uint(width) for width in variable.widths or ())


def _write_integers(writer: BodyWriter, variable: StatusVariable, value: tuple[int, ...]) -> None:
    for width, number in zip(variable.widths or (), value, strict=True):
        writer.le_uint(variable.name, width, number)


def _show_integers(variable: StatusVariable, value: tuple[int, ...]) -> Any:
    names = _PARTS.get(variable.code)
    return dict(zip(names, value, strict=True)) if names else value[0]


# --- texts


def _read_text(reader: BodyReader, variable: StatusVariable) -> bytes:
    return reader.short(variable.name)


def _write_text(writer: BodyWriter, variable: StatusVariable, value: bytes) -> None:
    writer.short(variable.name, value)


def _show_text(variable: StatusVariable, value: bytes) -> str:
    return text_or_hex(value)


def _read_text_nul(reader: BodyReader, variable: StatusVariable) -> bytes:
    value = reader.short(variable.name)
    if value:
        reader.nul(variable.name)
    return value


def _write_text_nul(writer: BodyWriter, variable: StatusVariable, value: bytes) -> None:
    writer.short(variable.name, value)
    if value:
        writer.nul(variable.name)


def _read_user(reader: BodyReader, variable: StatusVariable) -> tuple[bytes, bytes]:
    return reader.short(variable.name), reader.short(variable.name)


def _write_user(writer: BodyWriter, variable: StatusVariable, value: tuple[bytes, bytes]) -> None:
    for part in value:
        writer.short(variable.name, part)


def _show_user(variable: StatusVariable, value: tuple[bytes, bytes]) -> dict[str, str]:
    return {"user": text_or_hex(value[0]), "host": text_or_hex(value[1])}


def _read_names(reader: BodyReader, variable: StatusVariable) -> tuple[bytes, ...] | None:
    count = reader.u8(variable.name)
    if count == OVER_MAX_DBS_IN_EVENT_MTS:
        return None
    return tuple(reader.until_nul(variable.name) for _ in range(count))


def _write_names(
    writer: BodyWriter, variable: StatusVariable, value: tuple[bytes, ...] | None
) -> None:
    if value is not None and len(value) == OVER_MAX_DBS_IN_EVENT_MTS:
        raise MalformedError("too many databases to name them", field=variable.name)
    writer.u8(variable.name, OVER_MAX_DBS_IN_EVENT_MTS if value is None else len(value))
    for name in value or ():
        writer.until_nul(variable.name, name)


def _show_names(variable: StatusVariable, value: tuple[bytes, ...] | None) -> list[str] | None:
    return None if value is None else [text_or_hex(name) for name in value]


# --- MariaDB's


def _read_flags3(reader: BodyReader, variable: StatusVariable) -> tuple[int, ...]:
    flags = reader.u8(variable.name)
    return (flags, reader.u64(variable.name)) if flags & _ALTER_END else (flags,)


def _write_flags3(writer: BodyWriter, variable: StatusVariable, value: tuple[int, ...]) -> None:
    if bool(value[0] & _ALTER_END) != (len(value) == 2):
        raise MalformedError("the flags and the number contradict each other", field=variable.name)
    writer.u8(variable.name, value[0])
    for number in value[1:]:
        writer.u64(variable.name, number)


def _show_flags3(variable: StatusVariable, value: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(("flags", "start_alter_seq_no"), value, strict=False))


def _read_pairs(reader: BodyReader, variable: StatusVariable) -> tuple[tuple[int, int], ...]:
    count = reader.u8(variable.name)
    return tuple((reader.u16(variable.name), reader.u16(variable.name)) for _ in range(count))


def _write_pairs(
    writer: BodyWriter, variable: StatusVariable, value: tuple[tuple[int, int], ...]
) -> None:
    writer.u8(variable.name, len(value))
    for charset, collation in value:
        writer.u16(variable.name, charset)
        writer.u16(variable.name, collation)


def _show_pairs(
    variable: StatusVariable, value: tuple[tuple[int, int], ...]
) -> list[dict[str, int]]:
    return [{"charset": charset, "collation": collation} for charset, collation in value]


def _read_padding(reader: BodyReader, variable: StatusVariable) -> bytes:
    return reader.rest(variable.name)


def _write_padding(writer: BodyWriter, variable: StatusVariable, value: bytes) -> None:
    writer.rest(variable.name, value)


def _show_padding(variable: StatusVariable, value: bytes) -> int:
    return len(value)


_LAYOUTS: dict[str, _Layout] = {
    "integers": _Layout(_read_integers, _write_integers, _show_integers),
    "text8": _Layout(_read_text, _write_text, _show_text),
    "text8_nul": _Layout(_read_text_nul, _write_text_nul, _show_text),
    "text8_twice": _Layout(_read_user, _write_user, _show_user),
    "nul_texts": _Layout(_read_names, _write_names, _show_names),
    "gtid_flags3": _Layout(_read_flags3, _write_flags3, _show_flags3),
    "collation_pairs": _Layout(_read_pairs, _write_pairs, _show_pairs),
    "padding": _Layout(_read_padding, _write_padding, _show_padding),
}


def decode_status(reader: BodyReader, status_bytes: int) -> tuple[tuple[StatusItem, ...], bytes]:
    """Read the variables in `status_bytes` bytes, and the undecoded rest from an unknown code on.

    Raises TruncatedError, MalformedError.
    """
    items: list[StatusItem] = []
    unknown = b""
    with reader.block("status", status_bytes):
        while reader.left:
            code = reader.u8("status")
            variable = STATUS_VARIABLES.get(code)
            if variable is None:
                unknown = bytes((code,)) + reader.rest("status")
                break
            items.append((code, _LAYOUTS[variable.layout].read(reader, variable)))
    return tuple(items), unknown


def encode_status(items: tuple[StatusItem, ...], unknown: bytes) -> bytes:
    """The bytes that `decode_status` reads. Raises MalformedError."""
    writer = BodyWriter()
    for code, value in items:
        variable = STATUS_VARIABLES[code]
        writer.u8("status", code)
        _LAYOUTS[variable.layout].write(writer, variable, value)
    writer.rest("status", unknown)
    return bytes(writer.data)


def status_values(items: tuple[StatusItem, ...]) -> dict[str, Any]:
    """The variables by name: numbers and texts, several of them as dicts and lists."""
    shown: dict[str, Any] = {}
    for code, value in items:
        variable = STATUS_VARIABLES[code]
        shown[variable.name] = _LAYOUTS[variable.layout].show(variable, value)
    return shown
