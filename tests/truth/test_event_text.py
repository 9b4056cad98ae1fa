"""The kernels of `inspect` and `inspect --json` write the text of the typed events, byte for byte."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlake.cli.inspect.event_json import EventJsonWriter, json_of
from binlake.cli.inspect.event_lines import EventLineWriter, line_of
from binlake.cli.inspect.event_writer import EventWriter
from binlake.core.text.text_output import TextBuffer
from binlake.errors import BinlogError
from binlake.source.resolve import resolve
from binlake.stream.log_events import LogEvent
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.corpus_files import FILES, Listed, keys_beside

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LOGS = sorted(
    path
    for path in GOLDEN.rglob("*")
    if path.is_file() and path.read_bytes()[:4] in (b"\xfebin", b"\xfdbin")
)
FORMS: dict[str, tuple[Callable[..., EventWriter], Callable[[LogEvent], str]]] = {
    "lines": (EventLineWriter, line_of),
    "json": (EventJsonWriter, json_of),
}
by_form = pytest.mark.parametrize("form", FORMS)


def readers(path: Path) -> Iterator[LogReader]:
    options = ReadOptions.parse(keys_beside(path))
    yield from LogReader.of_chains(resolve([str(path)]), options, Ledger())


def typed(path: Path, text_of: Callable[[LogEvent], str]) -> tuple[bytes, str | None]:
    """The text of the typed events, and the error that ends it."""
    lines: list[str] = []
    try:
        for reader in readers(path):
            lines += (text_of(event) + "\n" for event in reader.events())
    except BinlogError as error:
        return "".join(lines).encode(), str(error)
    return "".join(lines).encode(), None


def written(path: Path, kind: Callable[..., EventWriter]) -> tuple[bytes, str | None, int]:
    """The output of a writer, the error that ends it, and how many lines were compiled."""
    target = Counting()
    writer = kind(target, "utf-8", "strict", None)
    try:
        for reader in readers(path):
            for piece in reader.pieces():
                writer.write(piece)
    except BinlogError as error:
        return target.getvalue(), str(error), target.compiled
    return target.getvalue(), None, target.compiled


class Counting(io.BytesIO):
    """Counts the lines that come from a kernel."""

    compiled = 0

    def write(self, text: bytes | TextBuffer) -> int:  # type: ignore[override]
        if isinstance(text, TextBuffer):
            self.compiled += bytes(text).count(b"\n")
        return super().write(text)


def compare(path: Path, form: str) -> int:
    kind, text_of = FORMS[form]
    text, error, compiled = written(path, kind)
    expected, expected_error = typed(path, text_of)
    assert text == expected
    assert error == expected_error
    return compiled


@by_form
@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_golden_logs(path: Path, form: str) -> None:
    compare(path, form)


@by_form
def test_most_events_of_a_golden_log_are_compiled(form: str) -> None:
    """Or the comparison would say nothing."""
    path = GOLDEN / "mysql-9.7" / "transactions" / "binlog.000001"
    compiled = compare(path, form)
    assert compiled > 0.6 * written(path, FORMS[form][0])[0].count(b"\n")


@by_form
@pytest.mark.parametrize("listed", FILES, ids=lambda listed: listed.name)
def test_corpus(listed: Listed, form: str) -> None:
    compare(listed.path, form)
