"""ARCHITECTURE.md names every call between Spark and the bytes of a log: those that really happen."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from pyspark.sql.types import StructType

from binlake.source.bytes import LocalReader
from binlake.spark import views
from binlake.spark.schema import Conformer
from binlake.spark.source import BinlogDataSource
from binlake.stream.groups import grouper
from binlake.table.resolve import TableResolver

ROOT = Path(__file__).resolve().parents[3]
MOST_HOPS = 25


def hops() -> list[str]:
    """The numbered entries of the page."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("## How a row gets from a file to Spark")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. (.*(?:\n   .*)*)", section, re.MULTILINE)


def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """For some functions, the binlake functions that call them while a task reads a log, outermost first, and themselves.

    A log is also read when it is opened; only reads of its windows count.
    """
    found: dict[str, list[str]] = {}
    for owner, name in (
        (grouper, "steps_of"), (TableResolver, "types"), (views, "change_batch"),
        (Conformer, "conform"), (LocalReader, "read_at"),
    ):  # fmt: skip
        called = getattr(owner, name)

        def noting(*args: Any, _name: str = name, _called: Any = called, **given: Any) -> Any:
            frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
            ours = [f for f in frames if str(f.f_globals.get("__name__")).startswith("binlake.")]
            stack = [frame.f_code.co_qualname for frame in reversed(ours)]
            if _name != "read_at" or "Scanner.next" in stack:
                found.setdefault(_name, [*stack, _called.__qualname__])
            return _called(*args, **given)

        monkeypatch.setattr(owner, name, noting)
    options = {"ddl_scan_bytes": "0"}  # else the driver reads the log before the task
    source = BinlogDataSource(
        {**options, "path": str(ROOT / "demo" / "mysql-9.7" / "binlog.000001")}
    )
    schema: Any = source.schema()
    columns: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    reader: Any = source.reader(columns)
    assert sum(batch.num_rows for batch in reader.read(reader.partitions()[0])) > 2000
    return found


def test_the_page_names_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [name for hop in hops() for name in re.findall(r"`([\w./]+)`", hop)]
    assert 20 <= len(hops()) <= MOST_HOPS
    found = calls(monkeypatch)
    assert [*found] == ["read_at", "steps_of", "types", "change_batch", "conform"]
    for name, stack in found.items():
        public = [one for one in stack if one in named or "._" not in one]
        assert public == [one for one in named if one in public], name


def test_the_files_have_the_functions() -> None:
    for hop in hops():
        names = [
            one for one in re.findall(r"`([\w./]+)`", hop) if not one.startswith("batch_bytes")
        ]
        files = [one for one in names if one.endswith((".py", ".pyx"))]
        text = "".join((ROOT / "src" / "binlake" / one).read_text("utf-8") for one in files)
        assert files
        for one in set(names) - set(files):
            assert re.search(
                rf"\b(?:def|class|add_changes\b.*|cdef \w+) ?{one.rpartition('.')[2]}\b|{one}\(",
                text,
            ), one
