"""LOAD DATA of MySQL before 5.0, whose events hold the parts of the statement, not its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from binlake.events.old.load_data import LoadEvent
from binlake.replay.statement_events import quoted_bytes

_OPT_ENCLOSED, _REPLACE, _IGNORE = 0x02, 0x04, 0x08
_ESCAPES = (
    (b"\\", b"\\\\"),  # first: the others bring backslashes
    (b"'", b"\\'"),
    (b"\0", b"\\0"),
    (b"\t", b"\\t"),
    (b"\n", b"\\n"),
    (b"\r", b"\\r"),
    (b"\x1a", b"\\Z"),
)
_FIELD_TERM, _ENCLOSED, _LINE_TERM, _LINE_START, _ESCAPED = range(5)


def old_load_statement(event: LoadEvent, file: Path | None) -> bytes:
    """The statement, of `file` on the client's machine, or of the server's own (None)."""
    words = [b"LOAD DATA"]
    if file is None:
        words.append(b"INFILE " + _literal(event.file_raw))
    else:
        words.append(b"LOCAL INFILE " + _literal(str(file).encode()))
    if event.opt_flags & _REPLACE:
        words.append(b"REPLACE")
    elif event.opt_flags & _IGNORE:
        words.append(b"IGNORE")
    words.append(b"INTO TABLE " + quoted_bytes(event.table_raw))
    words += _delimiters(event)
    if event.skip_lines:
        words.append(b"IGNORE %d LINES" % event.skip_lines)
    if event.field_names_raw:
        words.append(b"(" + b", ".join(map(quoted_bytes, event.field_names_raw)) + b")")
    return b" ".join(words)


def _delimiters(event: LoadEvent) -> Iterator[bytes]:
    empty = event.empty_flags or 0
    said = [_literal(b"" if empty >> i & 1 else raw) for i, raw in enumerate(event.delimiters_raw)]
    optionally = b"OPTIONALLY " if event.opt_flags & _OPT_ENCLOSED else b""
    yield b"FIELDS TERMINATED BY " + said[_FIELD_TERM]
    yield optionally + b"ENCLOSED BY " + said[_ENCLOSED]
    yield b"ESCAPED BY " + said[_ESCAPED]
    yield b"LINES TERMINATED BY " + said[_LINE_TERM]
    if said[_LINE_START] != b"''":
        yield b"STARTING BY " + said[_LINE_START]


def _literal(raw: bytes) -> bytes:
    """Bytes as a string that the server reads."""
    for plain, escaped in _ESCAPES:
        raw = raw.replace(plain, escaped)
    return b"'" + raw + b"'"
