"""The kernels of `inspect` and `inspect --json` write the text of the typed events, byte for byte."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

import binlake
from binlake.cli.common.flags import with_flags
from binlake.cli.inspect.event_json import EventJsonWriter, json_of
from binlake.cli.inspect.event_lines import EventLineWriter, line_of
from binlake.cli.inspect.event_writer import EventWriter
from binlake.core.text.text_output import TextBuffer
from binlake.errors import BinlogError
from binlake.printable import printable
from binlake.source.log_file import SKIP_HINT
from binlake.source.resolve import resolve
from binlake.stream.log_events import LogEvent
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.corpus_files import FILES, Listed, keys_beside
from support.oracles.reading import command, flags_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LOGS = sorted(
    path
    for path in GOLDEN.rglob("*")
    if path.is_file() and path.read_bytes()[:4] in (b"\xfebin", b"\xfdbin")
)
#: The flags of `inspect`, the text of a typed event, and the writer with the kernels.
FORMS: dict[str, tuple[list[str], Callable[[LogEvent], str], Callable[..., EventWriter]]] = {
    "lines": ([], line_of, EventLineWriter),
    "json": (["--json"], json_of, EventJsonWriter),
}
by_form = pytest.mark.parametrize("form", FORMS)


def typed(path: Path, text_of: Callable[[LogEvent], str]) -> tuple[bytes, BinlogError | None]:
    """The text of the events of `binlake.open(PATH)`, and the error that ends it."""
    lines: list[str] = []
    try:
        for event in binlake.open(path, **keys_beside(path)).events():
            lines.append(text_of(event) + "\n")  # noqa: PERF401 - an error keeps what was before it
    except BinlogError as error:
        return "".join(lines).encode(), error
    return "".join(lines).encode(), None


class Counting(io.BytesIO):
    """Counts the lines that come from a kernel."""

    compiled = 0

    def write(self, text: bytes | TextBuffer) -> int:  # type: ignore[override]
        if isinstance(text, TextBuffer):
            self.compiled += bytes(text).count(b"\n")
        return super().write(text)


def compare(path: Path, form: str) -> None:
    """Compare `binlake inspect` with the events of the Python API."""
    flags, text_of, _ = FORMS[form]
    code, text, said = command("inspect", str(path), *flags_of(**keys_beside(path)), *flags)
    expected, error = typed(path, text_of)
    assert text == expected
    if error is None:
        assert code == 0 or "bad checksum" in said
        return
    error.at(path=str(path) if error.file else None)
    message = with_flags(f"binlake: {error}")
    # if a log is damaged, the command also hints at --on-error
    hinted = f"{message}; {with_flags(SKIP_HINT)}"
    assert {printable(message), printable(hinted)} & {*said.splitlines()}


@by_form
@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_golden_logs(path: Path, form: str) -> None:
    compare(path, form)


@by_form
def test_most_events_of_a_golden_log_are_compiled(form: str) -> None:
    """Or the comparison would say nothing."""
    path = GOLDEN / "mysql-9.7" / "transactions" / "binlog.000001"
    target = Counting()
    writer = FORMS[form][2](target, "utf-8", "strict", None)
    [reader] = LogReader.of_chains(resolve([str(path)]), ReadOptions(), Ledger())
    for piece in reader.pieces():
        writer.write(piece)
    assert target.compiled > 0.6 * writer.shown


@by_form
@pytest.mark.parametrize("listed", FILES, ids=lambda listed: listed.name)
def test_corpus(listed: Listed, form: str) -> None:
    compare(listed.path, form)
