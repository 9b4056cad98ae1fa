"""Every character set against real servers: each code decodes to the server's character."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from binlake.format.charsets import BINARY, CHARSETS
from binlake.values.text import decode
from dev.servers.server import Server, Session

pytestmark = pytest.mark.server

_UNICODE = {"utf8mb3", "utf8mb4", "utf8", "ucs2", "utf16", "utf16le", "utf32"}
_KATAKANA = range(0xA0, 0xE0)  # of sjis and cp932: one byte each, so never a lead byte


def _codes(charset: str, max_bytes: int) -> list[bytes]:
    codes = [bytes((code,)) for code in range(256)]
    if max_bytes > 1:
        leads = [c for c in range(0x80, 0x100) if "sj" not in charset or c not in _KATAKANA]
        leads = [c for c in leads if charset != "cp932" or c not in _KATAKANA]
        codes += [bytes(pair) for pair in itertools.product(leads, range(0x40, 0x100))]
    if charset in ("ujis", "eucjpms"):
        rows = range(0xA1, 0xFF)
        codes += [bytes((0x8F, *pair)) for pair in itertools.product(rows, rows)]
    return codes


def _server_characters(
    session: Session, charset: str, codes: list[bytes]
) -> dict[bytes, str | None]:
    """code -> its one character on the server; None where the server has none."""
    found: dict[bytes, str | None] = {}
    session.execute("CREATE TEMPORARY TABLE codes (code VARBINARY(4))")
    for batch in (
        itertools.batched(codes, 8000) if hasattr(itertools, "batched") else _batched(codes)
    ):
        values = ",".join(f"(x'{code.hex()}')" for code in batch)
        session.execute("DELETE FROM codes", f"INSERT INTO codes VALUES {values}")
        query = (
            f"SELECT HEX(code), HEX(CONVERT(CONVERT(code USING {charset}) USING utf32)) FROM codes"
        )
        for code, character in session.rows(query):
            assert code is not None
            text = bytes.fromhex(character or "").decode("utf-32-be")
            raw = bytes.fromhex(code)
            lost = (text == "?" and raw != b"?") or "\ufffd" in text
            found[raw] = text if len(text) == 1 and not lost else None
    session.execute("DROP TEMPORARY TABLE codes")
    return found


def _batched(codes: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(codes), 8000):
        yield codes[start : start + 8000]


def _ours(charset: str, code: bytes) -> str | None:
    try:
        text = decode(charset, code)
    except UnicodeDecodeError:
        return None
    return text if len(text) == 1 else None


def test_every_code_of_every_character_set(server: Server) -> None:
    with server.session() as session:
        session.execute("CREATE DATABASE charsets", "USE charsets", "SET SESSION sql_mode=''")
        names = [(str(row[0]), int(row[3] or 0)) for row in session.rows("SHOW CHARACTER SET")]
        assert {name for name, _ in names} <= {*CHARSETS, BINARY}
        for charset, max_bytes in names:
            if charset in _UNICODE or charset == BINARY:
                continue
            theirs = _server_characters(session, charset, _codes(charset, max_bytes))
            ours = {code: _ours(charset, code) for code in theirs}
            assert ours == theirs, charset
