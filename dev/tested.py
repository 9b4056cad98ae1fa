"""Where each event type and each column type is tested: read off the golden logs and the tests.

What is in a golden log is compared with the server's SELECT, its list of events and its tool, and
encoded again byte for byte. What no server wrote for us is made by hand (tests/support/logs/event_samples.py), and
everything is made of random values (the modules named here).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from binlake.events.common.table_map import TableMapEvent
from binlake.format.event_types import TABLE_MAP_EVENT, TRANSACTION_PAYLOAD_EVENT
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.stream.payload import inner_windows
from binlake.values.options import ReadOptions

__all__ = [
    "COLUMN_PROPERTIES",
    "EVENT_PROPERTIES",
    "GoldenUse",
    "column_properties",
    "golden_use",
    "types_by_hand",
]

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
EVENT_PROPERTIES = "tests/unit/events/test_round_trip.py"
COLUMN_PROPERTIES = "tests/unit/table/test_types_properties.py"


@dataclass
class GoldenUse:
    """The golden cases (`server/case`) that hold each event type and each column type, by code."""

    events: dict[int, list[str]] = field(default_factory=dict)
    columns: dict[int, list[str]] = field(default_factory=dict)


@cache
def golden_use() -> GoldenUse:
    """The codes in the golden logs, including payloads and encrypted events."""
    use = GoldenUse()
    for about in sorted(GOLDEN.glob("*/*/case.json")):
        case = about.parent.relative_to(GOLDEN).as_posix()
        for path in sorted(about.parent.glob("binlog.0*")):
            for window in _windows(path):
                _note(use, case, window)
    return use


def _windows(path: Path) -> Iterator[Window]:
    keys = _of_tests("support.logs.corpus_files").keys_beside(path)
    with LogFile.open(str(path), keyring=Keyring.of(ReadOptions.parse(keys))) as log:
        for window in log.windows():
            yield window
            for index in range(len(window)):
                if window.block.type_code[index] == TRANSACTION_PAYLOAD_EVENT:
                    yield from inner_windows(window, index)


def _note(use: GoldenUse, case: str, window: Window) -> None:
    for index in range(len(window)):
        code = window.block.type_code[index]
        _add(use.events, code, case)
        if code == TABLE_MAP_EVENT:
            event = event_at(window, index)
            assert isinstance(event, TableMapEvent)
            for column in event.definition().columns:
                _add(use.columns, column.type_code, case)


def _add(found: dict[int, list[str]], code: int, case: str) -> None:
    cases = found.setdefault(code, [])
    if case not in cases:
        cases.append(case)


def types_by_hand() -> dict[int, list[str]]:
    """The samples of each event type in tests/support/logs/event_samples.py, by code."""
    found: dict[int, list[str]] = {}
    for name, (code, _, _) in _of_tests("support.logs.event_samples").SAMPLES.items():
        found.setdefault(code, []).append(name)
    return found


def column_properties() -> set[int]:
    """The column types whose values and bytes COLUMN_PROPERTIES makes up."""
    spec = importlib.util.spec_from_file_location("column_properties", ROOT / COLUMN_PROPERTIES)
    assert spec is not None
    assert spec.loader is not None
    _of_tests("support.values.column_types")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.COLUMNS)


def _of_tests(module: str) -> Any:
    """A helper module of the tests."""
    folder = str(ROOT / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(module)
