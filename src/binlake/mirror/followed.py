"""A table that a mirror follows: the server's definition, the lake table, how far it came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from binlake.errors import (
    IncompleteError,
    MissingContextError,
    OptionError,
    SchemaError,
    SourceError,
    UnsupportedError,
)
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, fact, is_special
from binlake.mirror.apply.decode import TableName
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import Control, offset_of, place_key
from binlake.mirror.iceberg.jvm import CommitConflictError, Lake
from binlake.mirror.iceberg.schema import iceberg_schema, storage_schema
from binlake.mirror.iceberg.table import Change, MirrorTable
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.mode import Mode, RowChanges
from binlake.mirror.modes.names import MIRROR, MODE_OPTIONS
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.tables import SourceTable
from binlake.spark.offsets import StreamOffset
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.schema_file import parse_schema
from binlake.values.position import Position

__all__ = [
    "OF_ONE_TABLE",
    "Followed",
    "definition_properties",
    "described",
    "followed",
    "mode_of",
    "open_table",
    "place_of",
    "table_properties",
    "treated_columns",
    "widens",
]

#: What is wrong with one table, and no reason to stop the others.
OF_ONE_TABLE = (SchemaError, UnsupportedError, IncompleteError, MissingContextError)

_TABLE = "binlake.table"
_KEY = "binlake.key"
_DECLARED = "binlake.create-table"
_FLAVOUR = "binlake.flavour"
_UNTIL = "binlake.snapshot-until"
_COLUMNS = "binlake.columns"
_MODE = "binlake.mode"
_NAMES = pa.list_(pa.string())
# MariaDB's hash of a long unique value, which it logs and does not show
_HIDDEN = re.compile(r"DB_ROW_HASH_\d+")


def table_properties(
    table: SourceTable, create_table: str, rules: ColumnRules, mode: str, until: StreamOffset
) -> dict[str, str]:
    """What the lake table keeps of its table. `until`: where the log was when its snapshot ended."""
    return {
        _TABLE: table.full_name,
        _KEY: json.dumps(table.key),
        **definition_properties((table.schema, table.name), create_table, rules),
        _FLAVOUR: table.definition.flavour,
        _MODE: mode,
        _UNTIL: json.dumps(until.to_json()),
    }


def definition_properties(name: TableName, create_table: str, rules: ColumnRules) -> dict[str, str]:
    """The part of it that changes with the definition. Raises OptionError."""
    columns = parse_schema(create_table.encode()).tables[0].columns
    treated = rules.described(*name, [column.name for column in columns])
    return {_DECLARED: create_table, _COLUMNS: json.dumps(treated, sort_keys=True)}


def treated_columns(properties: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a lake table that are left out or hashed, see `ColumnRules.described`."""
    found: dict[str, Any] = json.loads(properties.get(_COLUMNS, "{}"))
    return found


def mode_of(properties: Mapping[str, str]) -> str:
    """The name of the mode of a lake table."""
    return properties.get(_MODE, MIRROR)


def key_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that tell the rows of a lake table's source apart; () where only whole rows do."""
    return tuple(json.loads(properties[_KEY]))


def described(properties: Mapping[str, str]) -> str | None:
    """The table of which a lake table is the mirror, None if it is none whose snapshot is whole."""
    return properties.get(_TABLE) if _DECLARED in properties else None


