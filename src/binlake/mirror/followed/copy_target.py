"""The lake table into which a table is copied: the one that is there if it fits, else a new one.

Where a column's type on the server no longer fits, the policy of the table decides which columns the lake table gets.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from binlake.errors import UnsupportedError
from binlake.mirror.apply.lake_types import widens
from binlake.mirror.columns.kept_as_text import has_text
from binlake.mirror.columns.names import ANOTHER_NAME, caseless, spelled
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import Control, offset_of
from binlake.mirror.followed.former_tables import (
    DROP_TAGS,
    few_of,
    newly_hidden_column,
    why_hidden,
)
from binlake.mirror.followed.kept_columns import kept_name
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.table_record import (
    begun_properties,
    copied_from,
    declared_before,
    is_former,
    is_partitioned_by,
    kept_columns,
    kept_properties,
    key_of,
    mode_of,
    partition_of,
    pending_columns,
    pending_properties,
    shard_column,
    sources,
    text_columns,
    text_properties,
    treated_columns,
)
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.mode import Mode
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, Step, in_order
from binlake.mirror.tables.damage import DAMAGED, RESTORE, DamagedFileError, MissingFileError
from binlake.mirror.tables.formats import (
    LakeTable,
    LakeTables,
    NewTable,
    StoredTable,
    check_key,
    why_ambiguous,
)
from binlake.mirror.tables.partitions import check_partition
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.snapshot.definition import definition_of
from binlake.snapshot.tables import SourceTable
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.schema_file import parse_schema
from binlake.table.types.base import Target
from binlake.values.table_names import table_name

_ELSEWHERE = "rename the table with --rename, or leave it out with --exclude-table"
_WHY_DAMAGED = "a file of its lake table is missing, is damaged or cannot be used"


@dataclass(frozen=True, slots=True)
class CopyTargets:
    """Opens or makes the lake tables of copies.

    `note` receives messages for the user. `shards_in` finds the shards of a lake table that are followed.
    """

    lake: LakeTables
    options: MirrorOptions
    rules: ColumnRules
    indexes: Path
    note: Callable[[str], None]
    shards_in: Callable[[tuple[str, str]], dict[str, Followed]]
    control: Control

    def name(self, table: SourceTable) -> tuple[str, str]:
        """Namespace and name of the lake table."""
        return self.options.lake_name(table.schema, table.name)

    def shard_column(self, table: SourceTable) -> str:
        """The column that identifies the shard; "" if the table is not a shard."""
        return self.options.shard_column if self.options.is_shard(table.schema, table.name) else ""

    def mode(self, table: SourceTable) -> Mode:
        """The mode of the lake table."""
        return mode_named(self.options.mode(table.schema, table.name))

    def treated(self, table: SourceTable) -> dict[str, Any]:
        """The columns that are left out or hashed."""
        names = [column.name for column in table.definition.columns]
        return self.rules.described(table.schema, table.name, names)

    def columns_before(self, table: SourceTable) -> tuple[str, ...]:
        """The names of the columns that the server's table had when the lake table got its rows; () if there is none of it, or if the
        server has dropped that table since.
        """
        known = self._known(self.name(table))
        if known is None or self.control.was_dropped(table.full_name):
            return ()
        properties = known["properties"]
        if table.full_name not in (*sources(properties), copied_from(properties)):
            return ()
        before = declared_before(properties, table.full_name)
        [declared] = parse_schema(before.encode()).tables if before else [None]
        return () if declared is None else tuple(column.name for column in declared.columns)

    def open(self, table: SourceTable) -> LakeTable:
        """The lake table: the one that is there if its columns are these, else a new one.

        Raises UnsupportedError, also if the table that is there belongs to another table or program.
        """
        name, column, before = self.name(table), self.shard_column(table), ""
        mode = self.mode(table)
        key = mode.index_key((*table.key, column) if table.key and column else table.key)
        known = self._known(name)
        why = "its columns or options have changed"
        # another table of the same name: values from before are those of other rows
        is_other = self.control.was_dropped(table.full_name)
        texts = () if known is None or is_other else self._texts(table, known)
        schema = self._lake_schema(table, texts)
        if ambiguous := why_ambiguous(schema, self.options.format):
            raise UnsupportedError(f"{table.full_name}: {ambiguous}", hint=ANOTHER_NAME)
        check_key(table.full_name, schema, key, self.options.format)
        partition = self.options.partition(table.schema, table.name)
        check_partition(table.full_name, partition, storage_schema(iceberg_schema(schema)))
        if known is not None:
            fits = self._fits(table, known, schema)
            if fits and not (is_other and kept_columns(known["properties"])):
                for shard in self.shards_in(name).values() if column else ():
                    return shard.lake
                if (there := self._intact(name, key, mode.open_column)) is not None:
                    return there
                is_other, why = True, _WHY_DAMAGED
            change = None if is_other else self._beside(table, known, schema)
            if change is not None:
                if (there := self._intact(name, key, mode.open_column)) is not None:
                    # the table stays at its position: after a kill, the statement is read again
                    there.commit(change, _of_mirror(there.summary))
                    return there
                is_other, why = True, _WHY_DAMAGED
            before = "" if is_other else declared_before(known["properties"], table.full_name)
            self._make_way(table, known, why)
        properties = begun_properties(table.full_name, column, partition, before)
        if texts:
            properties = {**properties, **text_properties(texts)}
        new = NewTable(schema, key, self.options.deletes, mode.open_column, properties, partition)
        return self.lake.create_table(*name, new, self.indexes)

    def _known(self, name: tuple[str, str]) -> dict[str, Any] | None:
        """The description of the lake table; None if there is none. Raises SourceError."""
        if not self.lake.exists(*name):
            return None
        try:
            return self.lake.load(*name).describe()
        except (MissingFileError, DamagedFileError) as error:
            raise error.hinted(RESTORE) from None

    def _intact(
        self, name: tuple[str, str], key: Sequence[str] | None, open_column: str | None
    ) -> LakeTable | None:
        """The lake table; None if its files cannot be read or used, so that only a new table helps."""
        try:
            return self.lake.open_table(*name, key, self.indexes, open_column)
        except (*DAMAGED, UnsupportedError):
            return None

    def _lake_schema(self, table: SourceTable, texts: Sequence[str]) -> pa.Schema:
        """The columns that the lake table should have. `texts`: those that are text."""
        rules = self.rules.with_texts(table.schema, table.name, texts)
        schema = rules.lake_schema(table.schema, table.name, table.arrow_schema)
        schema = self.mode(table).lake_schema(schema)
        column = self.shard_column(table)
        return schema.append(pa.field(column, pa.string())) if column else schema

    def _make_way(self, table: SourceTable, known: Mapping[str, Any], why: str) -> None:
        """Note that the lake table is created again, and why, and keep its snapshots if they may stay readable.

        Raises UnsupportedError if they may not, and the table has tags: a tag promises that its snapshot stays.
        """
        name = self.name(table)
        why_without_snapshots = self._why_without_snapshots(known)
        if why_without_snapshots and (tags := self.lake.load(*name).tags()):
            raise UnsupportedError(
                f"{table.full_name}: its lake table has to be replaced by one without the earlier snapshots, because "
                f"{why_without_snapshots}; but the table has tags: {few_of(tags)}",
                hint=DROP_TAGS,
            )
        lost = kept_columns(known["properties"])
        self.note(
            f"{table.full_name}: {why}; the lake table is created again"
            f"{', without ' if lost else ''}{', '.join(lost)}"
        )
        if why_without_snapshots:
            self.lake.drop(*name)
        elif self.mode(table).fields:
            tag_as_before(self.lake.load(*name))

    # -- types that do not fit ---------------------------------------------------------------------

    def _texts(self, table: SourceTable, known: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the columns that the lake keeps as text: the columns that are text already, and with the policy `text`
        also the columns whose types have changed.
        """
        properties = known["properties"]
        if copied_from(properties) != table.full_name:
            return ()
        names = {caseless(field.name) for field in table.arrow_schema if has_text(field.type)}
        found = set(map(caseless, text_columns(properties))) & names
        if self.options.alter_policy(table.schema, table.name) == "text":
            found |= set(map(caseless, self._changed_types(table, properties)))
        # two values of a key may have the same text
        return tuple(sorted(found - set(map(caseless, table.key))))

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
        types = {caseless(one.name): one.type for one in storage_schema(iceberg_schema(old))}
        found = []
        for field in storage_schema(iceberg_schema(table.arrow_schema)):
            was = types.get(caseless(field.name), field.type)
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
        pairs = {caseless(one.name): one for one in there if one.name not in before}
        of = {one.name: pairs.get(caseless(one.name)) for one in stored}
        other = {one.name for one in stored if _has_other_type(of[one.name], one)}
        widened = [one.name for one in stored if one.name in other and _is_wider(of[one.name], one)]
        # without values: an earlier copy has given them their types, and did not end
        pending = set(map(caseless, pending_columns(properties)))
        retyped = [name for name in stored.names if name in other and name not in widened]
        emptied = [name for name in retyped if caseless(name) in pending]
        changed = [name for name in retyped if name not in emptied]
        key_or_options = set(changed) - set(self._changed_types(table, properties))
        clash = set(map(caseless, before)) & set(map(caseless, stored.names))
        # values from before are found by the key, and a key of a FLOAT is another one than that of the DOUBLE
        rehashed = [
            n for n in widened if n in table.key and pa.types.is_floating(stored.field(n).type)
        ]
        if not (changed or before) or key_or_options or clash or rehashed:
            return None
        renames: dict[str, str] = {}
        for name in changed:
            renames[name] = kept_name(name, {*there.names, *stored.names, *renames.values()})
        steps = _Steps([one.name for one in pairs.values()], schema, renames, emptied, widened)
        without_values = [n for n in stored.names if caseless(n) in pending or n in steps.added]
        return Change(
            schema=steps.groups(),
            table_properties={
                **kept_properties([*before, *renames.values()]),
                **pending_properties(without_values),
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
            and treated_columns(kept) == self.treated(table)
            and properties["binlake.deletes"] == self.options.deletes
        )

    # -- the table that is there -------------------------------------------------------------------

    def _fits(self, table: SourceTable, known: Mapping[str, Any], schema: pa.Schema) -> bool:
        """Return whether the copy can use the existing lake table. Raises UnsupportedError if it belongs to another table or
        program.
        """
        name, properties = self.name(table), known["properties"]
        if "binlake.deletes" not in properties:
            raise UnsupportedError(
                f"{table.full_name}: the lake has a table {'.'.join(name)} that no mirror created",
                hint=f"move it away, {_ELSEWHERE}",
            )
        other = copied_from(properties) or table.full_name
        if other != table.full_name:
            what, hint = "belongs to", _ELSEWHERE
            if is_former(properties):
                what, hint = "has earlier rows of", f"drop it if you do not need it, {_ELSEWHERE}"
            raise UnsupportedError(
                f"{table.full_name}: the lake table {'.'.join(name)} {what} {other}", hint=hint
            )
        column = self.shard_column(table)
        others = self._other_shards(table, properties)
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
                f"{table.full_name}: its columns, key or options differ from those of the lake table {'.'.join(name)}, which "
                f"also contains the rows of {', '.join(others)}",
                hint="make the same change to all of them, then `binlake mirror resync` all of them; or drop the lake table, with the rows"
                " of shards that were removed",
            )
        return bool(same)

    def _other_shards(self, table: SourceTable, properties: Mapping[str, str]) -> list[str]:
        """The other shards whose rows stay in the lake table: those that are followed, and those that are removed or quarantined
        without a request to copy them again.
        """
        followed = self.shards_in(self.name(table))
        return [
            name
            for name in {**dict.fromkeys(followed), **dict.fromkeys(sources(properties))}
            if name != table.full_name
            and (
                name in followed
                or (self.options.is_shard(*table_name(name)) and name not in self.control.to_resync)
            )
        ]

    def _why_without_snapshots(self, known: Mapping[str, Any]) -> str:
        """Why the snapshots of a lake table that is replaced cannot stay readable; "" if they can."""
        properties = known["properties"]
        if (column := newly_hidden_column(self.rules, known)) is not None:
            return why_hidden(column)
        if (properties["binlake.deletes"], self.options.deletes) == ("vectors", "position"):
            return "Iceberg does not go back from deletion vectors to position deletes"
        return ""


