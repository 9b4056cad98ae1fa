"""Relay logs: what their beginning owes to the file before.

A replica rotates its relay log by size, where older servers and MariaDB do not wait for the end
of a transaction. So the beginning of a relay log may belong to a transaction of the file before.
Nor do servers before 5.6, and MariaDB, say again which of the source's files its events are from.
"""

from __future__ import annotations

from collections.abc import Callable

from binlake.errors import BinlogError
from binlake.events.common.rotate import RotateEvent
from binlake.format.event_types import ROTATE_EVENT
from binlake.source.log_file import FIRST_EVENT, LogFile
from binlake.stream.event_at import event_at
from binlake.stream.groups.group import OPENING
from binlake.stream.groups.grouper import Ended, Grouper
from binlake.stream.groups.step_table import steps_of
from binlake.values.step import Step

__all__ = ["carried_over", "source_file_before", "source_files"]


def source_files(file: LogFile) -> list[tuple[int, str]]:
    """The source's log files that a relay log names, each with the offset that it begins at.

    Nothing is known of a log that can be read only once. Raises BinlogError.
    """
    if not file.reader.seekable:
        return []
    with file.reopen() as log:
        return [
            (window.frame(at).offset, event.next_file)
            for window in log.windows(verify=False)
            for at in range(len(window))
            if window.block.type_code[at] == ROTATE_EVENT
            and isinstance(event := event_at(window, at), RotateEvent)
        ]


def source_file_before(file: LogFile) -> str | None:
    """The source's log file that a relay log begins in, if the files before it in the chain tell."""
    while file.before is not None:
        try:
            with file.before() as log:
                names = [name for _, name in source_files(log)]
        except BinlogError:
            return None  # what is wrong with that file matters to whoever reads it
        # a relay log ends by naming the next, as the source's do
        names = [name for name in names if name.rpartition("/")[2] != file.name]
        if names:
            return names[-1]
        file = log
    return None


def carried_over(open_file: Callable[[int], LogFile], ordinal: int) -> int:
    """How far a transaction of earlier files reaches into relay log `ordinal` of a chain.

    The offset of the byte after its last event there; FIRST_EVENT if no transaction does, the
    size of the file if it does not end in it. Raises BinlogError.
    """
    if ordinal == 0:
        return FIRST_EVENT
    grouper = _state_at_end(open_file, ordinal - 1)
    carried = grouper.open
    if carried is None:
        return FIRST_EVENT
    with open_file(ordinal) as log:
        for window in log.windows():
            for item in grouper.window(window):
                if isinstance(item, Ended) and item.group is carried:
                    # torn by another transaction's start: it ends where that begins
                    end = carried.end
                    return end.offset if end.ordinal == ordinal else FIRST_EVENT
        return log.size if log.size is not None else FIRST_EVENT


def _state_at_end(open_file: Callable[[int], LogFile], ordinal: int) -> Grouper:
    """The grouper after file `ordinal`: with the transaction that is open there, if there is one."""
    with open_file(ordinal) as log:
        known = ordinal == 0 or _opens_itself(log)
        grouper = Grouper() if known else _state_at_end(open_file, ordinal - 1)
        for window in log.windows():
            for _ in grouper.window(window):
                pass
    return grouper


def _opens_itself(log: LogFile) -> bool:
    """Whether the first event that matters opens a transaction: none is carried over."""
    for window in log.windows():
        steps = steps_of(window)
        for frame in range(steps.count):
            step = steps.step(frame)
            if step not in (Step.NEUTRAL, Step.CONTROL):
                return step in OPENING
    return True