@dataclass
class Followed:
    """One table. `offset`: all before it is in the lake."""

    database: str
    name: str
    lake: MirrorTable
    offset: StreamOffset

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"

    @property
    def id(self) -> TableName:
        """Database and table."""
        return (self.database, self.name)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart; () where only whole rows do."""
        return key_of(self.lake.properties)

    @property
    def decoded_key(self) -> tuple[str, ...]:
        """The columns whose values before an update are needed."""
        return self.key or self.columns

    @property
    def mode(self) -> Mode:
        """What its rows are."""
        return mode_named(mode_of(self.lake.properties))

    @property
    def columns(self) -> tuple[str, ...]:
        """The lake's columns that the server has."""
        own = {field.name for field in self.mode.fields}
        return tuple(name for name in self.lake.schema.names if name not in own)

    def present(self) -> Iterator[pa.Table]:
        """The rows that the server has, in its columns. Raises UnsupportedError if they are not known."""
        return self.mode.present(self.lake.scan, self.key, self.columns)

    @property
    def create_table(self) -> str:
        """The CREATE TABLE of the table as it is at `offset`."""
        return self.lake.properties[_DECLARED]

    @property
    def declared(self) -> DeclaredTable:
        """The same, read."""
        return parse_schema(self.create_table.encode()).tables[0]

    @property
    def flavour(self) -> str:
        """Mysql or mariadb."""
        return self.lake.properties[_FLAVOUR]

    @property
    def snapshot_until(self) -> StreamOffset:
        """Where the log was when the snapshot ended."""
        return StreamOffset.from_json(json.loads(self.lake.properties[_UNTIL]))

    @property
    def may_be_ahead(self) -> bool:
        """Whether the lake may have rows of a later moment than `offset`: its copy read them later."""
        here, until = self.offset.position, self.snapshot_until.position
        if here.server_uuid == until.server_uuid:
            return place_key(here) < place_key(until)
        return not GtidProgress(here.gtid_set).has_all(GtidProgress(until.gtid_set))

    @property
    def is_being_completed(self) -> bool:
        """Whether the next range must not go beyond `snapshot_until`."""
        same = self.offset.position.server_uuid == self.snapshot_until.position.server_uuid
        return self.mode.begins_after_copy and same and self.may_be_ahead

    def was_copied_after(self, place: Position) -> bool:
        """Whether the copy may have seen what happened at a place, which is not before `offset`."""
        until = self.snapshot_until.position
        if place.server_uuid == until.server_uuid:
            return place_key(place) < place_key(until)
        return self.may_be_ahead

    def check_rules(self, rules: ColumnRules, mode: str) -> None:
        """Raise OptionError where its rows were written by other rules, or in another mode."""
        copied_in = mode_of(self.lake.properties)
        if copied_in != mode:
            raise OptionError(
                f"{self.full_name}: the table was copied in the mode {copied_in!r}, and "
                f"is to be in the mode {mode!r}",
                name=MODE_OPTIONS.get(copied_in, MODE_OPTIONS.get(mode, "")),
                hint="start with the same options, or run `binlake mirror resync` for the table before",
            )
        wanted = rules.described(*self.id, [column.name for column in self.declared.columns])
        if treated_columns(self.lake.properties) != wanted:
            raise OptionError(
                f"{self.full_name}: other columns are left out or hashed, or with another key, than when "
                "the table was copied",
                name="exclude_columns",
                hint="start with the same options, or run `binlake mirror resync` for the table before",
            )

    def changes(self, batches: Sequence[pa.RecordBatch], most_bytes: int) -> Iterator[Change]:
        """What to commit for row changes in their order, see `Mode.changes`.

        Raises SchemaError where the log's columns are not the lake's, and what `Mode.changes` raises.
        """
        of = RowChanges(
            self.full_name,
            self.key,
            lambda: map(self._conformed, batches),
            rows=sum(batch.num_rows for batch in batches),
            nbytes=sum(batch.nbytes for batch in batches),
            is_whole=all(batch.column(ABSENT).null_count == batch.num_rows for batch in batches),
            may_be_ahead=self.may_be_ahead,
            rows_of=self.lake.rows_of,
        )
        return self.mode.changes(of, most_bytes)

    def _conformed(self, batch: pa.RecordBatch) -> pa.Table:
        """The rows in the lake's types, without a change of any value."""
        lake = self.lake.schema
        hidden = [name for name in batch.schema.names if _HIDDEN.fullmatch(name)]
        hidden = [name for name in hidden if name not in lake.names]
        names = [n for n in batch.schema.names if not is_special(n) and n not in hidden]
        if set(names) != set(self.columns):
            here, there = sorted({*names} - {*self.columns}), sorted({*self.columns} - {*names})
            raise SchemaError(
                f"{self.full_name}: the log's columns are not the lake's: only in the log: "
                f"{', '.join(here) or 'none'}; only in the lake: {', '.join(there) or 'none'}",
                hint="the definition changed unseen; `binlake mirror resync` makes the table anew",
            )
        fields, columns = [], []
        for name in self.columns:
            fields.append(lake.field(name))
            columns.append(self._column(name, batch.column(name), lake.field(name).type))
        absent = _without(batch.column(ABSENT), hidden) if hidden else batch.column(ABSENT)
        for name, kind, values in ((OP, pa.uint8(), batch.column(OP)), (ABSENT, _NAMES, absent)):
            fields.append(pa.field(name, kind))
            columns.append(values.cast(kind))
        for name in map(fact, self.mode.facts):
            fields.append(batch.schema.field(name))
            columns.append(batch.column(name))
        for name in self.decoded_key:
            kind = lake.field(name).type
            fields.append(pa.field(BEFORE + name, kind))
            columns.append(self._column(name, batch.column(BEFORE + name), kind))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def _column(self, name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
        logged = _stored(name, column.type)
        if logged != kind and not widens(logged, kind):
            raise SchemaError(
                f"{self.full_name}: column {name} is {logged} in the log and {kind} in the lake",
                hint="the definition changed unseen; `binlake mirror resync` makes the table anew",
            )
        return column if column.type == kind else column.cast(kind)


def _without(absent: pa.Array, hidden: Sequence[str]) -> pa.Array:
    """Lists of absent columns without hidden ones; null where none is left."""
    left = [[name for name in names or () if name not in hidden] for names in absent.to_pylist()]
    return pa.array([names or None for names in left], _NAMES)


def _stored(name: str, kind: pa.DataType) -> pa.DataType:
    """The type in which the lake keeps values of an Arrow type, without field ids."""
    return storage_schema(iceberg_schema(pa.schema([(name, kind)]))).field(0).type


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether every value of a type is one of a wider type, as Iceberg promotes them."""
    if pa.types.is_int32(narrow):
        return bool(pa.types.is_int64(wide))
    if pa.types.is_float32(narrow):
        return bool(pa.types.is_float64(wide))
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    return False


def open_table(lake: Lake, namespace: str, name: str, indexes: Path) -> MirrorTable:
    """A table that a mirror has copied. Raises SourceError."""
    properties = lake.load(namespace, name).describe()["properties"]
    mode = mode_named(mode_of(properties))
    key = mode.index_key(key_of(properties))
    index = indexes / namespace / name
    return MirrorTable.open(lake, namespace, name, key, index, open_column=mode.open_column)


def place_of(table: MirrorTable, control: Control, options: MirrorOptions) -> StreamOffset | None:
    """How far a table came: as its own snapshot says, or a later round without changes of it.

    Raises CommitConflictError where another program has written to it and the options refuse that.
    """
    own = offset_of(table.summary)
    if own is None:
        if options.on_other_writer == "refuse":
            raise CommitConflictError(
                f"{table.full_name}: another program has written to the table",
                hint="`binlake mirror resync` makes it anew; --on-other-writer reindex goes on",
            )
        history = table.iceberg.history()
        ours = [offset_of(one["summary"]) for one in history]
        own = next((offset for offset in reversed(ours) if offset is not None), None)
    if own is not None and control.snapshots.get(table.full_name) == table.snapshot:
        later = control.offset
        if later is not None and place_key(later.position) > place_key(own.position):
            return later
    return own


def followed(table: MirrorTable, offset: StreamOffset | None) -> Followed:
    """A table of the lake. Raises SourceError where it is not a mirror's."""
    name = described(table.properties)
    if name is None or offset is None:
        raise SourceError(f"{table.full_name} has no position in a log")
    database, _, plain = name.partition(".")
    return Followed(database, plain, table, offset)
