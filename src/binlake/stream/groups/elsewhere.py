"""The part of a chain that a read leaves out, looked into for XA transactions.

A split, or a read with a `start`, may meet an XA COMMIT whose XA PREPARE lies before it, and
one that shows uncommitted transactions must know whether a prepared one is decided later. Both
are rare, so nothing is read before the question comes up; then whole files are scanned, by
their headers, nearest first, each at most once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from binlake.stream.groups.group import Group
from binlake.stream.groups.grouper import Ended, Grouper
from binlake.stream.runs import ChainPosition, Outcome
from binlake.stream.sql.statements import Xid

if TYPE_CHECKING:
    from binlake.source.log_file import LogFile

__all__ = ["Elsewhere", "ElsewhereInStream", "OpensFiles"]


class OpensFiles(Protocol):
    """A chain of files, opened by ordinal; `ordinals` are those of its files, ascending."""

    def __call__(self, ordinal: int) -> LogFile: ...

    @property
    def ordinals(self) -> Sequence[int]: ...


class Elsewhere:
    """Knows what was prepared before `first`, and what is decided after a read.

    `chain(ordinal)` opens a file of the chain, `chain.ordinals` says which there are.
    """

    def __init__(self, chain: OpensFiles, first: ChainPosition) -> None:
        self._chain = chain
        self._first = first
        self._before: dict[int, dict[Xid, Group | None]] = {}
        self._after: dict[int, set[Xid]] = {}

    def prepared_before(self, xid: Xid) -> Group | None:
        """The prepared group of this XID that nothing before `first` has decided, or None.

        Raises BinlogError.
        """
        for ordinal in reversed(self._chain.ordinals):
            if ordinal > self._first.ordinal:
                continue
            if ordinal not in self._before:
                stop = self._first.offset if ordinal == self._first.ordinal else None
                self._before[ordinal] = self._prepared_in(ordinal, stop)
            if xid in self._before[ordinal]:
                return self._before[ordinal][xid]
        return None

    def decided_after(self, xid: Xid, end: ChainPosition) -> bool:
        """Whether an XA COMMIT or XA ROLLBACK of this XID lies at or after `end`, where the read
        has ended (always the same).

        Raises BinlogError.
        """
        for ordinal in self._chain.ordinals:
            if ordinal < end.ordinal:
                continue
            if ordinal not in self._after:
                start = end.offset if ordinal == end.ordinal else None
                self._after[ordinal] = self._decided_in(ordinal, start)
            if xid in self._after[ordinal]:
                return True
        return False

    def _prepared_in(self, ordinal: int, stop: int | None) -> dict[Xid, Group | None]:
        """By XID: the group that a file prepares, or None if the file decides it."""
        found: dict[Xid, Group | None] = {}
        for group, outcome in self._groups(ordinal, None, stop):
            if group.decides is not None and group.decides[0] is not None:
                found[group.decides[0]] = None
            elif outcome is Outcome.PREPARED and group.xid is not None:
                group.frames.release()
                found[group.xid] = group
        return found

    def _decided_in(self, ordinal: int, start: int | None) -> set[Xid]:
        groups = self._groups(ordinal, start, None)
        return {g.decides[0] for g, _ in groups if g.decides is not None and g.decides[0]}

    def _groups(self, ordinal: int, start: int | None, stop: int | None) -> Iterator[Ended]:
        """The groups of a part of a file that are not plain."""
        grouper = Grouper()
        with self._chain(ordinal) as file:
            for window in file.windows(start, stop):
                for item in grouper.window(window):
                    if isinstance(item, Ended):
                        yield item


class ElsewhereInStream(Elsewhere):
    """The same for a stream, whose log goes on: what is prepared will be decided, and is shown
    with that, once.
    """

    def decided_after(self, xid: Xid, end: ChainPosition) -> bool:
        return True
