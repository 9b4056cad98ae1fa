"""Bulk work: tasks with the work to do, and engines that run them.

A task is a plain object that is pickled to wherever it runs. It may run more than once, so it
writes under unique names, and only files named in a collected result count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

# called with (finished tasks, all tasks)
Progress = Callable[[int, int], None]


class UnwantedError(Exception):
    """Ends a task whose result is no longer needed."""


class Task(ABC):
    """A piece of work."""

    _is_unwanted = False

    @abstractmethod
    def run(self) -> str:
        """Do the work and return the results for the driver, as JSON."""

    def give_up(self) -> None:
        """Make `run` end soon if another thread is in it, or begins it."""
        self._is_unwanted = True

    def check_wanted(self) -> None:
        """Raise UnwantedError after `give_up`; `run` calls this for each piece of its work."""
        if self._is_unwanted:
            raise UnwantedError


class Engine(ABC):
    """Runs tasks. `cores` is how many it can run at the same time."""

    @property
    @abstractmethod
    def cores(self) -> int:
        """How many tasks run at the same time, if that is known."""

    @property
    def is_here(self) -> bool:
        """Whether all tasks run on this machine."""
        return True

    def check_paths(self, paths: Sequence[str]) -> None:
        """Raise SourceError if a task cannot see one of these paths, which this machine sees."""
        return

    @abstractmethod
    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        """Run the tasks and return their results, in the order of `tasks`.

        `what` describes the work for displays of progress. Raises the BinlogError of a task.
        """
