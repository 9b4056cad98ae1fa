"""A table that a mirror follows: the server's definition, the lake table, and its position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import (
    MissingContextError,
    OptionError,
)
from binlake.follow.offsets import StreamOffset
from binlake.format.sql_names import TableName
from binlake.mirror.apply.definitions import Definition
from binlake.mirror.apply.lake_types import LakeTypes
from binlake.mirror.apply.net_tasks import NetTarget
from binlake.mirror.apply.range_changes import RangeChanges, Shares
from binlake.mirror.columns.names import caseless
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import (
    OFFSET,
    Control,
    offset_of,
    position_key,
    position_properties,
)
from binlake.mirror.followed.kept_columns import with_kept_values
from binlake.mirror.followed.table_record import (
    definition_of,
    flavour_of,
    is_before,
    is_partitioned_by,
    kept_columns,
    key_of,
    mode_of,
    offset_properties,
    offsets_of,
    partition_of,
    parts_of,
    parts_properties,
    place_properties,
    shard_column,
    shard_properties,
    shown_partition,
    snapshot_until,
    sources,
    text_columns,
    treated_columns,
    without_shard,
)
from binlake.mirror.followed.type_options import changed_type_option, has_such_columns
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.mode import Emptying, Mode, RowChanges
from binlake.mirror.modes.names import MODE_OPTIONS
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, CommitConflictError
from binlake.mirror.tables.formats import ICEBERG, LakeTable, LakeTables
from binlake.source.arrays import scalar
from binlake.table.schema.declared import DeclaredTable
from binlake.values.position import ChainPosition, Position
from binlake.values.table_names import full_name_of, table_name


@dataclass
class Followed:
    """One table. The lake has everything before `offset`. `shards` are the shards of the same lake table, by name. `set_back`: how
    another program has set the lake table back to an earlier state, after which the table cannot continue.
    """

    database: str
    name: str
    lake: LakeTable
    offset: StreamOffset
    shards: dict[str, Followed] = field(default_factory=dict, repr=False)
    set_back: str = ""
    _own: tuple[int | None, Mapping[str, str]] | None = field(default=None, repr=False)

    @property
    def full_name(self) -> str:
        """The text of its name, see `full_name_of`."""
        return full_name_of(self.database, self.name)

    @property
    def id(self) -> TableName:
        """Database and table."""
        return (self.database, self.name)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify rows; () if only whole rows do."""
        return key_of(self._kept)

    @property
    def lake_key(self) -> tuple[str, ...]:
        """The columns that identify rows of the lake table."""
        return _lake_key(self.key, self.shard_column)

    @property
    def shard_column(self) -> str:
        """The lake's column with the names of shards; "" where the lake table has the rows of one table."""
        return shard_column(self.lake.properties)

    @property
    def merged(self) -> Set[str]:
        """The tables whose rows the lake table has."""
        return sources(self.lake.properties).keys()

    @property
    def _kept(self) -> Mapping[str, str]:
        return sources(self.lake.properties)[self.full_name]

    @property
    def decoded_key(self) -> tuple[str, ...]:
        """The columns whose values before an update are needed."""
        return self.key or self.columns

    @property
    def mode(self) -> Mode:
        """The mode of its rows."""
        return mode_named(mode_of(self._kept))

    @property
    def columns(self) -> tuple[str, ...]:
        """The lake's columns that the server has."""
        own = {one.name for one in self.mode.fields} | {self.shard_column, *self.kept_columns}
        names = tuple(name for name in self.lake.schema.names if name not in own)
        if not self.shard_column:
            return names
        declared = {column.lower_name for column in self.declared.columns}
        return tuple(name for name in names if caseless(name) in declared)

    def present(self) -> Iterator[pa.Table]:
        """The rows that the server has, in its columns. Raises UnsupportedError if they are not known."""
        return self.mode.present(self._scan, self.key, self.columns)

    def _scan(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of the rows of the table in the lake."""
        if not self.shard_column:
            yield from self.lake.scan(names)
            return
        for rows in self.lake.scan([*names, self.shard_column]):
            own = rows.filter(pc.equal(rows[self.shard_column], scalar(self.full_name)))
            if own.num_rows:
                yield own.select(list(names))

    def position_properties(self, offset: StreamOffset, round_number: int) -> dict[str, str]:
        """The snapshot properties of a commit that brings the table to a position in the log."""
        end = self.part_until
        is_part = end is not None and is_before(offset.position, end.position)
        return self._properties(offset, end if is_part else None, round_number)

    def part_properties(self, end: StreamOffset, round_number: int) -> dict[str, str]:
        """The snapshot properties of a commit of a part of the changes up to `end`: the table stays at its position."""
        before = self.part_until
        if before is not None and is_before(end.position, before.position):
            end = before
        return self._properties(self.offset, end, round_number)

    def copied_properties(self, offset: StreamOffset, round_number: int) -> dict[str, str]:
        """The snapshot properties of a commit that replaces all rows by the rows of a copy."""
        return self._properties(offset, None, round_number) | {"binlake.copied": "true"}

    def _properties(
        self, offset: StreamOffset, part_until: StreamOffset | None, round_number: int
    ) -> dict[str, str]:
        summary = self._newest_summary()
        ends = {name: end for name, end in parts_of(summary).items() if name != self.full_name}
        parts = parts_properties(
            ends | ({} if part_until is None else {self.full_name: part_until})
        )
        if not self.shard_column:
            return position_properties(offset, round_number) | parts
        known = offsets_of(summary)
        offsets = {name: known[name] for name in sources(self.lake.properties) if name in known}
        offsets |= {name: shard.offset for name, shard in self.shards.items()}
        offsets[self.full_name] = offset
        return offset_properties(offsets, self.full_name, round_number) | parts

    def kept_as(self, kept: Mapping[str, str]) -> dict[str, str]:
        """The properties of the lake table that keep something of this table."""
        return shard_properties(self.full_name, kept) if self.shard_column else dict(kept)

    def replace_rows(
        self,
        files: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        kept: Mapping[str, str],
    ) -> None:
        """Replace the rows that this table has in the lake table with the rows of data files, in one commit.

        `properties` go into the snapshot. `kept` goes into the lake table's properties, as data about this table.
        """
        column = self.shard_column
        only = (column, self.full_name) if column else None
        recorded = self.kept_as(kept) | place_properties(self.lake.full_name)
        self.lake.replace(files, properties, recorded, only)

    def empty_shard(self, offset: StreamOffset, round_number: int) -> None:
        """Remove all rows of a shard."""
        self._replace_shard(offset, round_number, {})

    def drop_shard(self, offset: StreamOffset, round_number: int) -> None:
        """Remove all rows of a shard, and its record in the lake table."""
        kept = without_shard(self.lake.properties, self.full_name)
        self._replace_shard(offset, round_number, kept)

    def _replace_shard(
        self, offset: StreamOffset, round_number: int, kept: Mapping[str, str]
    ) -> None:
        properties = self.position_properties(offset, round_number)
        self.lake.replace((), properties, kept, (self.shard_column, self.full_name))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that the lake keeps as text, whatever their types are on the server."""
        return text_columns(self.lake.properties)

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The columns of the lake with the values that others had before their types changed."""
        return kept_columns(self.lake.properties)

    def rules(self, rules: ColumnRules) -> ColumnRules:
        """The rules for its columns, with those that the lake keeps as text."""
        return rules.with_texts(*self.id, self.text_columns)

    @property
    def definition(self) -> Definition:
        """The definition of the table as it is at `offset`."""
        return definition_of(self._kept)

    @property
    def declared(self) -> DeclaredTable:
        """The parsed definition."""
        return self.definition.declared

    @property
    def flavour(self) -> str:
        """`mysql` or `mariadb`."""
        return flavour_of(self._kept)

    @property
    def snapshot_until(self) -> StreamOffset:
        """The position of the log when the snapshot ended."""
        return snapshot_until(self._kept)

    @property
    def may_be_ahead(self) -> bool:
        """Whether the lake may have rows of a later moment than `offset`: its copy read them later."""
        return is_before(self.offset.position, self.snapshot_until.position)

    @property
    def is_being_completed(self) -> bool:
        """Whether the next range must not go beyond `snapshot_until`."""
        return self.mode.begins_after_copy and self.may_be_ahead

    def was_copied_after(self, position: Position) -> bool:
        """Return whether the copy may contain the effects of a position, which is not before `offset`."""
        until = self.snapshot_until.position
        if position.server_uuid == until.server_uuid:
            return position_key(position) < position_key(until)
        return self.may_be_ahead

    @property
    def lake_offset(self) -> StreamOffset | None:
        """The position that the newest snapshot of a mirror has: `offset`, or an earlier one after rounds without changes of the
        table, unless another mirror has committed.
        """
        versions = self.lake.lineage()
        own = (_own_offset(self.lake, one.summary, self.full_name) for one in versions)
        return next((one for one in own if one is not None), None)

    @property
    def is_unfinished(self) -> bool:
        """Whether the lake has only a part of some changes after the position: a kill came between two commits of one range."""
        end = self.part_until
        return end is not None and is_before(self.offset.position, end.position)

    @property
    def part_until(self) -> StreamOffset | None:
        """The end of the changes of which the lake has a part; None: the last commit was of whole changes."""
        return parts_of(self._newest_summary()).get(self.full_name)

    def _newest_summary(self) -> Mapping[str, str]:
        """The summary of the newest snapshot that a mirror has made; {} without one."""
        if OFFSET in self.lake.summary:
            return self.lake.summary
        if self._own is None or self._own[0] != self.lake.snapshot:
            own = (one.summary for one in self.lake.lineage() if OFFSET in one.summary)
            self._own = self.lake.snapshot, next(own, {})
        return self._own[1]

    def check_rules(self, rules: ColumnRules, options: MirrorOptions) -> None:
        """Raise OptionError if it was copied with other rules or types, in another mode, or under another name."""
        copied_in, mode = mode_of(self._kept), options.mode(*self.id)
        name = ".".join(options.lake_name(*self.id))
        column = options.shard_column if options.is_shard(*self.id) else ""
        if self.shard_column != column:
            raise self._differs(
                f"the shard column of its lake table is {self.shard_column or 'none'}, but should be {column or 'none'}",
                "shard_tables",
            )
        if self.lake.full_name != name:
            raise self._differs(
                f"the lake table is {self.lake.full_name}, but should be {name}", "rename_tables"
            )
        wanted_partition = options.partition(*self.id)
        if not is_partitioned_by(self.lake.properties, wanted_partition):
            raise self._differs(
                f"the lake table is partitioned by {partition_of(self.lake.properties) or 'nothing'}, but should be "
                f"partitioned by {shown_partition(wanted_partition) or 'nothing'}",
                "partition_tables",
            )
        if copied_in != mode:
            raise self._differs(
                f"the table was copied in the mode {copied_in!r}, but should be in the mode {mode!r}",
                MODE_OPTIONS.get(copied_in, MODE_OPTIONS.get(mode, "")),
            )
        declared = self.declared
        wanted = rules.described(*self.id, [column.name for column in declared.columns])
        if treated_columns(self._kept) != wanted:
            raise self._differs(
                "the excluded columns, the hashed columns or the hash key have changed since the table was copied",
                "exclude_columns",
            )
        self._check_storage(declared, rules, options)

    def _check_storage(
        self, declared: DeclaredTable, rules: ColumnRules, options: MirrorOptions
    ) -> None:
        """Raise OptionError if it was copied with other types of columns."""
        if not has_such_columns(declared):
            return
        option, what = changed_type_option(
            declared, self.flavour, self.lake.schema, options, self.rules(rules)
        )
        if option:
            raise self._differs(what, option)

    def _differs(self, what: str, option: str) -> OptionError:
        return OptionError(
            f"{self.full_name}: {what}",
            name=option,
            hint="start with the same options, or run `binlake mirror resync` for the table first",
        )

    @property
    def lake_types(self) -> LakeTypes:
        """How changes of this table become changes of the lake table."""
        return LakeTypes(
            self.full_name,
            self.lake.schema,
            self.columns,
            self.decoded_key,
            self.mode.facts,
            self.shard_column,
        )

    def shares(self, parts: int) -> Shares | None:
        """How tasks cut its changes into shares of keys, if they can make the net changes."""
        by_tasks = self.lake.format == ICEBERG and self.mode.is_net_by_key
        if not (by_tasks and self.lake_key) or self.kept_columns:
            return None
        return Shares(self.lake_types, self.lake_key, parts)

    @property
    def net_target(self) -> NetTarget:
        """Where tasks write its net changes."""
        lake = self.lake
        return NetTarget(
            self.full_name, self.lake_key, lake.schema, lake.partitioning, lake.data_prefix()
        )

    def changes(self, found: RangeChanges, most_bytes: int) -> Iterator[Change]:
        """The commits for row changes, see `Mode.changes`.

        Raises SchemaError if the log's columns differ from the lake's, and the errors of `Mode.changes`.
        """
        rows = self.lake_types
        of = RowChanges(
            self.full_name,
            self.lake_key,
            lambda: found.tables(rows),
            rows=found.rows,
            nbytes=found.nbytes,
            lacking=found.lacking,
            may_be_ahead=self.may_be_ahead,
            rows_of=self.lake.rows_of,
            row_bytes=self.lake.row_bytes,
        )
        changes = self.mode.changes(of, most_bytes)
        return map(self._with_kept_values, changes) if self.kept_columns else changes

    def _with_kept_values(self, change: Change) -> Change:
        """The change, after which rows still have the values of columns that the server does not have."""
        if change.upserts is None or not change.upserts.num_rows:
            return change
        rows = with_kept_values(change.upserts, self.lake, self.lake_key, self.kept_columns)
        return replace(change, upserts=rows)

    def tag_before(self, what: str, position: Position | ChainPosition, round_number: int) -> None:
        """Tag the current snapshot as the one before a statement. If binlake applies it twice, only the first tag counts."""
        name = f"before-{what}-{position.file}-{position.offset}"
        self.lake.stored.tag(name, self.position_properties(self.offset, round_number))

    def emptying(self, position: Position, commit_us: int | None) -> Emptying:
        """A statement at a place that removes all rows of the table, which is not a shard."""
        ahead = self.may_be_ahead
        return Emptying(self.full_name, position, commit_us, ahead, rows=self.lake.scan)


def followed_tables(
    lake: LakeTables, name: tuple[str, str], indexes: Path, control: Control, options: MirrorOptions
) -> dict[str, Followed]:
    """The tables whose rows a lake table has: one, or shards.

    Raises SourceError, MissingContextError for a table without a position, FileNotFoundError for one without a data
    file, and CommitConflictError where another program has written to it and the options refuse that.
    """
    properties = lake.load(*name).describe()["properties"]
    known = sources(properties)
    if not known:  # a copy has made it, and is not complete
        return {}
    kept = next(iter(known.values()))
    mode = mode_named(mode_of(kept))
    key = mode.index_key(_lake_key(key_of(kept), shard_column(properties)))
    table = lake.open_table(*name, key, indexes, mode.open_column)
    found: dict[str, Followed] = {}
    for full_name in known:
        offset = _place_of(table, full_name, control, options)
        if offset is not None:
            found[full_name] = Followed(*table_name(full_name), table, offset, found)
        elif full_name not in {*control.quarantined, *control.gone, *control.to_resync}:
            raise MissingContextError(
                f"{table.full_name} has no position in a log",
                hint="`binlake mirror resync` copies the table again",
            )
    return found


def unfollowed_shard(full_name: str, others: dict[str, Followed]) -> Followed:
    """A shard of a lake table that `others`, which are followed, have open."""
    other = next(iter(others.values()))
    offset = offsets_of(other.lake.summary).get(full_name, other.offset)
    return Followed(*table_name(full_name), other.lake, offset, others)


def _lake_key(key: tuple[str, ...], column: str) -> tuple[str, ...]:
    """The key of a lake table, with the column that identifies shards."""
    return (*key, column) if key and column else key


def _place_of(
    table: LakeTable, full_name: str, control: Control, options: MirrorOptions
) -> StreamOffset | None:
    """Return the position of a table: the position of the mirror's newest snapshot, or of a later round without changes.

    Later snapshots of other programs have the same rows, or a user has accepted their rows with --on-other-writer reindex.
    """
    if options.on_other_writer == "refuse" and _is_changed_by_others(table):
        raise CommitConflictError(
            f"{table.full_name}: another program has written to the table",
            hint="`binlake mirror resync` copies it again; --on-other-writer reindex continues",
        )
    if table.set_back:
        raise CommitConflictError(
            table.set_back, hint="`binlake mirror resync` copies the table again"
        )
    own, seen = None, set()
    for one in table.lineage():
        seen.add(one.snapshot)
        own = _own_offset(table, one.summary, full_name)
        if own is not None:
            break
    if own is None:
        return None
    for snapshot, later in control.places_of(full_name):
        if snapshot not in seen:
            continue
        # the record is of this snapshot, so it is not earlier; the positions of two servers have no order
        if later.position.server_uuid != own.position.server_uuid:
            own = later
        own = max(own, later, key=lambda offset: position_key(offset.position))
    return own


def _is_changed_by_others(table: LakeTable) -> bool:
    """Whether another program has changed the table after the mirror's newest snapshot."""
    for one in table.lineage():
        if offset_of(one.summary) is not None:
            return False
        if one.is_change:
            return True
    return True


def _own_offset(
    table: LakeTable, summary: Mapping[str, str], full_name: str
) -> StreamOffset | None:
    if shard_column(table.properties):
        return offsets_of(summary).get(full_name)
    return offset_of(summary)
