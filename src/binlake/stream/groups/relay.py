"""Relay logs: which part of a file belongs to a transaction of the file before.

A replica rotates its relay log by size, and older servers and MariaDB do not wait for the end of a
transaction. So a relay log may begin inside a transaction that started in the file before. Servers
before 5.6, and MariaDB, also do not repeat which of the source's files the events come from.
"""

from __future__ import annotations

from collections.abc import Callable

from binlake.errors import BinlogError
from binlake.events.common.rotate import RotateEvent
from binlake.format.event_types import ROTATE_EVENT
from binlake.format.magic import FIRST_EVENT
from binlake.source.window import OpenLog
from binlake.stream.event_at import event_at
from binlake.stream.groups.group import OPENING
from binlake.stream.groups.grouper import Ended, Grouper
from binlake.stream.groups.step_table import steps_of
from binlake.values.step import Step


def source_files(file: OpenLog) -> list[tuple[int, str]]:
    """Return the source's log files that a relay log names, each with the offset at which it
    begins.

    Returns nothing for a log that can be read only once. Raises BinlogError.
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


def source_file_before(file: OpenLog) -> str | None:
    """Return the source's log file in which a relay log begins, if the files before it in the
    chain name it.
    """
    while file.before is not None:
        try:
            with file.before() as log:
                names = [name for _, name in source_files(log)]
        except BinlogError:
            return None  # an error in that file concerns its own reader
        # a relay log ends by naming the next, as the source's do
        names = [name for name in names if name.rpartition("/")[2] != file.name]
        if names:
            return names[-1]
        file = log
    return None


def carried_over(open_file: Callable[[int], OpenLog], ordinal: int) -> int:
    """Return how far a transaction of earlier files reaches into relay log `ordinal` of a chain.

    That is the offset of the byte after its last event there. It is FIRST_EVENT if no transaction
    reaches into the file, and the size of the file if the transaction does not end in it. Raises
    BinlogError.
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
                    # torn by the start of another transaction: it ends where that one begins
                    end = carried.end
                    return end.offset if end.ordinal == ordinal else FIRST_EVENT
        return log.size if log.size is not None else FIRST_EVENT


def _state_at_end(open_file: Callable[[int], OpenLog], ordinal: int) -> Grouper:
    """Return the grouper after file `ordinal`, with the transaction that is open there, if any."""
    with open_file(ordinal) as log:
        known = ordinal == 0 or _opens_itself(log)
        grouper = Grouper() if known else _state_at_end(open_file, ordinal - 1)
        for window in log.windows():
            for _ in grouper.window(window):
                pass
    return grouper


def _opens_itself(log: OpenLog) -> bool:
    """Whether the first relevant event opens a transaction, so that none continues from the file
    before.
    """
    for window in log.windows():
        steps = steps_of(window)
        for frame in range(steps.count):
            step = steps.step(frame)
            if step not in (Step.NEUTRAL, Step.CONTROL):
                return step in OPENING
    return True
