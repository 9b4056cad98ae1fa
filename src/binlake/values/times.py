"""Moments and durations: microseconds, times in UTC, and the texts of both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

#: Metadata of an Arrow field (and a column of Spark) whose values count microseconds.
IN_MICROSECONDS = {"binlake.unit": "microseconds"}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_moment(us: int) -> datetime:
    """Microseconds since 1970 as a time in UTC. Raises OverflowError outside of the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=us)


def since_epoch_us(moment: datetime) -> int:
    """A time with a zone as microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def utc_text(us: int | None) -> str | None:
    """Microseconds since 1970 as `2026-11-21T07:09:00.123456Z`."""
    if us is None:
        return None
    return datetime.fromtimestamp(us / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def utc_time(seconds: float) -> str:
    """A Unix time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def time_text(time_us: int, digits: int = 0) -> str:
    """A TIME as a server prints it, `-838:59:59.000000`, with so many fractional digits."""
    seconds, fraction = divmod(abs(time_us), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    whole = f"{'-' if time_us < 0 else ''}{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{whole}.{fraction:06d}"[: len(whole) + 1 + digits] if digits else whole
