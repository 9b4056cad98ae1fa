"""The record in a lake table of its table on the server, or of each shard, as properties of Iceberg."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from binlake.errors import BinlogError, SchemaError, SourceError, UnsupportedError
from binlake.follow.offsets import StreamOffset
from binlake.format.sql_names import TableName
from binlake.mirror.apply.definitions import Definition
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import NAMESPACE, position_key, position_properties
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.table_rules import PartitionField
from binlake.mirror.tables.formats import LakeTables, StoredTable
from binlake.snapshot.tables import SourceTable
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.table.schema.declared import DeclaredColumn
from binlake.table.schema.defaults import Unknown
from binlake.table.schema.schema_file import parse_schema
from binlake.table.schema.schema_text import create_table_text, text_with_default
from binlake.values.charset_text import lower_case
from binlake.values.position import Position
from binlake.values.table_names import full_name_of

_TABLE = "binlake.table"
_KEY = "binlake.key"
_DECLARED = "binlake.create-table"
# the checksum of a _DECLARED with the defaults of columns: an earlier version of binlake writes one without them
_DEFAULTS = "binlake.defaults"
_FLAVOUR = "binlake.flavour"
_UNTIL = "binlake.snapshot-until"
_COLUMNS = "binlake.columns"
_MODE = "binlake.mode"
_PARTITION = "binlake.partition"
_OFFSETS = "binlake.offsets"
_PARTS = "binlake.parts-until"
_TEXTS = "binlake.text-columns"
_KEPT = "binlake.kept-columns"
_PENDING = "binlake.pending-columns"
# an entry of _PENDING that is the name of no column: a copy has begun, and all columns have values
_BEGUN = ""
_BEFORE = "binlake.create-table-before"
_PLACE = "binlake.lake-table"
# the name of the lake table into which the mirror has copied the table since, after a change of --rename
_FORMER = "binlake.former-of"
_HIDDEN = Unknown("the lake does not record the defaults of columns that are hashed or left out")
_SHARD_COLUMN = "binlake.shard-column"
_SHARD = "binlake.shard "


def sources(properties: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    """The record of each table whose snapshot is complete, by its name: of one, or of several shards."""
    found: dict[str, dict[str, str]] = {}
    if _TABLE in properties:
        found[properties[_TABLE]] = dict(properties)
    for name, value in properties.items():
        if name.startswith(_SHARD) and value:
            shard, _, inner = name.removeprefix(_SHARD).rpartition(" ")
            found.setdefault(shard, {})[inner] = value
    return {name: kept for name, kept in found.items() if _DECLARED in kept}


def shard_properties(full_name: str, kept: Mapping[str, str]) -> dict[str, str]:
    """The record of one shard as properties of a lake table that several shards share."""
    return {f"{_SHARD}{full_name} {name}": value for name, value in kept.items()}


def without_shard(properties: Mapping[str, str], full_name: str) -> dict[str, str]:
    """The properties that make a lake table forget a shard."""
    own = f"{_SHARD}{full_name}"
    return dict.fromkeys((name for name in properties if name.rpartition(" ")[0] == own), "")


def shard_column(properties: Mapping[str, str]) -> str:
    """The column with the name of the shard that a row is from; "" where there are no shards."""
    return properties.get(_SHARD_COLUMN, "")


def place_properties(lake_table: str) -> dict[str, str]:
    """The record of the name of a lake table (`NAMESPACE.NAME`), by which a copy of it under another name is recognized."""
    return {_PLACE: lake_table}


def former_properties(lake_table: str) -> dict[str, str]:
    """The record that a table is in another lake table since a change of `--rename`; "": it is in this one."""
    return {_FORMER: lake_table}


def is_former(properties: Mapping[str, str]) -> bool:
    """Whether a lake table is one that the mirror has left because of a change of `--rename`."""
    return bool(properties.get(_FORMER))


def place_of(properties: Mapping[str, str]) -> str:
    """The name under which the mirror copied into a lake table; "" if none is recorded."""
    return properties.get(_PLACE, "")


def is_duplicate(properties: Mapping[str, str], name: TableName) -> bool:
    """Whether a lake table of this name is not part of the mirror, although it has the record of one: a user's copy of a lake
    table, such as a backup, or the lake table that a table had before a change of `--rename`.

    Some catalogs list names in lower case.
    """
    if is_former(properties):
        return True
    place = place_of(properties)
    return bool(place) and lower_case(place) != lower_case(".".join(name))


def certainty(properties: Mapping[str, str], name: TableName) -> int:
    """How certain it is that the mirror copied into a lake table under this name: most if it is recorded, less if it is recorded
    in another case, least without a record, which earlier versions did not make.
    """
    place = place_of(properties)
    return 2 if place == ".".join(name) else 1 if place else 0


def offset_properties(
    offsets: Mapping[str, StreamOffset], full_name: str, round_number: int
) -> dict[str, str]:
    """The snapshot properties with the position of each shard, after a commit of one of them."""
    written = {name: offset.to_json() for name, offset in offsets.items()}
    return {
        **position_properties(offsets[full_name], round_number),
        _OFFSETS: json.dumps(written, sort_keys=True),
    }


def offsets_of(summary: Mapping[str, str]) -> dict[str, StreamOffset]:
    """Read the positions that `offset_properties` recorded."""
    return _offsets(summary.get(_OFFSETS, "{}"))


def _offsets(text: str) -> dict[str, StreamOffset]:
    return {name: StreamOffset.from_json(offset) for name, offset in json.loads(text).items()}


def parts_properties(ends: Mapping[str, StreamOffset]) -> dict[str, str]:
    """The snapshot properties for tables that have only a part of the changes up to these ends: not all commits were made."""
    written = {name: end.to_json() for name, end in ends.items()}
    return {_PARTS: json.dumps(written, sort_keys=True)} if written else {}


def parts_of(summary: Mapping[str, str]) -> dict[str, StreamOffset]:
    """Read the ends that `parts_properties` recorded."""
    return _offsets(summary.get(_PARTS, "{}"))


def is_before(here: Position, there: Position) -> bool:
    """Whether a position has fewer changes than another one, also of two servers."""
    if here.server_uuid == there.server_uuid:
        return position_key(here) < position_key(there)
    return not GtidProgress(here.gtid_set).has_all(GtidProgress(there.gtid_set))


def definition_of(kept: Mapping[str, str]) -> Definition:
    """The definition of a table as it is in the lake."""
    text = kept[_DECLARED]
    return Definition(text, kept.get(_DEFAULTS) == _checksum(text))


def _checksum(create_table: str) -> str:
    return f"{zlib.crc32(create_table.encode()):08x}"


def flavour_of(kept: Mapping[str, str]) -> str:
    """`mysql` or `mariadb`."""
    return kept[_FLAVOUR]


def snapshot_until(kept: Mapping[str, str]) -> StreamOffset:
    """Where the log was when the snapshot ended."""
    return StreamOffset.from_json(json.loads(kept[_UNTIL]))


def partition_of(properties: Mapping[str, str]) -> str:
    """The partition spec with which a lake table was made, as text."""
    return properties.get(_PARTITION, "")


def table_properties(
    table: SourceTable, create_table: str, rules: ColumnRules, mode: str, until: StreamOffset
) -> dict[str, str]:
    """The record of a lake table's table. `until`: the position of the log when its snapshot ended."""
    return {
        _TABLE: table.full_name,
        _KEY: json.dumps(table.key),
        **definition_properties((table.schema, table.name), create_table, rules),
        _FLAVOUR: table.definition.flavour,
        _MODE: mode,
        _UNTIL: json.dumps(until.to_json()),
        _PENDING: "[]",
        _BEFORE: "",
    }


