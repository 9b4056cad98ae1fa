"""Values in a server's answers, which may contain anything: numbers are checked before they are
used.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from binlake.errors import ServerError

_MOST_SHOWN = 40
_WHOLE = re.compile(r"\d{1,20}", re.ASCII)
_LARGE = re.compile(r"\d{1,64}", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The limits of one answer to a query: `memory_bytes` as PyMySQL holds it (a listing of 200,000 logs fits),
    `seconds` until it is complete, however slowly it arrives, and `silence_s` without a byte of it, unless the option
    read-timeout of the URL sets this.
    """

    memory_bytes: int = 64 << 20
    seconds: float = 600.0
    silence_s: float = 120.0  # MariaDB reads a log to find the GTID of a place in it


def whole_number(text: str | None, name: str) -> int:
    """Return a whole number that is not negative, 0 for NULL and "". `name` is for the error.

    Raises ServerError.
    """
    return _number(text, name, _WHOLE)


def integer(text: str | None, name: str) -> int:
    """Return a whole number, also a negative one; else as `whole_number`."""
    return _number(text, name, _INTEGER)


def large_number(text: str | None, name: str) -> int:
    """Return a sum of numbers of 64 bits; else as `whole_number`."""
    return _number(text, name, _LARGE)


def _number(text: str | None, name: str, form: re.Pattern[str]) -> int:
    if not text:
        return 0
    if not form.fullmatch(text):
        raise ServerError(
            f"the server answers {text[:_MOST_SHOWN]!r} for {name}, which is a number"
        )
    return int(text)


def decimal_number(text: str | None, name: str) -> float:
    """Return a finite number, 0 for NULL and "". `name` is for the error. Raises ServerError."""
    try:
        number = float(text or 0)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        shown = (text or "")[:_MOST_SHOWN]
        raise ServerError(f"the server answers {shown!r} for {name}, which is a number")
    return number
