"""Texts of option values to values: times, sizes, positions, GTIDs, names.

Each parser takes one text and raises ValueError with what it expects.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from binlake.format.charsets import BINARY, CHARSETS
from binlake.values.gtid import Gtid, MariaGtid
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.position import FilePosition
from binlake.values.similar_names import did_you_mean
from binlake.values.times import since_epoch_us, utc_moment
from binlake.values.where import parse_where


def parse_file_position(text: str) -> FilePosition:
    """Parse `FILE:POS` or a bare `POS`; FILE may have its directory before it."""
    name, _, pos = text.strip().rpartition(":")
    if not re.fullmatch(r"\d{1,18}", pos, re.ASCII):
        raise ValueError("expected FILE:POS, for example binlog.000012:4")
    directory, _, file = name.rpartition("/")
    return FilePosition(file, int(pos), directory)


def parse_at(text: str) -> FilePosition | Gtid | MariaGtid:
    """Parse what option `at` takes: `uuid:gno`, `uuid:tag:gno`, `0-1-5`, `FILE:POS` or `POS`."""
    for parse in (Gtid.parse, MariaGtid.parse, parse_file_position):
        try:
            return parse(text)
        except ValueError:
            continue
    raise ValueError("expected FILE:POS, for example binlog.000012:4, or a GTID")


_TIME = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?"
    r"\s*(Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS = re.compile(r"@(\d{1,11})(?:\.(\d{1,6}))?", re.ASCII)


_AGO = re.compile(r"-(\d{1,9})\s*(s|m|h|d|w)", re.ASCII)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DAY = re.compile(r"(now|today|yesterday)", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?:(today|yesterday)\s+)?(\d\d?:\d\d(?::\d\d(?:\.\d{1,6})?)?.*)", re.IGNORECASE
)


def parse_time_us(text: str, now: datetime | None = None) -> int:
    """Microseconds since 1970 UTC of a date or time; one without a zone is UTC.

    Accepts the forms of `parse_calendar_us`, and times relative to `now` (default: the clock of this
    machine): `now`, `today`, `yesterday`, `14:03`, `yesterday 14:03`, and `-90s`, `-30m`, `-1h`, `-2d`
    or `-1w` ago. Raises ValueError.
    """
    text = text.strip()
    now = datetime.now(UTC) if now is None else now
    if ago := _AGO.fullmatch(text):
        return since_epoch_us(now) - int(ago[1]) * _UNIT_SECONDS[ago[2]] * 1_000_000
    if text.lower() == "now":
        return since_epoch_us(now)
    clock = _CLOCK.fullmatch(text)
    word = text if _DAY.fullmatch(text) else (clock[1] or "today") if clock else None
    if word is None:
        return parse_calendar_us(text)
    day = now.date() - timedelta(days=word.lower() == "yesterday")
    return parse_calendar_us(f"{day} {clock[2]}" if clock else f"{day}")


def parse_calendar_us(text: str) -> int:
    """Microseconds since 1970 UTC of a text that contains the date; a text without a zone is UTC.

    Accepts `2026-11-21`, `2026-11-21 14:00[:05[.123456]]`, with `T`, `Z` or `+hh:mm`, and
    `@SECONDS` since 1970. Raises ValueError.
    """
    text = text.strip()
    if seconds := _SECONDS.fullmatch(text):
        return int(seconds[1]) * 1_000_000 + int((seconds[2] or "").ljust(6, "0"))
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(
            "expected a time like 2026-11-21 14:00:00, 2026-11-21T14:00:00Z, 14:00, yesterday or -1h"
        )
    *whole, fraction, zone = match.groups(default="0")
    year, month, day, hour, minute, second = map(int, whole)
    moment = datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")), UTC)
    return since_epoch_us(moment) - _offset_us(zone)


def names_moment(text: str) -> bool:
    """Whether a text that `parse_calendar_us` accepts means one moment in any zone: it has a zone, or is `@SECONDS`."""
    match = _TIME.fullmatch(text.strip())
    return match is None or match[8] is not None


def calendar_text(time_us: int) -> str:
    """Return a time in microseconds since 1970 as text that `parse_calendar_us` reads."""
    try:
        moment = utc_moment(time_us)
    except OverflowError:
        return f"@{time_us // 1_000_000}"
    return f"{moment.replace(tzinfo=None)}Z"


def _offset_us(zone: str) -> int:
    """The offset of a zone `Z`, `+hh:mm` or `-hhmm` from UTC ("0": no zone)."""
    if zone in ("0", "Z", "z"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{zone} is not the offset of a zone; expected one like +02:00")
    minutes += hours * 60
    return (-minutes if zone[0] == "-" else minutes) * 60_000_000


def parse_bytes(text: str) -> int:
    """A size: `4096`, `64k`, `128MB`, `1GiB` (all powers of 1024); at least 1."""
    match = re.fullmatch(r"(\d{1,18})\s*([kmgt]?)i?b?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise ValueError("expected a size like 64MB")
    if int(match[1]) == 0:
        raise ValueError("expected a size of at least 1 byte, like 64MB")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2].lower()]


def parse_count(text: str) -> int:
    """A whole number, at least 1. Raises ValueError."""
    count = parse_number(text)
    if count == 0:
        raise ValueError("expected a whole number of at least 1")
    return count


def parse_number(text: str) -> int:
    """A whole number, not negative. Raises ValueError."""
    if not re.fullmatch(r"\d{1,20}", text.strip(), re.ASCII):
        raise ValueError("expected a whole number, not negative")
    return int(text)


_BOOLS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def parse_bool(text: str) -> bool:
    """`true` or `false`, also as 1, yes, on, 0, no, off. Raises ValueError."""
    value = _BOOLS.get(text.strip().lower())
    if value is None:
        raise ValueError("expected true or false")
    return value


def parse_table_pattern(text: str) -> str:
    """`DATABASE.TABLE`, with `*` and `?` as wildcards. Raises ValueError."""
    if "." not in text:
        raise ValueError(
            f"expected DATABASE.TABLE, with * and ? as wildcards; *.{text} is in any database"
        )
    return text


def possible_names(text: str) -> list[tuple[str, str]]:
    """Return each database and table that `DATABASE.TABLE` may mean: their names may contain periods."""
    parts = text.split(".")
    return [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts))]


def parse_text(text: str) -> str:
    """Any text but an empty one. Raises ValueError."""
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


def parse_charset(text: str) -> str:
    """The name of a character set, in any case; utf8 is utf8mb3."""
    name = text.strip().lower()
    name = "utf8mb3" if name == "utf8" else name
    if name != BINARY and name not in CHARSETS:
        known = [*CHARSETS, BINARY]
        hint = did_you_mean(name, known, most=3) or f"they are {', '.join(sorted(known))}"
        raise ValueError(f"not a character set of MySQL or MariaDB; {hint}")
    return name


def parse_gtids(text: str) -> str:
    """A GTID set as `parse_gtid_filter` takes it, without spaces. Raises ValueError."""
    parse_gtid_filter(text)
    return "".join(text.split())


def parse_condition(text: str) -> str:
    """A condition that `parse_where` accepts. Raises ValueError."""
    parse_where(text)
    return text


def parse_position(text: str) -> str:
    """A text that `parse_at` accepts, in its usual form. Raises ValueError."""
    return str(parse_at(text))


def moment_us(value: date) -> int:
    """A date or datetime of the API; one without a zone is UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return since_epoch_us(value if value.tzinfo else value.replace(tzinfo=UTC))
