"""TIME values and durations: a number of microseconds, and the text that a server prints."""

from __future__ import annotations

#: Metadata of an Arrow field (and a column of Spark) whose values count microseconds.
IN_MICROSECONDS = {"binlake.unit": "microseconds"}


def time_text(time_us: int, digits: int = 0) -> str:
    """A TIME as a server prints it, `-838:59:59.000000`, with so many fractional digits."""
    seconds, fraction = divmod(abs(time_us), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    whole = f"{'-' if time_us < 0 else ''}{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{whole}.{fraction:06d}"[: len(whole) + 1 + digits] if digits else whole
