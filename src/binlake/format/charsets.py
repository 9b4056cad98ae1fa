"""Character sets of MySQL and MariaDB: how each one's bytes become Unicode.

The facts come from real servers (MySQL 9.7, MySQL 5.6, MariaDB 10.11 and 11.8 agree) by converting
every one- and two-byte code, and every three-byte code of ujis and eucjpms, on the server:
most sets are a Python codec with some codes that the servers map otherwise, or not at all.
`tests/server/charsets/test_charsets.py` does the same comparison again.

A code that the servers do not map (they show `?` for it) has no character here either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

#: The name that servers give to bytes without a character set (collation 63).
BINARY = "binary"

_UNDEFINED = "\ufffe"  # codecs.charmap_decode reads it as "no character"


@dataclass(frozen=True)
class Charset:
    """One character set.

    `kind`: "utf8" (the bytes are UTF-8), "single" (one byte a character, `table` has all 256,
    U+FFFE for none) or "multi" (Python's `codec`, but for `patches()`: code -> character, or
    None for a code that has none; made when first asked for). `max_bytes` is the longest
    character.
    """

    name: str
    kind: str
    max_bytes: int
    codec: str = ""
    differences: Mapping[int, str | None] = field(default_factory=dict)
    patches: Callable[[], Mapping[bytes, str | None]] = dict

    @cached_property
    def table(self) -> str:
        """The 256 characters of a single-byte set: as its codec has them, except `differences`."""
        characters = []
        for code in range(256):
            try:
                character: str | None = bytes((code,)).decode(self.codec)
            except UnicodeDecodeError:
                character = None
            character = self.differences.get(code, character)
            characters.append(_UNDEFINED if character is None else character)
        return "".join(characters)


def _single(name: str, codec: str, differences: Mapping[int, str | None] | None = None) -> Charset:
    return Charset(name, "single", 1, codec, differences or {})


def _upper_half(first: int, characters: str) -> dict[int, str | None]:
    """Codes from `first` on; a `¿` stands for a code without character."""
    return {first + i: (None if c == "¿" else c) for i, c in enumerate(characters)}


def _rows(first: bytes, characters: str) -> dict[bytes, str | None]:
    """Consecutive EUC codes: the last byte runs from A1 to FE, then the one before it steps."""
    prefix, row, cell = first[:-2], first[-2], first[-1]
    made: dict[bytes, str | None] = {}
    for character in characters:
        made[prefix + bytes((row, cell))] = character
        row, cell = (row, cell + 1) if cell < 0xFE else (row + 1, 0xA1)
    return made


def _user_defined(prefix: bytes, first_character: int) -> dict[bytes, str | None]:
    """EUC rows F5 to FE, which the servers map to the private use area."""
    return _rows(prefix + b"\xf5\xa1", "".join(chr(first_character + i) for i in range(10 * 94)))


def _eucjpms_kanji() -> dict[bytes, str | None]:
    """Rows A1 to F4: the same cells as cp932 has, which decides NEC row 13 and symbols."""
    made: dict[bytes, str | None] = {}
    for row in range(84):
        lead = (0x81 if row < 62 else 0xC1) + (row >> 1)
        for cell in range(94):
            trail = cell + 0x9F if row % 2 else cell + 0x40 + (cell >= 63)
            try:
                character: str | None = bytes((lead, trail)).decode("cp932")
            except UnicodeDecodeError:
                character = None
            made[bytes((0xA1 + row, 0xA1 + cell))] = character
    return made


def _ibm_extensions() -> str:
    """cp932's IBM rows (FA40 to FC4B) without what JIS X 0208 and 0212 have: from 8F F3 F3 on.

    Taken from the codec, not written out: many of them are compatibility ideographs, which any
    normalising editor would change.
    """
    kept = []
    for lead in (0xFA, 0xFB, 0xFC):
        for trail in (*range(0x40, 0x7F), *range(0x80, 0xFD)):
            try:
                character = bytes((lead, trail)).decode("cp932")
            except UnicodeDecodeError:
                continue
            try:
                character.encode("euc_jp")
            except UnicodeEncodeError:
                if character not in "\uffe2\uffe4":
                    kept.append(character)
            else:
                if character == "№":  # twice in eucjpms
                    kept.append(character)
    return "".join(kept)


_GEOSTD8 = {
    **_upper_half(
        0x80,
        "€¿‚¿„…†‡¿‰¿‹¿¿¿¿¿‘’“”•–—¿¿¿›¿¿¿¿",
    ),
    **_upper_half(
        0xC0,
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿№¿¿",
    ),
}
_ARMSCII8 = _upper_half(
    0xA1,
    "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
)
_KEYBCS2 = _upper_half(
    0x80,
    "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0",
)
_DEC8 = {
    **dict.fromkeys((0xA4, 0xA6, 0xAC, 0xAD, 0xAE, 0xAF, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF)),
    0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ",
}  # fmt: skip
_SWE7: dict[int, str | None] = {
    **dict.fromkeys(range(0x7F, 0x100)),
    0x40: "É", 0x5B: "Ä", 0x5C: "Ö", 0x5D: "Å", 0x5E: "Ü",
    0x60: "é", 0x7B: "ä", 0x7C: "ö", 0x7D: "å", 0x7E: "ü",
}  # fmt: skip


@cache
def _big5() -> Mapping[bytes, str | None]:
    missing = "a15a a1c3 a1c5 a1fe a240 a2cc a2ce"
    return {
        **dict.fromkeys(map(bytes.fromhex, missing.split())),
        **_rows(b"\xf9\xd6", "碁銹裏墻恒粧嫺"),
    }


@cache
def _ujis() -> Mapping[bytes, str | None]:
    return {
        b"\xa1\xc0": "\\",
        **_user_defined(b"", 0xE000),
        **_user_defined(b"\x8f", 0xE3AC),
    }


@cache
def _eucjpms() -> Mapping[bytes, str | None]:
    return {
        **_eucjpms_kanji(),
        **_user_defined(b"", 0xE000),
        b"\x8f\xa2\xb7": "～",
        b"\x8f\xa2\xc3": "￤",
        **_rows(b"\x8f\xf3\xf3", _ibm_extensions()),
        **_user_defined(b"\x8f", 0xE3AC),
    }


def _sjis() -> Mapping[bytes, str | None]:
    return {b"\x81\x5f": "\\"}


def _cp932() -> Mapping[bytes, str | None]:
    return dict.fromkeys((b"\x80", b"\xa0", b"\xfd", b"\xfe", b"\xff"))


def _gb18030() -> Mapping[bytes, str | None]:
    # the two characters that GB 18030-2005 exchanged
    return {b"\xa8\xbc": "ḿ", b"\x81\x35\xf4\x37": "\ue7c7"}


_ALL = (
    Charset("utf8mb4", "utf8", 4),
    Charset("utf8mb3", "utf8", 3),
    Charset("ucs2", "multi", 2, "utf-16-be"),
    Charset("utf16", "multi", 4, "utf-16-be"),
    Charset("utf16le", "multi", 4, "utf-16-le"),
    Charset("utf32", "multi", 4, "utf-32-be"),
    _single("ascii", "ascii"),
    _single("latin1", "cp1252", {c: chr(c) for c in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    _single("latin2", "iso8859_2"),
    _single("latin5", "iso8859_9"),
    _single("latin7", "iso8859_13"),
    _single("cp850", "cp850"),
    _single("cp852", "cp852"),
    _single("cp866", "cp866", {0xFC: "ⁿ", 0xFD: "²"}),
    _single("cp1250", "cp1250"),
    _single("cp1251", "cp1251"),
    _single("cp1256", "cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF))),
    _single("cp1257", "cp1257"),
    _single("koi8r", "koi8_r"),
    _single("koi8u", "koi8_u", {0x95: "•"}),
    _single("macce", "mac_latin2"),
    _single("macroman", "mac_roman"),
    _single("hp8", "hp_roman8"),
    _single("greek", "iso8859_7", {0xA1: "ʽ", 0xA2: "ʼ", 0xA4: None, 0xA5: None, 0xAA: None}),
    _single("hebrew", "iso8859_8", {0xAF: "‾"}),
    _single("tis620", "tis_620"),
    _single("dec8", "latin-1", _DEC8),
    _single("swe7", "ascii", _SWE7),
    _single("armscii8", "latin-1", _ARMSCII8),
    _single("geostd8", "latin-1", _GEOSTD8),
    _single("keybcs2", "ascii", _KEYBCS2),
    Charset("euckr", "multi", 2, "cp949"),
    Charset("gb2312", "multi", 2, "gb2312"),
    Charset("gbk", "multi", 2, "gbk"),
    Charset("gb18030", "multi", 4, "gb18030", patches=_gb18030),
    Charset("big5", "multi", 2, "big5", patches=_big5),
    Charset("sjis", "multi", 2, "shift_jis", patches=_sjis),
    Charset("cp932", "multi", 2, "cp932", patches=_cp932),
    Charset("ujis", "multi", 3, "euc_jp", patches=_ujis),
    Charset("eucjpms", "multi", 3, "euc_jp", patches=_eucjpms),
)

#: name -> Charset. `utf8` is what servers before 8.0.28 and 10.6 call utf8mb3.
CHARSETS = {charset.name: charset for charset in _ALL} | {"utf8": _ALL[1]}