def tag_as_before(there: StoredTable) -> None:
    """Keep the rows of a table that no copy will contain. The newest snapshot may be one of another program."""
    known = there.describe()
    summary: Mapping[str, str] = known.get("summary", {})
    place = offset_of(summary)
    if place is not None:
        there.tag(f"before-copy-{place.position.file}-{place.position.offset}")
    elif int(summary.get("total-records", "0")):
        there.tag(f"before-copy-snapshot-{known['snapshot']}")


def _of_mirror(summary: Mapping[str, str]) -> dict[str, str]:
    """The mirror's own properties of a snapshot: its position in the log."""
    return {name: value for name, value in summary.items() if name.startswith("binlake.")}


def _has_other_type(there: pa.Field | None, wanted: pa.Field) -> bool:
    """Whether a lake table has a column in another type."""
    return there is not None and str(there.type) != str(wanted.type)


def _is_wider(there: pa.Field | None, wanted: pa.Field) -> bool:
    return there is not None and widens(there.type, wanted.type)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps that turn the columns of a lake table (`there`) into the columns of a schema.

    `kept`: columns whose values stay, and the names that these get. `emptied`: columns that get another type and have no
    values. `widened`: columns that get a wider type.
    """

    there: Sequence[str]
    schema: pa.Schema
    kept: Mapping[str, str]
    emptied: Sequence[str]
    widened: Sequence[str]

    @property
    def added(self) -> list[str]:
        """The columns that the lake table gets."""
        new = (*self.kept, *self.emptied)
        return [n for n in self.schema.names if spelled(n, self.there) is None or n in new]

    def groups(self) -> list[list[Step]]:
        """The steps, in groups done one after the other."""
        drops: list[Step] = [
            {"do": "drop", "name": name} for name in self.there if self._goes(name)
        ]
        added = [self._with_type("add", name) for name in self.added]
        added += [self._with_type("widen", name) for name in self.widened]
        groups = [drops, list(self._renaming()), added, in_order(self.schema.names)]
        return [group for group in groups if group]

    def _goes(self, name: str) -> bool:
        now = spelled(name, self.schema.names)
        return now is None or now in self.emptied

    def _renaming(self) -> Iterator[Step]:
        for name in self.there:
            now = spelled(name, self.schema.names)
            if now is None or now in self.emptied:
                continue
            to = self.kept.get(now, now)
            if to != name:
                yield {"do": "rename", "name": name, "to": to}

    def _with_type(self, step: str, name: str) -> Step:
        return {
            "do": step,
            "name": name,
            "schema": iceberg_schema(pa.schema([self.schema.field(name)])),
        }


def _columns(
    schema: pa.Schema, own: Container[str], without: Container[str] = ()
) -> Sequence[tuple[str, str]]:
    """Return names and types, the mode's own columns last: columns that were added later stand behind them."""
    columns = [(field.name, str(field.type)) for field in schema if field.name not in without]
    return sorted(columns, key=lambda column: column[0] in own)
