"""How key values are hashed for the key index of a log: values that are equal to the server have one hash.

A column has one form in a log. The form decides which constants of a condition can be looked up, and
what stands for them. Values that a form cannot represent have no hash: their transactions are always read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from zlib import crc32

INTEGER = "integer"
BYTES = "bytes"
#: As many as leave 8 bits of 32 for the number of a block.
HASH_BITS = 24

_INTEGER_BITS = 64

_TEXT = "text"
_PADS, _FOLDS, _ASCII_ONLY = "pads", "folds", "ascii"
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_PRINTABLE = re.compile("[ -~]*")


def text_form(*, pads: bool, folds: bool, ascii_only: bool) -> str:
    """The form of texts under a collation: the meaning of the three is that of `TextRules`."""
    rules = {_PADS: pads, _FOLDS: folds, _ASCII_ONLY: ascii_only}
    return " ".join([_TEXT, *(name for name, holds in rules.items() if holds)])


def hashes(form: str, values: Iterable[object]) -> list[int | None]:
    """The hashes of values, or of the values that equal constants; None if the form cannot decide that."""
    if form in _OF_FORM:
        return list(map(_OF_FORM[form], values))
    return list(map(_text_hash(form), values))


def _integer_hash(value: object) -> int | None:
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if not isinstance(value, int) or value.bit_length() > _INTEGER_BITS:
        return None
    return _hash(str(int(value)).encode())  # TRUE is 1


def _bytes_hash(value: object) -> int | None:
    raw = value.encode() if isinstance(value, str) else value
    return _hash(raw) if isinstance(raw, bytes) else None


def _text_hash(form: str) -> Callable[[object], int | None]:
    rules = form.split(" ")
    pads, folds, ascii_only = (rule in rules for rule in (_PADS, _FOLDS, _ASCII_ONLY))

    def hashed(text: object) -> int | None:
        if not isinstance(text, str) or (ascii_only and not _PRINTABLE.fullmatch(text)):
            return None
        text = text.rstrip(" ") if pads else text
        return _hash((text.translate(_UPPER) if folds else text).encode())

    return hashed


def _hash(raw: bytes) -> int:
    return crc32(raw) & (1 << HASH_BITS) - 1


_OF_FORM = {INTEGER: _integer_hash, BYTES: _bytes_hash}
