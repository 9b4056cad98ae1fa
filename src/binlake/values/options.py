"""Every option of reading a log, once.

`READ_OPTIONS` is the table; `ReadOptions` the frozen, validated value made from it. CLI flags,
Spark options, API keywords and their documentation are all derived from the table, so an
option cannot exist in one of them only.

A name is spelled `exclude_table` here and as an API keyword, `--exclude-table` on the command
line, and `exclude_table`, `excludeTable` or `exclude-table` (any case) as a Spark option.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

from binlake.errors import OptionError
from binlake.format.charsets import BINARY, CHARSETS
from binlake.values.builds import PickledByName
from binlake.values.column_patterns import parse_column_pattern
from binlake.values.frame import DEFAULT_MAX_MEMORY
from binlake.values.gtid import Gtid, MariaGtid
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.where import parse_where

__all__ = [
    "FILTER_OPTIONS",
    "READ_OPTIONS",
    "ROW_FILTERS",
    "FilePosition",
    "OptionSpec",
    "ReadOptions",
    "parse_at",
    "parse_bytes",
    "parse_calendar_us",
    "parse_count",
    "parse_file_position",
    "parse_table_pattern",
    "parse_time_us",
]


@dataclass(frozen=True, slots=True)
class FilePosition(PickledByName):
    """FILE:POS as typed by a person.

    `file` is a base name; "" stands for the first file (option `start`), the last (`stop`), or
    the only one (`at`) of all that are read. `directory` is what was typed before it, "" if nothing
    was: it tells logs of the same name apart.
    """

    file: str
    pos: int
    directory: str = field(default="", compare=False)

    def __str__(self) -> str:
        path = f"{self.directory}/{self.file}" if self.directory else self.file
        return f"{path}:{self.pos}" if path else str(self.pos)


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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_AGO = re.compile(r"-(\d{1,9})\s*(s|m|h|d|w)", re.ASCII)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DAY = re.compile(r"(now|today|yesterday)", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?:(today|yesterday)\s+)?(\d\d?:\d\d(?::\d\d(?:\.\d{1,6})?)?.*)", re.IGNORECASE
)


def parse_time_us(text: str, now: datetime | None = None) -> int:
    """Microseconds since 1970 UTC of a date or time; one without a zone is UTC.

    Accepts what `parse_calendar_us` does, and what is relative to `now` (default: the clock of this
    machine): `now`, `today`, `yesterday`, `14:03`, `yesterday 14:03`, and `-90s`, `-30m`, `-1h`, `-2d`
    or `-1w` ago. Raises ValueError.
    """
    text = text.strip()
    now = datetime.now(UTC) if now is None else now
    if ago := _AGO.fullmatch(text):
        return _since_epoch_us(now) - int(ago[1]) * _UNIT_SECONDS[ago[2]] * 1_000_000
    if text.lower() == "now":
        return _since_epoch_us(now)
    clock = _CLOCK.fullmatch(text)
    word = text if _DAY.fullmatch(text) else (clock[1] or "today") if clock else None
    if word is None:
        return parse_calendar_us(text)
    day = now.date() - timedelta(days=word.lower() == "yesterday")
    return parse_calendar_us(f"{day} {clock[2]}" if clock else f"{day}")


def parse_calendar_us(text: str) -> int:
    """The same of a date or time that says its day.

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
    return _since_epoch_us(moment) - _offset_us(zone)


def _offset_us(zone: str) -> int:
    """How far a zone `Z`, `+hh:mm` or `-hhmm` is ahead of UTC ("0": no zone)."""
    if zone in ("0", "Z", "z"):
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{zone} is not the offset of a zone; expected one like +02:00")
    minutes += hours * 60
    return (-minutes if zone[0] == "-" else minutes) * 60_000_000


def _since_epoch_us(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_bytes(text: str) -> int:
    """A size: `4096`, `64k`, `128MB`, `1GiB` (all powers of 1024); at least 1."""
    match = re.fullmatch(r"(\d{1,18})\s*([kmgt]?)i?b?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a size like 64MB")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2].lower()]


def parse_count(text: str) -> int:
    """A whole number, at least 1. Raises ValueError."""
    count = _number(text)
    if count == 0:
        raise ValueError("expected a whole number of at least 1")
    return count


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,20}", text.strip(), re.ASCII):
        raise ValueError("expected a whole number, not negative")
    return int(text)


