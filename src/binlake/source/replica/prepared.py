"""Queries whose rows come in the binary protocol, which loses nothing of a value.

The text protocol rounds FLOAT. A prepared statement's rows have the bits of every number, and the kernel
`core.binary_rows` decodes them into the buffers that row images use.

    for buffers in query_rows(server, "SELECT id, price FROM shop.orders", plans, limits):
        ...

Layout: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase_ps.html
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from binlake.core.images.binary_rows import DURATION, FULL, MOMENT, MORE, STRING, BinaryRows
from binlake.core.images.image import ImageBuffers
from binlake.errors import ConnectionLostError, FormatError, ServerError
from binlake.format import column_types as ct
from binlake.format.protocol import MAX_PACKET_BYTES
from binlake.source.replica.connection import (
    ServerConnection,
    error_of_answer,
    server_error,
)
from binlake.source.replica.receiver import Receiver, SilenceError
from binlake.source.replica.url import seconds_option
from binlake.values.plan import ColumnPlan

_COM_STMT_PREPARE = 0x16
_COM_STMT_EXECUTE = 0x17
_COM_STMT_CLOSE = 0x19
_EOF, _ERR = 0xFE, 0xFF
_CODES_OF_CLIENTS = range(2000, 3000)
_MOST_EOF_BYTES = 9
_HEADER_BYTES = 4
_MOST_ROW_BYTES = 1025 << 20  # max_allowed_packet is at most 1 GB
_RECEIVE_BYTES = 1 << 20
_SILENCE_S = 600.0  # a server may sort or aggregate for a long time before it sends the first row

#: The form of a column in the protocol, by the type of the result: bytes of a number, or another form.
_WIRES = {
    ct.MYSQL_TYPE_TINY: 1,
    ct.MYSQL_TYPE_SHORT: 2,
    ct.MYSQL_TYPE_YEAR: 2,
    ct.MYSQL_TYPE_INT24: 4,
    ct.MYSQL_TYPE_LONG: 4,
    ct.MYSQL_TYPE_LONGLONG: 8,
    ct.MYSQL_TYPE_FLOAT: 4,
    ct.MYSQL_TYPE_DOUBLE: 8,
    ct.MYSQL_TYPE_DATE: MOMENT,
    ct.MYSQL_TYPE_NEWDATE: MOMENT,
    ct.MYSQL_TYPE_DATETIME: MOMENT,
    ct.MYSQL_TYPE_TIMESTAMP: MOMENT,
    ct.MYSQL_TYPE_TIME: DURATION,
}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large one batch of rows may grow: `rows`, and `bytes` as the server sends them."""

    rows: int = 65_536
    bytes: int = 32 << 20


def query_rows(
    server: ServerConnection,
    sql: str,
    plans: Sequence[ColumnPlan],
    limits: BatchLimits,
) -> Iterator[tuple[ImageBuffers, int]]:
    """Run a query; yield its rows in batches, each with the bytes received for it.

    `plans` are those of the selected columns, in order. binlake does not buffer the rows: the
    server waits while the caller works. Each row has to arrive within the option read-timeout of the
    URL, 600 seconds by default. The connection is closed if iteration ends early, but not by an error that
    the server answers: the next query can follow it. Raises ServerError, ConnectionLostError, UnsupportedError.
    """
    statement: int | None = None
    is_answered = False
    server.running = sql
    try:
        statement = _prepare(server, sql)
        kernel = _execute(server, statement, plans, limits)
        yield from _batches(server, kernel)
        is_answered = True
    except ServerError as error:
        is_answered = _is_answer(error)
        raise
    finally:
        if not is_answered:  # the query may still run, see `ServerConnection.abort_statement`
            server.abort()
        else:
            server.running = ""
            if statement is not None:
                server.command(_COM_STMT_CLOSE, struct.pack("<I", statement))


def _is_answer(error: ServerError) -> bool:
    """Whether the server has ended its answer with this error: clients use other codes."""
    code = error.code or 0
    return 0 < code not in _CODES_OF_CLIENTS and not isinstance(error, ConnectionLostError)


def _prepare(server: ServerConnection, sql: str) -> int:
    """Prepare a statement; return its number on this connection."""
    driver: Any = server.driver
    try:
        driver._execute_command(_COM_STMT_PREPARE, sql)
        answer = driver.read_payload()
        if len(answer) < 9 or answer[0] != 0:
            raise ServerError(f"{server.where} does not follow the protocol: no prepared statement")
        statement, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        if parameters:
            raise ServerError(f"{server.where}: the statement would need {parameters} parameters")
        if columns:
            _column_types(driver, columns)
    except Exception as error:  # noqa: BLE001 - PyMySQL trusts what it parses
        raise server_error(error, server.where) from None
    return int(statement)


