"""The commits of the changes of tables in a range of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from binlake.follow.offsets import StreamOffset
from binlake.format.sql_names import TableName
from binlake.lake.engine import Engine
from binlake.mirror.apply.decode import Decoded
from binlake.mirror.apply.net_tasks import WrittenShare, write_net_changes, written_changes
from binlake.mirror.apply.range_changes import RangeChanges
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.control import position_key
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.table_record import is_before
from binlake.mirror.lease import LakeInUseError
from binlake.mirror.modes.mode import Emptying
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, CommitConflictError, CommittedBesideError

T = TypeVar("T")

_TRIES = 3


@dataclass(frozen=True, slots=True)
class NetWriter:
    """Has tasks write the net changes of the tables that have at least `least_bytes` of them in a range.

    The changes that tasks hold at the same time are at most about `most_bytes`.
    """

    engine: Engine
    task_files: TaskFiles
    least_bytes: int
    most_bytes: int

    def write(
        self, group: Sequence[Followed], found: Decoded
    ) -> dict[TableName, list[WrittenShare]]:
        """The shares that tasks have written, by table. Tables that tasks cannot write are left out. Raises the
        BinlogError of a task.
        """
        large = [
            (table, changes)
            for table in group
            if (changes := found.changes.get(table.id)) is not None
            and self._is_for_tasks(table, changes)
        ]
        if not large:
            return {}
        targets = [(table.net_target, changes) for table, changes in large]
        written = write_net_changes(targets, self.engine, self.task_files)
        pairs = zip(large, written, strict=True)
        return {table.id: shares for (table, _), shares in pairs if shares is not None}

    def _is_for_tasks(self, table: Followed, changes: RangeChanges) -> bool:
        """Whether tasks can write the changes, and there are neither too few nor too many of them."""
        if not changes.parts or not changes.is_whole or changes.nbytes < self.least_bytes:
            return False
        held_bytes = changes.nbytes * self.engine.cores // changes.parts
        return held_bytes <= 2 * self.most_bytes and changes.is_cut_for(table.lake_types)


def commit_range(
    table: Followed,
    found: RangeChanges,
    written: Sequence[WrittenShare] | None,
    end: StreamOffset,
    round_number: int,
    options: MirrorOptions,
) -> int:
    """Commit the changes from the table's place to `end`; returns how many rows changed. `written`: the
    shares that tasks have written.

    Raises what `Followed.changes` and `MirrorTable.commit` raise: CommitConflictError where another program
    commits, the first time or repeatedly, depending on the options; LakeInUseError where another mirror has.
    """
    if written is None:  # the modes read rows of the lake before they commit
        accept_other_commits(table, options)

    def committed(attempt: int) -> int:
        # an earlier attempt may have committed some of the files that tasks have written
        if written is not None and attempt == 0:
            changes = written_changes(written, options.commit_bytes)
        else:
            changes = table.changes(found, options.commit_bytes)
        part = table.part_properties(end, round_number)
        last = table.position_properties(end, round_number)
        return _commit_parts(table, changes, part, last, options)

    return with_retries(table, options, committed)


def with_retries(table: Followed, options: MirrorOptions, act: Callable[[int], T]) -> T:
    """Return the result of `act`, which commits to a table. After a commit of another program, which the options accept, the
    table is loaded again, and `act` is called again with the number of the attempt, from 0 on.

    Raises CommitConflictError, after the last attempt or if the options refuse other programs, and LakeInUseError where another mirror has
    committed.
    """
    _check_not_set_back(table)
    for attempt in range(_TRIES):
        try:
            return act(attempt)
        except CommitConflictError as error:
            is_last = attempt == _TRIES - 1 or isinstance(error, CommittedBesideError)
            if options.on_other_writer == "refuse" or is_last:
                raise
            _reload(table)
            _check_not_ahead(table)
    raise AssertionError("the last attempt returns or raises")


def accept_other_commits(table: Followed, options: MirrorOptions) -> None:
    """Reload a table to which another program has committed, if the options accept that: a tag before a statement has its rows, too,
    and the data files of the version before may have been removed.

    Raises LakeInUseError where another mirror has committed.
    """
    if options.on_other_writer == "reindex" and table.lake.has_other_commits():
        _reload(table)
        _check_not_ahead(table)


def reload_own(table: Followed, options: MirrorOptions) -> None:
    """Reload a lake table, as its readers see it.

    Raises CommitConflictError if another program has committed to it, and the options refuse that, or if that program has set it back.
    """
    if options.on_other_writer == "refuse" and table.lake.has_other_commits():
        raise CommitConflictError(
            f"{table.lake.full_name}: another program has written to the table",
            hint="`binlake mirror resync` copies it again; --on-other-writer reindex continues",
        )
    _reload(table)


def _reload(table: Followed) -> None:
    """Reload a lake table. If another program has set it back, no table that it has rows of continues: the log after the older
    position would be lost. Raises CommittedBesideError then.
    """
    sharing = [table, *table.shards.values()]
    before = [one.lake_offset for one in sharing]
    table.lake.reload()
    for one, was in zip(sharing, before, strict=True):
        found = one.lake_offset
        if was and found and is_before(found.position, was.position):
            for other in sharing:
                other.set_back = (
                    f"{table.lake.full_name}: another program has set the table back to {found.position}; the mirror had committed the"
                    f" changes up to {was.position}"
                )
    if table.lake.set_back:
        table.set_back = table.lake.set_back
    _check_not_set_back(table)


def _check_not_set_back(table: Followed) -> None:
    if table.set_back:
        raise CommittedBesideError(
            table.set_back, hint="`binlake mirror resync` copies the table again"
        )


def _check_not_ahead(table: Followed) -> None:
    """Raise LakeInUseError if another mirror has committed changes after the table's position: they would be applied twice."""
    found, here = table.lake_offset, table.offset.position
    if found is None or found.position.server_uuid != here.server_uuid:
        return
    if position_key(found.position) > position_key(here):
        raise LakeInUseError(
            f"another mirror has committed the changes of {table.full_name} up to {found.position}",
            hint="let only one mirror write to a lake, then start this one again",
        )


