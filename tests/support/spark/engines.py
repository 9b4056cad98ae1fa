"""An engine for tests without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from binlake.lake.engine import Engine, Progress, Task


class HereEngine(Engine):
    """Runs tasks one after the other in this process, and something before each chunk of a copy."""

    def __init__(self, before: Callable[[int], None] = lambda _number: None) -> None:
        self.before = before

    @property
    def cores(self) -> int:
        return 1

    def check_paths(self, paths: Sequence[str]) -> None:
        """All are here."""

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        answers = []
        for task in tasks:
            # not a number among `tasks`: the chunks of a copy come a few at a time
            chunk = getattr(task, "chunk", None)
            if chunk is not None:
                self.before(chunk.number)
            answers.append(task.run())
        return answers
