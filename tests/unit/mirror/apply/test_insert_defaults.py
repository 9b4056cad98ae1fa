"""Inserts whose images lack columns have the defaults of the table's definition."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, change_rows
from binlake.mirror.apply.insert_defaults import InsertDefaults
from binlake.mirror.columns.rules import ColumnRules
from binlake.table.schema.schema_file import parse_schema
from binlake.table.types.base import Target
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import (  # fmt: skip
    ALL,
    DELETE,
    INSERT,
    UPDATE,
    Log,
    Row,
    day,
    decode,
    image,
    rows_body,
    table_map,
)

ID, NAME, DAY = 0b001, 0b010, 0b100
ADA: Row = (1, "Ada", day(2026, 11, 21))
BOB: Row = (2, "Bob", None)
KNOWN = "id INT UNSIGNED NOT NULL DEFAULT '7', name VARCHAR(20) DEFAULT 'new', day DATE"
UNKNOWN = "id INT UNSIGNED, name VARCHAR(20) DEFAULT (uuid()), day DATE DEFAULT (1)"


def rows_of(
    folder: Path, columns: str, *events: tuple[int, bytes], key: tuple[str, ...] = ("id",), **more: Any
) -> pa.RecordBatch:  # fmt: skip
    """The rows of events, of a table that is declared with these columns."""
    log = Log()
    log.commit(*(part for one in events for part in ((TABLE_MAP, table_map()), one)))
    (changes,) = decode(log.save(folder), Target.TYPED, before="true")
    (table,) = changes.tables
    declared = parse_schema(f"CREATE TABLE shop.t ({columns}) CHARSET=utf8mb4".encode()).tables[0]
    lake = more.pop("rules", ColumnRules()).in_lake("shop", "t", table.types)
    return change_rows(table, key, lake, defaults=InsertDefaults(declared, **more))


def event(kind: int, *rows: tuple[Row, int], bitmaps: tuple[int, ...] = ()) -> tuple[int, bytes]:
    found = bitmaps or (rows[0][1],)
    return kind, rows_body(*(image(*row) for row in rows), bitmaps=found)


def test_inserts_have_the_defaults_of_their_definition(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        KNOWN,
        event(INSERT, (ADA, ALL)),
        event(INSERT, (ADA, ID), (BOB, ID)),
        event(INSERT, (BOB, NAME)),
        event(INSERT, (BOB, 0)),
        event(INSERT, ((3, None, None), ID | NAME)),
    )
    ada = {"id": 1, "name": "Ada", "day": date(2026, 11, 21)}
    expected = [
        ada,
        {"id": 1, "name": "new", "day": None},
        {"id": 2, "name": "new", "day": None},
        {"id": 7, "name": "Bob", "day": None},
        {"id": 7, "name": "new", "day": None},
        {"id": 3, "name": None, "day": None},
    ]
    assert found.select(["id", "name", "day"]).to_pylist() == expected
    assert found[ABSENT].null_count == found.num_rows


def test_other_changes_are_not_completed(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        KNOWN,
        event(UPDATE, (ADA, ID), (BOB, NAME), bitmaps=(ID, NAME)),
        event(INSERT, (ADA, ID)),
        event(DELETE, (BOB, ID)),
    )
    assert found[OP].to_pylist() == [1, 0, 2]
    assert found["name"].to_pylist() == ["Bob", "new", None]
    assert found[BEFORE + "id"].to_pylist()[0] == 1
    assert found[ABSENT].to_pylist() == [["day"], None, ["name", "day"]]


def test_unknown_defaults_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="inserts without values of column name, and its default is not known: DEFAULT") as raised:  # fmt: skip
        rows_of(tmp_path, UNKNOWN, event(INSERT, (ADA, ID | DAY)))
    assert "shop.t: the log has" in str(raised.value)
    with pytest.raises(UnsupportedError, match=r"column day, .*DEFAULT \( is not"):
        rows_of(tmp_path, UNKNOWN, event(INSERT, (ADA, ID | NAME)))
    found = rows_of(tmp_path, UNKNOWN, event(INSERT, (ADA, ALL)), event(DELETE, (ADA, ID)))
    assert found[ABSENT].to_pylist() == [None, ["name", "day"]]


def test_a_log_of_changes_names_the_columns_with_unknown_defaults(tmp_path: Path) -> None:
    columns = UNKNOWN.replace("id INT UNSIGNED", "id INT UNSIGNED NOT NULL DEFAULT 7")
    events = [event(INSERT, (ADA, NAME)), event(INSERT, (ADA, DAY | ID)), event(DELETE, (ADA, ID))]
    found = rows_of(tmp_path, columns, *events, must_be_known=False)
    assert found[ABSENT].to_pylist() == [["day"], ["name"], ["name", "day"]]
    assert found["id"].to_pylist() == [7, 1, 1]


def test_hidden_columns_are_left_to_the_lake(tmp_path: Path) -> None:
    found = rows_of(tmp_path, "id INT UNSIGNED, day DATE", event(INSERT, (ADA, ID)))
    assert found[ABSENT].to_pylist() == [["name"]]


def test_hashed_columns_and_tables_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINLAKE_HASH_KEY", "k" * 32)
    events = [event(INSERT, (ADA, ID)), event(INSERT, ((1, "new", None), ALL))]
    rules = ColumnRules(hash=("shop.t.name",))
    found = rows_of(tmp_path, KNOWN, *events, key=("id", "name", "day"), rules=rules)
    one, other = found["name"].to_pylist()
    assert one == other != "new"
    assert found[ABSENT].null_count == 2
