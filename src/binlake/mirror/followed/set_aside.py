"""Lake tables that the mirror keeps, but does not follow now: of tables that are gone, removed or quarantined."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from binlake.format.sql_names import TableName
from binlake.mirror.control import Control
from binlake.mirror.followed.copy_state import state_path
from binlake.mirror.followed.table_record import (
    copied_from,
    is_duplicate,
    shard_column,
    sources,
    stored_tables,
)
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import TableSelection
from binlake.mirror.tables.formats import StoredTable
from binlake.values.table_names import table_name


def lake_tables_set_aside(
    control: Control, options: MirrorOptions, indexes: Path, followed: Container[str]
) -> Iterator[tuple[TableName, StoredTable]]:
    """The lake tables into which no copy is made or will be continued, with their names, without those that are `followed`
    (`full_name_of`). `indexes`: the state directory, which has the states of copies. Raises SourceError.
    """
    if not control.gone and not control.quarantined and not control.removed:
        return
    for name, stored, known in stored_tables(control.lake, but=followed):
        if is_set_aside(control, options, indexes, name, known["properties"]):
            yield name, stored


def is_set_aside(
    control: Control,
    options: MirrorOptions,
    indexes: Path,
    name: TableName,
    properties: Mapping[str, str],
) -> bool:
    """Whether no copy is made or will be continued into a lake table with these properties, which is not followed."""
    of = {*sources(properties), *filter(None, [copied_from(properties)])}
    if not of or of & control.to_resync or is_duplicate(properties, name):
        return False
    if shard_column(properties):  # it does not record a shard whose copy is not complete
        return False
    if any(state_path(indexes, one).exists() for one in of):
        return False  # a server has a table of this name again
    aside = control.gone.keys() | control.quarantined.keys()
    selection = TableSelection.of(options, control.added, control.removed)
    return all(one in aside or not selection.wants(*table_name(one)) for one in of)
