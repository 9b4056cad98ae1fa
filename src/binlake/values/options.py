"""Every option of reading a log, once (design.md §3).

`READ_OPTIONS` is the table; `ReadOptions` the frozen, validated value made from it. CLI flags,
Spark options, API keywords and their documentation are all derived from the table, so an
option cannot exist in one of them only.

A name is spelled `exclude_table` here and as an API keyword, `--exclude-table` on the command
line, and `exclude_table`, `excludeTable` or `exclude-table` (any case) as a Spark option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from binlake.errors import OptionError

__all__ = ["READ_OPTIONS", "FilePosition", "OptionSpec", "ReadOptions", "parse_bytes", "parse_time_us"]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """FILE:POS as typed by a person: `file` is a base name, "" for the only or first file."""

    file: str
    pos: int

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}" if self.file else str(self.pos)


def parse_file_position(text: str) -> FilePosition:
    """Parse `FILE:POS` or a bare `POS`."""
    name, _, pos = text.rpartition(":")
    if not pos.isdigit():
        raise ValueError("expected FILE:POS, for example binlog.000012:4")
    return FilePosition(name.rpartition("/")[2], int(pos))


_TIME = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?"
    r"\s*(Z|[+-]\d\d:?\d\d)?$",
    re.IGNORECASE,
)


def parse_time_us(text: str) -> int:
    """Microseconds since 1970 UTC of a date or time; one without a zone is UTC.

    Accepts `2026-11-21`, `2026-11-21 14:00[:05[.123456]]`, with `T`, `Z` or `+hh:mm`, and
    `@SECONDS` since 1970. Raises ValueError.
    """
    text = text.strip()
    if re.fullmatch(r"@\d+(\.\d{1,6})?", text):
        whole, _, fraction = text[1:].partition(".")
        return int(whole) * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    match = _TIME.match(text)
    if match is None:
        raise ValueError("expected a time like 2026-11-21 14:00:00 or 2026-11-21T14:00:00Z")
    y, mo, d, h, mi, s, f, zone = match.groups()
    moment = datetime(
        int(y), int(mo), int(d), int(h or 0), int(mi or 0), int(s or 0), int((f or "").ljust(6, "0")),
        tzinfo=UTC,
    )  # fmt: skip
    if zone and zone.upper() != "Z":
        sign = -1 if zone[0] == "-" else 1
        digits = zone[1:].replace(":", "")
        moment -= sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def parse_bytes(text: str) -> int:
    """A size: `4096`, `64k`, `128MB`, `1GiB` (all powers of 1024)."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("expected a size like 64MB")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2].lower()]


def _int(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()):
        raise ValueError("expected a whole number")
    return int(text)


def _bool(text: str) -> bool:
    value = {"true": True, "1": True, "yes": True, "on": True,
             "false": False, "0": False, "no": False, "off": False}.get(text.strip().lower())  # fmt: skip
    if value is None:
        raise ValueError("expected true or false")
    return value


