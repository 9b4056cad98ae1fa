"""Statements and their inputs: QUERY, INTVAR, RAND, USER_VAR, XID, XA PREPARE, LOAD DATA."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.statement_context import IntvarEvent, RandEvent
from binlake.events.common.user_var import UserVarEvent
from binlake.events.common.xa_prepare import XaPrepareEvent
from binlake.format.collations import COLLATIONS, collation_name
from binlake.replay.event_text import END

_REPLACE = 2
_STARTS = re.compile(rb"\s*(BEGIN|START\s+TRANSACTION|XA\s+START)\b", re.I)
_ENDS = re.compile(rb"\s*(COMMIT|ROLLBACK(?!\s+TO)|XA\s+(COMMIT|ROLLBACK))\b", re.I)


def starts_group(query: QueryEvent) -> bool:
    """Whether the statement begins a transaction."""
    return _STARTS.match(query.sql_raw) is not None


def ends_group(query: QueryEvent) -> bool:
    """Whether the statement ends one."""
    return _ENDS.match(query.sql_raw) is not None


def load_statement(query: ExecuteLoadQueryEvent, file: Path) -> bytes:
    """LOAD DATA of a file on the machine of the client, where IGNORE goes without saying."""
    said = query.sql_raw
    doing = b" REPLACE" if query.duplicate_handling == _REPLACE else b""
    name = str(file).replace("\\", "\\\\").replace("'", "\\'").encode()
    return (
        said[: query.file_name_start]
        + b" LOCAL INFILE '" + name + b"'" + doing + b" INTO"
        + said[query.file_name_end :]
    )  # fmt: skip


def intvar_text(event: IntvarEvent) -> bytes:
    """SET INSERT_ID or LAST_INSERT_ID."""
    return f"SET {event.variable}={event.value}".encode() + END


def rand_text(event: RandEvent) -> bytes:
    """The seeds of RAND()."""
    return f"SET @@RAND_SEED1={event.seed1}, @@RAND_SEED2={event.seed2}".encode() + END


def xa_prepare_text(event: XaPrepareEvent) -> bytes:
    """The end of a prepared transaction."""
    return (
        f"XA COMMIT {event.xid} ONE PHASE" if event.one_phase else f"XA PREPARE {event.xid}"
    ).encode()


def quoted_bytes(name: bytes) -> bytes:
    """A name in backticks, whatever its character set."""
    return b"`" + name.replace(b"`", b"``") + b"`"


def user_variable(event: UserVarEvent, hex_literal: str, flavour: str) -> bytes:
    """SET @`name`; `hex_literal` is how the flavour writes bytes, with `{}` for the digits."""
    value = _value(event, hex_literal, flavour)
    return b"SET @" + quoted_bytes(event.name_raw) + b":=" + value + END


def _value(event: UserVarEvent, hex_literal: str, flavour: str) -> bytes:
    raw = event.value_raw
    if raw is None:
        return b"NULL"
    if event.type == "REAL":
        return b"%.14g" % struct.unpack("<d", raw)[0]
    if event.type in ("INT", "DECIMAL"):
        return str(event.value).encode()
    number = event.collation_id or 0
    collation = COLLATIONS.get(number)
    if collation is None:
        return b"???"
    digits = hex_literal.format(raw.hex().upper())
    return f"_{collation.charset} {digits} COLLATE `{collation_name(number, flavour)}`".encode()
