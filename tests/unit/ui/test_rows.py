"""The rows of the page."""

from __future__ import annotations

from pathlib import Path

from binlake.table.types.base import Target
from binlake.ui.change_objects import row_objects
from binlake.values.options import ReadOptions
from support.logs.table_log import decode, save_log_of_one_name


def test_tables_whose_names_have_periods_keep_their_keys(tmp_path: Path) -> None:
    found = decode(save_log_of_one_name(tmp_path), Target.TEXT)
    rows, has_more = row_objects(found, ReadOptions(), 0, 10)
    assert not has_more
    assert [(row["database"], row["table"], row["key"]) for row in rows] == [
        ("shop", "b.c", {"id": "1"}),
        ("shop.b", "c", {"name": "b"}),
    ]
