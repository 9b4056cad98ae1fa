"""`mirror` from a TOML file: where from, where to, what, and the settings of Spark.

[mirror]
url = "mysql://repl@db1/"
lake = "/lake"
tables = ["shop.*"]

[mirror.spark]
"spark.master" = "local[2]"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlake.config.toml_file import Key, number, open_toml, path, size, text, whole_number
from binlake.errors import OptionError
from binlake.source.bytes import is_uri
from binlake.source.replica.url import holds_password

__all__ = [
    "MIRROR_KEYS",
    "MirrorConfiguration",
    "configures_mirror",
    "read_mirror_configuration",
]


def _texts(value: Any, folder: Path) -> tuple[str, ...]:
    """A string or a list of strings."""
    return tuple(text(one, folder) for one in (value if isinstance(value, list) else [value]))


def _place(value: Any, folder: Path) -> str:
    return text(value, folder) if is_uri(text(value, folder)) else path(value, folder)


def _url(value: Any, folder: Path) -> str:
    if holds_password(text(value, folder)):
        raise ValueError("the URL contains a password; use its option password-file")
    return text(value, folder)


_COUNT = whole_number(1, 1 << 40)
MIRROR_KEYS: dict[str, Key] = {
    "url": Key(_url, "the server"),
    "lake": Key(_place, "the lake: a directory or URI"),
    "logs": Key(_place, "read the changes from this archive"),
    "state": Key(path, "directory of this machine for the key indexes"),
    "tables": Key(_texts, "patterns of tables", '["*.*"]'),
    "exclude_tables": Key(_texts, "patterns of tables to leave out"),
    "exclude_columns": Key(_texts, "patterns of columns to leave out: database.table.column"),
    "hash_columns": Key(_texts, "patterns of columns to hash with a key"),
    "hash_key_file": Key(path, "file with that key", "BINLAKE_HASH_KEY in the environment"),
    "soft_delete_tables": Key(_texts, "patterns of tables whose deleted rows stay in the lake"),
    "append_tables": Key(_texts, "patterns of tables in which each change is a row"),
    "history_tables": Key(_texts, "patterns of tables in which each version of a row is a row"),
    "deletes": Key(text, "vectors or position", '"vectors"'),
    "on_alter": Key(text, "quarantine or resync", '"quarantine"'),
    "on_other_writer": Key(text, "refuse or reindex", '"refuse"'),
    "on_statement": Key(text, "error or ignore", '"error"'),
    "on_cascade": Key(text, "quarantine or ignore", '"quarantine"'),
    "time": Key(text, "text or micros", '"text"'),
    "zero_date": Key(text, "null, error or text", '"null"'),
    "invalid": Key(text, "error or hex", '"error"'),
    "round_bytes": Key(size, "of log in one round, at most", '"64MB"'),
    "commit_bytes": Key(size, "of changes of one table in memory, at most", '"512MB"'),
    "chunk_rows": Key(_COUNT, "rows of a chunk of a copy", "250000"),
    "max_rows_per_s": Key(_COUNT, "rate of a copy", "no limit"),
    "keep_snapshots_s": Key(whole_number(0, 1 << 40), "seconds until a snapshot expires", "3600"),
    "verify_every_s": Key(_COUNT, "seconds between two comparisons with the server", "none"),
    "verify_sample": Key(number, "share of the rows that a comparison reads", "1"),
    "metrics_port": Key(whole_number(0, 65535), "port for Prometheus", "none"),
    "metrics_address": Key(text, "address for Prometheus", '"127.0.0.1"'),
    "max_snapshots": Key(_COUNT, "snapshots of a table at most", "1000"),
    "compact": Key(text, "auto or off", '"auto"'),
    "compact_files": Key(whole_number(2, 10_000), "files of one size that become one", "16"),
    "compact_deleted": Key(number, "share of deleted rows above which a file is rewritten", "0.25"),
    "compact_bytes": Key(size, "of data files that one compaction reads, at most", '"256MB"'),
    "file_bytes": Key(size, "of a compacted data file, at most", '"128MB"'),
    "orphans_s": Key(
        whole_number(0, 1 << 40),
        "age in seconds at which files of killed runs are removed",
        "86400",
    ),
    "interval_seconds": Key(number, "between two looks at an idle log", "1"),
}


@dataclass(frozen=True, slots=True)
class MirrorConfiguration:
    """What a file says: the values of `[mirror]` by key, and the settings of `[mirror.spark]`."""

    values: Mapping[str, Any]
    spark: Mapping[str, str]


def configures_mirror(file: str) -> bool:
    """Whether a file is one of `mirror --config`. Raises OptionError."""
    return "mirror" in open_toml(file)


def read_mirror_configuration(file: str) -> MirrorConfiguration:
    """Read a file. Raises OptionError."""
    top = open_toml(file)
    if "mirror" not in top:
        raise OptionError(f"{file}: there is no [mirror]", name="config")
    mirror = top.table("mirror")
    values = mirror.take(MIRROR_KEYS, ("spark",))
    for name in ("url", "lake"):
        if name not in values:
            raise mirror.error(name, "this key is missing")
    spark = mirror.table("spark")
    settings = spark.take({name: Key(text, "") for name in spark})
    return MirrorConfiguration(values, settings)
