"""The effect of a DDL statement of the log on a mirrored table.

An effect that the lake can follow without reading rows is a change of the Iceberg schema: columns
are added, dropped, renamed, moved, or widened, by their field ids. The value that a new column has in
existing rows becomes its initial default (see `ddl.new_columns`). Statements that change no row and no
column have none. All others are refused: the table is quarantined or, by option, copied again from the server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from binlake.errors import BinlogError
from binlake.format.sql_names import lower_name
from binlake.mirror.columns.names import caseless
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import DROPPED
from binlake.mirror.ddl.column_changes import column_changes
from binlake.mirror.followed.table import Followed
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.source.engines import can_be_mirrored
from binlake.mirror.tables.change import Step
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import converted_table, renames_only, takes_name
from binlake.table.schema.alter import numbered_columns
from binlake.table.schema.ddl_effects import (
    adds_cascades,
    adds_index,
    altered_table,
    alters_another,
    changes_index,
    concerns_certainly,
    creates_another,
    drops,
    moves_partitions,
    new_engine,
    new_name,
    replaces,
    retaken_names,
    switches_keys,
    truncates,
    why_computed_again,
    why_not_followed,
    why_other_type,
)
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.schema_text import create_table_text, text_with_default
from binlake.values.options import ReadOptions
from binlake.values.table_names import full_name_of

_UNCERTAIN = "it is not certain which tables the statement names"


@dataclass(frozen=True, slots=True)
class Effect:
    """The action: nothing (all empty), empty the table, change its schema (`texts`: the columns that are kept as text
    after it), copy it again because of `recopied`, leave it because it is `gone` (the reason; its rows are deleted if the server has
    `dropped` it; the state before has a tag that names the kind of `departure`); or `refused`, the reason why it cannot follow.
    With `cascades`, it can follow only if the log contains the rows that foreign keys change.
    """

    steps: tuple[tuple[Step, ...], ...] = ()
    create_table: str | None = None
    texts: tuple[str, ...] = ()
    truncate: bool = False
    dropped: bool = False
    gone: str = ""
    departure: str = ""
    recopied: str = ""
    refused: str = ""
    cascades: bool = False

    @property
    def is_none(self) -> bool:
        """Whether the lake table stays as it is."""
        return replace(self, cascades=False) == Effect()


def effect_of(
    ddl: DdlStatement, table: Followed, options: ReadOptions, rules: ColumnRules
) -> Effect:
    """The effect of a statement that `concerns` a table."""
    sql = ddl.sql
    if creates_another(ddl) or switches_keys(sql) or alters_another(ddl, *table.id):
        return Effect()
    if truncates(sql):
        return Effect(truncate=True) if concerns_certainly(ddl) else Effect(refused=_UNCERTAIN)
    if (departure := departure_of(ddl, table)) is not None:
        return departure
    if renames_only(ddl) and takes_name(ddl, table.id) is False:
        return Effect()  # the table has its own name again: RENAME TABLE t TO x, x TO t
    if renames_only(ddl) and takes_name(ddl, table.id) and table.mode.name == MIRROR:
        # a server gives a table no name that exists, except that MariaDB also logs this for temporary tables
        return Effect(recopied="another table gets its name, perhaps a temporary one")
    if moves_partitions(sql) and table.mode.name == MIRROR:
        return Effect(
            recopied="the statement adds or removes rows of partitions without row events"
        )
    if adds_index(sql):
        return Effect()
    if table.key and set(map(caseless, table.key)) != set(
        map(caseless, table.declared.primary_key)
    ):
        return Effect(refused="its key is a unique index, which the statement may change")
    if changes_index(sql):
        return Effect()
    if why := why_not_followed(sql):
        return Effect(refused=why)
    try:
        return _altered(ddl, table, options, rules)
    except BinlogError as error:
        return Effect(refused=error.message)


def departure_of(ddl: DdlStatement, table: Followed) -> Effect | None:
    """The effect of a statement that `concerns` a table and drops, replaces, renames or converts it; None: it does not."""
    if creates_another(ddl):
        return None
    if drops(ddl.sql) or replaces(ddl.sql):
        if not concerns_certainly(ddl):
            return Effect(refused=_UNCERTAIN)
        return Effect(gone=DROPPED, dropped=True, departure="drop")
    converted = converted_table(ddl)
    # the server still has a table that is left because of another spelling, and the mirror copies it again
    if converted is not None and lower_name(converted[0]) == lower_name(table.id):
        into = full_name_of(*converted[1])
        return Effect(gone=f"made a partition of {into}", departure="convert")
    try:
        name = new_name(ddl, *table.id)
    except BinlogError as error:
        return Effect(refused=error.message)
    if name is None:
        return None
    return Effect(gone=f"renamed away to {'.'.join(name)}", departure="rename")


def _altered(
    ddl: DdlStatement, table: Followed, options: ReadOptions, rules: ColumnRules
) -> Effect:
    old = table.declared
    new = altered_table(ddl, table.id, old)
    if new.system_versioned:
        # the server logs the DELETEs that follow as updates, which end the versions of rows
        return Effect(refused="the table becomes system-versioned")
    if why := why_other_type(ddl):
        return Effect(refused=why)
    engine = new_engine(items_of(ddl))
    if engine and table.mode.holds_rows and not can_be_mirrored(engine, table.flavour):
        return Effect(refused=f"tables of engine {engine} cannot be mirrored")
    if table.mode.holds_rows and (why := why_computed_again(ddl, old)):
        return Effect(refused=why)
    cascades = adds_cascades(new, old)
    is_same = (new.columns, new.primary_key) == (old.columns, old.primary_key)
    # a definition does not contain AUTO_INCREMENT
    create_table = create_table_text(new, text_with_default)
    if is_same and not retaken_names(ddl, old, new) and not numbered_columns(items_of(ddl)):
        # columns that later statements add have the character set of the table, unless they name one
        facts = [(one.defaults, one.charset, one.foreign_keys) for one in (old, new)]
        if facts[0] == facts[1]:
            return Effect(cascades=cascades)
        return Effect((), create_table, table.text_columns, cascades=cascades)
    found = column_changes(ddl, new, table, options, rules)
    return Effect(found.steps, create_table, found.texts, cascades=cascades)
