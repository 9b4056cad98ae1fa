"""Every option of reading a log, once: the fields of `ReadOptions`.

CLI flags, Spark options, API keywords and their documentation are derived from `READ_OPTIONS`, which
is derived from the fields, so an option cannot exist in one of them only.

A name is spelled `exclude_table` here and as an API keyword, `--exclude-table` on the command
line, and `exclude_table`, `excludeTable` or `exclude-table` (any case) as a Spark option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from binlake.errors import OptionError
from binlake.values.builds import PickledByName
from binlake.values.column_patterns import parse_column_pattern
from binlake.values.frame import DEFAULT_MAX_MEMORY
from binlake.values.option_spec import option, specs_of
from binlake.values.option_texts import (
    calendar_text,
    parse_bool,
    parse_bytes,
    parse_charset,
    parse_condition,
    parse_count,
    parse_file_position,
    parse_gtids,
    parse_number,
    parse_position,
    parse_table_pattern,
    parse_text,
    parse_time_us,
)
from binlake.values.position import FilePosition
from binlake.values.similar_names import did_you_mean

#: The options that select what is read; the others set how it is read.
FILTER_OPTIONS = (
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
    "server_id",
    "thread",
    "at",
)

#: The options that choose single row changes by their values.
ROW_FILTERS = ("where", "whole_transaction")


@dataclass(frozen=True, slots=True)
class ReadOptions(PickledByName):
    """The validated options of one read. Each field is an option: its name, its values, its help.

    Times are microseconds since 1970 UTC; `gtid`, `exclude_gtid` and `at` are texts that
    `parse_gtid_filter` and `parse_at` accept. Build it with `ReadOptions.parse` from texts
    (CLI, Spark) or keyword values (API); the bare constructor takes final values.
    """

    # fmt: off
    # selection of data
    source: str | None = option("SOURCE", "read the logs of this source only, if the paths contain several", parse_text)
    table: tuple[str, ...] = option("DB.TABLE", "only these tables; * and ? are wildcards", parse_table_pattern, default=())
    exclude_table: tuple[str, ...] = option("DB.TABLE", "exclude these tables, even if the option table names them", parse_table_pattern, default=())
    op: tuple[str, ...] = option("OP", "only these operations", default=(), choices=("insert", "update", "delete"))
    since: int | None = option("TIME", "only transactions committed at or after this time; UTC unless it names a zone", parse_time_us)
    until: int | None = option("TIME", "only transactions committed before this time; UTC unless it names a zone", parse_time_us)
    start: FilePosition | None = option("FILE:POS", "only transactions that start at or after this position; POS alone: in the first file", parse_file_position)
    stop: FilePosition | None = option("FILE:POS", "only transactions that start before this position; POS alone: in the last file", parse_file_position)
    gtid: str | None = option("SET", "only transactions in this GTID set", parse_gtids)
    exclude_gtid: str | None = option("SET", "exclude the transactions in this GTID set", parse_gtids)
    server_id: tuple[int, ...] = option("ID", "only events of these servers", parse_number, default=())
    thread: tuple[int, ...] = option("ID", "only transactions of these connections", parse_number, default=())
    at: str | None = option("FILE:POS|GTID", "only the transaction with this GTID, or the one at this position: the one that starts there, otherwise the one that contains it, otherwise the one that ends there", parse_position)
    where: str | None = option("EXPR", "only row changes for which this condition in MySQL's syntax is true; it may use columns, before.NAME, after.NAME and changed(NAME)", parse_condition)
    whole_transaction: bool = option("BOOL", "with the option where: also the other row changes of a transaction in which one matches", parse_bool, default=False)
    # reading
    index_directory: tuple[str, ...] = option("DIR", "also allow index files to name logs in this directory", parse_text, default=())
    columns: tuple[str, ...] = option("NAME", "only these columns of the table", parse_text, default=())
    exclude_column: tuple[str, ...] = option("DB.TABLE.COLUMN", "exclude these columns; * and ? are wildcards", parse_column_pattern, default=(), surfaces=("api",))
    schema: str | None = option("FILE", "SHOW CREATE TABLE statements, a dump, output of `binlake schema`, or the URL of a live server: supplies names, signs and character sets that the log lacks", parse_text)
    keyring: str | None = option("FILE", "the server's keyring or key file, for encrypted logs", parse_text)
    keyring_password_file: str | None = option("FILE", "file with the password of an encrypted MariaDB key file", parse_text)
    verify_checksum: bool = option("BOOL", "verify CRC32 of every event", parse_bool, default=True)
    on_error: str = option("POLICY", "what to do when the log is damaged: stop, or skip to the next intact transaction", default="stop", choices=("stop", "skip"))
    on_unshown: str = option("POLICY", "changes that rows cannot show (statement DML, DDL, TRUNCATE, account management such as GRANT, INCIDENT): count them, or stop at the first", default="count", choices=("count", "error"))
    uncommitted: bool = option("BOOL", "show rolled back, prepared and torn transactions too", parse_bool, default=False)
    # form of values
    zero_date: str = option("POLICY", "form of zero and partial dates in typed columns", default="null", choices=("null", "error", "text"))
    invalid: str = option("POLICY", "text that is invalid in its character set: an error, or hex", default="error", choices=("error", "hex"))
    assume_charset: str | None = option("CHARSET", "character set of text columns that the log does not describe", parse_charset)
    binary: str = option("FORM", "form of binary values in JSON", default="hex", choices=("hex", "base64"))
    nested: bool = option("BOOL", "embed JSON documents instead of quoting them", parse_bool, default=False)
    query: bool = option("BOOL", "add the statement text (rows query or annotate event)", parse_bool, default=False)
    thread_id: bool = option("BOOL", "add the connection's thread id", parse_bool, default=False)
    before: bool = option("BOOL", "add the before-image of updates as _before", parse_bool, default=False, surfaces=("spark", "api"))
    time: str = option("FORM", "form of TIME columns and of the duration of transactions: an interval, the server's text, or a number of microseconds", default="interval", choices=("interval", "text", "micros"))
    metadata: bool = option("BOOL", "add the metadata columns to typed rows", parse_bool, default=True)
    metadata_prefix: str | None = option("TEXT", "prefix of metadata columns, as in PREFIXop and PREFIXfile; by default they are _op, _ts, …, and _log_file and _log_pos")
    batch_bytes: int = option("SIZE", "size of a batch of decoded rows in memory", parse_bytes, default=8 << 20)
    threads: int | None = option("N", "number of threads that decode rows; default: one per processor core, but at most one per 8 MB of log; in a Spark task one. stats and index use one", parse_count)
    max_memory: int = option("SIZE", "limit on the memory that the contents of a log can require. A compressed event may inflate to a quarter of it, a compressed transaction to the limit plus 100 times its own size. The tables in memory may have at most one column for each 4 kB of it", parse_bytes, default=DEFAULT_MAX_MEMORY)
    # fmt: on

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
                hint = did_you_mean(name, _SPECS) or f"options are: {', '.join(sorted(_SPECS))}"
                raise OptionError(f"unknown option {name!r}", name=name, hint=hint)
            if raw is not None:
                values[name] = spec.value_of(raw)
        options = cls(**values)
        options._check()
        return options

    @property
    def chooses_rows(self) -> bool:
        """Whether the options select tables or operations."""
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

    def unfiltered(self) -> ReadOptions:
        """Return the options without filters, except for the option `table`."""
        given = self.filters_given
        cleared: dict[str, Any] = {o.name: o.default for o in fields(self) if o.name in given}
        cleared.pop("table", None)
        return replace(self, **cleared, whole_transaction=False)

    def opening(self, **others: Any) -> ReadOptions:
        """Return only the options with which logs are opened, and `others`."""
        names = ("keyring", "keyring_password_file", "max_memory", "verify_checksum")
        return ReadOptions(**{name: getattr(self, name) for name in names}, **others)

    def refuse_row_filters(self, what: str) -> None:
        """Raise OptionError if an option selects single row changes. For readers that do not decode values."""
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
            since, until = (calendar_text(time_us) for time_us in (self.since, self.until))
            raise OptionError(
                f"option until ({until}) is not after option since ({since})", name="until"
            )
        if (
            self.start is not None
            and self.stop is not None
            and self.start.file == self.stop.file != ""
            and self.start.offset >= self.stop.offset
        ):
            raise OptionError(
                f"option stop ({self.stop}) is not after option start ({self.start})", name="stop"
            )
        if self.at is not None:
            for name in ("since", "until", "start", "stop", "gtid", "exclude_gtid"):
                if getattr(self, name) is not None:
                    raise OptionError(
                        f"options at and {name} cannot be combined",
                        name=name,
                        hint="at already names one transaction",
                    )


READ_OPTIONS = specs_of(ReadOptions)

_SPECS = {spec.name: spec for spec in READ_OPTIONS}
