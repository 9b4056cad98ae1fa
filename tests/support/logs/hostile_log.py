"""Logs whose texts attack users that print or replay them.

Each text tries to end the comment, string or name that it stands in, and then to drop the database
`canary` or to make the client run a program that prints PWNED.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from support.logs.event_samples import tagged, varlen, zigzag
from support.logs.log_builder import QUERY, ROTATE, TABLE_MAP, XID, LogBuilder
from support.logs.table_log import INSERT, image, rows_body, table_map

MARK = "PWNED"
DROP = "DROP DATABASE canary"
SHELL = f"\\! echo {MARK}"
#: Texts for names, which are UTF-8.
TEXTS = (
    f"t\n{DROP};\n#",
    f"t\n{DROP}\n/*!*/;\n{DROP};\n#",
    f"t\r{DROP};\r#",
    f"t\r\n{DROP};\r\n#",
    f"t`;\n{DROP};\n`",
    f"t';\n{DROP};\n'",
    f"t*/;\n{DROP};\n/*",
    f"t\n{SHELL}\n#",
    f"t\nsystem echo {MARK}\n#",
    f"t\nDELIMITER ;\n{DROP};\n#",
    f"€`;\n{DROP};\n`",  # in gbk the euro sign takes the next byte, whatever it is
    f"t\u2028{DROP};\u2028#",
    "t\x1b]0;owned\x07\x1b[2J",
    "t\u202egnp.exe",
    "t\\",
)
#: Statements that the client, but no server, would read as several things.
STATEMENTS = (
    f"system echo {MARK}".encode(),
    f"-- x\n/* y */ system echo {MARK}".encode(),
    f"SELECT 1 {SHELL}\n".encode(),
    f"SELECT /*!50000 1 {SHELL}\n*/".encode(),
    f"SELECT /*M!100000 1 {SHELL}\n*/".encode(),
    b"SELECT 'open",
    b"SELECT 1 /* open",
    b"SELECT `open",
    b"delimiter //",
    b"source /etc/passwd",
    b"tee /dev/null",
    b"\\. /etc/passwd",
)
MYSQL, MARIADB = "8.0.36", "10.11.6-MariaDB"
GTID_TAGGED, ROWS_QUERY, INCIDENT, USER_VAR = 42, 29, 26, 14
ANNOTATE, CHECKPOINT = 160, 161
NO_BACKSLASH_ESCAPES = 1 << 20
GBK, LATIN1 = 28, 8


def query(
    sql: bytes,
    database: bytes = b"",
    *,
    collation: int | None = None,
    sql_mode: int | None = None,
    time_zone: bytes | None = None,
) -> bytes:
    """A QUERY event's body, with status variables."""
    status = b""
    if sql_mode is not None:
        status += b"\x01" + struct.pack("<Q", sql_mode)
    if collation is not None:
        status += b"\x04" + struct.pack("<HHH", collation, collation, collation)
    if time_zone is not None:
        status += b"\x05" + bytes([len(time_zone)]) + time_zone
    head = struct.pack("<IIBHH", 7, 0, len(database), 0, len(status))
    return head + status + database + b"\0" + sql


def user_variable(name: bytes) -> bytes:
    """SET @`name` := 'x' in latin1."""
    return struct.pack("<I", len(name)) + name + b"\0\0" + struct.pack("<II", LATIN1, 1) + b"x\0"


def tagged_gtid(tag: bytes) -> bytes:
    """A GTID with a tag."""
    return tagged(
        0,
        (0, varlen(1)),
        (1, b"".join(varlen(byte) for byte in range(16))),
        (2, zigzag(5)),
        (3, varlen(len(tag)) + tag),
    )


def named(version: str, text: str) -> bytes:
    """A log in which everything that has a name is called `text`."""
    raw = text.encode()
    mariadb = version == MARIADB
    log = LogBuilder(version)
    if mariadb:
        log.add(CHECKPOINT, struct.pack("<I", len(raw)) + raw)
    log.add(QUERY, query(b"BEGIN"))
    log.add(USER_VAR, user_variable(raw))
    log.add(QUERY, query(b"SELECT 1", raw[:60]))
    log.add(QUERY, query(b"SELECT 1", b"other", collation=GBK))
    log.add(USER_VAR, user_variable(raw))
    log.add(QUERY, query(b"SELECT '`'", raw[:60], collation=GBK))
    log.add(ANNOTATE if mariadb else ROWS_QUERY, raw if mariadb else b"\0" + raw)
    log.add(TABLE_MAP, table_map(raw[:60].decode("utf-8", "ignore"), names=(text, "b", "c")))
    log.add(INSERT, rows_body(image((1, text, None))))
    log.add(XID, struct.pack("<Q", 7))
    log.add(ROTATE, struct.pack("<Q", 4) + raw)
    return log.bytes()


def stated(version: str, sql: bytes, **context: Any) -> bytes:
    """A log with one statement, and one behind it that is as it should be."""
    log = LogBuilder(version)
    log.add(QUERY, query(sql, **context))
    log.add(QUERY, query(f"SELECT '{MARK}'".encode()[:-1].replace(MARK.encode(), b"fine") + b"'"))
    return log.bytes()


def zoned(version: str) -> bytes:
    """A log with a time zone that ends its string."""
    log = LogBuilder(version)
    log.add(QUERY, query(b"SELECT 1", time_zone=f"x';\n{DROP};\n'".encode()))
    return log.bytes()


def versioned(flavour: str) -> bytes:
    """A log of a server with such a version."""
    word = "-MariaDB" if flavour == MARIADB else ""
    return LogBuilder(f"{flavour.split('-')[0]}{word}\n{DROP};\n").bytes()


def all_logs(version: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each."""
    for number, text in enumerate(TEXTS):
        yield f"name {number}", named(version, text)
    for number, sql in enumerate(STATEMENTS):
        yield f"statement {number}", stated(version, sql)
    inside = f"SELECT 1 /*!*/;\n{DROP}".encode()
    yield "delimiter", stated(version, b"CREATE PROCEDURE p() BEGIN " + inside + b"; END")
    yield "gbk", stated(version, f"SELECT '\\\n{DROP};\n'".encode(), collation=GBK)
    closing = b"SELECT '\\';\n" + DROP.encode() + b";\n'"
    yield "escapes", stated(version, closing, sql_mode=0)
    yield "no escapes", stated(version, b"SELECT '\\'", sql_mode=NO_BACKSLASH_ESCAPES)
    yield "time zone", zoned(version)
    yield "version", versioned(version)
    if version == MYSQL:
        log = LogBuilder(version)
        log.add(GTID_TAGGED, tagged_gtid(b"a';\n" + DROP.encode()))
        yield "tag", log.bytes()
