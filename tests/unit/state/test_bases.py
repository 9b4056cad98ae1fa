"""Names that can mean two tables, because a database or a table has a period in its name."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import binlake
from binlake.errors import OptionError, UnsupportedError
from support.logs.log_builder import GTID, QUERY, TABLE_MAP, query_body
from support.logs.table_log import DELETE, INSERT, Log, image, rows_body, short, table_map

COLUMNS = "(id INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), day DATE) CHARSET utf8mb4"
TABLES = [("a", "b.t"), ("a.b", "t")]
AMBIGUOUS = r"the name is ambiguous: {} has `a`\.`b\.t` and `a\.b`\.`t`"


def mapped(database: str, table: str) -> bytes:
    """The TABLE_MAP of a table, whose primary key is `id`."""
    names = short(database.encode()) + b"\0" + short(table.encode()) + b"\0"
    body = table_map().replace(short(b"shop") + b"\0" + short(b"t") + b"\0", names)
    return body + bytes([8, 1, 0])  # SIMPLE_PRIMARY_KEY


def two_tables() -> Log:
    """A log in which both tables get a row with the same key."""
    log = Log()
    for gno, name in enumerate(TABLES, 1):
        rows = rows_body(image((7, name[0], None)))
        log.commit((TABLE_MAP, mapped(*name)), (INSERT, rows), gno=gno)
    return log


def dump_of(folder: Path, tables: Iterable[tuple[str, str]], position: int = 4) -> str:
    text = f"-- MySQL dump 10.13\n-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS={position};\n"
    for database, table in tables:
        text += (
            f"USE `{database}`;\nCREATE TABLE `{table}` {COLUMNS};\nLOCK TABLES `{table}` WRITE;\n"
        )
    path = folder / "dump.sql"
    path.write_text(text + "-- Dump completed\n")
    return str(path)


def test_a_dump_with_two_tables_of_the_name_is_refused(tmp_path: Path) -> None:
    log = two_tables().save(tmp_path)
    dump = dump_of(tmp_path, TABLES)
    with pytest.raises(OptionError, match=AMBIGUOUS.format(f"the dump {dump}")):
        binlake.open(log).state("a.b.t", f"binlog.000001:{log.stat().st_size}", dump)


@pytest.mark.parametrize("incomplete", TABLES)
def test_a_definition_without_rows_is_a_table_of_the_name(
    tmp_path: Path, incomplete: tuple[str, str]
) -> None:
    log = two_tables().save(tmp_path)
    dump = Path(dump_of(tmp_path, TABLES))
    text = dump.read_text().replace(f"LOCK TABLES `{incomplete[1]}` WRITE;\n", "")
    dump.write_text(text)
    with pytest.raises(OptionError, match=AMBIGUOUS.format("the dump .*")):
        binlake.open(log).state("a.b.t", f"binlog.000001:{log.stat().st_size}", str(dump))


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_another_table_of_the_name_are_left_out(
    tmp_path: Path, name: tuple[str, str]
) -> None:
    log = two_tables().save(tmp_path)
    dump = dump_of(tmp_path, [name])
    found = binlake.open(log).state("a.b.t", f"binlog.000001:{log.stat().st_size}", dump)
    assert found["name"].to_pylist() == [name[0]]


@pytest.mark.parametrize("created", [TABLES, TABLES[:1], TABLES[1:]])
def test_two_tables_that_the_log_creates_are_refused(
    tmp_path: Path, created: list[tuple[str, str]]
) -> None:
    log = Log()
    for gno, (database, table) in enumerate(created, 1):
        log.add(GTID, b"\0" + bytes(range(16)) + struct.pack("<q", gno))
        log.add(QUERY, query_body(f"CREATE TABLE `{database}`.`{table}` {COLUMNS}".encode()))
    path = log.save(tmp_path)
    dump = dump_of(tmp_path, [("shop", "t")])
    moment = f"binlog.000001:{path.stat().st_size}"
    if created == TABLES:
        with pytest.raises(OptionError, match=AMBIGUOUS.format("the log")):
            binlake.open(path).state("a.b.t", moment, dump)
    else:
        assert binlake.open(path).state("a.b.t", moment, dump).num_rows == 0


@pytest.mark.parametrize("name", TABLES)
def test_a_history_names_the_table_of_its_changes(tmp_path: Path, name: tuple[str, str]) -> None:
    log = Log()
    rows = rows_body(image((7, None, None)))
    log.commit((TABLE_MAP, mapped(*name)), (INSERT, rows), gno=1)
    for gno, (database, table) in enumerate(TABLES, 2):
        log.add(GTID, b"\0" + bytes(range(16)) + struct.pack("<q", gno))
        log.add(QUERY, query_body(f"ALTER TABLE `{database}`.`{table}` ENGINE InnoDB".encode()))
    history = binlake.open(log.save(tmp_path)).history("a.b.t", 7)
    assert (history.database, history.table) == name
    shown = [(entry["op"], entry["database"], entry["table"]) for entry in history.to_json()]
    assert shown == [("insert", *name), ("ddl", *name)]


def test_a_history_of_two_tables_of_the_name_is_refused(tmp_path: Path) -> None:
    log = two_tables().save(tmp_path)
    with pytest.raises(OptionError, match=r"ambiguous: .* changes of `a`\.`b\.t` and `a\.b`\.`t`"):
        binlake.open(log).history("a.b.t", 7)


@pytest.mark.parametrize("deleted", TABLES)
def test_a_foreign_key_refers_to_one_table_of_the_name(
    tmp_path: Path, deleted: tuple[str, str]
) -> None:
    log = Log()
    rows = rows_body(image((7, None, None)))
    log.commit((TABLE_MAP, mapped(*deleted)), (DELETE, rows), gno=1)
    path = log.save(tmp_path)
    dump = Path(dump_of(tmp_path, [("shop", "t")]))
    key = ", CONSTRAINT f FOREIGN KEY (id) REFERENCES `a`.`b.t` (id) ON DELETE CASCADE)"
    dump.write_text(dump.read_text().replace(") CHARSET", f"{key} CHARSET"))
    moment = f"binlog.000001:{path.stat().st_size}"
    if deleted == TABLES[0]:
        with pytest.raises(UnsupportedError, match="foreign key f may have changed rows"):
            binlake.open(path).state("shop.t", moment, str(dump))
    else:
        assert binlake.open(path).state("shop.t", moment, str(dump)).num_rows == 0
