"""Logs made transaction by transaction, and what the stream makes of them."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from binlake.source.log_file import LogFile
from binlake.source.resolve import resolve
from binlake.stream.groups.transactions import FileRange, TransactionReader
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.runs import PlainRun, Run, Transaction
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import (
    GTID,
    MARIADB_GTID,
    PREVIOUS_GTIDS,
    QUERY,
    ROTATE,
    ROWS,
    TABLE_MAP,
    XID,
    LogBuilder,
    event,
    query_body,
)

STOP, INTVAR, INCIDENT, XA_PREPARE, PAYLOAD, ANONYMOUS = 3, 5, 26, 38, 40, 34
GTID_LIST, ROWS_QUERY, ANNOTATE = 163, 29, 160
SID = uuid.UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
STMT_END = 1
SECOND = 1_000_000
EPOCH = 1_700_000_000  # log_builder's header timestamp

# MariaDB GTID flags
STANDALONE, PREPARED_XA, COMPLETED_XA = 0x01, 0x40, 0x80


def gtid_body(gno: int, commit_us: int = 0, sid: uuid.UUID = SID) -> bytes:
    body = struct.pack("<B16sqB", 1, sid.bytes, gno, 2) + struct.pack("<qq", gno - 1, gno)
    return body + commit_us.to_bytes(7, "little") if commit_us else body


def mariadb_gtid_body(seq: int, flags: int = 0, domain: int = 0, xid: bytes | None = None) -> bytes:
    body = struct.pack("<QIB", seq, domain, flags)
    if xid is not None:
        body += struct.pack("<IBB", 1, len(xid), 0) + xid
    return body.ljust(19, b"\0")


def rows_body(rows: int = 1, flags: int = STMT_END, table_id: int = 7) -> bytes:
    """A version 2 rows event of one INT column."""
    head = table_id.to_bytes(6, "little") + struct.pack("<HH", flags, 2) + b"\x01\x01"
    return head + b"".join(b"\0" + struct.pack("<i", row) for row in range(rows))


def table_map_body(table_id: int = 7) -> bytes:
    return (
        table_id.to_bytes(6, "little") + struct.pack("<H", 1)
        + b"\x04shop\0\x01t\0" + b"\x01\x03\x00\x01"
    )  # fmt: skip


def xa_text(gtrid: bytes) -> bytes:
    return b"X'" + gtrid.hex().encode() + b"',X'',1"


def xa_prepare_body(gtrid: bytes, one_phase: bool = False) -> bytes:
    return struct.pack("<BIII", one_phase, 1, len(gtrid), 0) + gtrid


@dataclass
class StreamLog(LogBuilder):
    """A log that grows by the events of transactions; each method returns the log."""

    def query(self, text: bytes, thread: int = 7) -> StreamLog:
        body = bytearray(query_body(text))
        body[:4] = struct.pack("<I", thread)
        self.add(QUERY, bytes(body))
        return self

    def gtid(self, gno: int, commit_us: int = 0, sid: uuid.UUID = SID) -> StreamLog:
        self.add(GTID, gtid_body(gno, commit_us, sid))
        return self

    def maria(self, seq: int, flags: int = 0, **more: Any) -> StreamLog:
        self.add(MARIADB_GTID, mariadb_gtid_body(seq, flags, **more))
        return self

    def rows(self, rows: int = 1, flags: int = STMT_END) -> StreamLog:
        self.add(TABLE_MAP, table_map_body())
        self.add(ROWS, rows_body(rows, flags))
        return self

    def xid(self) -> StreamLog:
        self.add(XID, struct.pack("<Q", len(self.data)))
        return self

    def plain(self, gno: int, commit_us: int = 0, thread: int = 7) -> StreamLog:
        return self.gtid(gno, commit_us).query(b"BEGIN", thread).rows().xid()

    def xa_prepared(self, gno: int, gtrid: bytes) -> StreamLog:
        self.gtid(gno).query(b"XA START " + xa_text(gtrid)).rows()
        self.query(b"XA END " + xa_text(gtrid))
        self.add(XA_PREPARE, xa_prepare_body(gtrid))
        return self

    def xa_decided(self, gno: int, gtrid: bytes, verb: bytes = b"COMMIT") -> StreamLog:
        return self.gtid(gno).query(b"XA " + verb + b" " + xa_text(gtrid))

    def payload(self, inner: bytes, compression: int = 0) -> StreamLog:
        data = zstandard.compress(inner) if compression == 0 else inner
        fields = (
            b"\x02\x01" + bytes([compression]) if compression < 251 else b"\x02\x03\xfc\xff\x00"
        )
        self.add(PAYLOAD, fields + b"\0" + data)
        return self

    def rotate(self, name: str, flags: int = 0) -> StreamLog:
        self.add(ROTATE, struct.pack("<Q", 4) + name.encode(), flags=flags)
        return self

    def previous(self, encoded: bytes) -> StreamLog:
        self.add(PREVIOUS_GTIDS, encoded, flags=0x80)
        return self

    def write(self, folder: Path, name: str = "binlog.000001") -> Path:
        path = folder / name
        path.write_bytes(self.bytes())
        return path


def inner_event(type_code: int, body: bytes) -> bytes:
    """An event as a payload holds it: no checksum, log_pos 0."""
    return event(type_code, body, 0, crc=False, log_pos=0)


def runs(*paths: Path | str, ledger: Ledger | None = None, **options: Any) -> Iterator[Run]:
    held = Ledger() if ledger is None else ledger
    parsed = ReadOptions.parse(options)
    chains = chosen_chains(resolve([str(path) for path in paths]), parsed)
    for reader in LogReader.of_chains(chains, parsed, held):
        yield from reader.runs()


def transactions(
    *paths: Path | str, ledger: Ledger | None = None, **options: Any
) -> Iterator[Transaction]:
    held = Ledger() if ledger is None else ledger
    parsed = ReadOptions.parse(options)
    chains = chosen_chains(resolve([str(path) for path in paths]), parsed)
    for reader in LogReader.of_chains(chains, parsed, held):
        yield from reader.transactions()


def transactions_in(path: Path, held_bytes: int, **options: Any) -> Iterator[Transaction]:
    """The transactions of one file, of which an open one holds at most `held_bytes` of windows."""
    reader = TransactionReader(ReadOptions.parse(options), Ledger(), held_bytes=held_bytes)
    yield from reader.transactions([FileRange(LogFile.open(str(path)))])


def outcomes(*paths: Path | str, **options: Any) -> list[str]:
    """How every transaction ended, committed or not, in the order in which they are given."""
    return [t.outcome.value for t in transactions(*paths, uncommitted=True, **options)]


def frames_of(transaction: Transaction) -> list[tuple[int, int]]:
    """(type, offset) of the frames whose changes count."""
    return [
        (piece.window.frame(i).type_code, piece.window.frame(i).offset)
        for piece in transaction.pieces()
        for i in range(piece.first, piece.last)
    ]


def rows_in(transaction: Transaction) -> int:
    return sum(code == ROWS for code, _ in frames_of(transaction))


def counts(found: list[Run]) -> tuple[int, int]:
    """Transactions in plain runs, and on their own."""
    plain = sum(run.groups for run in found if isinstance(run, PlainRun))
    return plain, sum(not isinstance(run, PlainRun) for run in found)


def without_zeros(counter: dict[str, int]) -> dict[str, int]:
    return {str(key): count for key, count in counter.items() if count}
