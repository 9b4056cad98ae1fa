"""The place of a dump in the log, where its GTIDs and its position may disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlake
from binlake.errors import SourceError
from binlake.values.gtid import GtidSet, MariaGtid, MariaGtidSet
from support.logs.log_builder import PREVIOUS_GTIDS, TABLE_MAP
from support.logs.stream_log import GTID_LIST, mariadb_gtid_body
from support.logs.table_log import INSERT, Log, image, rows_body, table_map

SID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
TABLE = (
    "CREATE TABLE t (id INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), day DATE)"
    " CHARSET utf8mb4;\nLOCK TABLES `t` WRITE;\n"
)


def head(version: str) -> str:
    return f"-- MySQL dump 10.13  Distrib {version}, for Linux (x86_64)\n"


def purged(gtids: str) -> str:
    return f"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '{gtids}';\n"


def position(offset: int, file: str = "binlog.000001") -> str:
    return f"-- CHANGE MASTER TO MASTER_LOG_FILE='{file}', MASTER_LOG_POS={offset};\n"


def row(log: Log, key: int, gno: int) -> int:
    """Insert a row; with `gno` 0 in a transaction without GTID. Return the start of the transaction."""
    body = rows_body(image((key, "x", None)))
    keyed = table_map() + bytes([8, 1, 0])
    return log.commit((TABLE_MAP, keyed), (INSERT, body), gno=gno)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Rows 1 and 3 with GTIDs; before each a row without, as with gtid_mode=ON_PERMISSIVE."""
    made = Log()
    made.add(PREVIOUS_GTIDS, GtidSet().encode(), flags=0x80)
    return made


def state(folder: Path, log: Log, dump: str, from_gtid: str | None = None) -> list[int]:
    path = folder / "dump.sql"
    path.write_text(f"{dump}{TABLE}-- Dump completed\n")
    saved = log.save(folder)
    end = f"binlog.000001:{saved.stat().st_size}"
    found = binlake.open(str(saved)).state("shop.t", end, str(path), from_gtid=from_gtid)
    return sorted(found["id"].to_pylist())


def test_the_position_counts_where_the_log_has_the_gtids_before_it(
    tmp_path: Path, log: Log
) -> None:
    """Transactions without GTIDs lie before it: by GTIDs, they would be applied again."""
    row(log, 1, 0)
    row(log, 2, 1)
    place = row(log, 3, 0)
    row(log, 4, 2)
    assert state(tmp_path, log, head("9.7.0") + purged(f"{SID}:1") + position(place)) == [3, 4]
    assert state(tmp_path, log, head("9.7.0") + purged(f"{SID}:1")) == [1, 3, 4]


@pytest.mark.parametrize("file", ["binlog.000001", "binlog.000009"])
def test_gtids_count_in_the_logs_of_another_server(tmp_path: Path, log: Log, file: str) -> None:
    """There, the position is another place, or none."""
    row(log, 1, 1)
    other = row(log, 2, 2)
    row(log, 3, 3)
    dump = head("8.0.31") + purged(f"{SID}:1-2") + position(other, file)
    assert state(tmp_path, log, dump) == [3]


@pytest.mark.parametrize("version", ["8.0.31", "5.7.44-48", "5.6.24"])
def test_gtids_alone_of_an_old_mysqldump_are_refused(
    tmp_path: Path, log: Log, version: str
) -> None:
    row(log, 1, 1)
    row(log, 2, 2)
    dump = head(version) + purged(f"{SID}:1")
    with pytest.raises(SourceError, match=f"mysqldump {version[:6]}.*--source-data=2") as refused:
        state(tmp_path, log, dump)
    assert "give its GTIDs with --from-gtid" in str(refused.value)
    assert "if the dump was made with --lock-all-tables" in str(refused.value)
    assert state(tmp_path, log, dump, from_gtid=f"{SID}:1") == [2]


@pytest.mark.parametrize("version", ["8.0.32", "8.4.3", "9.7.0"])
def test_gtids_alone_of_a_new_mysqldump_are_exact(tmp_path: Path, log: Log, version: str) -> None:
    row(log, 1, 1)
    row(log, 2, 2)
    assert state(tmp_path, log, head(version) + purged(f"{SID}:1")) == [2]


@pytest.mark.parametrize(("quiet", "is_found"), [("1-2-5", True), ("1-2-4", False)])
def test_a_domain_without_later_transactions_needs_no_log(
    tmp_path: Path, quiet: str, is_found: bool
) -> None:
    """Its last GTID is in the list at the beginning of the first log; the log with it was purged."""
    log = Log(version="11.8.2-MariaDB-log")
    listed = MariaGtidSet.parse("0-1-99,1-2-5")
    log.add(GTID_LIST, gtid_list_body(listed))
    for key, seq in ((1, 100), (2, 101)):
        log.add(162, mariadb_gtid_body(seq))
        log.add(TABLE_MAP, table_map() + bytes([8, 1, 0]))
        log.add(INSERT, rows_body(image((key, "x", None))))
        log.add(16, bytes(8))
    if is_found:
        assert state(tmp_path, log, "", from_gtid=f"0-1-100,{quiet}") == [2]
        assert state(tmp_path, log, "", from_gtid="0-1-99,1-2-5") == [1, 2]
    else:
        with pytest.raises(SourceError, match=f"{quiet} was executed before"):
            state(tmp_path, log, "", from_gtid=f"0-1-100,{quiet}")


def gtid_list_body(gtids: MariaGtidSet) -> bytes:
    """The body of a GTID_LIST event."""
    body = len(gtids).to_bytes(4, "little")
    for gtid in gtids:
        assert isinstance(gtid, MariaGtid)
        body += gtid.domain_id.to_bytes(4, "little") + gtid.server_id.to_bytes(4, "little")
        body += gtid.seq_no.to_bytes(8, "little")
    return body


def test_damage_before_the_position_of_a_dump_with_gtids(tmp_path: Path, log: Log) -> None:
    """The GTIDs are exact, so the log before them need not be read."""
    row(log, 1, 1)
    second = log.save(tmp_path).stat().st_size
    rotated = Log()
    rotated.add(PREVIOUS_GTIDS, GtidSet.parse(f"{SID}:1").encode(), flags=0x80)
    row(rotated, 2, 2)
    path = tmp_path / "binlog.000001"
    log.add(4, b"\4" + bytes(7) + b"binlog.000002")
    data = bytearray(log.bytes())
    at = log.offsets[2]
    data[at + 9 : at + 13] = bytes(4)  # an event of no bytes
    path.write_bytes(data)
    dump = tmp_path / "dump.sql"
    dump.write_text(
        f"{head('9.7.0')}{purged(f'{SID}:1')}{position(second)}{TABLE}-- Dump completed\n"
    )
    end = f"binlog.000002:{rotated.save(tmp_path, 'binlog.000002').stat().st_size}"
    found = binlake.open(str(tmp_path)).state("shop.t", end, str(dump))
    assert found["id"].to_pylist() == [2]
