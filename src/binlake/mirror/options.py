"""What a mirror is told: which tables, how their values look, what to do where a choice is the user's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from binlake.errors import OptionError
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.iceberg.compaction import CompactionPolicy
from binlake.mirror.modes.names import MIRROR, MODE_OPTIONS
from binlake.values.column_patterns import parse_column_pattern
from binlake.values.options import ReadOptions, parse_table_pattern
from binlake.values.table_filter import TableFilter

__all__ = ["CHOICES", "MirrorOptions"]

#: The values that an option takes, the default first.
CHOICES: dict[str, tuple[str, ...]] = {
    "deletes": ("vectors", "position"),
    "on_alter": ("quarantine", "resync"),
    "on_other_writer": ("refuse", "reindex"),
    "on_statement": ("error", "ignore"),
    "on_cascade": ("quarantine", "ignore"),
    "time": ("text", "micros"),
    "zero_date": ("null", "error", "text"),
    "invalid": ("error", "hex"),
    "compact": ("auto", "off"),
}

# options that are lists of patterns
_PATTERNS = {
    "tables": parse_table_pattern,
    "exclude_tables": parse_table_pattern,
    **dict.fromkeys(MODE_OPTIONS.values(), parse_table_pattern),
    "exclude_columns": parse_column_pattern,
    "hash_columns": parse_column_pattern,
}
_COUNTS = (
    "round_bytes",
    "commit_bytes",
    "chunk_rows",
    "max_snapshots",
    "compact_bytes",
    "file_bytes",
)


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """The options of a mirror, which the lake keeps.

    `tables` and `exclude_tables` are patterns (`shop.*`); so are those of tables in another mode,
    `soft_delete_tables`, `append_tables` and `history_tables`. `deletes`: vectors (Iceberg v3) or position
    (v2). `on_alter`: of a table whose ALTER cannot be followed. `on_other_writer`: of a table that
    another program has written to. `on_statement`: where the log holds changes that no row event
    shows. `on_cascade`: of a table whose rows foreign keys change, which not every server logs. `time`, `zero_date`, `invalid`: as the read options. `round_bytes`: of log in one round, at
    most. `commit_bytes`: of changes of one table that are held in memory, where its key allows. `keep_snapshots_s`: how long snapshots are kept, but for the newest 20, and at
    most `max_snapshots`. `verify_every_s`: seconds between two
    comparisons of `verify_sample` of the rows with the source, 0: none. `compact`: auto or off. `compact_files`, `compact_deleted`, `compact_bytes` and
    `file_bytes`: see `CompactionPolicy`. `orphans_s`: the age at which files of killed runs are removed. Raises OptionError.
    """

    tables: tuple[str, ...] = ("*.*",)
    exclude_tables: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()
    hash_columns: tuple[str, ...] = ()
    hash_key_file: str = ""
    soft_delete_tables: tuple[str, ...] = ()
    append_tables: tuple[str, ...] = ()
    history_tables: tuple[str, ...] = ()
    deletes: str = "vectors"
    on_alter: str = "quarantine"
    on_other_writer: str = "refuse"
    on_statement: str = "error"
    on_cascade: str = "quarantine"
    time: str = "text"
    zero_date: str = "null"
    invalid: str = "error"
    round_bytes: int = 64 << 20
    commit_bytes: int = 512 << 20
    chunk_rows: int = 250_000
    max_rows_per_s: int = 0
    keep_snapshots_s: int = 3600
    verify_every_s: int = 0
    verify_sample: float = 1.0
    max_snapshots: int = 1000
    compact: str = "auto"
    compact_files: int = 16
    compact_deleted: float = 0.25
    compact_bytes: int = 256 << 20
    file_bytes: int = 128 << 20
    orphans_s: int = 86_400

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise OptionError(
                    f"option {name}: {value!r} is not one of {', '.join(known)}",
                    name=name,
                    value=value,
                )
        for name, parse in _PATTERNS.items():
            for pattern in getattr(self, name):
                try:
                    parse(pattern)
                except ValueError as error:
                    raise OptionError(
                        f"option {name}: {pattern!r}: {error}", name=name, value=pattern
                    ) from None
        least = {"compact_files": 2, "orphans_s": 0}
        for name in (*_COUNTS, *least):
            if getattr(self, name) < least.get(name, 1):
                expected = f"{least.get(name, 1)} or more is expected"
                raise OptionError(f"option {name}: {expected}", name=name)
        if not 0 < self.compact_deleted < 1:
            raise OptionError(
                "option compact_deleted: a share between 0 and 1 is expected",
                name="compact_deleted",
            )
        if not 0 < self.verify_sample <= 1:
            raise OptionError(
                "option verify_sample: a share above 0 and up to 1 is expected",
                name="verify_sample",
            )

    @property
    def compaction(self) -> CompactionPolicy:
        """When data files are rewritten."""
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
            if (patterns := getattr(self, option))
            and TableFilter(ReadOptions(table=patterns)).wants(database, table)
        ]
        if len(chosen) > 1:
            options = " and ".join(MODE_OPTIONS[mode] for mode in chosen)
            raise OptionError(
                f"table {database}.{table} matches {options}; a table has one mode",
                name=MODE_OPTIONS[chosen[0]],
            )
        return chosen[0] if chosen else MIRROR

    @property
    def column_rules(self) -> ColumnRules:
        """Which columns are left out or hashed."""
        return ColumnRules(self.exclude_columns, self.hash_columns, self.hash_key_file)

    def read_options(self, tables: tuple[str, ...] = ()) -> ReadOptions:
        """How rows are decoded, of tables that match these patterns."""
        read = ReadOptions.parse(
            {
                "table": tables,
                "exclude_table": self.exclude_tables,
                "time": self.time,
                "zero_date": self.zero_date,
                "invalid": self.invalid,
                "before": True,
                "metadata": False,
                # columns of ours that no table's column can be called like
                "metadata_prefix": "\0",
            }
        )
        return replace(read, exclude_column=self.exclude_columns)

    def to_json(self) -> str:
        """As the lake keeps them."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> MirrorOptions:
        """What `to_json` wrote; options of a newer version are left out."""
        return cls.of(json.loads(text))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MirrorOptions:
        """From values by name. Raises OptionError."""
        known = {field.name for field in fields(cls)}
        found = {name: value for name, value in values.items() if name in known}
        for name in _PATTERNS:
            if name in found:
                found[name] = tuple(found[name])
        return cls(**found)
