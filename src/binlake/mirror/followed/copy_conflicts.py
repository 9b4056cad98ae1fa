"""The commits of other programs to lake tables that are being copied: each of them makes a copy useless."""

from __future__ import annotations

from collections import Counter

_MOST = 3


class CopyConflicts:
    """How often other programs have made the copies of tables useless, by name, since each of them was last copied.

    A copy that gives way to the rounds of other tables is continued by another call, so a count of attempts begins again
    each time.
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def add(self, full_name: str, error: Exception) -> str:
        """Count another one; return why the table cannot be copied, "" if its copy is to begin again."""
        self._times[full_name] += 1
        if self._times[full_name] < _MOST:
            return ""
        self.forget(full_name)
        return f"another program keeps writing to its lake table during its copy ({error})"

    def forget(self, full_name: str) -> None:
        """Count from zero."""
        self._times.pop(full_name, None)
