"""Attempts to copy a table that were of no use: those that have ended the process, in a file on the driver's machine, and those to
which another program has committed meanwhile.

A row that no task can hold in memory, for example, would end the mirror at each start, before any other table is followed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from binlake.errors import BinlogError, SourceError, UnsupportedError
from binlake.lake.engine import UnwantedError
from binlake.source.bytes import writing

_MOST = 3


class CopyAttempts:
    """The attempts in a row to read chunks of one copy that have ended the process before any chunk was read.

    `identity` says which copy of which table this is. `reason` is the error of the last attempt, "" if the process was
    killed. Raises SourceError where the file cannot be written.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self._path = path
        self._identity = identity
        self.number = 0
        self.reason = ""
        try:
            known = json.loads(path.read_text("utf-8"))
            if known["identity"] == identity:
                self.number, self.reason = int(known["attempts"]), str(known["reason"])
        except (FileNotFoundError, KeyError, TypeError, ValueError, RecursionError):
            return  # none, or cut by a kill while it was written
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror}") from error

    def check(self, table: str) -> None:
        """Raise UnsupportedError after the third attempt: the other tables must be followed. The count then begins again."""
        if self.number < _MOST:
            return
        why = self.reason or "the process was killed"
        self.forget()
        raise UnsupportedError(
            f"{table}: {_MOST} attempts in a row to read its rows have ended the mirror: {why}",
            hint="give the processes of Spark more memory if they had too little; `binlake mirror resync` copies the table again",
        )

    @contextmanager
    def another(self, what: str) -> Iterator[None]:
        """Count an attempt until it has read its chunks, `what` in its error. One that ends with an error of the server or the
        store, or is interrupted, does not count: it says nothing about the table.
        """
        before = self.number, self.reason
        self._set(self.number + 1, "")
        try:
            yield
        except BaseException as error:
            if _is_of_task(error):
                if isinstance(error, BinlogError):
                    error.message = f"{what}: {error.message}"  # Spark's does not name the table
                before = self.number, str(error).partition("\n")[0]
            with suppress(SourceError):  # the error of the copy matters more
                self._set(*before)
            raise
        self.forget()

    def forget(self) -> None:
        """Count from zero."""
        self.number, self.reason = 0, ""
        with writing(str(self._path)):
            self._path.unlink(missing_ok=True)

    def _set(self, number: int, reason: str) -> None:
        self.number, self.reason = number, reason
        entry = {"identity": self._identity, "attempts": number, "reason": reason}
        with writing(str(self._path)):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(entry), "utf-8")


def _is_of_task(error: BaseException) -> bool:
    """Whether an error comes from a task that died, or from a fault in a program: Spark's error has no type of its own."""
    if isinstance(error, BinlogError):
        return type(error) is BinlogError
    return isinstance(error, Exception) and not isinstance(error, (OSError, UnwantedError))


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
