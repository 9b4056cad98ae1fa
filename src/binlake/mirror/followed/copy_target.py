"""The lake table into which a table is copied: the one that is there if it fits, else a new one.

Where a column's type on the server no longer fits, the policy of the table decides which columns the lake table gets.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from binlake.errors import BinlogError, UnsupportedError
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.columns.texts import has_text
from binlake.mirror.control import offset_of
from binlake.mirror.followed.kept import (
    begun_properties,
    copied_from,
    declared_before,
    is_partitioned_by,
    kept_columns,
    kept_properties,
    key_of,
    mode_of,
    partition_of,
    pending_properties,
    shard_column,
    sources,
    text_columns,
    text_properties,
    treated_columns,
)
from binlake.mirror.followed.kept_columns import kept_name
from binlake.mirror.followed.table import Followed, widens
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.mode import Mode
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.definition import definition_of
from binlake.mirror.source.tables import SourceTable
from binlake.mirror.tables.change import Change, Step, in_order
from binlake.mirror.tables.formats import LakeTable, LakeTables, StoredTable
from binlake.mirror.tables.partitions import check_partition
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.schema_file import parse_schema
from binlake.table.types.base import Target

__all__ = ["CopyTargets", "tag_as_before"]


@dataclass(frozen=True, slots=True)
class CopyTargets:
    """Opens or makes the lake tables of copies.

    `note` receives messages for the user. `shards_in` finds the shards of a lake table that are followed. `was_dropped`
    tells whether the table with which a lake table was made is no longer on the server.
    """

    lake: LakeTables
    options: MirrorOptions
    rules: ColumnRules
    indexes: Path
    note: Callable[[str], None]
    shards_in: Callable[[tuple[str, str]], dict[str, Followed]]
    was_dropped: Callable[[str], bool]

    def name(self, table: SourceTable) -> tuple[str, str]:
        """Namespace and name of the lake table."""
        return self.options.lake_name(table.schema, table.name)

    def shard_column(self, table: SourceTable) -> str:
        """The column that tells shards apart; "" if the table is none."""
        return self.options.shard_column if self.options.is_shard(table.schema, table.name) else ""

    def mode(self, table: SourceTable) -> Mode:
        """The mode of the lake table."""
        return mode_named(self.options.mode(table.schema, table.name))

    def treated(self, table: SourceTable) -> dict[str, Any]:
        """The columns that are left out or hashed."""
        names = [column.name for column in table.definition.columns]
        return self.rules.described(table.schema, table.name, names)

    def open(self, table: SourceTable) -> LakeTable:
        """The lake table: the one that is there if its columns are these, else a new one.

        Raises BinlogError if the table that is there belongs to another table, UnsupportedError.
        """
        name, column, before = self.name(table), self.shard_column(table), ""
        mode = self.mode(table)
        key = mode.index_key((*table.key, column) if table.key and column else table.key)
        known = self.lake.load(*name).describe() if self.lake.exists(*name) else None
        # another table of the same name: values from before are those of other rows
        is_other = self.was_dropped(table.full_name)
        texts = () if known is None or is_other else self._texts(table, known)
        schema = self._lake_schema(table, texts)
        partition = self.options.partition(table.schema, table.name)
        check_partition(table.full_name, partition, storage_schema(iceberg_schema(schema)))
        if known is not None:
            fits = self._fits(table, known, schema)
            if fits and not (is_other and kept_columns(known["properties"])):
                for shard in self.shards_in(name).values() if column else ():
                    return shard.lake
                return self.lake.open_table(*name, key, self.indexes, mode.open_column)
            change = None if is_other else self._beside(table, known, schema)
            if change is not None:
                there = self.lake.open_table(*name, key, self.indexes, mode.open_column)
                # the table stays at its position: after a kill, the statement is read again
                there.commit(change, _of_mirror(there.summary))
                return there
            before = "" if is_other else declared_before(known["properties"], table.full_name)
            self._make_way(table, known)
        return self.lake.create_table(
            *name,
            schema,
            key,
            self.indexes,
            deletes=self.options.deletes,
            open_column=mode.open_column,
            properties={
                **begun_properties(table.full_name, column, partition, before),
                **(text_properties(texts) if texts else {}),
            },
            partition=partition,
        )

    def _lake_schema(self, table: SourceTable, texts: Sequence[str]) -> pa.Schema:
        """The columns that the lake table should have. `texts`: those that are text."""
        rules = self.rules.with_texts(table.schema, table.name, texts)
        schema = rules.lake_schema(table.schema, table.name, table.arrow_schema)
        schema = self.mode(table).lake_schema(schema)
        column = self.shard_column(table)
        return schema.append(pa.field(column, pa.string())) if column else schema

    def _make_way(self, table: SourceTable, known: Mapping[str, Any]) -> None:
        """Note that the lake table is created again, and keep its snapshots if they may stay readable."""
        name = self.name(table)
        lost = kept_columns(known["properties"])
        self.note(
            f"{table.full_name}: its columns or options have changed; the lake table is created again"
            f"{', without ' if lost else ''}{', '.join(lost)}"
        )
        if not self._keeps_snapshots(table, known["properties"]):
            self.lake.drop(*name)
        elif self.mode(table).fields:
            tag_as_before(self.lake.load(*name))

    # -- types that do not fit ---------------------------------------------------------------------

    def _texts(self, table: SourceTable, known: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns that the lake keeps as text: those that are, and by policy those whose types have changed."""
        properties = known["properties"]
        if copied_from(properties) != table.full_name:
            return ()
        names = {field.name.lower() for field in table.arrow_schema if has_text(field.type)}
        found = {name.lower() for name in text_columns(properties)} & names
        if self.options.alter_policy(table.schema, table.name) == "text":
            changed = (name.lower() for name in self._changed_types(table, properties))
            found |= set(changed)
        # two values of a key may have the same text
        return tuple(sorted(found - {part.lower() for part in table.key}))

    def _changed_types(self, table: SourceTable, properties: Mapping[str, str]) -> list[str]:
        """The columns whose types have changed on the server so that the lake's types no longer fit.

        Columns of the key are never among them, nor columns that are hashed or left out.
        """
        before = declared_before(properties, table.full_name)
        if not before or self.shard_column(table):
            return []
        [declared] = parse_schema(before.encode()).tables
        definition = definition_of(declared, table.definition.flavour)
        old = TableTypes.of(definition, table.options, Target.TYPED, silent).schema
        types = {one.name.lower(): one.type for one in storage_schema(iceberg_schema(old))}
        found = []
        for field in storage_schema(iceberg_schema(table.arrow_schema)):
            was = types.get(field.name.lower(), field.type)
            shown = self.rules.treatment(table.schema, table.name, field.name) == "shown"
            if was == field.type or widens(was, field.type) or field.name in table.key or not shown:
                continue
            if has_text(was) and has_text(field.type):
                found.append(field.name)
        return found

    def _beside(
        self, table: SourceTable, known: Mapping[str, Any], schema: pa.Schema
    ) -> Change | None:
        """The change that gives columns of new types a place beside those with the values from before, by policy.

        None if the lake table is to be created again.
        """
        properties = known["properties"]
        kept = sources(properties).get(table.full_name)
        there = storage_schema(known["schema"])
        before = list(kept_columns(properties))
        if (
            self.options.alter_policy(table.schema, table.name) != "new-column"
            or kept is None
            or not self._holds_same_rows(table, properties, kept)
        ):
            return None
        stored = storage_schema(iceberg_schema(schema))
        pairs = {field.name: field.type for field in there if field.name not in before}
        other = [one for one in stored if str(pairs.get(one.name, one.type)) != str(one.type)]
        widened = [one.name for one in other if widens(pairs[one.name], one.type)]
        retyped = [one.name for one in other if one.name not in widened]
        key_or_options = set(retyped) - set(self._changed_types(table, properties))
        clash = {name.lower() for name in before} & {name.lower() for name in stored.names}
        if not (retyped or before) or key_or_options or clash:
            return None
        renames: dict[str, str] = {}
        for name in retyped:
            renames[name] = kept_name(name, {*there.names, *stored.names, *renames.values()})
        added = [one.name for one in stored if one.name not in pairs or one.name in renames]
        return Change(
            schema=_steps(list(pairs), schema, renames, widened),
            table_properties={
                **kept_properties([*before, *renames.values()]),
                **pending_properties(added or stored.names),
            },
        )

    def _holds_same_rows(
        self, table: SourceTable, properties: Mapping[str, str], kept: Mapping[str, str]
    ) -> bool:
        """Whether the lake table has the rows of the table in the mode mirror, found by the same key."""
        return (
            self.mode(table).name == MIRROR == mode_of(kept)
            and bool(table.key)
            and key_of(kept) == tuple(table.key)
            and not (self.shard_column(table) or shard_column(properties))
            and not self.options.partition(table.schema, table.name)
            and not partition_of(properties)
            and self._keeps_snapshots(table, properties)
        )

    # -- the table that is there -------------------------------------------------------------------

    def _fits(self, table: SourceTable, known: Mapping[str, Any], schema: pa.Schema) -> bool:
        """Return whether the copy can use the existing lake table. Raises BinlogError if it belongs to another table."""
        name, properties = self.name(table), known["properties"]
        if "binlake.deletes" not in properties:
            raise BinlogError(
                f"{table.full_name}: the lake has a table {'.'.join(name)} that no mirror made",
                hint="move it away, rename the table with --rename, or leave it out with --exclude-table",
            )
        other = copied_from(properties) or table.full_name
        if other != table.full_name:
            raise UnsupportedError(
                f"{table.full_name}: the lake table {'.'.join(name)} belongs to {other}"
            )
        column = self.shard_column(table)
        others = [shard for shard in self.shards_in(name) if column and shard != table.full_name]
        own = {one.name for one in self.mode(table).fields} | {column}
        wanted = _columns(storage_schema(iceberg_schema(schema)), own)
        there = _columns(storage_schema(known["schema"]), own, kept_columns(properties))
        # shards may have their columns in any order
        same = sorted(there) == sorted(wanted) if column else there == wanted
        partition = self.options.partition(table.schema, table.name)
        same = same and is_partitioned_by(properties, partition)
        for full_name, kept in sources(properties).items():
            if full_name == table.full_name or not column:
                same = same and treated_columns(kept) == self.treated(table)
            if column:
                same = same and key_of(kept) == tuple(table.key)
        same = same and properties.get("binlake.deletes") == self.options.deletes
        same = same and shard_column(properties) == column
        if kept_columns(properties):  # their values are found by the key
            source = sources(properties).get(table.full_name)
            same = same and source is not None and self._holds_same_rows(table, properties, source)
        if others and not same:
            raise UnsupportedError(
                f"{table.full_name}: its columns, key or options are not those of the lake table {'.'.join(name)}, which "
                f"has the rows of {', '.join(others)}, too",
                hint="make the same change to all of them, then `binlake mirror resync` all of them",
            )
        return bool(same)

    def _keeps_snapshots(self, table: SourceTable, properties: Mapping[str, str]) -> bool:
        """Whether the earlier snapshots of a lake table that gets other columns may stay.

        A column that is now left out or hashed must not stay readable. Iceberg does not go back to format v2.
        """
        same = (
            treated_columns(kept) == self.treated(table) for kept in sources(properties).values()
        )
        return all(same) and properties["binlake.deletes"] == self.options.deletes


