"""Relay logs: transactions that go on in the next file.

A replica rotates its relay log by size, where older servers and MariaDB do not wait for the end
of a transaction. So the beginning of a relay log may belong to a transaction of the file before.
"""

from __future__ import annotations

from collections.abc import Callable

from binlake.source.log_file import FIRST_EVENT, LogFile
from binlake.stream.group import OPENING
from binlake.stream.grouper import Ended, Grouper
from binlake.stream.step_table import load_steps, steps_for
from binlake.values.step import Step

__all__ = ["carried_over"]


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
        steps = steps_for(window.format)
        load_steps(steps, window)
        for frame in range(steps.count):
            step = steps.step(frame)
            if step not in (Step.NEUTRAL, Step.CONTROL):
                return step in OPENING
    return True
