"""Values to wire bytes, written from the format's definition and not from the decoder.

formats: MySQL `mysys/my_time.cc`, `strings/decimal.cc`; all numbers are built with Python's
own big integers and `decimal`.
"""

from __future__ import annotations

from decimal import Decimal

DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_bytes(value: Decimal, precision: int, scale: int) -> bytes:
    """NEWDECIMAL: groups of nine digits, the short groups outside, sign in the first bit."""
    digits = str(abs(int(value.scaleb(scale)))).rjust(precision, "0")
    assert len(digits) == precision
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    head = len(whole) % 9
    groups = ([whole[:head]] if head else []) + [
        whole[i : i + 9] for i in range(head, len(whole), 9)
    ]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
    raw = bytearray()
    for group in groups:
        raw += int(group).to_bytes(DIGIT_BYTES[len(group)], "big")
    if value.is_signed() and value != 0:
        raw = bytearray(byte ^ 0xFF for byte in raw)
    raw[0] ^= 0x80
    return bytes(raw)


def _fraction(us: int, fsp: int) -> bytes:
    n = (fsp + 1) // 2
    return (us // 10 ** (6 - 2 * n)).to_bytes(n, "big") if n else b""


def datetime2_bytes(
    year: int, month: int, day: int, hour: int, minute: int, second: int, us: int, fsp: int
) -> bytes:
    """DATETIME2: 1 bit sign (always set), 17 year * 13 + month, 5, 5, 6, 6, and the fraction."""
    bits = f"1{year * 13 + month:017b}{day:05b}{hour:05b}{minute:06b}{second:06b}"
    return int(bits, 2).to_bytes(5, "big") + _fraction(us, fsp)


def timestamp2_bytes(seconds: int, us: int, fsp: int) -> bytes:
    """TIMESTAMP2: seconds since 1970, and the fraction."""
    return seconds.to_bytes(4, "big") + _fraction(us, fsp)


def time2_bytes(sign: int, hour: int, minute: int, second: int, us: int, fsp: int) -> bytes:
    """TIME2: one number of hours, minutes, seconds and fraction, negated as a whole, offset so
    that bytes sort: 3 bytes and n of fraction, the fraction counted in the column's own unit.
    """
    n = (fsp + 1) // 2
    hms = hour << 12 | minute << 6 | second
    number: int = sign * (hms << 8 * n | us // 10 ** (6 - 2 * n))
    return (number + (1 << 23 + 8 * n)).to_bytes(3 + n, "big")


def date_bytes(year: int, month: int, day: int) -> bytes:
    """DATE: 15 bits year, 4 month, 5 day, little-endian."""
    return int(f"{year:015b}{month:04b}{day:05b}", 2).to_bytes(3, "little")
