"""Logs as MySQL 3.23 (version 1) and 4 (version 3) wrote them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

START, QUERY, STOP, ROTATE, INTVAR, LOAD = 1, 2, 3, 4, 5, 6
CREATE_FILE, APPEND_BLOCK, EXEC_LOAD, USER_VAR = 8, 9, 10, 14
TIME = 1_000_000_000


def query_body(sql: bytes, database: bytes = b"shop", thread: int = 7) -> bytes:
    """Without the length of status variables, which came with version 4."""
    return struct.pack("<IIBH", thread, 2, len(database), 0) + database + b"\0" + sql


def load_body(table: bytes = b"orders", database: bytes = b"shop") -> bytes:
    head = struct.pack("<IIIBBI", 7, 2, 0, len(table), len(database), 0)
    return head + b',"\n\0\\' + b"\0\x08" + table + b"\0" + database + b"\0" + b"/tmp/x.csv"


@dataclass
class OldLog:
    """A log that grows by `add`. `offsets` are the starts of its events; `version` 1 or 3."""

    version: int = 3
    data: bytearray = field(default_factory=lambda: bytearray(b"\xfebin"))
    offsets: list[int] = field(default_factory=list)

    def start(self) -> OldLog:
        name = {1: b"3.23.58-log", 3: b"4.1.22-standard-log"}[self.version]
        return self.add(START, struct.pack("<H50sI", self.version, name, TIME))

    def add(self, type_code: int, body: bytes = b"", log_pos: int | None = None) -> OldLog:
        offset = len(self.data)
        self.offsets.append(offset)
        if self.version == 1:
            header = struct.pack("<IBII", TIME, type_code, 1, 13 + len(body))
        else:  # log_pos is where the event starts
            header = struct.pack(
                "<IBIIIH", TIME, type_code, 1, 19 + len(body),
                offset if log_pos is None else log_pos, 0,
            )  # fmt: skip
        self.data += header + body
        return self

    def query(self, sql: bytes) -> OldLog:
        return self.add(QUERY, query_body(sql))

    def rotate(self, name: bytes) -> OldLog:
        return self.add(ROTATE, name if self.version == 1 else struct.pack("<Q", 4) + name)

    def write(self, folder: Path, name: str = "binlog.001") -> Path:
        path = folder / name
        path.write_bytes(self.data)
        return path


def shop(version: int, next_file: bytes = b"binlog.002") -> OldLog:
    """Statements, what they need, a transaction, a file that is loaded."""
    log = OldLog(version).start()
    log.query(b"CREATE TABLE orders (id INT)")
    log.add(INTVAR, b"\x02" + struct.pack("<Q", 17)).query(b"INSERT INTO orders VALUES (NULL)")
    log.query(b"BEGIN").query(b"UPDATE orders SET id = 2").query(b"COMMIT")
    if version == 1:
        log.add(LOAD, load_body())
    else:
        created = load_body()
        body = (
            created[:18] + struct.pack("<I", 5) + b"\x01,\0\x01\n\0\x01\\\0" + created[25:] + b"\0"
        )
        log.add(CREATE_FILE, body + b"1\n").add(APPEND_BLOCK, struct.pack("<I", 5) + b"2\n")
        log.add(EXEC_LOAD, struct.pack("<I", 5))
    return log.rotate(next_file)
