"""Every character set against real servers: each code decodes to the server's character."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator

import pytest

from binlake.format.charsets import BINARY, CHARSETS
from binlake.format.collations import COLLATIONS, collation_name
from binlake.values.charset_text import decode, encode
from dev.gen_collations import listed
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


def _unicode_codes(charset: str) -> list[bytes]:
    """Characters at the edges of lengths and planes, random ones, and codes that are none."""
    rng = random.Random(charset)
    points = [0, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x10FFFF]
    points += [rng.randrange(0x110000) for _ in range(3000)]
    points += [rng.randrange(0x10000) for _ in range(3000)]
    codec = CHARSETS[charset].codec or "utf-8"
    codes = [chr(point).encode(codec, "surrogatepass") for point in points]
    return list(dict.fromkeys(codes + [code for code in _BROKEN if _may_be(charset, code)]))


_BROKEN = [
    *map(bytes.fromhex, ("c080", "c1bf", "e08080", "e09fbf", "f0808080", "f08fbfbf", "f4908080")),
    *map(bytes.fromhex, ("f7bfbfbf", "f888808080", "80", "bf", "fe", "ff", "c3", "e282", "f09f98")),
    *map(bytes.fromhex, ("eda080", "edbfbf", "d800", "dc00", "d800d800", "dc00d800", "00110000")),
    *map(bytes.fromhex, ("ffffffff", "0000d800", "d83dde00", "3dd800de")),
]


def _may_be(charset: str, code: bytes) -> bool:
    """Servers store no odd bytes of a wide character set: where they convert, they pad them."""
    if charset == "utf32":
        return len(code) == 4
    if charset == "utf16":
        return len(code) % 2 == 0 and code[:2] != b"\0\0"
    if "utf8" in charset:
        return code[0] > 0x7F  # of others the server keeps what comes before
    return len(code) == 2 or (charset == "utf16le" and len(code) == 4)


def _four_byte_codes() -> list[bytes]:
    """For gb18030: all of the basic plane, some of the others, and some behind the last."""
    first_other, last = _GB18030.index(0x90308130), _GB18030.index(0xE3329A35)
    numbers = [*range(40000), *range(40000, first_other, 499), *range(first_other, last + 50, 97)]
    return [_GB18030.code(number) for number in (*numbers, *range(last - 20, last + 20))]


class _GB18030:
    """Four-byte codes counted from 81308130."""

    @staticmethod
    def code(number: int) -> bytes:
        return bytes((0x81 + number // 12600, 0x30 + number // 1260 % 10, 0x81 + number // 10 % 126, 0x30 + number % 10))  # fmt: skip

    @staticmethod
    def index(code: int) -> int:
        a, b, c, d = code.to_bytes(4, "big")
        return ((a - 0x81) * 10 + b - 0x30) * 1260 + (c - 0x81) * 10 + d - 0x30


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
            text = bytes.fromhex(character or "").decode("utf-32-be", "surrogatepass")
            raw = bytes.fromhex(code)
            lost = text == "?" and raw.strip(b"\0") != b"?"
            lost |= "\ufffd" in text and charset not in (*_UNICODE, "gb18030")
            lost |= any("\ud800" <= c <= "\udfff" for c in text)  # no characters, though stored
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


def test_every_code_of_every_character_set(server: Server, figure: Callable[..., None]) -> None:
    with server.session() as session:
        session.execute("CREATE DATABASE charsets", "USE charsets", "SET SESSION sql_mode=''")
        names = [(str(row[0]), int(row[3] or 0)) for row in session.rows("SHOW CHARACTER SET")]
        assert {name for name, _ in names} <= {*CHARSETS, BINARY}
        compared = differing = 0
        for charset, max_bytes in names:
            if charset == BINARY:
                continue
            if charset in _UNICODE:
                codes = _unicode_codes(charset)
            else:
                codes = _codes(charset, max_bytes)
                codes += _four_byte_codes() if charset == "gb18030" else []
            theirs = _server_characters(session, charset, codes)
            ours = {code: _ours(charset, code) for code in theirs}
            wrong = {
                code: (ours[code], found) for code, found in theirs.items() if ours[code] != found
            }
            compared += len(theirs)
            differing += len(wrong)
            assert wrong == {}, charset
            _assert_encoded(charset, ours)
    figure("charsets", server=server.name, charsets=len(names), compared=compared, differing=differing)  # fmt: skip


def _assert_encoded(charset: str, characters: dict[bytes, str | None]) -> None:
    """Bytes made of a character are bytes of that character (several may be)."""
    for character in characters.values():
        if character is not None:
            assert decode(charset, encode(charset, character)) == character


def test_every_collation(server: Server, figure: Callable[..., None]) -> None:
    """Each number has the server's character set, and its name."""
    with_names = listed(server)
    assert len(with_names) > 200
    for number, charset, name in with_names:
        assert COLLATIONS[number].charset == charset
        # before 8.0.28 and 10.6, utf8; MariaDB lists what fits several sets by half of its name
        newer = re.sub(r"^utf8_", "utf8mb3_", name)
        ours = collation_name(number, server.flavour)
        assert ours == newer or (name.startswith("uca1400") and ours == f"{charset}_{name}")
    numbers = {number for number, _, _ in with_names}
    figure("collations", server=server.name, compared=len(numbers), differing=0)