def definition_properties(name: TableName, create_table: str, rules: ColumnRules) -> dict[str, str]:
    """The part of it that changes with the definition. Raises OptionError."""
    table = parse_schema(create_table.encode()).tables[0]
    treated = rules.described(*name, [column.name for column in table.columns])
    hidden = {*treated.get("left out", ()), *treated.get("hashed", ())}
    columns = tuple(_without_value(c) if c.name in hidden else c for c in table.columns)
    shown = replace(table, columns=columns)
    if shown.defaults != table.defaults:
        create_table = create_table_text(shown, text_with_default)
    return {
        _DECLARED: create_table,
        _DEFAULTS: _checksum(create_table),
        _COLUMNS: json.dumps(treated, sort_keys=True),
    }


def _without_value(column: DeclaredColumn) -> DeclaredColumn:
    """A hidden column without its default, which is one of its values. The reason why one is unknown contains it, too."""
    default = column.default
    is_value = isinstance(default, Unknown) or (default is not None and default.form != "implied")
    return replace(column, default=_HIDDEN) if is_value else column


def treated_columns(properties: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a lake table that are left out or hashed, see `ColumnRules.described`."""
    found: dict[str, Any] = json.loads(properties.get(_COLUMNS, "{}"))
    return found


def text_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that a lake table keeps as text, whatever their types are on the server."""
    return tuple(json.loads(properties.get(_TEXTS, "[]")))


def text_properties(names: Iterable[str]) -> dict[str, str]:
    """The record of these columns."""
    return {_TEXTS: json.dumps(sorted(names))}


def kept_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a lake table with the values that others had before their types changed."""
    return tuple(json.loads(properties.get(_KEPT, "[]")))


def kept_properties(names: Iterable[str]) -> dict[str, str]:
    """The record of these columns."""
    return {_KEPT: json.dumps(list(names))}


def has_pending_copy(properties: Mapping[str, str]) -> bool:
    """Whether a copy into a lake table that has rows has begun, and is not complete."""
    return bool(_pending(properties))


def pending_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a lake table that have no values until the copy that has begun is complete."""
    return tuple(name for name in _pending(properties) if name != _BEGUN)


def pending_properties(names: Sequence[str]) -> dict[str, str]:
    """The record that a copy has begun, and of the columns that have no values until it is complete."""
    return {_PENDING: json.dumps(list(names) or [_BEGUN])}


def _pending(properties: Mapping[str, str]) -> list[str]:
    found: list[str] = json.loads(properties.get(_PENDING, "[]"))
    return found


def mode_of(properties: Mapping[str, str]) -> str:
    """The name of the mode of a lake table."""
    return properties.get(_MODE, MIRROR)


def key_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that identify the rows of a lake table's source; () if only whole rows do."""
    return tuple(json.loads(properties[_KEY]))


def copied_from(properties: Mapping[str, str]) -> str | None:
    """The table of which a lake table is the mirror, also while its snapshot is not whole; None for shards."""
    return properties.get(_TABLE)


def begun_properties(
    full_name: str, shard_column: str, partition: Sequence[PartitionField], before: str = ""
) -> dict[str, str]:
    """The record of a lake table from the beginning of the first snapshot. `shard_column` "": of one table. `before`:
    the CREATE TABLE of the lake table that it replaces.
    """
    of = {_SHARD_COLUMN: shard_column} if shard_column else {_TABLE: full_name}
    return {**of, _PARTITION: shown_partition(partition), **({_BEFORE: before} if before else {})}


def declared_before(properties: Mapping[str, str], full_name: str) -> str:
    """Return the CREATE TABLE with which a table was copied last, "" if it never was. While a copy is not complete,
    the lake table that it replaces supplies the statement.
    """
    kept = sources(properties).get(full_name)
    return properties.get(_BEFORE, "") if kept is None else definition_of(kept).create_table


def is_partitioned_by(properties: Mapping[str, str], partition: Sequence[PartitionField]) -> bool:
    """Whether a lake table was made with this partition spec."""
    return properties.get(_PARTITION, "") == shown_partition(partition)


def shown_partition(partition: Iterable[PartitionField]) -> str:
    """A partition spec as text."""
    return ", ".join(map(str, partition))


def mirrored_tables(
    lake: LakeTables,
    namespaces: Collection[str] | None = None,
    unreadable: Callable[[tuple[str, str], BinlogError], None] = lambda _name, _error: None,
) -> dict[str, list[tuple[str, str]]]:
    """The lake tables of each table whose snapshot is complete: one, or two if a rename was not completed. Copies of them
    that users have made under other names are left out, also those without the record of a name if another table has it.

    See `stored_tables` for `namespaces` and `unreadable`.
    """
    found: dict[str, dict[int, list[tuple[str, str]]]] = {}
    for name, _, known in stored_tables(lake, namespaces, unreadable):
        properties = known["properties"]
        if is_duplicate(properties, name):
            continue
        for full_name in sources(properties):
            by_certainty = found.setdefault(full_name, {})
            by_certainty.setdefault(certainty(properties, name), []).append(name)
    return {full_name: names[max(names)] for full_name, names in found.items()}


def begun_tables(
    lake: LakeTables, unreadable: Callable[[tuple[str, str], BinlogError], None]
) -> set[str]:
    """Return the tables whose copy has begun, complete or not. A shard counts once its copy is complete. See `stored_tables` for
    `unreadable`.
    """
    found: set[str] = set()
    for _, _, known in stored_tables(lake, None, unreadable):
        properties = known["properties"]
        found.update(sources(properties), filter(None, [copied_from(properties)]))
    return found


def merged_tables(lake: LakeTables) -> dict[str, list[str]]:
    """Return the lake tables of shards (`NAMESPACE.NAME`), each with the shards whose copies are complete."""
    return {
        full_name_of(*name): sorted(sources(known["properties"]))
        for name, _, known in stored_tables(lake)
        if shard_column(known["properties"])
    }


def stored_tables(
    lake: LakeTables,
    namespaces: Container[str] | None = None,
    unreadable: Callable[[tuple[str, str], BinlogError], None] = lambda _name, _error: None,
    but: Container[str] = (),
) -> Iterator[tuple[tuple[str, str], StoredTable, dict[str, Any]]]:
    """All tables of a lake, or those of some namespaces, with their names and descriptions; tables `but`
    (`full_name_of`) are not loaded.

    A catalog may have tables of other programs. One that is dropped meanwhile, that the user may not read, or that has types or
    features which the mirror does not know, is left out, and `unreadable` receives its name.
    """
    for name in lake.tables():
        if name[0] == NAMESPACE or (namespaces is not None and name[0] not in namespaces):
            continue
        if full_name_of(*name) in but:
            continue
        try:
            table = lake.load(*name)
            known = table.describe()
        except (SourceError, SchemaError, UnsupportedError) as error:
            unreadable(name, error)
            continue
        yield name, table, known