_BOOLS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def _bool(text: str) -> bool:
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


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


def _charset(text: str) -> str:
    """A character set by its name, of which servers take any case; utf8 is utf8mb3."""
    name = text.strip().lower()
    name = "utf8mb3" if name == "utf8" else name
    if name != BINARY and name not in CHARSETS:
        known = [*CHARSETS, BINARY]
        near = difflib.get_close_matches(name, known, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"they are {', '.join(sorted(known))}"
        )
        raise ValueError(f"not a character set of MySQL or MariaDB; {hint}")
    return name


def _gtids(text: str) -> str:
    parse_gtid_filter(text)
    return "".join(text.split())


def _condition(text: str) -> str:
    parse_where(text)
    return text


def _at(text: str) -> str:
    return str(parse_at(text))


def _moment(value: date) -> int:
    """A date or datetime of the API; one without a zone is UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return _since_epoch_us(value if value.tzinfo else value.replace(tzinfo=UTC))


# What an API caller may give instead of a text, by the option's parser: a type and what makes
# the final value of it. (A bool is an int to Python, never to a person.)
_READY: dict[Callable[[str], Any], tuple[type | tuple[type, ...], Callable[[Any], Any]]] = {
    parse_time_us: (date, _moment),
    parse_file_position: (FilePosition, lambda value: value),
    _number: (int, lambda value: _number(str(value))),
    parse_count: (int, lambda value: parse_count(str(value))),
    parse_bytes: (int, lambda value: parse_bytes(str(value))),
    _bool: (bool, bool),
    _text: (os.PathLike, os.fspath),
    _at: ((FilePosition, Gtid, MariaGtid), str),
}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option. `parse` turns one text into its value and raises ValueError with a hint.

    `repeatable` options are tuples (texts may also be separated by commas); `choices` restricts
    the text; `surfaces` says where it exists: "cli", "spark", "api".
    """

    name: str
    metavar: str
    help: str
    parse: Callable[[str], Any] = str
    default: Any = None
    repeatable: bool = False
    choices: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ("cli", "spark", "api")