def tag_as_before(there: StoredTable) -> None:
    """Keep the rows of a table that no copy will contain."""
    place = offset_of(there.describe().get("summary", {}))
    if place is not None:
        there.tag(f"before-copy-{place.position.file}-{place.position.offset}")


def _of_mirror(summary: Mapping[str, str]) -> dict[str, str]:
    """The mirror's own properties of a snapshot: its position in the log."""
    return {name: value for name, value in summary.items() if name.startswith("binlake.")}


def _steps(
    there: Sequence[str],
    schema: pa.Schema,
    renames: Mapping[str, str],
    widened: Sequence[str],
) -> list[list[Step]]:
    """The steps from the columns of a lake table to those of a schema; some stay under other names."""

    def with_type(step: str, name: str) -> Step:
        one = iceberg_schema(pa.schema([schema.field(name)]))
        return {"do": step, "name": name, "schema": one}

    drops: list[Step] = [{"do": "drop", "name": n} for n in there if n not in schema.names]
    renaming: list[Step] = [{"do": "rename", "name": a, "to": b} for a, b in renames.items()]
    added = [with_type("add", n) for n in schema.names if n not in there or n in renames]
    added += [with_type("widen", name) for name in widened]
    return [group for group in (drops, renaming, added, in_order(schema.names)) if group]


def _columns(
    schema: pa.Schema, own: Container[str], without: Container[str] = ()
) -> Sequence[tuple[str, str]]:
    """Names and types, those of the mode last: columns that were added later stand behind them."""
    columns = [(field.name, str(field.type)) for field in schema if field.name not in without]
    return sorted(columns, key=lambda column: column[0] in own)
