"""Compare the tables of a lake with the tables of their source, each at one position of its log.

The source is read in a consistent snapshot, whose position is known. The mirror applies the log up to
exactly there, and then both sides show the same moment.

A session has a metadata lock on each table that it has read in its snapshot. An ALTER of the table waits for it, and all later
statements wait for the ALTER. Each large table therefore has a session of its own, and tables share a session for a few seconds only.

A server has no earlier definitions of its tables: one that is altered, emptied or dropped after the snapshot
began is compared at a later moment.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from binlake.errors import BinlogError, ConnectionLostError, FormatError, ServerError
from binlake.mirror.commits import reload_own
from binlake.mirror.control import RESYNC, position_key
from binlake.mirror.equality.compare import (
    ExactSource,
    LakeRows,
    TableComparison,
    TableDifference,
    VerifyOptions,
    compare,
    exact_session,
)
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.lease import LakeInUseError
from binlake.mirror.selection import chosen_tables
from binlake.mirror.stopped import PausedError, StoppedError
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.snapshot.tables import SourceTable, read_table
from binlake.values.position import Position

if TYPE_CHECKING:
    from binlake.mirror.followed.table import Followed
    from binlake.mirror.options import MirrorOptions

# How often a table is tried that is altered again and again.
_TRIES = 5
# For how long a session reads further tables. Each session takes rounds, so small tables share one.
_SESSION_S = 5.0
# A larger table may take longer than that.
_SMALL_ROWS = 50_000
# an unknown column, no such table, a definition that is later than the snapshot
_CODES_AFTER_DDL = frozenset((1054, 1146, 1412))


class ComparedMirror(Protocol):
    """A mirror whose tables are compared with the source: the part of `loop.Mirror` that this needs."""

    options: MirrorOptions

    @property
    def url(self) -> str: ...
    @property
    def tables(self) -> dict[str, Followed]: ...
    @property
    def gone(self) -> dict[str, str]: ...
    @property
    def quarantined(self) -> dict[str, str]: ...
    @property
    def not_copied(self) -> dict[str, str]: ...
    @property
    def round_error(self) -> BinlogError | None: ...
    def catch_up(self) -> None: ...
    def reach(self, position: Position | None = None) -> bool: ...
    def keep_lease(self) -> None: ...
    def may_have_changed(self, table: Followed, until: Position) -> bool: ...
    def quarantine(self, full_name: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class TableVerification:
    """One table. `state`: equal, different, or not compared, for `reason`.

    `parts` checksums were compared, of which `differing_parts` differ. `is_cut`: there may be more
    differences than those listed. `log_file`:`log_pos` is where it was compared.
    """

    table: str
    state: str
    reason: str = ""
    source_rows: int = 0
    lake_rows: int = 0
    parts: int = 0
    differing_parts: int = 0
    differences: tuple[TableDifference, ...] = ()
    is_cut: bool = False
    log_file: str = ""
    log_pos: int = 0


@dataclass(frozen=True, slots=True)
class Verification:
    """All tables of a mirror against their source.

    The first table was compared at `log_file`:`log_pos`, before which everything is applied, and others at the same position or later.
    With a sample, the same `sample_number` compares the same rows again.
    """

    log_file: str
    log_pos: int
    gtid_set: str
    tables: tuple[TableVerification, ...]
    sample_number: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether tables were compared, and every one equals its source."""
        return bool(self.tables) and all(table.state == "equal" for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the result as values that the json module can write."""
        return asdict(self)


def verify_tables(
    mirror: ComparedMirror,
    names: Sequence[str] = (),
    options: VerifyOptions | None = None,
    progress: Callable[[str], None] = lambda _table: None,
) -> Verification:
    """Bring a mirror up to date, and compare its tables with the source.

    `names` (`database.table`, or patterns): all tables without. `progress` takes the name of each table before it is
    compared. Raises OptionError for a name or pattern that stands for no table of the mirror, and what `Mirror.catch_up`,
    `Mirror.reach` and `exact_session` raise.
    """
    mirror.catch_up()  # the mirror itself obeys requests to compact: nothing here would wait for that
    return compare_tables(mirror, names, options, progress)


def compare_tables(
    mirror: ComparedMirror,
    names: Sequence[str] = (),
    options: VerifyOptions | None = None,
    progress: Callable[[str], None] = lambda _table: None,
    session_s: float = _SESSION_S,
) -> Verification:
    """Compare the tables of a running mirror with the source. Its rounds wait while tables are compared.

    A session reads no further table after `session_s` seconds. Raises BinlogError if there is no table to compare, and what
    `verify_tables` raises.
    """
    found: dict[str, TableVerification] = {}
    first: Position | None = None
    left: Sequence[str] = names
    tries = Counter[str]()
    while first is None or left:
        if first is not None:
            mirror.reach()  # so that little log remains, and few statements can occur meanwhile
        with ExitStack() as opened:
            try:
                source = opened.enter_context(exact_session(mirror.url))
            except ServerError as error:
                if first is None:
                    raise
                for name in left:  # the results so far may have taken hours
                    found[name] = TableVerification(name, "not compared", str(error))
                break
            if not mirror.reach(source.position):
                raise StoppedError("the mirror was stopped before its tables were compared")
            if first is None:
                first = source.position
                left = _tables(mirror, names)
            for name in mirror.gone.keys() - set(names):  # dropped meanwhile
                found.pop(name, None)
                left = [one for one in left if one != name]
            session = _Session(source, time.monotonic() + session_s)
            unread, altered = _compare_now(session, mirror, left, options, progress, found)
        tries.update(altered)
        again = [name for name in altered if tries[name] < _TRIES]
        for name in altered:
            if name not in again:
                found[name] = _altered_again_and_again(found[name])
        left = [*unread, *again]
    if not found:
        raise BinlogError(
            "no table was compared: the mirror follows none",
            hint="`binlake mirror status` shows its tables",
        )
    tables = tuple(found[name] for name in sorted(found))
    number = 0 if options is None else options.sample_number
    return Verification(first.file, first.offset, first.gtid_set, tables, number)


def _altered_again_and_again(last: TableVerification) -> TableVerification:
    """The result for a table instead of its last one: a difference may be that of the two definitions."""
    reason = f"an ALTER changed it during each attempt: {last.reason or 'columns differ'}"
    place = last.log_file, last.log_pos
    return TableVerification(
        last.table, "not compared", reason, log_file=place[0], log_pos=place[1]
    )


def _tables(mirror: ComparedMirror, names: Sequence[str]) -> list[str]:
    """The tables to compare. Raises OptionError for a name or pattern that stands for none of the mirror."""
    known = {*mirror.tables, *mirror.quarantined, *mirror.not_copied}
    gone = {name for name in names if name in mirror.gone}
    return sorted(chosen_tables(names, known | gone))


@dataclass(slots=True)
class _Session:
    """A session that reads the server at one position, and further tables until a time."""

    source: ExactSource
    until: float
    has_read: bool = False

    def begin(self, table: Followed) -> bool:
        """Return whether it reads this table. Another table that it has read would be locked until this one has been compared."""
        is_quick = table.lake.rows <= _SMALL_ROWS and time.monotonic() < self.until
        if self.has_read and not is_quick:
            return False
        self.has_read = True
        return True


def _compare_now(
    session: _Session,
    mirror: ComparedMirror,
    names: Sequence[str],
    options: VerifyOptions | None,
    progress: Callable[[str], None],
    found: dict[str, TableVerification],
) -> tuple[Sequence[str], list[str]]:
    """Compare tables, and put the results into `found`.

    Returns those that were not compared because the session reads no further one or was lost at the table before them, and those
    that were altered after the moment.
    """
    left_alone = mirror.gone | mirror.not_copied | mirror.quarantined
    altered: list[str] = []
    position = session.source.position
    for at, name in enumerate(names):
        before = found.get(name)
        mirror.keep_lease()
        if name in mirror.tables:
            table = mirror.tables[name]
            if not session.begin(table):
                return names[at:], altered
            progress(name)
            try:
                result, is_altered = _verified(session.source, table, mirror, options)
            except ConnectionLostError as error:
                result = TableVerification(name, "not compared", str(error))
                found[name] = replace(result, log_file=position.file, log_pos=position.offset)
                return names[at + 1 :], altered
            is_same = before and result.differences and before.differences == result.differences
            if is_altered and not is_same:
                altered.append(name)
        else:
            result = TableVerification(name, "not compared", left_alone.get(name, "it is gone"))
        found[name] = replace(result, log_file=position.file, log_pos=position.offset)
    return [], altered


def _verified(
    source: ExactSource, followed: Followed, mirror: ComparedMirror, options: VerifyOptions | None
) -> tuple[TableVerification, bool]:
    """The result, and whether the table may have been altered after the moment of `source`."""
    name = followed.full_name
    is_later = position_key(followed.offset.position) > position_key(source.position)
    if is_later or followed.was_copied_after(source.position):
        reason = "the table was copied after the position at which the source is read"
        return TableVerification(name, "not compared", reason), True
    try:
        if why := _other_writer(followed, mirror):
            mirror.quarantine(name, why)
            return TableVerification(name, "not compared", why), False
        table = read_table(source.server, followed.id, mirror.options.read_options())
        if table is None:
            reason = "the server has no such table, or its user may not read it"
            return TableVerification(name, "not compared", reason), True
        found = _compared(source, table, followed, mirror, options)
        # The server reports no error for another table that has got the name, or for columns that have exchanged their
        # names: it has an earlier state of them.
        is_altered = any(one.kind in ("column", "type") for one in found.differences) or (
            not found.is_equal and _may_have_changed(source, followed, mirror)
        )
    except (LakeInUseError, LogLagsError, StoppedError, PausedError, ConnectionLostError):
        raise
    except DAMAGED as error:
        why = str(error).partition("\n")[0]
        reason = f"a file of its lake table is missing or damaged: {why}; {RESYNC}"
        return TableVerification(name, "not compared", reason), False
    except FormatError as error:  # a value, perhaps of a column that another one has replaced
        is_altered = _may_have_changed(source, followed, mirror)
        return TableVerification(name, "not compared", str(error)), is_altered
    except BinlogError as error:
        is_altered = isinstance(error, ServerError) and error.code in _CODES_AFTER_DDL
        return TableVerification(name, "not compared", str(error)), is_altered
    return _described(name, found), is_altered


def _other_writer(followed: Followed, mirror: ComparedMirror) -> str:
    """Reload a lake table: what is compared is not what the mirror knows, but what others read. Return why that is not possible, if
    another program has written to it, or "".
    """
    try:
        reload_own(followed, mirror.options)
    except CommitConflictError as error:
        return str(error)
    return ""


def _may_have_changed(source: ExactSource, followed: Followed, mirror: ComparedMirror) -> bool:
    """Return whether a statement after the moment of `source` may concern the table.

    The rows have been read, so such a statement is before the current end of the server's log.
    """
    server = source.server
    return mirror.may_have_changed(followed, Position(server.identity, *server.end()))


def _compared(
    source: ExactSource,
    table: SourceTable,
    followed: Followed,
    mirror: ComparedMirror,
    options: VerifyOptions | None,
) -> TableComparison:
    there = followed.lake.schema
    shown = pa.schema([there.field(name) for name in followed.columns])
    lake = LakeRows(shown, lambda: _keeping_lease(followed.present(), mirror))
    rules = followed.rules(mirror.options.column_rules)
    schema = rules.lake_schema(table.schema, table.name, table.arrow_schema)
    expected = storage_schema(iceberg_schema(schema))
    columns = rules.in_lake(table.schema, table.name, table.types)
    return compare(
        source.server,
        table,
        lake,
        expected=expected,
        options=options,
        columns=columns,
        pause=mirror.keep_lease,
    )


def _keeping_lease(rows: Iterable[pa.Table], mirror: ComparedMirror) -> Iterator[pa.Table]:
    """The rows. The lease is renewed while they are read, which takes long for a large table."""
    for batch in rows:
        mirror.keep_lease()
        yield batch


def _described(name: str, found: TableComparison) -> TableVerification:
    return TableVerification(
        name,
        "equal" if found.is_equal else "different",
        source_rows=found.source_rows,
        lake_rows=found.lake_rows,
        parts=found.parts,
        differing_parts=found.differing_parts,
        differences=found.differences,
        is_cut=found.is_cut,
    )