READ_OPTIONS: tuple[OptionSpec, ...] = (
    # what to read
    OptionSpec("source", "SOURCE", "read the logs of this source only, if the paths contain several", _text),
    OptionSpec("table", "DB.TABLE", "only these tables; * and ? are wildcards", parse_table_pattern, (), True),
    OptionSpec("exclude_table", "DB.TABLE", "exclude these tables, even if --table names them", parse_table_pattern, (), True),
    OptionSpec("op", "OP", "only these operations", str, (), True, ("insert", "update", "delete")),
    OptionSpec("since", "TIME", "only transactions committed at or after this time; UTC unless it names a zone", parse_time_us),
    OptionSpec("until", "TIME", "only transactions committed before this time; UTC unless it names a zone", parse_time_us),
    OptionSpec("start", "FILE:POS", "only transactions that start at or after this position; POS alone: in the first file", parse_file_position),
    OptionSpec("stop", "FILE:POS", "only transactions that start before this position; POS alone: in the last file", parse_file_position),
    OptionSpec("gtid", "SET", "only transactions in this GTID set", _gtids),
    OptionSpec("exclude_gtid", "SET", "exclude the transactions in this GTID set", _gtids),
    OptionSpec("server_id", "ID", "only events of these servers", _number, (), True),
    OptionSpec("thread", "ID", "only transactions of these connections", _number, (), True),
    OptionSpec("at", "FILE:POS|GTID", "only one transaction: the one with this GTID, or the one that starts at this position, else contains it, else ends there", _at),
    OptionSpec("where", "EXPR", "only row changes for which this condition in MySQL's syntax is true; it may use columns, before.NAME, after.NAME and changed(NAME)", _condition),
    OptionSpec("whole_transaction", "BOOL", "with where: also the other row changes of a transaction in which one matches", _bool, False),
    # how to read it
    OptionSpec("index_directory", "DIR", "also allow index files to name logs in this directory", _text, (), True),
    OptionSpec("columns", "NAME", "only these columns of the table", _text, (), True),
    OptionSpec("exclude_column", "DB.TABLE.COLUMN", "exclude these columns; * and ? are wildcards", parse_column_pattern, (), True, surfaces=("api",)),
    OptionSpec("schema", "FILE", "SHOW CREATE TABLE statements, a dump, output of `binlake schema`, or the URL of a live server: supplies names, signs and character sets that the log lacks", _text),
    OptionSpec("keyring", "FILE", "the server's keyring or key file, for encrypted logs", _text),
    OptionSpec("keyring_password_file", "FILE", "file with the password of an encrypted MariaDB key file", _text),
    OptionSpec("verify_checksum", "BOOL", "verify CRC32 of every event", _bool, True),
    OptionSpec("on_error", "POLICY", "what to do at damage: stop, or skip to the next intact transaction", str, "stop", False, ("stop", "skip")),
    OptionSpec("on_unshown", "POLICY", "changes that rows cannot show (statement DML, DDL, TRUNCATE, account management such as GRANT, INCIDENT): count them, or stop at the first", str, "count", False, ("count", "error")),
    OptionSpec("uncommitted", "BOOL", "show rolled back, prepared and torn transactions too", _bool, False),
    # how values look
    OptionSpec("zero_date", "POLICY", "form of zero and partial dates in typed columns", str, "null", False, ("null", "error", "text")),
    OptionSpec("invalid", "POLICY", "text that is invalid in its character set: an error, or hex", str, "error", False, ("error", "hex")),
    OptionSpec("assume_charset", "CHARSET", "character set of text columns that the log does not describe", _charset),
    OptionSpec("binary", "FORM", "form of binary values in JSON", str, "hex", False, ("hex", "base64")),
    OptionSpec("nested", "BOOL", "embed JSON documents instead of quoting them", _bool, False),
    OptionSpec("query", "BOOL", "add the statement text (rows query or annotate event)", _bool, False),
    OptionSpec("thread_id", "BOOL", "add the connection's thread id", _bool, False),
    OptionSpec("before", "BOOL", "add the before-image of updates as _before", _bool, False, surfaces=("spark", "api")),
    OptionSpec("time", "FORM", "form of TIME columns and of the duration of transactions: an interval, the server's text, or a number of microseconds", str, "interval", False, ("interval", "text", "micros")),
    OptionSpec("metadata", "BOOL", "add the metadata columns to typed rows", _bool, True),
    OptionSpec("metadata_prefix", "TEXT", "prefix of metadata columns, as in PREFIXop and PREFIXfile; by default they are _op, _ts, …, and _log_file and _log_pos", str),
    OptionSpec("batch_bytes", "SIZE", "size of a batch of decoded rows in memory", parse_bytes, 8 << 20),
    OptionSpec("threads", "N", "number of threads that decode rows; default: one per processor core, but at most one per 8 MB of log; in a Spark task one. stats and index use one", parse_count),
    OptionSpec("max_memory", "SIZE", "limit on the memory that a log can make binlake use. A compressed event may inflate to a quarter of it, a compressed transaction to the limit plus 100 times its own size; the tables in memory may have one column for each 4 kB", parse_bytes, DEFAULT_MAX_MEMORY),
)  # fmt: skip

#: The options that choose what is read; the others say how.
FILTER_OPTIONS = (
    *(
        "source",
        "table",
        "exclude_table",
        "op",
        "since",
        "until",
        "start",
        "stop",
        "gtid",
        "exclude_gtid",
    ),
    *("server_id", "thread", "at"),
)

#: The options that choose single row changes by their values.
ROW_FILTERS = ("where", "whole_transaction")

_SPECS = {spec.name: spec for spec in READ_OPTIONS}


