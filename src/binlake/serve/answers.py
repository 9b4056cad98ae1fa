"""The answers of a server as payloads: OK, ERR, EOF and result sets, and the errors that it names.

Sources: MySQL's client/server protocol. Result sets end in EOF packets: binlake does not offer
clients the newer way without them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from binlake.errors import ServerError
from binlake.events.body.writer import lenenc_bytes

Value = str | int | None

# Numbers of the servers' errors that clients act on (mysqld_error.h).
CON_COUNT = 1040
HANDSHAKE = 1043
ACCESS_DENIED = 1045
UNKNOWN_COM = 1047
SERVER_SHUTDOWN = 1053
NO_SUCH_THREAD = 1094
NET_PACKET_TOO_LARGE = 1153
UNKNOWN_SYSTEM_VARIABLE = 1193
SPECIFIC_ACCESS_DENIED = 1227
WRONG_VALUE_FOR_VAR = 1231
NOT_SUPPORTED = 1235
SOURCE_FATAL = 1236
MALFORMED_PACKET = 1835
SECURE_TRANSPORT_REQUIRED = 3159

_MAX_MESSAGE_BYTES = 512  # the length that the servers' clients keep
#: The status of a session, and its character set: utf8mb4_general_ci.
AUTOCOMMIT = 0x0002
UTF8MB4 = 45
_BINARY = 63
_LONGLONG = 8
_VAR_STRING = 253


def ok(info: bytes = b"") -> bytes:
    """An OK packet; `info` is text for the client."""
    return (
        b"\0\0\0"
        + struct.pack("<HH", AUTOCOMMIT, 0)
        + (lenenc_bytes(len(info)) + info if info else b"")
    )


def eof() -> bytes:
    """An EOF packet: the end of columns, of rows, or of a stream of events that does not wait."""
    return b"\xfe" + struct.pack("<HH", 0, AUTOCOMMIT)


def error(problem: ServerError) -> bytes:
    """An ERR packet with the error's code, state and sentence."""
    code = problem.code or NOT_SUPPORTED
    state = problem.sqlstate or "HY000"
    text = problem.message + (f"; {problem.hint}" if problem.hint else "")
    return b"\xff" + struct.pack("<H", code) + b"#" + state.encode() + _cut(text)


def refused(code: int, sqlstate: str, message: str) -> ServerError:
    """An error that is sent to the client."""
    return ServerError(message, code=code, sqlstate=sqlstate)


def lost(message: str) -> ServerError:
    """An error of the log: error 1236, at which a replica stops and shows the text."""
    return refused(SOURCE_FATAL, "HY000", message)


def no_such_log(name: str, there: str) -> ServerError:
    """The error for a log that a replica asks for, and that is not served; `there`: the logs that are."""
    return lost(
        f"Could not find first log file name in binary log index file: {name!r} is not in the"
        f" archive, which has {there}"
    )


def result_set(columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[bytes]:
    """Return the payloads of a result set; a column with only numbers is numeric."""
    out = [lenenc_bytes(len(columns))]
    for at, name in enumerate(columns):
        values = [row[at] for row in rows if row[at] is not None]
        number = bool(values) and all(isinstance(value, int) for value in values)
        out.append(_column(name, _LONGLONG if number else _VAR_STRING))
    out.append(eof())
    out.extend(b"".join(map(_cell, row)) for row in rows)
    out.append(eof())
    return out


def lenenc_text(text: str) -> bytes:
    """Text after its length-encoded length in bytes."""
    raw = text.encode("utf-8", "surrogateescape")
    return lenenc_bytes(len(raw)) + raw


def _column(name: str, kind: int) -> bytes:
    charset, length = (_BINARY, 20) if kind == _LONGLONG else (UTF8MB4, 1024)
    names = b"".join(map(lenenc_text, ("def", "", "", "", name, "")))
    return names + b"\x0c" + struct.pack("<HIBHB2x", charset, length, kind, 0, 0)


def _cell(value: Value) -> bytes:
    return b"\xfb" if value is None else lenenc_text(str(value))


def _cut(text: str) -> bytes:
    """Return the text in at most as many bytes as clients keep, cut between characters."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= _MAX_MESSAGE_BYTES - 1:
        return raw
    end = "…".encode()
    return raw[: _MAX_MESSAGE_BYTES - 1 - len(end)].decode("utf-8", "ignore").encode() + end
