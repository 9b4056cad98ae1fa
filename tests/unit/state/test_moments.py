"""Moments as users name them, and the messages about wrong ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import binlake
from binlake.errors import OptionError, SourceError
from binlake.state.log_range import StateMoment
from binlake.values.position import FilePosition

GOLDEN = Path(__file__).parents[3] / "demo" / "mysql-9.7" / "binlog.000001"


@pytest.mark.parametrize("text", ["2026-11-21T25:00", "2026-11-21 14:60:00", "2026-11-21:4"])
def test_a_wrong_time_is_no_position(text: str) -> None:
    with pytest.raises(OptionError, match="expected a time like"):
        StateMoment.parse(text)


@pytest.mark.parametrize(
    "name", ["binlog.000012", "2026-11-21-bin.000003", "2026-11-21x", "2026-11-21.000001"]
)
def test_a_position_names_a_file(name: str) -> None:
    assert StateMoment.parse(f"{name}:4711").position == FilePosition(name, 4711)


def test_a_position_in_a_missing_log_names_the_logs_that_are_there(tmp_path: Path) -> None:
    for number in (1, 3):
        shutil.copy(GOLDEN, tmp_path / f"binlog.00000{number}")
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "-- MySQL dump 10.13\nCREATE TABLE t (id INT);\nLOCK TABLES `t` WRITE;\n-- Dump completed\n"
    )
    with pytest.raises(SourceError, match=r"they are binlog\.000001, binlog\.000003;"):
        binlake.open(str(tmp_path)).state(
            "shop.t", "binlog.000003:4", str(dump), from_position="binlog.000002:4"
        )
