"""Print the sums of batch reads on the driver, once they are in `ledger_path`."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable

from binlake.errors import SourceError
from binlake.spark.ledgers import ReadLedger, collected_ledger, print_remarks
from binlake.values.ledger import Ledger

_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 3600.0


class LedgerWatcher:
    """Waits for the sums of batch reads, and prints them on stderr of this process.

    One thread waits for all of them. It runs as long as there is one that it waits for, at most an hour for
    each. Spark keeps this process for a minute after its last use, so the sum of a longer read may be
    only on stderr of the executor with the last task.
    """

    def __init__(
        self,
        show: Callable[[str, Ledger], None] = print_remarks,
        look_s: float = _LOOK_SECONDS,
        patience_s: float = _PATIENCE_SECONDS,
        name: str = "binlake-ledger",
    ) -> None:
        self._name = name
        self._show = show
        self._look_s = look_s
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._awaited: dict[str, tuple[ReadLedger, float]] = {}  # by name, with the last moment
        self._thread: threading.Thread | None = None

    def add(self, read: ReadLedger) -> None:
        """Wait for the sum of a read, too."""
        with self._lock:
            self._awaited[read.name] = read, time.monotonic() + self._patience_s
            if self._thread is None or not self._thread.is_alive():  # in a fork it is not
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(self._look_s)

    def _run(self) -> None:
        while not self._closed.wait(self._look_s):
            for read, until in list(self._awaited.values()):
                if self._has_come(read) or time.monotonic() > until:
                    with self._lock:
                        del self._awaited[read.name]
            with self._lock:
                if not self._awaited:
                    self._thread = None
                    return

    def _has_come(self, read: ReadLedger) -> bool:
        try:
            ledger, is_printed = collected_ledger(read)
            if ledger is not None and not is_printed:
                self._show(read.label, ledger)
            return ledger is not None
        except (SourceError, ValueError):
            return False  # a store that is not there now may be there later
        except (LookupError, TypeError, AttributeError, OSError):
            return True  # no ledger, which another program has written, or no stderr: the other reads go on


_watcher = LedgerWatcher()
atexit.register(_watcher.close)
#: Print the sum of a batch read on this process's stderr once it is in `ledger_path`.
watch = _watcher.add