def _glob(text: str) -> str:
    if not text.strip():
        raise ValueError("expected DATABASE.TABLE, with * and ? as wildcards")
    return text


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option. `parse` turns one text into its value and raises ValueError with a hint.

    `repeatable` options are tuples (texts may also be separated by commas); `choices` restricts
    the text; `surfaces` says where it exists: "cli", "spark", "api". `aliases` are the names
    that mysqlbinlog users type; `local_time` ones read a time in the local zone.
    """

    name: str
    metavar: str
    help: str
    parse: Any = str
    default: Any = None
    repeatable: bool = False
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = ("cli", "spark", "api")


READ_OPTIONS: tuple[OptionSpec, ...] = (
    # what to read
    OptionSpec("table", "DB.TABLE", "only these tables; * and ? are wildcards", _glob, (), True),
    OptionSpec("exclude_table", "DB.TABLE", "not these tables; wins over --table", _glob, (), True),
    OptionSpec("op", "OP", "only these operations", str, (), True, ("insert", "update", "delete")),
    OptionSpec("since", "TIME", "commit time at or after this; UTC unless it names a zone", parse_time_us),
    OptionSpec("until", "TIME", "commit time before this; UTC unless it names a zone", parse_time_us),
    OptionSpec("start", "FILE:POS", "transactions that start at or after this position", parse_file_position),
    OptionSpec("stop", "FILE:POS", "transactions that start before this position", parse_file_position),
    OptionSpec("gtid", "SET", "only transactions in this GTID set", str),
    OptionSpec("exclude_gtid", "SET", "not the transactions in this GTID set", str),
    OptionSpec("server_id", "ID", "only events of these servers", _int, (), True),
    OptionSpec("thread", "ID", "only transactions of these connections", _int, (), True),
    OptionSpec("at", "FILE:POS|GTID", "the whole transaction at this position (start, inside or end) or GTID", str),
    # how to read it
    OptionSpec("columns", "NAME", "only these columns of the table", str, (), True, surfaces=("spark", "api", "cli")),
    OptionSpec("schema", "FILE", "SHOW CREATE TABLE statements or a dump: names, signs, charsets the log lacks", str),
    OptionSpec("verify_checksum", "BOOL", "verify CRC32 of every event", _bool, True),
    OptionSpec("on_error", "POLICY", "damage: stop, or skip to the next transaction that verifies", str, "stop", False, ("stop", "skip")),
    OptionSpec("on_unshown", "POLICY", "changes that rows cannot show (statement DML, DDL, TRUNCATE, INCIDENT)", str, "count", False, ("count", "error")),
    OptionSpec("uncommitted", "BOOL", "show rolled back, prepared and torn transactions too", _bool, False),
    # how values look
    OptionSpec("zero_date", "POLICY", "zero and partial dates in typed columns", str, "null", False, ("null", "error", "text")),
    OptionSpec("invalid", "POLICY", "bytes that are not valid in their character set", str, "error", False, ("error", "hex")),
    OptionSpec("assume_charset", "CHARSET", "character set of text columns the log does not describe", str),
    OptionSpec("binary", "FORM", "binary values in JSON", str, "hex", False, ("hex", "base64")),
    OptionSpec("nested", "BOOL", "embed JSON documents instead of quoting them", _bool, False),
    OptionSpec("query", "BOOL", "add the statement text (rows query or annotate event)", _bool, False),
    OptionSpec("thread_id", "BOOL", "add the connection's thread id", _bool, False),
    OptionSpec("before", "BOOL", "add the before-image of updates as _before", _bool, False, surfaces=("spark", "api")),
    OptionSpec("metadata_prefix", "TEXT", "prefix of metadata columns", str, "_", surfaces=("spark", "api", "cli")),
    OptionSpec("batch_bytes", "SIZE", "bound on the decoded bytes held at once", parse_bytes, 32 << 20),
)  # fmt: skip

_SPECS = {spec.name: spec for spec in READ_OPTIONS}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The validated options of one read. Fields are documented in `READ_OPTIONS`.

    Times are microseconds since 1970 UTC. Build it with `ReadOptions.parse` from texts (CLI,
    Spark) or keyword values (API); the bare constructor takes final values.
    """

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
    columns: tuple[str, ...] = ()
    schema: str | None = None
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
    metadata_prefix: str = "_"
    batch_bytes: int = 32 << 20

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ReadOptions:
        """Validate texts or values by name. Raises OptionError naming the option and a remedy."""
        values: dict[str, Any] = {}
        for name, raw in given.items():
            spec = _SPECS.get(name)
            if spec is None:
                raise OptionError(
                    f"unknown option {name!r}", name=name, hint=f"options are: {', '.join(sorted(_SPECS))}"
                )
            if raw is not None:
                values[name] = _parse_one(spec, raw)
        return cls(**values)


def _parse_one(spec: OptionSpec, raw: Any) -> Any:
    if spec.repeatable:
        items = raw if isinstance(raw, Iterable) and not isinstance(raw, str) else [raw]
        parts = [p.strip() for i in items for p in (i.split(",") if isinstance(i, str) else [i])] if not any(
            not isinstance(i, str) for i in items
        ) else list(items)
        return tuple(_parse_text(spec, part) for part in parts)
    return _parse_text(spec, raw)


def _parse_text(spec: OptionSpec, raw: Any) -> Any:
    if not isinstance(raw, str):
        if isinstance(raw, datetime) and spec.parse is parse_time_us:
            return parse_time_us(raw.isoformat(sep=" "))
        return raw
    if spec.choices and raw not in spec.choices:
        raise OptionError(
            f"option {spec.name}: {raw!r} is not one of {', '.join(spec.choices)}", name=spec.name, value=raw
        )
    try:
        return spec.parse(raw)
    except ValueError as error:
        raise OptionError(f"option {spec.name}: {raw!r}: {error}", name=spec.name, value=raw) from None


assert {f.name for f in fields(ReadOptions)} == set(_SPECS), "READ_OPTIONS and ReadOptions differ"
