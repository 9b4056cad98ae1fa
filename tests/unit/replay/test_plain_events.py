"""Plain events come out of the compiled text as the printer prints them, one by one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binlake.replay.event_text import Base64, TextLimits, TextOptions
from binlake.replay.logs import print_logs
from binlake.replay.row_events import RowStatement
from binlake.replay.selection import EventSelection
from binlake.source.resolve import resolve
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from conftest import ROOT
from support.logs.costly_tables import null_rows
from support.logs.mutations import all_or_a_third

GOLDEN = ROOT / "tests" / "golden"
LOGS = sorted(
    path for path in GOLDEN.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\xfebin"
)
#: Chooses everything, event by event: the compiled text is for positions only.
EVERY_EVENT = EventSelection(stop_time=1 << 33)
FORMS = {
    "base64": TextOptions(),
    "base64 -v": TextOptions(verbose=1),
    "-vv": TextOptions(verbose=2, base64_output=Base64.DECODE_ROWS),
    "no count": TextOptions(verbose=1, print_row_count=False),
}


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone with daylight saving time."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/St_Johns")
        time.tzset()
        yield
    time.tzset()


def printed(
    path: Path, selection: EventSelection, options: TextOptions
) -> tuple[bytes, list[str], int]:
    """The text, the warnings, and in how many pieces the text came."""
    pieces: list[bytes] = []
    warnings: list[str] = []

    def write(text: bytes | memoryview) -> None:
        pieces.append(bytes(text))

    try:
        chains = resolve([str(path)])
        print_logs(chains, selection, options, write, warnings.append, Ledger(), ReadOptions())
    except Exception as error:  # noqa: BLE001 - whatever it is, both ways end in it
        pieces.append(repr(error).encode())
    # files of LOAD DATA have a random part
    text = re.sub(rb"(SQL_LOAD|/tmp)[^'\s]*", b"", b"".join(pieces))
    return text, warnings, len(pieces)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        *((path, form) for form in ("base64 -v", "-vv") for path in LOGS),
        *((path, "base64") for path in all_or_a_third(LOGS)),
        *((path, "no count") for path in all_or_a_third(LOGS, 1)),
    ],
    ids=lambda given: str(given.relative_to(GOLDEN)) if isinstance(given, Path) else given,
)
def test_the_text_is_the_printers(path: Path, form: str) -> None:
    options = FORMS[form]
    fast, fast_warnings, _ = printed(path, EventSelection(), options)
    slow, slow_warnings, _ = printed(path, EVERY_EVENT, options)
    assert fast.split(b"\n") == slow.split(b"\n")
    assert fast_warnings == slow_warnings


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
def test_most_events_take_the_fast_way(server: str) -> None:
    """Else the comparison above would compare the printer with itself."""
    path = ROOT / "demo" / server / "binlog.000001"
    for options in FORMS.values():
        _, _, fast = printed(path, EventSelection(), options)
        _, _, slow = printed(path, EVERY_EVENT, options)
        assert fast < slow / 4


@pytest.mark.parametrize("form", ["base64 -v", "-vv"])
def test_long_comments_are_written_in_parts(form: str, tmp_path: Path) -> None:
    """Pieces contain the same text as one piece, and none is larger than a limit: 1 MB of log is 480 MB of comments."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(null_rows(count=200, columns=200))
    whole, _, _ = printed(path, EventSelection(), FORMS[form])
    held: list[int] = []

    add_comments = RowStatement.add_comments

    def noting(statement: RowStatement, text: bytes | memoryview) -> None:
        held.append(len(text))
        add_comments(statement, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowStatement, "add_comments", noting)
        limits = TextLimits(decoded=1 << 18, window=1 << 18, recorded=1 << 10)
        parts, _, _ = printed(path, EventSelection(), replace(FORMS[form], limits=limits))
    assert parts == whole
    assert max(held) < 1 << 19


def test_the_text_ends_at_a_position() -> None:
    path = ROOT / "demo" / "mysql-9.7" / "binlog.000001"
    whole, _, _ = printed(path, EventSelection(), TextOptions())
    places = [int(found) for found in re.findall(rb"^# at (\d+)$", whole, re.MULTILINE)]
    for stop in places[20:400:37]:
        fast, _, _ = printed(path, EventSelection(stop_position=stop), TextOptions())
        slow, _, _ = printed(
            path, EventSelection(stop_position=stop, stop_time=1 << 33), TextOptions()
        )
        assert fast == slow
    start = places[100]
    fast, _, _ = printed(path, EventSelection(start_position=start), TextOptions())
    slow, _, _ = printed(
        path, EventSelection(start_position=start, stop_time=1 << 33), TextOptions()
    )
    assert fast == slow
