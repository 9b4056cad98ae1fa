"""The formats of lake tables: the interface that the mirror needs, and the format of a lake.

The loop, the modes and the statements of the log use these interfaces only; `lakes.open_lake` has an object of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import OptionError, UnsupportedError
from binlake.mirror.columns.names import caseless
from binlake.source.bytes import is_uri

if TYPE_CHECKING:
    import numpy as np

    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.table_rules import PartitionField
    from binlake.mirror.tables.change import Change
    from binlake.mirror.tables.compaction_policy import CompactionPolicy, FileState
    from binlake.mirror.tables.partitions import Partitioning
    from binlake.mirror.tables.versions import Version


ICEBERG, DELTA = "iceberg", "delta"

#: Names of columns, without case, that a format uses itself.
_RESERVED = {
    # metadata columns: a table with a column of that name can be written but not read
    ICEBERG: frozenset(
        {
            "_change_ordinal",
            "_change_type",
            "_commit_snapshot_id",
            "_deleted",
            "_file",
            "_last_updated_sequence_number",
            "_partition",
            "_pos",
            "_row_id",
            "_spec_id",
        }
    ),
    # Spark's metadata column, and columns that MERGE adds to the rows
    DELTA: frozenset(
        {
            "__delta_internal_is_row_deleted",
            "__delta_internal_row_index",
            "_change_type",
            "_condition_",
            "_file_name_",
            "_metadata",
            "_row_dropped_",
            "_row_id_",
            "_source_row_index",
            "_source_row_present_",
            "_target_row_index_",
            "_target_row_present_",
            "_tmp_metadata_row_index",
            "deletionvectorid",
        }
    ),
}
_SHOWN = {ICEBERG: "Iceberg", DELTA: "Delta"}


def why_reserved(names: Iterable[str], table_format: str) -> str:
    """Why a table of a format cannot have columns of these names; "" if it can."""
    found = next((name for name in names if caseless(name) in _RESERVED[table_format]), None)
    if found is None:
        return ""
    return f"it has a column {found}, a name that {_SHOWN[table_format]} reserves"


def why_ambiguous(schema: pa.Schema, table_format: str) -> str:
    """Why a table of a format cannot have these columns, one of which has the name of a part of another; "" if it can."""
    if table_format != ICEBERG:
        return ""
    # Iceberg finds a column by its path: the elements of a VECTOR `v` are `v.element`
    elements = {caseless(f"{f.name}.element"): f.name for f in schema if pa.types.is_list(f.type)}
    found = next((name for name in schema.names if caseless(name) in elements), None)
    if found is None:
        return ""
    return f"it has a column {found}, but Iceberg uses that name for the elements of {elements[caseless(found)]}"


def check_key(
    full_name: str, schema: pa.Schema, key: Sequence[str] | None, table_format: str
) -> None:
    """Raise UnsupportedError for a table whose rows Delta's MERGE cannot identify as the server does. `key`: None if rows are only
    appended.
    """
    if key is None or table_format != DELTA:
        return
    if not key:
        raise UnsupportedError(
            f"{full_name} has no key, and the rows of a table of format delta need one",
            hint="--append keeps its changes; or give it a primary key, or use the format iceberg",
        )
    for name in key:
        if name in schema.names and pa.types.is_floating(schema.field(name).type):
            raise UnsupportedError(
                f"{full_name}: column {name} of its key has a floating-point type, so Delta cannot "
                "find rows exactly",
                hint="--append keeps its changes; or use the format iceberg",
            )


@dataclass(frozen=True, slots=True)
class NewTable:
    """A lake table to be made. `schema`: its columns; `key` and `open_column` as the table has them.

    `deletes` ("vectors" or "position"): how Iceberg marks deleted rows.
    """

    schema: pa.Schema
    key: Sequence[str] | None
    deletes: str = "vectors"
    open_column: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    partition: Sequence[PartitionField] = ()


class StoredTable(Protocol):
    """A table as its format keeps it: metadata, versions, files. Raises SourceError, CommitConflictError."""

    full_name: str

    def refresh(self) -> None:
        """Reload the table."""

    def describe(self) -> dict[str, Any]:
        """uuid, schema (as Iceberg's JSON), properties; with a commit: snapshot, committed_ms, and its summary."""

    def has_version(self, version: int, until_us: int) -> bool:
        """Whether a version is kept that was committed before a time (Unix time in µs)."""

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table."""

    def replace_properties(
        self, expected: Mapping[str, str | None], properties: Mapping[str, str]
    ) -> None:
        """Set properties that have the expected values (None: none yet). Raises CommitConflictError if one has another."""

    def tag(self, name: str, properties: Mapping[str, str] | None = None) -> None:
        """Give the current version a name, unless there is one of that name. `properties`: those of the version that this makes in
        Delta; None: those of the mirror's newest commit.
        """

    def tags(self) -> list[str]:
        """The names that keep versions readable; none in Delta, where VACUUM ignores them."""

    def refs(self) -> list[str]:
        """The names of tags and branches, which no other tag can have."""

    def file_states(self) -> list[FileState]:
        """The data files, and how much of them is deleted."""

    def append(self, rows: pa.Table, properties: Mapping[str, str]) -> None:
        """Commit more rows."""

    def keep_rows(self, wanted: pc.Expression) -> None:
        """Remove the other rows of a table whose rows are only appended, keeping the summary."""

    def compact(self, policy: CompactionPolicy) -> None:
        """Rewrite small files of a table whose rows are only appended, keeping the summary."""

    def expire(
        self, older_than_ms: int, keep: int, most: int, kept: str = "", least: int = 1
    ) -> None:
        """Expire the versions before a time, and those beyond the newest `most`; `keep` stay anyway, and so does the newest
        one whose summary has the property `kept`. Wait until at least `least` can go, or the oldest is twice as old as that.
        """


class LakeTable(Protocol):
    """A lake table that the mirror writes; see `iceberg.table.MirrorTable`."""

    format: str
    key: tuple[str, ...]
    partitioning: Partitioning

    @property
    def full_name(self) -> str:
        """`namespace.table`."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of its rows, with field ids."""

    @property
    def partition_columns(self) -> frozenset[str]:
        """The columns by which it is partitioned."""

    @property
    def has_initial_defaults(self) -> bool:
        """Whether a new column can have a value in the rows of older files."""

    @property
    def snapshot(self) -> int | None:
        """The id of the current version."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def stored(self) -> StoredTable:
        """The table as an object with its versions."""

    @property
    def summary(self) -> Mapping[str, str]:
        """The current version's properties, which hold the position in the source."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""

    @property
    def set_back(self) -> str:
        """How a new version of another program has brought back rows from before the mirror's newest commit; "" if none has."""

    def lineage(self) -> Iterator[Version]:
        """The current version and its ancestors that are kept, newest first. They are read as they are asked for."""

    def has_other_commits(self) -> bool:
        """Whether another program has committed since the mirror's last commit."""

    def reload(self) -> None:
        """Reload the table, and accept the commits of other programs."""

    def scan(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All live rows; the columns `names`, by default all."""

    def row_bytes(self) -> int:
        """About how many bytes a row has in memory."""

    def rows_of(
        self, keys: pa.Table, names: Sequence[str] | None = None
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        """The rows that have these keys: (for each key the index of its row, or -1; the rows with the columns `names`,
        by default all).
        """

    def data_prefix(self) -> str:
        """The prefix of the paths of new data files."""

    def replace(
        self,
        files: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        table_properties: Mapping[str, str],
        only: tuple[str, str] | None = None,
    ) -> None:
        """Replace all rows with the rows of files that `DataFileWriter` wrote. With `only`, replace the rows with this
        value in this column.
        """

    def commit(self, change: Change, properties: Mapping[str, str]) -> int:
        """Commit a change; returns how many rows it adds and deletes."""


class LakeTables(Protocol):
    """The tables of a lake. Raises SourceError."""

    def beside(self) -> LakeTables:
        """Return this lake for the commits of another thread."""

    def sql_name(self, namespace: str, table: str) -> str:
        """A table in Spark's SQL."""

    def exists(self, namespace: str, table: str) -> bool:
        """Whether there is the table."""

    def tables(self) -> list[tuple[str, str]]:
        """(namespace, table) of each table."""

    def load(self, namespace: str, table: str) -> StoredTable:
        """A table that exists."""

    def create(
        self,
        namespace: str,
        table: str,
        schema: Mapping[str, Any],
        properties: Mapping[str, str],
        partition: Sequence[PartitionField] = (),
    ) -> StoredTable:
        """Create a table, or replace an existing one; `schema` as Iceberg's JSON."""

    def drop(self, namespace: str, table: str) -> None:
        """Remove a table with its files."""

    def open_table(
        self,
        namespace: str,
        table: str,
        key: Sequence[str] | None,
        indexes: Path,
        open_column: str | None = None,
    ) -> LakeTable:
        """A table that exists, to be written. `indexes`: the directory of the row indexes of the lake."""

    def create_table(self, namespace: str, table: str, new: NewTable, indexes: Path) -> LakeTable:
        """Make an empty table, to be written."""


def format_of(lake: str) -> str | None:
    """The format of the mirror in a lake; None: there is none, or the place cannot be seen from here."""
    if is_uri(lake):
        return None
    rounds = Path(lake, "_binlake", "rounds")
    if (rounds / "_delta_log").is_dir():
        return DELTA
    return ICEBERG if (rounds / "metadata").is_dir() else None


def check_format(lake: str, options: MirrorOptions) -> None:
    """Raise OptionError where a lake has another format than the options, or cannot have theirs."""
    there = format_of(lake)
    if there is not None and there != options.format:
        raise OptionError(
            f"{lake} has a mirror of format {there}, and the option format is {options.format}",
            name="format",
            hint="use the same format, or another directory",
        )
    if options.format == DELTA and is_uri(lake):
        raise OptionError(
            f"format delta needs a directory as the lake, and {lake} is a URI",
            name="format",
            hint="mount the store, or use the format iceberg",
        )