def _execute(
    server: ServerConnection, statement: int, plans: Sequence[ColumnPlan], limits: BatchLimits
) -> BinaryRows:
    """Execute a statement; return the decoder for its rows."""
    driver: Any = server.driver
    try:
        driver._execute_command(_COM_STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1))
        # servers send the head of a result together with its first row
        driver.allow_silence(_patience_s(server))
        head = driver._read_packet()
        count = head.read_length_encoded_integer() or 0
        codes = _column_types(driver, count)
    except Exception as error:  # noqa: BLE001
        raise server_error(error, server.where) from None
    wires = bytes(_WIRES.get(code, STRING) for code in codes)
    try:
        return BinaryRows(plans, wires, limits.rows, limits.bytes)
    except ValueError as error:
        raise ServerError(f"{server.where}: {error}", is_of_rows=True) from None


def _patience_s(server: ServerConnection) -> float:
    return seconds_option(server.url, "read-timeout", _SILENCE_S)


def _column_types(driver: Any, count: int) -> list[int]:
    """The types of the columns that an answer describes next, and the end of their list."""
    codes = []
    for _ in range(count):
        packet = driver._read_packet()
        for _name in range(6):
            packet.read_length_coded_string()
        _, _, code = packet.read_struct("<xHIB")
        codes.append(int(code))
    driver._read_packet()
    return codes


def _batches(server: ServerConnection, kernel: BinaryRows) -> Iterator[tuple[ImageBuffers, int]]:
    patience_s = _patience_s(server)
    receiver = server.driver.begin_stream(patience_s)
    # A scan may send a small row a second. The deadline of each row is the limit.
    receiver.least_bytes_s = 0
    receiver.grow(_RECEIVE_BYTES)
    received = 0
    receiver.deadline = time.monotonic() + patience_s
    while True:
        try:
            pos, why = kernel.feed(receiver.data, receiver.start, receiver.end)
            if pos > receiver.start:  # a row, not only bytes of it
                receiver.deadline = time.monotonic() + patience_s
            received += pos - receiver.start
            receiver.start = pos
            if why == MORE:
                receiver.fill()
                continue
            if why != FULL:
                payload = _payload(receiver)
                if payload[0] == 0:
                    kernel.feed_row(payload)
                    received += len(payload)
                    continue
        except FormatError as error:
            raise ServerError(
                f"{server.where} sent a malformed row: {error.message}", is_of_rows=True
            ) from None
        except SilenceError:
            raise ConnectionLostError(
                f"{server.where}: the server has sent no row for {patience_s:g} seconds",
                hint="the option read-timeout of the URL sets the limit",
            ) from None
        except (OSError, EOFError) as error:
            raise ConnectionLostError(f"{server.where}: the connection was lost: {error}") from None
        if why == FULL:
            yield kernel.finish(), received
            received = 0
            receiver.deadline = time.monotonic() + patience_s
            continue
        _check_end(server, payload)
        if kernel.rows:
            yield kernel.finish(), received
        return


def _payload(receiver: Receiver) -> bytes:
    """Return the payload of the next packet, including its continuations. Raises as `Receiver.take`, and ServerError
    for a row that is too large.
    """
    parts = []
    total = 0
    while True:
        size = int.from_bytes(receiver.take(_HEADER_BYTES)[:3], "little")
        total += size
        if total > _MOST_ROW_BYTES:
            raise ServerError(
                f"the server sends a row of more than {_MOST_ROW_BYTES >> 20} MB", is_of_rows=True
            )
        parts.append(receiver.take(size))
        if receiver.most_inflated is not None and total > receiver.most_inflated:
            raise ServerError(
                f"the server sends a row of at least {total >> 20} MB, which is out of proportion"
                " to the bytes of the compressed connection",
                hint="connect without the option compress",
                is_of_rows=True,
            )
        if size < MAX_PACKET_BYTES:
            break
    payload = b"".join(parts)
    if not payload:
        raise OSError("an empty packet among the rows")
    return payload


def _check_end(server: ServerConnection, payload: bytes) -> None:
    """Check that a packet ends the rows in order. Raises ServerError for what the server reports."""
    if payload[0] == _EOF and len(payload) < _MOST_EOF_BYTES:
        return
    if payload[0] == _ERR and len(payload) >= 3:
        code = int.from_bytes(payload[1:3], "little")
        text = payload[3:]
        if text[:1] == b"#":
            text = text[6:]
        raise error_of_answer(code, text.decode("utf-8", "replace"), server.where)
    raise ServerError(f"{server.where} does not follow the protocol in the rows of a result")
