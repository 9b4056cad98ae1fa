"""The lake tables that a table had under other names, before a change of `--rename`.

The mirror removes such a lake table when the copy under the new name is complete. It only forgets one that contains more than the
server's current rows: tags, a history, deleted rows. Old rounds then show the table under its former name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binlake.errors import UnsupportedError
from binlake.format.sql_names import TableName
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import Control
from binlake.mirror.followed.in_lake import MirroredTables
from binlake.mirror.followed.table_record import (
    former_properties,
    is_former,
    kept_columns,
    mode_of,
    place_of,
    sources,
    treated_columns,
    without_shard,
)
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.formats import DELTA, LakeTable, LakeTables, StoredTable
from binlake.mirror.tables.schema import storage_schema
from binlake.snapshot.tables import SourceTable
from binlake.values.charset_text import lower_case
from binlake.values.table_names import table_name

_FEW = 5
DROP_TAGS = (
    "drop its tags (binlake mirror untag LAKE NAME, or ALTER TABLE … DROP TAG in Spark), or the lake table, then"
    " `binlake mirror resync` copies it again"
)


@dataclass(frozen=True, slots=True)
class FormerTables:
    """Removes or forgets lake tables of former names. `note` receives messages for the user.

    `mirrored`: the tables that the lake has.
    """

    lake: LakeTables
    control: Control
    options: MirrorOptions
    rules: ColumnRules
    mirrored: MirroredTables
    note: Callable[[str], None]

    def check(self, table: SourceTable) -> None:
        """Raise UnsupportedError if a lake table of a former name must not stay, because a column of it is hidden now, but has tags:
        a tag promises that its snapshot stays.
        """
        target = self.options.lake_name(table.schema, table.name)
        for name in self._others(table.full_name, ".".join(target)):
            there = self.lake.load(*name)
            known = there.describe()
            is_own = _is_of_one(table.full_name, name, known["properties"])
            if not is_own or (self.lake.exists(*target) and known["uuid"] == self._uuid(target)):
                continue
            column = newly_hidden_column(self.rules, known)
            if column is not None and (tags := there.tags()):
                raise UnsupportedError(
                    f"{table.full_name}: its former lake table {'.'.join(name)} has to be dropped, because "
                    f"{why_hidden(column)}; but the table has tags: {few_of(tags)}",
                    hint=DROP_TAGS,
                )

    def leave(self, table: SourceTable, target: LakeTable) -> None:
        """After the copy into `target`: remove or forget the lake tables of this table under other names. A lake table that also
        has other shards only forgets this one.

        A lake table without the record of its name stays: it may be a user's copy.
        """
        own = target.stored.describe()
        if is_former(own["properties"]):  # the table is back under its former name
            target.stored.set_properties(former_properties(""))
        for name in self._others(table.full_name, target.full_name):
            there = self.lake.load(*name)
            known = there.describe()
            is_same_name = lower_case(".".join(name)) == lower_case(target.full_name)
            if is_same_name and known["uuid"] == own["uuid"]:  # the catalog lists it in lower case
                continue
            self.note(f"{table.full_name}: the lake table is now {target.full_name}")
            self._leave_one(table.full_name, name, there, known, target.full_name)
        self.mirrored.copied(table.full_name, self.options.lake_name(table.schema, table.name))

    def _others(self, full_name: str, target: str) -> list[TableName]:
        """The lake tables of a table under other names than `target`."""
        names = self.mirrored.by_name().get(full_name, ())
        return [name for name in names if ".".join(name) != target and self.lake.exists(*name)]

    def _uuid(self, name: TableName) -> str:
        return str(self.lake.load(*name).describe()["uuid"])

    def _leave_one(
        self,
        full_name: str,
        name: TableName,
        there: StoredTable,
        known: Mapping[str, Any],
        now: str,
    ) -> None:
        properties, shown = known["properties"], ".".join(name)
        if place_of(properties) != shown:
            self.control.keep_former(full_name, name)
            self.note(
                f"{full_name}: {shown} may be a copy and stays; drop it if you do not need it"
            )
        elif not _is_of_one(full_name, name, properties):
            self.control.keep_former(full_name, name)
            there.set_properties(without_shard(properties, full_name))
        elif newly_hidden_column(self.rules, known) is None and (
            why := self._why_kept(full_name, properties, there)
        ):
            self.control.keep_former(full_name, name)  # first, so that a kill loses no round
            there.set_properties(former_properties(now))
            self.note(
                f"{full_name}: {shown} stays, because it has {why}; drop it if you do not need it"
            )
        else:
            if full_name in self.control.former_lake_tables:
                self.control.keep_former(full_name, name)
            self.lake.drop(*name)

    def _why_kept(self, full_name: str, properties: Mapping[str, str], there: StoredTable) -> str:
        """The contents of a lake table that no copy has, as text; "" if there are none."""
        if tags := there.tags():
            return f"tags: {few_of(tags)}"
        if columns := kept_columns(properties):
            return f"values from before a change of type: {few_of(columns)}"
        if mode_named(mode_of(sources(properties)[full_name])).fields:
            return "rows that the server no longer has, or earlier versions of them"
        if self.options.format == DELTA and self.control.moments:  # a Delta table has no tags
            return "the rows of moments that have names"
        return ""


def _is_of_one(full_name: str, name: TableName, properties: Mapping[str, str]) -> bool:
    """Whether a lake table is certainly one of the mirror, and has the rows of this table only."""
    is_certain = place_of(properties) == ".".join(name)
    return is_certain and sources(properties).keys() == {full_name}


def newly_hidden_column(rules: ColumnRules, known: Mapping[str, Any]) -> str | None:
    """A column of a lake table that shows more than the rules allow now."""
    names = [field.name for field in storage_schema(known["schema"])]
    for full_name, kept in sources(known["properties"]).items():
        for column in rules.newly_hidden(*table_name(full_name), names, treated_columns(kept)):
            return column
    return None


def why_hidden(column: str) -> str:
    """Why the values of a column must not stay."""
    return f"column {column} is now left out, hashed, or hashed with another key"


def few_of(names: Sequence[str]) -> str:
    """The first names, as text."""
    return ", ".join(names[:_FEW]) + (", …" if len(names) > _FEW else "")
