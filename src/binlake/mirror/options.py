"""The options of a mirror: each is a field of `MirrorOptions`, whose metadata defines its text form.

The flags of `binlake mirror run` and the keys of `[mirror]` in a configuration file are made from these fields, so
an option cannot exist in one of them only.

One module, although it is long: most of it is one list of fields with their help texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from binlake.errors import OptionError, SourceError
from binlake.format.sql_names import TableName
from binlake.mirror.modes.names import MIRROR, MODE_OPTIONS
from binlake.mirror.table_patterns import bare_patterns, patterns_of
from binlake.mirror.table_rules import (
    ALTER_POLICIES,
    PartitionField,
    TableRule,
    parse_alter_rule,
    parse_partition,
    parse_partition_rule,
    parse_rename,
)
from binlake.values.charset_text import lower_case
from binlake.values.column_patterns import divided_patterns, parse_column_pattern
from binlake.values.option_texts import parse_table_pattern
from binlake.values.options import ReadOptions
from binlake.values.table_names import full_name_of

if TYPE_CHECKING:
    from binlake.mirror.columns.rules import ColumnRules
    from binlake.mirror.tables.compaction_policy import CompactionPolicy

_TABLES = "DB.TABLE"
_COLUMNS = "DB.TABLE.COLUMN"
# A comma ends a pattern if the text up to the next comma has a period; else it is part of a name.
_ENDS_PATTERN = re.compile(r",(?=[^,]*\.)")
_NOT_OF_DELTA = (
    "compact_bytes",
    "deletes",
    "keep_tags_s",
    "max_snapshots",
    "orphans_s",
    "partition_tables",
    "shard_tables",
)


@dataclass(frozen=True, slots=True)
class MirrorOption:
    """The text form of one option.

    `flag` is that of the command, "" if there is none, `shown` its default in the help. `parse` checks one text of
    an option that is a list of them, and raises ValueError. `least` limits a number; a `size` may have a unit.
    """

    name: str
    help: str
    default: Any
    flag: str = ""
    metavar: str = ""
    parse: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    is_size: bool = False
    is_file: bool = False
    shown: str = ""

    @property
    def is_list(self) -> bool:
        """Whether it is a list of texts."""
        return self.parse is not None

    @property
    def shown_default(self) -> str:
        """The default as text; "" to show none."""
        if self.shown or self.is_list or self.default in ("", 0):
            return self.shown
        return f"{self.default >> 20}MB" if self.is_size else str(self.default)

    @property
    def kind(self) -> type:
        """The type of the value, or of the members of a list."""
        return str if self.is_list else type(self.default)

    def value_of(self, given: Any) -> Any:
        """The value that a command, a file, a lake or Python code gives. A text may contain several patterns of tables or of columns.

        Raises OptionError for what is no list of texts where one is expected.
        """
        if not self.is_list:
            return given
        # each character of a text would be an entry
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        texts = tuple(given) if is_list else (None,)
        if not all(isinstance(text, str) for text in texts):
            raise OptionError(
                f"option {self.name}: expected a list of texts, not {given!r}",
                name=self.name,
                value=given,
            )
        if self.parse is parse_column_pattern:
            return tuple(part for text in texts for part in divided_patterns(text))
        if self.parse is not parse_table_pattern:
            return texts
        return tuple(part.strip() for text in texts for part in _ENDS_PATTERN.split(text))


def _option(default: Any, help: str, **written: Any) -> Any:
    return field(default=default, metadata={"help": help, **written})


def _patterns(flag: str, help: str, default: tuple[str, ...] = ()) -> Any:
    return _option(default, help, flag=flag, metavar=_TABLES, parse=parse_table_pattern)


def _choice(flag: str, metavar: str, help: str, *choices: str) -> Any:
    """The first one is the default."""
    return _option(choices[0], help, flag=flag, metavar=metavar, choices=choices)


def _size(default: int, help: str, flag: str = "") -> Any:
    return _option(default, help, flag=flag, metavar="SIZE", is_size=True, least=1)


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """The options of a mirror, which the lake keeps. Raises OptionError."""

    tables: tuple[str, ...] = _patterns(
        "--table", "Mirror only these tables; * and ? are wildcards.", ("*.*",)
    )
    exclude_tables: tuple[str, ...] = _patterns("--exclude-table", "Leave out these tables.")
    exclude_columns: tuple[str, ...] = _option(
        (),
        "Leave out these columns; * and ? are wildcards, and a part in backticks is one whole name.",
        flag="--exclude-column",
        metavar=_COLUMNS,
        parse=parse_column_pattern,
    )
    hash_columns: tuple[str, ...] = _option(
        (),
        "Replace the values of these columns, named as for --exclude-column, with a keyed hash (HMAC-SHA256).",
        flag="--hash-column",
        metavar=_COLUMNS,
        parse=parse_column_pattern,
    )
    hash_key_file: str = _option(
        "",
        "File with the key of these hashes. Without it, the key is the value of BINLAKE_HASH_KEY.",
        flag="--hash-key-file",
        metavar="FILE",
        is_file=True,
    )
    rename_tables: tuple[str, ...] = _option(
        (),
        "Name of these tables in the lake; {database} and {table} stand for the server's names. The first rule "
        "that matches a table applies.",
        flag="--rename",
        metavar="DB.TABLE=NAMESPACE.NAME",
        parse=parse_rename,
    )
    shard_tables: tuple[str, ...] = _option(
        (),
        "Merge these tables into one table of the lake.",
        flag="--shards",
        metavar="DB.TABLE=NAMESPACE.NAME",
        parse=parse_rename,
    )
    shard_column: str = _option(
        "_source",
        "Column of a merged table that names the source table of each row.",
        flag="--shard-column",
        metavar="NAME",
    )
    partition_tables: tuple[str, ...] = _option(
        (),
        "Partition these tables by columns: identity(c) or c, bucket(n, c), truncate(n, c), years(c), months(c), "
        "days(c), hours(c); several are separated by commas. The first rule that matches a table applies.",
        flag="--partition",
        metavar="DB.TABLE=SPEC",
        parse=parse_partition_rule,
    )
    soft_delete_tables: tuple[str, ...] = _patterns(
        "--soft-delete",
        "Keep deleted rows of these tables, with the time in the column _deleted_at.",
    )
    append_tables: tuple[str, ...] = _patterns(
        "--append",
        "Append each change of these tables as a row, with operation, commit time and GTID.",
    )
    history_tables: tuple[str, ...] = _patterns(
        "--history",
        "Keep every version of the rows of these tables, with the times when it was valid.",
    )
    format: str = _choice(
        "--format",
        "FORMAT",
        "Format of the lake tables: iceberg, or delta, whose rounds are slower.",
        "iceberg",
        "delta",
    )
    deletes: str = _choice(
        "--deletes",
        "HOW",
        "How deleted rows are stored: vectors (Iceberg v3) or position (v2).",
        "vectors",
        "position",
    )
    on_alter: str = _choice(
        "--on-alter",
        "HOW",
        "If an ALTER cannot be applied: quarantine the table, or resync it. With text, resync it, and columns whose "
        "types have changed become text; with new-column, their earlier values stay in other columns.",
        *ALTER_POLICIES,
    )
    on_alter_tables: tuple[str, ...] = _option(
        (),
        "The same choice for these tables only. The first rule that matches a table applies.",
        flag="--on-alter-table",
        metavar="DB.TABLE=HOW",
        parse=parse_alter_rule,
    )
    on_other_writer: str = _choice(
        "--on-other-writer",
        "HOW",
        "What to do if another program has written to a table: refuse (quarantine the table) or reindex (read it again and continue).",
        *("refuse", "reindex"),
    )
    on_statement: str = _choice(
        "--on-statement",
        "HOW",
        "What to do about changes logged as statements and about events missing from the log: error (stop) or ignore.",
        *("error", "ignore"),
    )
    on_cascade: str = _choice(
        "--on-cascade",
        "HOW",
        "What to do with tables that foreign keys change without logging the rows: quarantine, or ignore.",
        *("quarantine", "ignore"),
    )
    time: str = _choice("--time", "FORM", "TIME columns: text or micros.", "text", "micros")
    zero_date: str = _choice(
        "--zero-date", "HOW", "Zero dates: null, error or text.", "null", "error", "text"
    )
    invalid: str = _choice(
        "--invalid",
        "HOW",
        "Text with bytes that are invalid in its character set: error or hex.",
        *("error", "hex"),
    )
    round_bytes: int = _size(64 << 20, "Limit on the log that one round reads.", "--round-bytes")
    commit_bytes: int = _size(
        512 << 20, "Limit on the changes of one table held in memory.", "--commit-bytes"
    )
    chunk_rows: int = _option(
        1_000_000,
        "Limit on the rows of a chunk of a copy. A chunk also has at most 1 GB, and at most the rows of 20 seconds with `max_rows_per_s`.",
        least=1,
    )
    max_rows_per_s: int = _option(
        0,
        "Limit on the rows per second that a copy reads.",
        flag="--max-rate",
        metavar="N",
        least=1,
    )
    keep_snapshots_s: int = _option(
        3600,
        "Age at which snapshots expire.",
        flag="--keep-snapshots",
        metavar="SECONDS",
        least=0,
    )
    max_snapshots: int = _option(
        1000,
        "Maximum number of snapshots of a table.",
        flag="--max-snapshots",
        metavar="N",
        least=1,
    )
    keep_tags_s: int = _option(
        0,
        "Age at which the tags before TRUNCATE, DROP and RENAME expire. By default they never expire.",
        flag="--keep-tags",
        metavar="SECONDS",
        least=1,
    )
    compact: str = _choice(
        "--compact",
        "HOW",
        "Compact tables while the mirror runs: auto or off. The keys compact_files, compact_deleted, compact_bytes and "
        "file_bytes of the file of --config set when, and how much.",
        *("auto", "off"),
    )
    compact_files: int = _option(
        16, "Number of files of similar size that compaction merges.", least=2
    )
    compact_deleted: float = _option(
        0.25, "Share of deleted rows above which a file is rewritten.", least=0
    )
    compact_bytes: int = _size(256 << 20, "Limit on the data files that one compaction reads.")
    file_bytes: int = _size(128 << 20, "Limit on the size of a compacted data file.")
    orphans_s: int = _option(
        86_400, "Age in seconds at which files of killed runs are removed.", least=3600
    )
    verify_every_s: int = _option(
        0,
        "How often to compare the tables with the server.",
        flag="--verify-every",
        metavar="SECONDS",
        least=1,
    )
    verify_sample: float = _option(
        1.0,
        "Share of the rows that each comparison looks at, above 0 and up to 1.",
        flag="--verify-sample",
        metavar="SHARE",
        shown="1",
    )

    def __post_init__(self) -> None:
        for option in MIRROR_OPTIONS:
            self._check(option, getattr(self, option.name))
        for name, what in (("compact_deleted", "between 0 and 1"), ("verify_sample", "above 0 and up to 1")):  # fmt: skip
            share = getattr(self, name)
            if not (0 < share < 1 or (share == 1 and name == "verify_sample")):
                raise OptionError(f"option {name}: expected a share {what}", name=name)

        if self.format == "delta":
            self._check_delta()
        if not self.shard_column:
            raise OptionError("option shard_column: the name is empty", name="shard_column")

    def _check_delta(self) -> None:
        """Raise OptionError for an option that Delta tables do not have."""
        for option in MIRROR_OPTIONS:
            value = getattr(self, option.name)
            if option.name in _NOT_OF_DELTA and value != option.default:
                raise OptionError(
                    f"option {option.name}: tables of format delta do not support it",
                    name=option.name,
                    value=value,
                    hint="leave it out, or use the format iceberg",
                )
        policies = [("on_alter", self.on_alter)]
        policies += [("on_alter_tables", TableRule.parse(t).value) for t in self.on_alter_tables]
        for name, policy in policies:
            if policy in ("text", "new-column"):
                raise OptionError(
                    f"option {name}: tables of format delta do not support {policy}",
                    name=name,
                    hint="choose quarantine or resync, or use the format iceberg",
                )

    @staticmethod
    def _check(option: MirrorOption, value: Any) -> None:
        """Raise OptionError for a value that the option does not take."""
        name = option.name
        if option.choices and value not in option.choices:
            expected = f"{value!r}: expected one of {', '.join(option.choices)}"
            raise OptionError(f"option {name}: {expected}", name=name, value=value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if option.kind is not str and not is_number:
            raise OptionError(f"option {name}: expected a number, not {value!r}", name=name, value=value)  # fmt: skip
        for text in value if option.parse is not None else ():
            try:
                assert option.parse is not None
                option.parse(text)
            except ValueError as error:
                raise OptionError(f"option {name}: {text!r}: {error}", name=name, value=text) from None  # fmt: skip
        if option.least is not None and value != option.default and value < option.least:
            raise OptionError(f"option {name}: expected {option.least} or more", name=name)

    def table_patterns(self) -> Iterator[tuple[str, str]]:
        """The flag and the pattern of each option, or rule, that selects tables."""
        for option in MIRROR_OPTIONS:
            if option.is_list and option.metavar != _COLUMNS:
                is_pattern = option.parse is parse_table_pattern
                for text in getattr(self, option.name):
                    yield option.flag, text if is_pattern else TableRule.parse(text).pattern

    def check_case(self, has_lower_case_names: Callable[[], bool]) -> None:
        """Raise OptionError for a pattern of tables with a letter in upper case, if the server has all names in lower case: it
        would match no table, and a table that it should leave out would be copied.
        """
        for flag, pattern in self.table_patterns():
            lower = lower_case(pattern)
            if lower != pattern and has_lower_case_names():
                name = next(option.name for option in MIRROR_OPTIONS if option.flag == flag)
                raise OptionError(
                    f"option {name}: {pattern!r} matches no table, because the server has all names in lower case "
                    "(lower_case_table_names=1)",
                    name=name,
                    value=pattern,
                    hint=f"write {lower}",
                )

    @property
    def compaction(self) -> CompactionPolicy:
        """When data files are rewritten."""
        from binlake.mirror.tables.compaction_policy import CompactionPolicy

        return CompactionPolicy(
            files=self.compact_files,
            deleted_share=self.compact_deleted,
            file_bytes=self.file_bytes,
            job_bytes=self.compact_bytes,
        )

    def mode(self, database: str, table: str) -> str:
        """The mode of a table. Raises OptionError for a table that is to be in several."""
        chosen = [
            mode
            for mode, option in MODE_OPTIONS.items()
            if patterns_of(getattr(self, option)).match(database, table)
        ]
        if len(chosen) > 1:
            others = " and ".join(f"option {MODE_OPTIONS[mode]}" for mode in chosen[1:])
            raise OptionError(
                f"option {MODE_OPTIONS[chosen[0]]}: table {database}.{table} also matches {others}; a table has only one mode",
                name=MODE_OPTIONS[chosen[0]],
            )
        return chosen[0] if chosen else MIRROR

    def lake_name(self, database: str, table: str) -> tuple[str, str]:
        """Namespace and name of the lake table of a table of the server."""
        for text in (*self.shard_tables, *self.rename_tables):
            if TableRule.parse(text).matches(database, table):
                return parse_rename(text).of(database, table)
        return database, table

    def check_tables(self, names: Iterable[tuple[str, str]]) -> None:
        """Raise OptionError if two of these tables would have one lake table, or one of them would have several modes."""
        first: dict[tuple[str, str], tuple[str, str]] = {}
        for name in names:
            self.mode(*name)
            lake_name = self.lake_name(*name)
            other = first.setdefault(lake_name, name)
            merged = self.is_shard(*name) and self.is_shard(*other)
            if other != name and not merged:
                raise OptionError(
                    f"tables {full_name_of(*other)} and {full_name_of(*name)} would both be {'.'.join(lake_name)} in the lake",
                    name="rename_tables",
                    hint="use {database} and {table} in the names of --rename",
                )

    def is_shard(self, database: str, table: str) -> bool:
        """Whether a table of the server is one of several whose rows are in one lake table."""
        return any(TableRule.parse(text).matches(database, table) for text in self.shard_tables)

    def partition(self, database: str, table: str) -> tuple[PartitionField, ...]:
        """The partition spec of the lake table of a table; () if it has none."""
        for text in self.partition_tables:
            rule = TableRule.parse(text)
            if rule.matches(database, table):
                return parse_partition(rule.value)
        return ()

    def alter_policy(self, database: str, table: str) -> str:
        """The outcome for a table of an ALTER that cannot be applied, see `on_alter`."""
        for text in self.on_alter_tables:
            rule = TableRule.parse(text)
            if rule.matches(database, table):
                return rule.value
        return self.on_alter

    @property
    def column_rules(self) -> ColumnRules:
        """Which columns are left out or hashed."""
        from binlake.mirror.columns.rules import ColumnRules

        return ColumnRules(self.exclude_columns, self.hash_columns, self.hash_key_file)

    def read_options(self, tables: Iterable[TableName] = ()) -> ReadOptions:
        """How rows are decoded, of these tables or of all. Their names are read as patterns and may match more tables.

        Of the excluded tables, those are left out that a pattern without backticks matches.
        """
        read = ReadOptions.parse(
            {
                "time": self.time,
                "zero_date": self.zero_date,
                "invalid": self.invalid,
                "before": True,
                "metadata": False,
                # a prefix that no column of a table can have
                "metadata_prefix": "\0",
            }
        )
        # not as texts, which are divided at every comma: names may contain commas
        return replace(
            read,
            table=tuple(f"{database}.{table}" for database, table in tables),
            exclude_table=bare_patterns(self.exclude_tables),
            exclude_column=self.exclude_columns,
        )

    def to_json(self) -> str:
        """Return the text in which the lake keeps the options."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> MirrorOptions:
        """Read the output of `to_json`. Raises SourceError for options of a newer version: without them, a mirror could write
        columns and tables that it should leave out.
        """
        values = json.loads(text)
        if unknown := sorted(values.keys() - {option.name for option in MIRROR_OPTIONS}):
            raise SourceError(
                f"the lake has options that this version of binlake does not know: {', '.join(unknown)}",
                hint="use the version of binlake that wrote to the lake last, or a newer one",
            )
        return cls.of(_within_limits(values))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MirrorOptions:
        """From values by name; others are left out. Raises OptionError."""
        known = {option.name: option for option in MIRROR_OPTIONS}
        found = {name: value for name, value in values.items() if name in known}
        return cls(**{name: known[name].value_of(value) for name, value in found.items()})


def _within_limits(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored options, none below its limit: the limit may be higher now than when the lake was made, and users replace
    the options of a lake with commands that read them first.
    """
    values = dict(stored)
    for option in MIRROR_OPTIONS:
        value = values.get(option.name, option.default)
        if option.least is not None and value != option.default and value < option.least:
            values[option.name] = type(option.default)(option.least)
    return values


#: All options, in the order in which the help lists them.
MIRROR_OPTIONS: Sequence[MirrorOption] = tuple(
    MirrorOption(one.name, default=one.default, **one.metadata) for one in fields(MirrorOptions)
)
