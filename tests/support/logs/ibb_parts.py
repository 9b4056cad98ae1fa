"""Events and records of MariaDB's InnoDB binlog, made by hand."""

from __future__ import annotations

import struct
from pathlib import Path

from binlake.source.log_file import Damage, LogFile
from binlake.values.ledger import Ledger
from support.logs.ibb_log import (
    IbbWriter,
)

PAGE = 512


def gtid(seq_no: int, domain: int = 0, server: int = 1) -> bytes:
    """A GTID event of a transaction (flags2: transactional)."""
    return event(162, struct.pack("<QIB6x", seq_no, domain, 4), server)


def event(kind: int, body: bytes, server: int = 1) -> bytes:
    return struct.pack("<IBIIIH", 1_700_000_000, kind, server, 19 + len(body), 0, 0) + body


def annotate(text: bytes) -> bytes:
    return event(160, text)


def xid(number: int) -> bytes:
    return event(16, struct.pack("<Q", number))


def transaction(seq_no: int, size: int = 10) -> list[bytes]:
    """GTID, a statement of `size` bytes, COMMIT."""
    return [gtid(seq_no), annotate(bytes([65 + seq_no % 26]) * size), xid(seq_no)]


def small(pages_per_file: int = 4, **options: int) -> IbbWriter:
    return IbbWriter(pages_per_file, PAGE, **options)


def log_bytes(path: Path, on_damage: Damage = Damage.STOP, ledger: Ledger | None = None) -> bytes:
    """All events of the log that a file is, behind those that are made up."""
    with LogFile.open(str(path)) as log:
        windows = log.windows(on_damage=on_damage, ledger=ledger)
        events = [bytes(w.raw(i)) for w in windows for i in range(len(w))]
    return b"".join(raw for raw in events if raw[4] not in (15, 163))


def chain_bytes(directory: Path, on_damage: Damage = Damage.STOP) -> bytes:
    return b"".join(log_bytes(path, on_damage) for path in sorted(directory.glob("*.ibb*")))
