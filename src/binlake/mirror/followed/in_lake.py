"""The tables that a lake has. Each load reads the metadata of all lake tables, so they are loaded once in a round at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from binlake.errors import BinlogError, SchemaError, UnsupportedError
from binlake.format.sql_names import TableName
from binlake.mirror.control import Control
from binlake.mirror.followed.table_record import mirrored_tables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.damage import DAMAGED, RESTORE
from binlake.mirror.tables.formats import LakeTables
from binlake.values.table_names import table_name

# A load that takes longer is followed by a pause of so many times as long: with thousands of tables in a store, the loads would
# take longer than the copies for which they are needed.
_SHORT_S = 0.1
_PAUSE = 10
# Their names in the options are not misspelled, see `selection.check_selects`.
_MOST_DROPPED = 100


class MirroredTables:
    """The lake tables of the tables whose copy is complete, in some namespaces. Only the mirror itself changes them during a round."""

    def __init__(self, lake: LakeTables, namespaces: Collection[str]) -> None:
        self._lake = lake
        self._namespaces = namespaces
        self._known: dict[str, list[TableName]] | None = None
        self._keep_until = float("-inf")

    def begin_round(self) -> None:
        """Load them again when they are needed next, unless the last load has taken long and is not long ago."""
        if time.monotonic() >= self._keep_until:
            self._known = None

    def forget(self) -> None:
        """Load them again when they are needed next."""
        self._known = None

    def by_name(self) -> dict[str, list[TableName]]:
        """The lake tables of each table, see `mirrored_tables`."""
        if self._known is None:
            began = time.monotonic()
            self._known = mirrored_tables(self._lake, self._namespaces)
            ended = time.monotonic()
            took_s = ended - began
            self._keep_until = ended + (_PAUSE * took_s if took_s > _SHORT_S else 0)
        return self._known

    def copied(self, full_name: str, lake_table: TableName) -> None:
        """Record that a table has been copied into a lake table, and that it has no other one."""
        self.by_name()[full_name] = [lake_table]


class UnreadTables:
    """The lake tables that could not be read just now, with their errors, when a command looks for the tables of a mirror. Its
    instances are the `unreadable` of `stored_tables`.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._errors: dict[TableName, BinlogError] = {}

    def __call__(self, name: TableName, error: BinlogError) -> None:
        self._errors[name] = error

    def among(self, names: Collection[str] = ()) -> dict[str, BinlogError]:
        """Those whose lake tables could not be read: of the tables of the newest round, and of these `names`."""
        if not self._errors:
            return {}
        lake_name = self._control.options.lake_name
        places = {name: lake_name(*table_name(name)) for name in {*self._control.snapshots, *names}}
        return {name: self._errors[at] for name, at in places.items() if at in self._errors}

    def note_others(self, names: Collection[str], note: Callable[[str], None]) -> None:
        """Report lake tables that are those of none of these `names`: they may be of other programs, or new ones of the mirror."""
        lake_name = self._control.options.lake_name
        known = {lake_name(*table_name(name)) for name in names}
        # a mirror makes no tables of other types and formats
        others = {
            name: error
            for name, error in self._errors.items()
            if name not in known and not isinstance(error, (SchemaError, UnsupportedError))
        }
        note_left_out(others, note)


def note_left_out(errors: Mapping[TableName, BinlogError], note: Callable[[str], None]) -> None:
    """Report lake tables that cannot be read."""
    if errors:
        name, error = next(iter(errors.items()))
        note(
            f"tables of the catalog are left out because they cannot be read: {len(errors)},"
            f" for example {'.'.join(name)}: {error}"
        )


def tables_in_lake(
    lake: LakeTables,
    control: Control,
    options: MirrorOptions,
    quarantine: Callable[[str, Exception], None],
    note: Callable[[str], None],
) -> dict[str, list[TableName]]:
    """The lake tables of each table, at the start of a mirror. One of the newest round whose metadata is missing or damaged goes
    to `quarantine`, as does one that has got types or features that the mirror does not know. Raises SourceError if one cannot be
    read for another reason.
    """
    unread: dict[TableName, BinlogError] = {}
    found = mirrored_tables(lake, unreadable=unread.__setitem__)
    if not unread:
        _forget_dropped(lake, control, options, control.gone.keys() - found.keys())
    for full_name in control.snapshots.keys() - found.keys():
        name = options.lake_name(*table_name(full_name))
        if name not in unread or not lake.exists(*name):
            continue
        if not isinstance(unread[name], (*DAMAGED, SchemaError, UnsupportedError)):
            raise unread[name]  # left out, it would be copied again
        error = unread.pop(name).hinted(RESTORE)
        if full_name not in {*control.quarantined, *control.to_resync}:
            quarantine(full_name, error)
    note_left_out(unread, note)
    return found


def _forget_dropped(
    lake: LakeTables, control: Control, options: MirrorOptions, names: Collection[str]
) -> None:
    """Forget tables that are gone from the server and have no lake table any more, except the newest. A server that makes a table each
    day would make each commit of the control table larger.
    """
    gone = control.gone
    newest_first = sorted(names, key=lambda name: (gone[name].since, name), reverse=True)
    old = newest_first[_MOST_DROPPED:]
    if dropped := {name for name in old if not _exists(lake, options.lake_name(*table_name(name)))}:
        control.forget_gone(dropped)


def _exists(lake: LakeTables, name: TableName) -> bool:
    try:
        return lake.exists(*name)
    except UnsupportedError:  # no lake table of this format can have the name
        return False
