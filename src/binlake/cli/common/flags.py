"""Command-line flags made from `values.options.READ_OPTIONS`, and mysqlbinlog's own names.

A command function takes `options: ReadOptions`; `with_read_options` replaces that parameter by one
flag per option, so no command spells a filter itself. The sets of names below list the options that
a command can apply.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from binlake.cli.common.parameters import Option, flag_parameter, with_parameters
from binlake.errors import OptionError
from binlake.values.option_spec import OptionSpec
from binlake.values.option_texts import names_moment, parse_bytes, parse_calendar_us
from binlake.values.options import FILTER_OPTIONS, READ_OPTIONS, ROW_FILTERS, ReadOptions

_READING_PANEL = "Reading and output"
_FILTER_PANEL = "Filters"
_ALIAS_PANEL = "Filters by mysqlbinlog's names"
#: Options of every command that opens logs.
HOW_LOGS_ARE_OPENED = ("index_directory", "keyring", "keyring_password_file", "max_memory")

#: Options of the command that writes typed rows: all.
EXPORT_OPTIONS = frozenset(spec.name for spec in READ_OPTIONS)

#: Options of a command that shows events: it decodes no rows, and shows bad checksums itself.
EVENT_OPTIONS = frozenset((*FILTER_OPTIONS, *HOW_LOGS_ARE_OPENED, "on_error"))

#: Options of the command that shows rows: they are the server's text, in columns of fixed names.
ROW_OPTIONS = EXPORT_OPTIONS - {*("zero_date", "time", "metadata", "metadata_prefix")}

#: The same of one live server.
TAIL_OPTIONS = ROW_OPTIONS - {"source", "threads"}

#: Options of a command that writes SQL: it shows all columns, of committed changes only, and
#: values in one form.
SQL_OPTIONS = frozenset(
    (*FILTER_OPTIONS, *ROW_FILTERS, "schema", "verify_checksum", "on_error", "on_unshown", "assume_charset", "batch_bytes",
     "threads", *HOW_LOGS_ARE_OPENED)
)  # fmt: skip

#: Options of a command that shows one row of one table, in all columns.
HISTORY_OPTIONS = (
    ROW_OPTIONS - {*ROW_FILTERS, "table", "exclude_table", "op", "columns", "uncommitted"}
) - {"query", "thread_id", "before"}

#: Options of a command that answers SQL: it names its columns itself.
QUERY_OPTIONS = EXPORT_OPTIONS - {
    *("columns", "metadata", "before", "query", "thread_id", "exclude_column")
}

#: Options of a page: it chooses rows and columns itself.
UI_OPTIONS = (ROW_OPTIONS - {*ROW_FILTERS, "op", "columns", "uncommitted", "at"}) - {
    *("query", "thread_id", "nested", "binary")
}

#: Options of a command that counts: it reads no value and names no column.
STATS_OPTIONS = frozenset(
    (*FILTER_OPTIONS, "verify_checksum", "on_error", "on_unshown", "uncommitted", "batch_bytes",
     "threads", *HOW_LOGS_ARE_OPENED)
)  # fmt: skip


def local_time(text: str) -> str:
    """Return the moment of `local_moment` as text with a zone. Raises OptionError."""
    return local_moment(text).isoformat()


def local_moment(text: str) -> datetime:
    """A time in the local zone, as mysqlbinlog reads it; one with a zone, or `@SECONDS`, is that moment. Raises
    OptionError.
    """
    try:
        since_epoch = timedelta(microseconds=parse_calendar_us(text))
        zone = UTC if names_moment(text) else None
        return (datetime(1970, 1, 1, tzinfo=zone) + since_epoch).astimezone()
    except ValueError as error:
        raise OptionError(f"{text!r}: {error}", value=text) from None
    except OverflowError:
        raise OptionError(
            f"{text!r}: this time does not exist in the local zone", value=text
        ) from None


def _position_of(flag: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if not text.isdigit():
            raise OptionError(f"{flag} {text!r}: expected a position", name=flag, value=text)
        return f":{text}"

    return convert


@dataclass(frozen=True, slots=True)
class Alias:
    """A flag of mysqlbinlog: the option that it fills, and the conversion of its text."""

    flag: str
    option: str
    metavar: str
    help: str
    convert: Callable[[str], str]
    repeatable: bool = False


MYSQLBINLOG_NAMES: tuple[Alias, ...] = (
    Alias(
        "start_datetime",
        "since",
        "TIME",
        "the same as --since; local time if it names no zone",
        local_time,
    ),
    Alias(
        "stop_datetime",
        "until",
        "TIME",
        "the same as --until; local time if it names no zone",
        local_time,
    ),
    Alias(
        "start_position",
        "start",
        "POS",
        "the same as --start, in the first file",
        _position_of("--start-position"),
    ),
    Alias(
        "stop_position",
        "stop",
        "POS",
        "the same as --stop, in the last file",
        _position_of("--stop-position"),
    ),
    Alias("database", "table", "DB", "the same as --table 'DB.*'", lambda db: f"{db}.*", True),
    Alias("include_gtids", "gtid", "SET", "the same as --gtid", str),
    Alias("exclude_gtids", "exclude_gtid", "SET", "the same as --exclude-gtid", str),
)


def size_flag(flag: str, text: str) -> int:
    """Parse the value of a flag, a number of bytes such as 64MB. Raises OptionError."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise OptionError(f"{flag} {text}: {error}", name=flag, value=text) from None


