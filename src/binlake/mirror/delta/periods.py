"""Periods of Delta's properties, and the period in which a version of a table can be read."""

from __future__ import annotations

import re

HOUR_S = 3600
#: Delta's own safety period of VACUUM: readers and copies that began before may still need a file.
_SAFE_HOURS = 168
_PERIODS = re.compile(r"(\d+) (week|day|hour|minute|second)s?\b")
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}


def hours_of(interval: str) -> int:
    """Return how many hours a period of Delta's properties has, such as `interval 1 week 2 days`, rounded up; 0 if it is unknown."""
    found = _PERIODS.findall(interval.lower())
    return -(-sum(int(number) * _SECONDS[unit] for number, unit in found) // HOUR_S)


def readable_hours(keep_s: int) -> int:
    """For how many hours a version can be read, if the mirror keeps versions for `keep_s` seconds."""
    return max(_SAFE_HOURS, -(-keep_s // HOUR_S))
