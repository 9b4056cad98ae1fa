"""Keys whose texts are equal, although the server's values are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.format.charsets import CHARSETS
from binlake.mirror.followed.first_copy import FirstCopy
from binlake.mirror.followed.key_charsets import WITH_TWO_CODES
from binlake.snapshot.definition import definition_of
from binlake.snapshot.tables import SourceTable
from binlake.table.schema.schema_file import parse_schema
from binlake.values.charset_text import decode


def has_two_codes(charset: str) -> bool:
    """Whether two codes of one or two bytes, or of three bytes in the EUC sets, are one character."""
    ends = range(0xA1, 0xFF)
    codes = [bytes([one]) for one in range(256)]
    if CHARSETS[charset].kind == "multi":
        codes += [bytes([a, b]) for a in range(0x80, 256) for b in range(256)]
    if charset in ("ujis", "eucjpms"):
        codes += [bytes([0x8F, a, b]) for a in ends for b in ends]
    known: set[str] = set()
    for code in codes:
        try:
            text = decode(charset, code)
        except UnicodeDecodeError:
            continue
        if len(text) == 1 and text in known:
            return True
        known.add(text)
    return False


def test_the_character_sets_with_two_codes_of_a_character() -> None:
    of_unicode = {name for name in CHARSETS if name.startswith(("utf", "ucs", "binary"))}
    assert set(filter(has_two_codes, CHARSETS.keys() - of_unicode)) == WITH_TWO_CODES


@pytest.mark.parametrize(("made", "columns"), [
    ("a VARCHAR(9), v INT, PRIMARY KEY (a)", ["a"]),
    ("A CHAR(9), b CHAR(9), c CHAR(9) CHARACTER SET latin1, v TEXT, PRIMARY KEY (c, b, a)", ["A", "b"]),
    ("id INT PRIMARY KEY, v VARCHAR(9)", []),
    ("a VARCHAR(9) CHARACTER SET utf8mb4 PRIMARY KEY, v VARCHAR(9)", []),
])  # fmt: skip
def test_a_copy_reports_such_keys(made: str, columns: list[str]) -> None:
    declared = parse_schema(f"CREATE TABLE shop.t ({made}) CHARSET=cp932".encode()).tables[0]
    table = SourceTable("shop", "t", definition_of(declared, "mysql"), declared.primary_key)
    notes: list[str] = []
    copy: Any = SimpleNamespace(note=notes.append)
    FirstCopy._note_copied(copy, table, 2, [])
    assert notes[0] == "shop.t: 2 rows copied"
    assert [note.split("`")[1] for note in notes[1:]] == columns
    assert all("two codes in cp932" in note for note in notes[1:])
