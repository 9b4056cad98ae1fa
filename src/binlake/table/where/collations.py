"""The comparison of text under a collation, as far as binlake knows it exactly.

- `_bin` collations and BINARY compare code points.
- The general, Swedish and root Unicode collations are known for printable ASCII: every character
  differs from every other there, except for the case of letters. A text with other characters is in doubt
  if its ASCII characters do not decide. The order of texts is known for the collations that compare
  upper-case letters by their codes, and for ASCII only.
- Everything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar
from binlake.table.where.comparing import COMPARE, Operator

_UNICODE = ("utf8mb4", "utf8mb3", "ucs2", "utf16", "utf16le", "utf32")
_IN_BYTE_ORDER = ("utf8mb4", "utf8mb3", "ascii")  # the bytes of UTF-8 sort as these do
_COMPARED = (*_UNICODE, "ascii", "latin1")
_ASCII_CI = re.compile(
    r"(?:utf8mb4|utf8mb3|ucs2|utf16|utf16le|utf32)"
    r"_(?P<family>general|general_nopad|unicode|unicode_nopad|unicode_520|unicode_520_nopad"
    r"|0900_a[is]|uca1400_a[is]|uca1400_nopad_a[is])_(?P<case>c[is])"
    r"|(?:latin1_(?P<one>swedish|swedish_nopad|general)|ascii_(?P<two>general|general_nopad))_ci"
)
_ASCII = "[ -~]"
_OTHER = "[^ -~]"
# Those whose codes in latin1 of the servers, which is Windows-1252, are their code points.
_LATIN1 = r"[\x00-\x7f\xa0-\xff]"
_UPPER_ORDER = ("general", "general_nopad", "swedish", "swedish_nopad")


@dataclass(frozen=True, slots=True)
class TextRules:
    """The rules of a comparison of texts.

    `pads`: trailing spaces make no difference. `ascii_only`: known for printable ASCII. `folds`: the
    case of letters makes no difference. `orders`: < and > are known, between texts of the characters of the
    class `ordered` only, if there is one.
    """

    collation: str
    pads: bool
    ascii_only: bool
    folds: bool
    orders: bool
    ordered: str

    def in_order(self, texts: pa.Array) -> pa.Array | None:
        """Which texts (bool, null for null) `compared` can bring in an order; None for all."""
        return _all_in(texts, self.ordered) if self.ordered else None

    def compared(self, operator: Operator, texts: pa.Array, others: pa.Array) -> pa.Array:
        """Compare texts with as many others."""
        compare = COMPARE[operator]
        found = compare(self.keys(texts), self.keys(others))
        if operator == "=" or not self.pads:
            return found
        # padded, a shorter text sorts after one that has a tab there
        rows = pc.fill_null(pc.or_(_has_control(texts), _has_control(others)), scalar(False))
        if not pc.any(rows).as_py():
            return found
        pairs = zip(texts.filter(rows).to_pylist(), others.filter(rows).to_pylist(), strict=True)
        padded = [_of_one_length(text, other) for text, other in pairs]
        sides = (array(side, pa.string()) for side in zip(*padded, strict=True))
        return pc.replace_with_mask(found, rows, compare(*sides))

    def keys(self, texts: pa.Array) -> pa.Array:
        """Return the keys to compare instead of the texts."""
        if self.pads:
            texts = pc.utf8_rtrim(texts, " ")
        return pc.ascii_upper(texts) if self.folds else texts

    def may_equal(self, texts: pa.Array, constant: str) -> pa.Array | None:
        """Which texts may equal a constant although their `keys` differ; None for none.

        Each printable ASCII character has a weight of its own under these collations, and every other
        character may have any weights. So the ASCII characters of one text are, in their order, among
        those of the other, if the other has no more.
        """
        if not self.ascii_only:
            return None
        if self.pads:
            texts, constant = pc.utf8_rtrim(texts, " "), constant.rstrip(" ")
        is_ascii = _all_in(texts, _ASCII)
        units = [self._unit(c) for c in constant if _is_ascii(c)]
        if len(units) == len(constant):
            rest = pc.replace_substring_regex(texts, _OTHER, "")
            among = _matches(rest, "".join(f"(?:{unit})?" for unit in units))
            return pc.and_(pc.invert(is_ascii), among)
        among = _matches(texts, ".*".join(["", *units, ""]))
        prefix = ".*"
        for character in reversed(_ascii_prefix(constant)):
            prefix = f"(?:{self._unit(character)}{prefix}|{_OTHER}.*)"
        may = pc.if_else(is_ascii, among, _matches(texts, prefix))
        same = pc.equal(self.keys(texts), self.keys(array([constant], pa.string()))[0])
        return pc.and_(may, pc.invert(same))

    def like(self, texts: pa.Array, pattern: str, escape: str) -> pa.Array:
        """Whether texts match a pattern of LIKE, which compares character by character."""
        return _matches(texts, "".join(map(self._surely, _pieces(pattern, escape))))

    def may_be_like(self, texts: pa.Array, pattern: str, escape: str) -> pa.Array | None:
        """Return the texts that may match although `like` returns false for them; None for none."""
        if not self.ascii_only:
            return None
        may = _matches(texts, "".join(map(self._perhaps, _pieces(pattern, escape))))
        return pc.and_(may, pc.invert(self.like(texts, pattern, escape)))

    def _unit(self, character: str) -> str:
        """The characters that certainly equal a character, in RE2's syntax."""
        if self.folds and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return f"\\x{{{ord(character):x}}}"

    def _surely(self, piece: str | _Wild) -> str:
        return piece.value if isinstance(piece, _Wild) else self._unit(piece)

    def _perhaps(self, piece: str | _Wild) -> str:
        if isinstance(piece, _Wild):
            return piece.value
        return f"(?:{self._unit(piece)}|{_OTHER})" if _is_ascii(piece) else "."


