"""How key values are hashed for the key index of a log: values that are equal to the server have one hash.

A column has one form in a log. The form decides which constants of a condition can be looked up, and
what stands for them. Values that a form cannot stand for are in no hash: their transactions are always read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from zlib import crc32

__all__ = ["BYTES", "HASH_BITS", "INTEGER", "hash_of", "hashes", "text_form"]

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


def hashes(form: str, values: Iterable[int | str | bytes]) -> list[int | None]:
    """The hashes of values of a column; None for a value that the form cannot stand for."""
    return [hash_of(form, value) for value in values]


def hash_of(form: str, value: object) -> int | None:
    """The hash of a value, or of the values that equal a constant; None if that cannot be told."""
    if form == INTEGER:
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if not isinstance(value, int) or value.bit_length() > _INTEGER_BITS:
            return None
        return _hash(str(int(value)).encode())  # TRUE is 1
    if form == BYTES:
        raw = value.encode() if isinstance(value, str) else value
        return _hash(raw) if isinstance(raw, bytes) else None
    return _text_hash(form, value) if isinstance(value, str) else None


def _hash(raw: bytes) -> int:
    return crc32(raw) & (1 << HASH_BITS) - 1


def _text_hash(form: str, text: str) -> int | None:
    rules = form.split(" ")
    if _ASCII_ONLY in rules and not _PRINTABLE.fullmatch(text):
        return None
    if _PADS in rules:
        text = text.rstrip(" ")
    if _FOLDS in rules:
        text = text.translate(_UPPER)
    return _hash(text.encode())
