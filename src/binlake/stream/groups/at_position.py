"""Find the one transaction that the option `at` means when its value is a position.

It is the transaction that starts at the position, else the one that contains it, else the one that
ends there: replicas report the end of a transaction. Most positions between transactions are the
end of one and the start of the next. Then binlake takes the one that starts, and the ledger names
the other.
"""

from __future__ import annotations

from binlake.format.event_header import HEADER_BYTES_V1, TYPE_AT
from binlake.source.log_file import LogFile
from binlake.stream.groups.group import Group
from binlake.stream.groups.step_table import opens_transaction
from binlake.stream.runs import PlainRun
from binlake.values.ledger import Ledger
from binlake.values.position import ChainPosition


class AtPosition:
    """Finds the transaction at `place`; remarks go to `ledger`."""

    def __init__(self, position: ChainPosition, ledger: Ledger) -> None:
        self._place = position
        self._ledger = ledger
        self._file: LogFile | None = None
        self._starts: bool | None = None

    def reading(self, file: LogFile) -> None:
        """Note that the reader has opened a file: binlake searches the file of the position."""
        if file.ordinal == self._place.ordinal:
            self._file = file

    def means(self, group: Group) -> bool:
        """Whether a group is the one at the position. Raises BinlogError."""
        place = self._place[::2]
        if group.start[::2] <= place < group.end[::2]:
            return True
        return group.end[::2] == place and not self._another_starts(group.start)

    def may_be(self, group: Group) -> bool:
        """Whether the position lies in a group, including the end of the group."""
        return group.start[::2] <= self._place[::2] <= group.end[::2]

    def narrowed(self, run: PlainRun) -> PlainRun | None:
        """Return the part of a run that is at the position: the position lies in each of its
        transactions.

        Raises BinlogError.
        """
        if run.window.file.ordinal != self._place.ordinal:
            return None  # read because of the XA COMMIT of the transaction at the position
        start, offset = run.start, self._place.offset
        if start < offset and run.groups > 1:
            self._name_other(start)
            return run.part(run.high - 1, run.high)
        if start < offset == run.end:
            here = ChainPosition(run.window.file.ordinal, run.window.file.name, start)
            return None if self._another_starts(here) else run
        return run

    def _another_starts(self, before: ChainPosition) -> bool:
        """Whether a transaction starts at the position, where the one that began at `before` ends."""
        if self._starts is None:
            self._starts = self._begins_here()
        if self._starts:
            self._name_other(before.offset)
        return self._starts

    def _begins_here(self) -> bool:
        file = self._file
        if file is None or file.format is None:
            return False
        if file.closed:
            with file.reopen() as again:
                header = again.reader.read_at(self._place.offset, HEADER_BYTES_V1)
        else:
            header = file.reader.read_at(self._place.offset, HEADER_BYTES_V1)
        return len(header) == HEADER_BYTES_V1 and opens_transaction(file.format, header[TYPE_AT])

    def _name_other(self, start: int) -> None:
        name = self._place.file
        self._ledger.warn(
            f"{self._place} is where one transaction ends and the next starts: binlake takes"
            " the one"
            f" that starts there; the one that ends there is at={name}:{start}"
        )
