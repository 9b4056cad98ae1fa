"""Moments as text."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(us: int | None) -> str | None:
    """Microseconds since 1970 as `2026-11-21T07:09:00.123456Z`."""
    if us is None:
        return None
    return datetime.fromtimestamp(us / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
