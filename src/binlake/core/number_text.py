"""Numbers as MySQL's JSON prints them, written at the end of a ByteBuffer.

A double has the shortest digits that read back as the same double, in the notation of the
server's my_gcvt. Source: strings/dtoa.cc; measured on MySQL 9.7 (tests/server/test_json.py).
"""

from __future__ import annotations

import cython

from binlake.core.buffers import ByteBuffer

__all__ = ["write_double", "write_number"]

_FIXED_DIGITS = 15  # of a whole number, or places up to the first digit; more take an exponent
_FAST_BELOW = cython.declare(cython.double, 1e15)


def write_number(out: ByteBuffer, value: cython.ulonglong) -> cython.int:
    """Append decimal digits."""
    width: cython.int = 1
    rest: cython.ulonglong = value // 10
    while rest:
        width += 1
        rest //= 10
    at: cython.Py_ssize_t = out.size + width
    if at > out.capacity:
        out.reserve(width)
    out.size = at
    _i: cython.int
    for _i in range(width):
        at -= 1
        out.view[at] = cython.cast(cython.uchar, 48 + value % 10)
        value //= 10
    return 0


def write_double(out: ByteBuffer, value: cython.double) -> cython.int:
    """Append a finite number that is not negative."""
    if value < _FAST_BELOW and _few_places(out, value):
        return 0
    return out.put(_shortest(value))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _few_places(out: ByteBuffer, value: cython.double) -> cython.int:
    """Append a number with at most 15 digits, up to 6 of them after the point.

    Two decimals of 15 digits never read as the same double, so the first decimal found
    that reads back as `value` has the shortest digits. 0: there is none, nothing is appended.
    """
    power: cython.double = 1.0
    places: cython.int
    for places in range(7):
        scaled: cython.double = value * power
        if scaled >= _FAST_BELOW:
            return 0
        digits: cython.longlong = cython.cast(cython.longlong, scaled + 0.5)
        if cython.cast(cython.double, digits) / power == value:
            _fixed(out, digits, places)
            return 1
        power *= 10.0
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _fixed(out: ByteBuffer, digits: cython.ulonglong, places: cython.int) -> cython.int:
    """Append `digits` with a point before the last `places` of them, at least `.0`."""
    scale: cython.ulonglong = 1
    _i: cython.int
    for _i in range(places):
        scale *= 10
    write_number(out, digits // scale)
    out.put(b".")
    digits %= scale
    while scale > 10 and digits < scale // 10:
        out.put(b"0")
        scale //= 10
    return write_number(out, digits)


def _shortest(value: float) -> bytes:
    """The text of a number that is not negative, as the server's my_gcvt writes it."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = whole + fraction
    digits = written.lstrip("0")
    # the point stands after this many digits
    point = len(whole) + int(exponent or 0) - (len(written) - len(digits))
    digits = digits.rstrip("0") or "0"
    # digits after the point keep it in place, however many are before it
    if not -_FIXED_DIGITS < point <= max(_FIXED_DIGITS, len(digits) - 1):
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point - 1}"
    elif point <= 0:
        text = "0." + "0" * -point + digits
    elif point < len(digits):
        text = digits[:point] + "." + digits[point:]
    else:
        text = digits.ljust(point, "0") + ".0"
    return text.encode("ascii")
