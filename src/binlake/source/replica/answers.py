"""Values in a server's answers, which may contain anything: numbers are checked before they are
used.
"""

from __future__ import annotations

import math
import re

from binlake.errors import ServerError

__all__ = ["decimal_number", "whole_number"]

_MOST_SHOWN = 40
_WHOLE = re.compile(r"\d{1,20}", re.ASCII)


def whole_number(text: str | None, name: str) -> int:
    """Return a whole number that is not negative, 0 for NULL and "". `name` is for the error.

    Raises ServerError.
    """
    if not text:
        return 0
    if not _WHOLE.fullmatch(text):
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