def commit_emptied(
    table: Followed, of: Emptying, end: StreamOffset, round_number: int, options: MirrorOptions
) -> None:
    """Commit the removal of all rows of a table, which is then at `end`. Raises what `Mode.emptied` and `MirrorTable.commit` raise."""
    changes = table.mode.emptied(of, options.commit_bytes)
    part = table.part_properties(end, round_number)
    last = table.position_properties(end, round_number)
    _commit_parts(table, changes, part, last, options)


def commit_gone(
    table: Followed, of: Emptying, until: StreamOffset, round_number: int, options: MirrorOptions
) -> None:
    """Commit the removal of all rows of a table that a statement, which ends at `until`, has removed from the server. The table stays
    at its position: after a kill, the statement is read again. Raises as `commit_emptied`.
    """
    changes = table.mode.emptied(of, options.commit_bytes)
    part = table.part_properties(until, round_number)
    _commit_parts(table, changes, part, part, options)


def _commit_parts(
    table: Followed,
    changes: Iterator[Change],
    part: dict[str, str],
    last: dict[str, str],
    options: MirrorOptions,
) -> int:
    """Apply the changes in one commit, or in several if they exceed `commit_bytes`.

    All parts except the last keep the position at which the range begins, so after a kill the range is applied again.
    """
    before = Change()
    rows = 0
    for change in changes:
        rows += commit_change(table, before, part, options)
        before = change
    return rows + commit_change(table, before, last, options)


def commit_change(
    table: Followed, change: Change, properties: dict[str, str], options: MirrorOptions
) -> int:
    """Commit a change to a table, unless it is empty; return how many rows changed. If another program has committed
    beside it, and the options accept that, the table is loaded again. Raises CommitConflictError.
    """
    if change.is_empty:
        return 0
    try:
        return table.lake.commit(change, properties)
    except CommittedBesideError:
        if options.on_other_writer == "refuse":
            raise
        _reload(table)
        return change.rows
