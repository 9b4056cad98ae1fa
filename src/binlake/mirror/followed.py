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
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, TIME, is_special
from binlake.mirror.apply.decode import TableName
from binlake.mirror.apply.net import (
    KeyShare,
    Net,
    moves_without_columns,
    net_by_key,
    net_of_rows,
)
from binlake.mirror.apply.soft_deletes import DELETED, marked_deletes, present_rows
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import Control, offset_of, place_key
from binlake.mirror.iceberg.jvm import CommitConflictError, Lake
from binlake.mirror.iceberg.schema import iceberg_schema, storage_schema
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.options import MIRROR, SOFT_DELETES, MirrorOptions
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
    """The mode of a lake table: `MIRROR` or `SOFT_DELETES`."""
    return properties.get(_MODE, MIRROR)


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
        return self.lake.key

    @property
    def decoded_key(self) -> tuple[str, ...]:
        """The columns whose values before an update are needed."""
        return self.key or self.columns

    @property
    def keeps_deleted(self) -> bool:
        """Whether rows that the server has deleted stay."""
        return mode_of(self.lake.properties) == SOFT_DELETES

    @property
    def columns(self) -> tuple[str, ...]:
        """The lake's columns that the server has."""
        names = self.lake.schema.names
        return tuple(n for n in names if n != DELETED) if self.keeps_deleted else tuple(names)

    def present(self) -> Iterator[pa.Table]:
        """The rows that the server has, in its columns."""
        for rows in self.lake.scan():
            yield present_rows(rows) if self.keeps_deleted else rows

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

    def was_copied_after(self, place: Position) -> bool:
        """Whether the copy may have seen what happened at a place, which is not before `offset`."""
        until = self.snapshot_until.position
        if place.server_uuid == until.server_uuid:
            return place_key(place) < place_key(until)
        return self.may_be_ahead

    def check_rules(self, rules: ColumnRules, mode: str) -> None:
        """Raise OptionError where its rows were written by other rules, or in another mode."""
        if mode_of(self.lake.properties) != mode:
            raise OptionError(
                f"{self.full_name}: the table was copied in the mode {mode_of(self.lake.properties)!r}, and "
                f"is to be in the mode {mode!r}",
                name="soft_delete_tables",
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

    def net(self, batches: list[pa.RecordBatch]) -> Net:
        """The net change of row changes, in their order.

        Raises SchemaError where the log's columns are not the lake's, and what `apply.net` raises.
        IncompleteError, while `may_be_ahead`, for changes that need the row as it was before them.
        """
        changes = pa.concat_tables([self._conformed(batch) for batch in batches])
        if self.keeps_deleted:
            changes = marked_deletes(changes, self.key)
        if self.key:
            if self.may_be_ahead and moves_without_columns(changes, self.key):
                raise IncompleteError(
                    f"{self.full_name}: while it was copied, an update changed a key, and its image lacks columns",
                    hint="binlog_row_image=FULL avoids this",
                )
            return net_by_key(self.full_name, changes, self.key, self.lake.rows_of)
        return net_of_rows(self.full_name, changes)

    def nets(self, batches: list[pa.RecordBatch], most_bytes: int) -> Iterator[Net]:
        """The same in parts of different keys, of about `most_bytes` of changes each. Raises as `net`.

        A part can be committed before the others: the whole range applied again gives the same rows. This
        does not hold without a key, with soft deletes, or where images lack columns: then there is one part.
        """
        parts = -(-sum(batch.nbytes for batch in batches) // most_bytes)
        is_whole = all(batch.column(ABSENT).null_count == batch.num_rows for batch in batches)
        if parts <= 1 or not self.key or self.keeps_deleted or not is_whole:
            yield self.net(batches)
            return
        for part in range(parts):
            share = KeyShare(self.key, part, parts)
            changes = [share.changes(self._conformed(batch)) for batch in batches]
            net = net_by_key(self.full_name, pa.concat_tables(changes), self.key, self.lake.rows_of)
            yield Net(share.rows(net.upserts), share.rows(net.deletes))

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
        if self.keeps_deleted:
            fields.append(pa.field(TIME, batch.schema.field(TIME).type))
            columns.append(batch.column(TIME))
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
    key = tuple(json.loads(lake.load(namespace, name).describe()["properties"][_KEY]))
    return MirrorTable.open(lake, namespace, name, key, indexes / namespace / name)


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
