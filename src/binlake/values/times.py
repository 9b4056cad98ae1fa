"""Moments: microseconds since 1970, times in UTC, and text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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
