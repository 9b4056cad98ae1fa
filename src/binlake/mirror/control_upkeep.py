"""Upkeep of the control table, which gets a row and a data file with each round."""

from __future__ import annotations

import time
from collections.abc import Callable

from binlake.mirror.control import NAMESPACE, ROUNDS, Control
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.compaction_policy import CompactionPolicy
from binlake.mirror.tables.damage import DAMAGED

#: How long work on a table rests that has failed.
BACK_OFF_S = 600.0


class ControlUpkeep:
    """Removes old rounds and compacts the table. `note` receives messages for the user."""

    def __init__(
        self, control: Control, policy: CompactionPolicy, note: Callable[[str], None]
    ) -> None:
        self._control = control
        self._policy = policy
        self._note = note
        self._rest_until = float("-inf")
        self._is_reported = False

    def clean(self, before_ms: int, *first: Callable[[], None]) -> None:
        """Do the steps `first`, then remove rounds that ended before a time, and compact.

        A missing or damaged file of old rounds stops neither the other steps nor the mirror: it is reported once, and the next
        attempt is later. Raises SourceError.
        """
        if time.monotonic() < self._rest_until:
            return
        steps: tuple[Callable[[], None], ...] = (
            *first,
            lambda: self._control.drop_rounds(before_ms),
            lambda: self._control.compact(self._policy),
        )
        failures = []
        for step in steps:
            try:
                step()
            except CommitConflictError:
                return  # another process has requested something: the next time
            except DAMAGED as error:
                failures.append(error)
        if failures:
            self._rest_until = time.monotonic() + BACK_OFF_S
        if failures and not self._is_reported:
            self._note(f"{NAMESPACE}.{ROUNDS}: old rounds were not removed: {failures[0]}")
        self._is_reported = bool(failures)