def renamed_databases(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse the values of --rewrite-db, `old->new`. Raises OptionError."""
    renames = {}
    for text in texts or ():
        old, arrow, new = (part.strip() for part in text.partition("->"))
        if not (old and arrow and new):
            raise OptionError(f"--rewrite-db {text!r}: expected 'old->new'", name="--rewrite-db")
        renames[old] = new
    return renames


def with_flags(text: str) -> str:
    """Return a message with flags for options: `--on-error skip`, not `on_error=skip`, `--keyring`, not
    `option keyring`, and `--force`, not `force=True`.
    """
    text = _ASSIGNED.sub(lambda found: f"{_flag(found['name'])} {found['value']}", text)
    text = _NAMED.sub(lambda found: _flag(found["name"]), text)
    return text.replace("force=True", "--force")


_NAMES = "|".join(spec.name for spec in READ_OPTIONS if "cli" in spec.surfaces)
_ASSIGNED = re.compile(rf"\b(?P<name>{_NAMES})=(?P<value>\w+)")
_NAMED = re.compile(rf"\b(?:the )?option (?P<name>{_NAMES})\b")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parameter(spec: OptionSpec) -> inspect.Parameter:
    panel = _FILTER_PANEL if spec.name in (*FILTER_OPTIONS, *ROW_FILTERS) else _READING_PANEL
    text = with_flags(spec.help) + (f" ({'|'.join(spec.choices)})" if spec.choices else "")
    if isinstance(spec.default, bool):
        kind: Any = bool | None
        off = f"/--no-{spec.name.replace('_', '-')}" if spec.default else ""
        decl = _flag(spec.name) + off
        shown: dict[str, Any] = {}
    else:
        kind = list[str] | None if spec.repeatable else str | None
        decl = _flag(spec.name)
        shown = {"metavar": spec.metavar}
    option = Option(
        decl,
        help=text,
        panel=panel,
        show_default=_shown_default(spec) or False,
        choices=spec.choices,
        **shown,
    )
    return flag_parameter(spec.name, kind, option)


def _shown_default(spec: OptionSpec) -> str:
    """The default of an option as `--help` shows it; "" if it has none, or is a switch that is off."""
    if spec.default in (None, False, ()):
        return ""
    if spec.default is True:
        return "on"
    return f"{spec.default >> 20}MB" if spec.parse is parse_bytes else str(spec.default)


def _alias_parameter(alias: Alias) -> inspect.Parameter:
    kind: Any = list[str] | None if alias.repeatable else str | None
    option = Option(
        _flag(alias.flag),
        help=alias.help,
        metavar=alias.metavar,
        panel=_ALIAS_PANEL,
        show_default=False,
    )
    return flag_parameter(alias.flag, kind, option)


def _collect(given: dict[str, Any]) -> ReadOptions:
    values = {s.name: given.pop(s.name) for s in _cli_specs() if given.get(s.name) is not None}
    for alias in MYSQLBINLOG_NAMES:
        raw = given.pop(alias.flag, None)
        if raw is None:
            continue
        if alias.repeatable:
            values[alias.option] = [*values.get(alias.option, []), *map(alias.convert, raw)]
        elif alias.option in values:
            raise OptionError(
                f"{_flag(alias.flag)} and {_flag(alias.option)} have the same meaning; give"
                " only one",
                name=alias.flag,
            )
        else:
            values[alias.option] = alias.convert(raw)
    return ReadOptions.parse(values)


def _cli_specs() -> list[OptionSpec]:
    return [spec for spec in READ_OPTIONS if "cli" in spec.surfaces]


def with_read_options(names: Collection[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these read options, also by mysqlbinlog's names; it receives `options`."""
    aliases = [alias for alias in MYSQLBINLOG_NAMES if alias.option in names]
    return lambda command: _with(command, names, aliases)


def with_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these read options, by their own names only; it receives `options`."""
    return lambda command: _with(command, names, ())


def _with(
    command: Callable[..., Any], names: Collection[str], aliases: Sequence[Alias]
) -> Callable[..., Any]:
    specs = [spec for spec in _cli_specs() if spec.name in names]
    parameters = [*map(_parameter, specs), *map(_alias_parameter, aliases)]

    def options_of(given: dict[str, Any]) -> ReadOptions:
        return _collect({p.name: given.pop(p.name) for p in parameters})

    return with_parameters(command, "options", parameters, options_of)
