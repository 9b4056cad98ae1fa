"""Text of the servers' character sets: strict decoding and encoding; names in lower case."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache

from binlake.format.charsets import CHARSETS, Charset

_BASIC_PLANE = ("utf8mb3", "ucs2")  # hold nothing beyond it


def decode(charset: str, raw: bytes) -> str:
    """Decode `raw` as the servers do.

    Raises UnicodeDecodeError at the first invalid byte, and KeyError for a name that is not in
    `format.charsets.CHARSETS`.
    """
    known = CHARSETS[charset]
    if known.kind == "utf8":
        text = raw.decode("utf-8")
        if known.max_bytes < 4 and text and max(text) > "\uffff":
            at = len(text[: next(i for i, c in enumerate(text) if c > "\uffff")].encode())
            raise UnicodeDecodeError(known.name, raw, at, at + 4, "outside the basic plane")
        return text
    if known.kind == "single":
        return codecs.charmap_decode(raw, "strict", known.table)[0]
    if known.name == "ucs2":
        return _decode_ucs2(raw)
    patches = known.patches()
    if not patches or raw.isascii():
        return raw.decode(known.codec)
    return _decode_patched(known, patches, raw)


def _decode_ucs2(raw: bytes) -> str:
    text = raw.decode("utf-16-be")
    if len(text) * 2 != len(raw):  # a surrogate pair: UCS-2 has none
        raise UnicodeDecodeError("ucs2", raw, 0, len(raw), "surrogates are not characters")
    return text


def _decode_patched(charset: Charset, patches: Mapping[bytes, str | None], raw: bytes) -> str:
    """Character by character, because the codec and the server differ on some codes."""
    pieces = []
    pos = 0
    while pos < len(raw):
        code = raw[pos : pos + _code_length(charset.name, raw, pos)]
        if code in patches:
            character = patches[code]
            if character is None:
                end = pos + len(code)
                raise UnicodeDecodeError(charset.name, raw, pos, end, "no such character")
            pieces.append(character)
        else:
            try:
                pieces.append(code.decode(charset.codec))
            except UnicodeDecodeError as error:
                raise UnicodeDecodeError(
                    charset.name, raw, pos, pos + len(code), error.reason
                ) from None
        pos += len(code)
    return "".join(pieces)


def _code_length(charset: str, raw: bytes, pos: int) -> int:
    """Bytes of the character at `pos`, by its first bytes."""
    lead = raw[pos]
    if lead < 0x80:
        return 1
    if charset in ("sjis", "cp932"):
        # A1 to DF are half-width katakana; A0 and FD to FF are nothing
        return 2 if 0x81 <= lead <= 0x9F or 0xE0 <= lead <= 0xFC else 1
    if charset in ("ujis", "eucjpms"):
        return 3 if lead == 0x8F else 2
    if charset == "gb18030":
        return 4 if raw[pos + 1 : pos + 2] and 0x30 <= raw[pos + 1] <= 0x39 else 2
    return 2


def encode(charset: str, text: str) -> bytes:
    """Encode text as the servers do. If several byte sequences decode to it, return the one that the codec prefers.

    Raises UnicodeEncodeError for text that the character set cannot hold, and KeyError for a
    name that is not in `format.charsets.CHARSETS`.
    """
    known = CHARSETS[charset]
    if known.name in _BASIC_PLANE and text and max(text) > "\uffff":
        at = next(i for i, character in enumerate(text) if character > "\uffff")
        raise UnicodeEncodeError(known.name, text, at, at + 1, "outside the basic plane")
    if known.kind == "utf8":
        return text.encode("utf-8")
    if known.kind == "single":
        return codecs.charmap_encode(text, "strict", _single_byte_codes(charset))[0]
    if known.name == "ucs2":
        return text.encode("utf-16-be")
    if not known.patches():
        return text.encode(known.codec)
    pieces = []
    for at, character in enumerate(text):
        try:
            pieces.append(_multi_byte_code(charset, character))
        except UnicodeEncodeError as error:
            raise UnicodeEncodeError(known.name, text, at, at + 1, error.reason) from None
    return b"".join(pieces)


@lru_cache(maxsize=1 << 16)
def _multi_byte_code(charset: str, character: str) -> bytes:
    """The code of one character that both the codec and the server know."""
    code = _patched_codes(charset).get(character) or character.encode(CHARSETS[charset].codec)
    with suppress(UnicodeDecodeError):
        if decode(charset, code) == character:
            return code
    raise UnicodeEncodeError(charset, character, 0, 1, "the server has no such character")


@cache
def _single_byte_codes(charset: str) -> Mapping[int, int]:
    """Code of each character of a single-byte set; the first of several."""
    codes: dict[int, int] = {}
    for code, character in enumerate(CHARSETS[charset].table):
        if character != "\ufffe":
            codes.setdefault(ord(character), code)
    return codes


@cache
def _patched_codes(charset: str) -> Mapping[str, bytes]:
    """Codes of the characters that the codec encodes differently from the server."""
    known = CHARSETS[charset]
    codes: dict[str, bytes] = {}
    for code, character in known.patches().items():
        if character is None:
            continue
        try:
            same = decode(charset, character.encode(known.codec)) == character
        except UnicodeError:
            same = False
        if not same:
            codes.setdefault(character, code)
    return codes


@cache
def single_byte_table(charset: str) -> tuple[bytes | None, ...]:
    """UTF-8 of each of the 256 bytes of a single-byte character set, None where it has none."""
    table = CHARSETS[charset].table
    return tuple(None if c == "\ufffe" else c.encode() for c in table)


def lower_case(name: str) -> str:
    """Return a name in lower case, letter by letter as MySQL compares names of columns.

    `str.lower` looks at the neighbours of one letter: it turns a Σ at the end of a word into ς, which is another letter
    to MySQL. To MariaDB 11.8, σ and ς are one letter.
    """
    return name.replace("Σ", "σ").lower()