@dataclass(frozen=True, slots=True)
class ReadOptions(PickledByName):
    """The validated options of one read. Fields are documented in `READ_OPTIONS`.

    Times are microseconds since 1970 UTC; `gtid`, `exclude_gtid` and `at` are texts that
    `parse_gtid_filter` and `parse_at` accept. Build it with `ReadOptions.parse` from texts
    (CLI, Spark) or keyword values (API); the bare constructor takes final values.
    """

    source: str | None = None
    table: tuple[str, ...] = ()
    exclude_table: tuple[str, ...] = ()
    op: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    start: FilePosition | None = None
    stop: FilePosition | None = None
    gtid: str | None = None
    exclude_gtid: str | None = None
    server_id: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    at: str | None = None
    where: str | None = None
    whole_transaction: bool = False
    index_directory: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    exclude_column: tuple[str, ...] = ()
    schema: str | None = None
    keyring: str | None = None
    keyring_password_file: str | None = None
    verify_checksum: bool = True
    on_error: str = "stop"
    on_unshown: str = "count"
    uncommitted: bool = False
    zero_date: str = "null"
    invalid: str = "error"
    assume_charset: str | None = None
    binary: str = "hex"
    nested: bool = False
    query: bool = False
    thread_id: bool = False
    before: bool = False
    time: str = "interval"
    metadata: bool = True
    metadata_prefix: str | None = None
    batch_bytes: int = 8 << 20
    threads: int | None = None
    max_memory: int = DEFAULT_MAX_MEMORY

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ReadOptions:
        """Validate texts or values by name; None stands for "not given".

        Raises OptionError naming the option and a remedy, also for options that contradict
        each other.
        """
        values: dict[str, Any] = {}
        for name, raw in given.items():
            spec = _SPECS.get(name)
            if spec is None:
                hint = f"options are: {', '.join(sorted(_SPECS))}"
                raise OptionError(f"unknown option {name!r}", name=name, hint=hint)
            if raw is not None:
                values[name] = _parse_all(spec, raw) if spec.repeatable else _parse_one(spec, raw)
        options = cls(**values)
        options._check()
        return options

    @property
    def chooses_rows(self) -> bool:
        """Whether only some tables or operations are wanted."""
        return bool(self.table or self.exclude_table or self.op)

    @property
    def filters(self) -> bool:
        """Whether anything is filtered."""
        return bool(self.filters_given)

    @property
    def filters_given(self) -> list[str]:
        """The names of the options that filter something."""
        names = (*FILTER_OPTIONS, "where")
        return [name for name in names if getattr(self, name) not in (None, ())]

    def refuse_row_filters(self, what: str) -> None:
        """For what does not look at values. Raises OptionError if single row changes are chosen."""
        if self.where is not None:
            raise OptionError(
                f"option where chooses row changes by their values, and {what} has none",
                name="where",
            )

    def _check(self) -> None:
        if self.whole_transaction and self.where is None:
            raise OptionError(
                "option whole_transaction needs option where", name="whole_transaction"
            )
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise OptionError("option until is not after option since", name="until")
        if (
            self.start is not None
            and self.stop is not None
            and self.start.file == self.stop.file != ""
            and self.start.pos >= self.stop.pos
        ):
            raise OptionError("option stop is not after option start", name="stop")
        if self.at is not None:
            for name in ("since", "until", "start", "stop", "gtid", "exclude_gtid"):
                if getattr(self, name) is not None:
                    raise OptionError(
                        f"options at and {name} exclude each other",
                        name=name,
                        hint="at already names one transaction",
                    )


def _parse_all(spec: OptionSpec, raw: Any) -> tuple[Any, ...]:
    """The values of a repeatable option: one text with commas, one value, or several."""
    several = isinstance(raw, Iterable) and not isinstance(raw, str)
    values = []
    for item in raw if several else [raw]:
        parts = item.split(",") if isinstance(item, str) else [item]
        values += [_parse_one(spec, part) for part in parts]
    return tuple(values)


def _parse_one(spec: OptionSpec, raw: Any) -> Any:
    try:
        if not isinstance(raw, str):
            return _ready_value(spec, raw)
        text = raw.strip() if spec.repeatable or spec.choices else raw
        if spec.choices and text not in spec.choices:
            raise ValueError(f"expected one of {', '.join(spec.choices)}")
        return spec.parse(text)
    except ValueError as error:
        raise OptionError(
            f"option {spec.name}: {raw!r}: {error}", name=spec.name, value=raw
        ) from None


def _ready_value(spec: OptionSpec, raw: Any) -> Any:
    kind, convert = _READY.get(spec.parse, (str, str))
    if not isinstance(raw, kind) or (isinstance(raw, bool) and kind is int):
        raise ValueError(f"a value of type {type(raw).__name__} is not expected here")
    return convert(raw)


assert {f.name: f.default for f in fields(ReadOptions)} == {
    name: spec.default for name, spec in _SPECS.items()
}, "READ_OPTIONS and ReadOptions differ"
