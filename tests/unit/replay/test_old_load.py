"""LOAD DATA of logs before MySQL 5.0: the statement out of its parts."""

from __future__ import annotations

from pathlib import Path

from binlake.events.old.load_data import LoadEvent
from binlake.format.event_types import LOAD_EVENT, NEW_LOAD_EVENT
from binlake.replay.old_load import old_load_statement
from binlake.values.frame import Frame


def _event(code: int, delimiters: tuple[bytes, ...], **more: int) -> LoadEvent:
    flags = more.get("opt_flags", 0)
    return LoadEvent(
        Frame(4, code, 100, 0, 1, 104, 0), 5, 0, more.get("skip_lines", 0), delimiters, flags,
        more.get("empty_flags"), (b"a", b"b`c"), b"t", b"shop", b"it's.csv",
    )  # fmt: skip


def test_of_a_file_in_the_log() -> None:
    event = _event(NEW_LOAD_EVENT, (b",", b'"', b"\r\n", b"> ", b"\\"), opt_flags=6, skip_lines=1)
    assert old_load_statement(event, Path("/tmp/SQL_LOAD_MB-1-0")) == (
        b"LOAD DATA LOCAL INFILE '/tmp/SQL_LOAD_MB-1-0' REPLACE INTO TABLE `t`"
        b" FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '\\\\'"
        b" LINES TERMINATED BY '\\r\\n' STARTING BY '> ' IGNORE 1 LINES (`a`, `b``c`)"
    )


def test_of_a_file_of_the_server() -> None:
    """An event of the oldest layout, where a bit says that a delimiter is empty."""
    event = _event(LOAD_EVENT, (b"\t", b"x", b"\n", b"y", b"\\"), empty_flags=0b01010)
    assert old_load_statement(event, None) == (
        b"LOAD DATA INFILE 'it\\'s.csv' INTO TABLE `t` FIELDS TERMINATED BY '\\t' ENCLOSED BY ''"
        b" ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' (`a`, `b``c`)"
    )
