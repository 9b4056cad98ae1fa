from __future__ import annotations

import pytest

from binlake.format.charsets import CHARSETS
from binlake.format.collations import COLLATIONS
from binlake.values.charset_text import decode, lower_case, single_byte_table


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("utf8mb4", "é😀".encode(), "é😀"),
        ("latin1", b"\x80\x81\xe9", "€\x81é"),  # the server's latin1 is cp1252 with controls
        ("sjis", b"\x81\x5f\x83\x5c", "\\ソ"),
        ("cp932", b"\x81\x5f\x87\x40", "＼①"),
        ("ujis", b"\xa1\xc0\xa4\xa2", "\\あ"),
        ("eucjpms", b"\xad\xa1\x8f\xf3\xf3\xf5\xa1", "①ⅰ\ue000"),
        ("euckr", b"\x81\x41", "갂"),
        ("gb18030", b"\x81\x30\x81\x30\xa8\xbc", "\x80ḿ"),
        ("big5", b"\xf9\xd6", "碁"),
        ("utf16", "😀".encode("utf-16-be"), "😀"),
        ("ucs2", b"\x00a\x4e\x00", "a一"),
        ("dec8", b"\xa8\xd7\xfd", "¤Œÿ"),
        ("swe7", b"[]", "ÄÅ"),
        ("hebrew", b"\xaf", "‾"),
    ],
)
def test_decode(charset: str, raw: bytes, text: str) -> None:
    assert decode(charset, raw) == text


@pytest.mark.parametrize(
    ("charset", "raw"),
    [
        ("utf8mb4", b"\xff"),
        ("utf8mb4", "\ud800".encode("utf-8", "surrogatepass")),
        ("utf8mb3", "😀".encode()),
        ("ascii", b"\x80"),
        ("ucs2", "😀".encode("utf-16-be")),
        ("utf16", b"\x00"),
        ("big5", b"\xa1\x5a"),
        ("cp932", b"\x80"),
        ("ujis", b"\xa4"),
        ("eucjpms", b"\x8f\xa2"),
        ("tis620", b"\xdb"),
    ],
)
def test_invalid_bytes_are_an_error(charset: str, raw: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        decode(charset, raw)


def test_single_byte_tables_agree_with_decode() -> None:
    for name, charset in CHARSETS.items():
        if charset.kind != "single":
            continue
        for code, utf8 in enumerate(single_byte_table(name)):
            if utf8 is None:
                with pytest.raises(UnicodeDecodeError):
                    decode(name, bytes((code,)))
            else:
                assert decode(name, bytes((code,))) == utf8.decode()


def test_every_collation_has_a_known_character_set() -> None:
    assert {c.charset for c in COLLATIONS.values()} <= {*CHARSETS, "binary"}
    assert COLLATIONS[63].charset == "binary"
    assert COLLATIONS[255].name == "utf8mb4_0900_ai_ci"
    assert COLLATIONS[1024 + 45].charset == "utf8mb4"  # MariaDB's NOPAD
    assert COLLATIONS[2308].charset == "utf8mb4"  # MariaDB's UCA 14


def test_names_in_lower_case_do_not_depend_on_neighbours() -> None:
    assert lower_case("ΤΙΜΕΣ") == "τιμεσ" != "ΤΙΜΕΣ".lower()
    assert lower_case("ÀB_Ж1") == "àb_ж1"
