"""Search the part of a chain that a read leaves out for XA transactions.

A split, or a read with a `start`, may contain an XA COMMIT whose XA PREPARE lies before it. A read
that shows uncommitted transactions must know whether a later event decides a prepared one. Both
are rare, so binlake reads nothing until it needs the answer. Then it scans whole files by their
headers, nearest first, each at most once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from binlake.stream.groups.group import Group
from binlake.stream.groups.grouper import Ended, Grouper
from binlake.stream.runs import Outcome
from binlake.stream.sql.statements import Xid
from binlake.values.position import ChainPosition

if TYPE_CHECKING:
    from binlake.source.log_file import LogFile


class OpensFiles(Protocol):
    """A chain of files, opened by ordinal; `ordinals` are those of its files, ascending."""

    def __call__(self, ordinal: int) -> LogFile: ...

    @property
    def ordinals(self) -> Sequence[int]: ...


class Elsewhere:
    """Knows which transactions were prepared before `first`, and which are decided after a read.

    `chain(ordinal)` opens a file of the chain; `chain.ordinals` are the ordinals of its files.
    """

    def __init__(self, chain: OpensFiles, first: ChainPosition) -> None:
        self._chain = chain
        self.first = first
        self._before: dict[int, dict[Xid, Group | None]] = {}
        self._after: dict[int, set[Xid]] = {}

    def prepared_before(self, xid: Xid) -> Group | None:
        """Return the prepared group of this XID, unless an event before `first` has decided it;
        else None.

        Raises BinlogError.
        """
        for ordinal in reversed(self._chain.ordinals):
            if ordinal > self.first.ordinal:
                continue
            if ordinal not in self._before:
                stop = self.first.offset if ordinal == self.first.ordinal else None
                self._before[ordinal] = self._prepared_in(ordinal, stop)
            if xid in self._before[ordinal]:
                return self._before[ordinal][xid]
        return None

    def decided_after(self, xid: Xid, end: ChainPosition) -> bool:
        """Whether an XA COMMIT or XA ROLLBACK of this XID lies at or after `end`, the end of the
        read (always the same).

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
        """Return by XID the group that a file prepares, or None if the file decides it."""
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
        """Yield the groups of a part of a file that are not plain."""
        grouper = Grouper()
        with self._chain(ordinal) as file:
            for window in file.windows(start, stop):
                for item in grouper.window(window):
                    if isinstance(item, Ended):
                        yield item


class ElsewhereInStream(Elsewhere):
    """Access to the rest of the log for a stream.

    Its log continues: a later event decides each prepared transaction, which is shown then, once.
    """

    def decided_after(self, xid: Xid, end: ChainPosition) -> bool:
        return True