class _Wild(Enum):
    """The wildcards of LIKE, in RE2's syntax."""

    ANY = ".*"
    ONE = "."


def rules_of(charset: str, collation: str | None) -> TextRules | None:
    """The rules of a collation of a character set; None if binlake does not know them."""
    if charset not in _COMPARED or collation is None:
        return None
    in_order = charset in _IN_BYTE_ORDER
    ordered = "" if in_order else _LATIN1 if charset == "latin1" else _ASCII
    name = collation.replace("utf8_", "utf8mb3_", 1) if collation.startswith("utf8_") else collation
    if name == "binary":
        if charset in _UNICODE and not in_order:
            return None
        return TextRules("binary", False, False, False, True, ordered)
    if name.split("_", 1)[0] != charset:
        return None
    if name.endswith("_bin"):
        pads = "nopad" not in name and "_0900_" not in name
        return TextRules(name, pads, False, False, True, ordered)
    found = _ASCII_CI.fullmatch(name)
    if found is None:
        return None
    family = found["family"] or found["one"] or found["two"]
    pads = "nopad" not in family and "0900" not in family
    folds = found["case"] != "cs"
    orders = family in _UPPER_ORDER and not (charset == "latin1" and family == "general")
    return TextRules(name, pads, True, folds, orders, _ASCII)


def _has_control(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, r"[\x00-\x1f]")


def _of_one_length(text: str, other: str) -> tuple[str, str]:
    """Return two texts with spaces at the end of the shorter one."""
    length = max(len(text), len(other))
    return text.ljust(length), other.ljust(length)


def _all_in(texts: pa.Array, characters: str) -> pa.Array:
    return _matches(texts, f"(?:{characters})*")


def _matches(texts: pa.Array, expression: str) -> pa.Array:
    """Which whole texts match."""
    return pc.match_substring_regex(texts, rf"(?s)\A(?:{expression})\z")


def _is_ascii(character: str) -> bool:
    return " " <= character <= "~"


def _ascii_prefix(text: str) -> str:
    return "".join(takewhile(_is_ascii, text))


def _pieces(pattern: str, escape: str) -> Iterator[str | _Wild]:
    """The characters and wildcards of a LIKE pattern."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, escape)
        elif character == "%":
            yield _Wild.ANY
        else:
            yield _Wild.ONE if character == "_" else character
