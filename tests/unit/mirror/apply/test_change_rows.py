"""Columns that the changes of a log lack: generated ones, whose values may be others, and those of the key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, change_rows
from binlake.table.types.base import Target
from support.logs.log_builder import QUERY, TABLE_MAP, XID, query_body
from support.logs.table_log import (
    DELETE,
    INSERT,
    UPDATE,
    Log,
    Row,
    day,
    decode,
    image,
    rows_body,
    short,
    table_map,
)

ADA: Row = (1, "Ada", day(2026, 11, 21))
ALL, WITHOUT_NAME = 0b111, 0b101
KEY = ("id",)


def rows_of(folder: Path, version: str, kind: str, event: int, *images: int) -> pa.RecordBatch:
    """The rows of one event whose images have these columns."""
    log = Log(version)
    create = f"CREATE TABLE t (id INT UNSIGNED, name VARCHAR(20) CHARSET utf8mb4 AS (CONCAT('n', id)) {kind}, day DATE)"
    log.add(QUERY, query_body(create.encode()))
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, table_map())
    log.add(event, rows_body(*(image(ADA, present) for present in images), bitmaps=images))
    log.add(XID, bytes(8))
    (changes,) = decode(log.save(folder), Target.TYPED, before="true")
    (table,) = changes.tables
    return change_rows(table, KEY)


@pytest.mark.parametrize("images", [(WITHOUT_NAME, WITHOUT_NAME), (0b001, 0b101)])
@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_an_update_without_a_generated_column_of_mariadb_is_refused(
    tmp_path: Path, kind: str, images: tuple[int, int]
) -> None:
    with pytest.raises(UnsupportedError, match="generated column name") as raised:
        rows_of(tmp_path, "11.8.9-MariaDB", kind, UPDATE, *images)
    advice = "leave it out with --exclude-column 'shop.t.name', then run `binlake mirror resync`"
    assert str(raised.value).endswith(advice)


def test_mariadb_stored_columns_come_from_the_before_image(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "11.8.6-MariaDB", "STORED", UPDATE, ALL, WITHOUT_NAME)
    assert rows["name"].to_pylist() == ["Ada"]
    with pytest.raises(UnsupportedError, match="generated column name"):
        rows_of(tmp_path, "11.8.6-MariaDB", "VIRTUAL", UPDATE, ALL, WITHOUT_NAME)


def test_a_delete_needs_the_key_only(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "11.8.9-MariaDB", "STORED", DELETE, WITHOUT_NAME)
    assert rows[ABSENT].to_pylist() == [["name"]]


def test_mysql_marks_a_stored_column_missing_in_the_image_as_absent(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "9.7.4", "STORED", UPDATE, 0b001, WITHOUT_NAME)
    assert rows[ABSENT].to_pylist() == [["name"]]


@pytest.mark.parametrize("names", [(b"id", b"name", b"day"), ()])
def test_changes_without_the_column_of_the_key(tmp_path: Path, names: tuple[bytes, ...]) -> None:
    """They have another definition than the mirror knows, which need not concern the key."""
    log, described = Log(), table_map()
    if not names:  # binlog_row_metadata=MINIMAL
        listed = b"".join(map(short, (b"id", b"name", b"day")))
        described = described.removesuffix(bytes([4]) + short(listed))
    log.commit((TABLE_MAP, described), (INSERT, rows_body(image(ADA))))
    [changes] = decode(log.save(tmp_path), Target.TYPED, before="true")
    [table] = changes.tables
    with pytest.raises(
        UnsupportedError, match="the columns in the log and in the lake differ"
    ) as raised:
        change_rows(table, ("number",))
    assert ("no column number" if names else "3 columns without names") in raised.value.message
    assert "`binlake mirror resync` copies the table again" in (raised.value.hint or "")
