"""The progress of a copy: a bar on a terminal, else a line a minute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from binlake.cli.common.terminal import console, is_watched, note
from binlake.values.closing import Closing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from binlake.mirror.followed.first_copy import CopyProgress


_LINE_S = 60.0


class CopyBar(Closing):
    """Draws the progress of copies: chunks, rows, bytes, the remaining time.

    It draws on `screen`, by default on stderr. If that is no terminal, it prints a line there after a chunk, at most every `line_s`
    seconds: the log of a service shows that a long copy goes on.
    """

    def __init__(self, screen: Console | None = None, line_s: float = _LINE_S) -> None:
        self._screen = screen
        self._line_s = line_s
        self._last_line = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._table = ""

    def __call__(self, seen: CopyProgress) -> None:
        """Draw a state; the bar disappears when all chunks are read, and begins again when another table is copied."""
        if self._screen is None and not is_watched():
            self._print(seen)
            return
        if self._progress is None:
            self._progress = _bar(self._screen or console())
            self._progress.start()
            self._task = self._progress.add_task("", rows="0", size="0")
            self._table = ""
        assert self._task is not None
        if seen.table != self._table:  # the copy of the other one has given way
            self._table = seen.table
            self._progress.reset(self._task, total=seen.all_chunks, description=seen.table)
        self._progress.update(
            self._task,
            completed=seen.chunks,
            rows=f"{seen.rows:,}",
            size=f"{seen.bytes / 1e6:,.0f}",
        )
        if seen.chunks == seen.all_chunks:
            self.close()

    def _print(self, seen: CopyProgress) -> None:
        """Print a state, unless the last line is new or the copy begins or ends with it: the mirror reports that itself."""
        now = time.monotonic()
        if seen.chunks in (0, seen.all_chunks):
            self._last_line = now
        elif now - self._last_line >= self._line_s:
            self._last_line = now
            note(f"{seen.table}: {seen.done}, {seen.rows:,} rows, {seen.bytes / 1e6:,.0f} MB")

    def close(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _bar(screen: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("chunks, {task.fields[rows]} rows, {task.fields[size]} MB"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
    )
