"""The lease of a lake: which process writes to it, recorded in the lake's control table.

A lock on a file keeps out the processes that use the same state directory. The lease also keeps out those that use
another one: of another user, with another `--state`, or on another machine.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from binlake.errors import SourceError
from binlake.mirror.control import Control
from binlake.mirror.lake_state import boot_id, identity_of
from binlake.values.times import utc_time

# Each renewal is a commit without a snapshot, so they are rare.
_EVERY_S = 180.0
_VALID_S = 600.0
# After a renewal has failed beside some work, which may go on nevertheless.
_PAUSE_S = 10.0
_PIDS = 1 << 31


class LakeInUseError(SourceError):
    """Another process writes to the lake."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a lake.

    `started`: its start time as the kernel records it, "" if unknown; `namespace`: the process ids among which `process`
    is one. `state`: its state directory, which `identity` identifies wherever it is mounted. `since`: ISO 8601, UTC.
    `until`: the Unix time at which the lease ends, unless it is renewed. `boot`: identifies the machine until it starts again,
    because host names repeat, and the initial namespace has one name on all machines.
    """

    host: str
    process: int
    started: str
    namespace: str
    state: str
    identity: str
    since: str
    until: float
    boot: str = ""

    @staticmethod
    def here(state: Path, identity: str) -> Holder:
        """The current process, from now on."""
        return Holder(
            socket.gethostname(),
            os.getpid(),
            _started(os.getpid()),
            _namespace(),
            str(state.absolute()),
            identity,
            utc_time(time.time()),
            time.time() + _VALID_S,
            boot_id() or "",
        )

    @staticmethod
    def from_text(text: str) -> Holder | None:
        """Return the holder that a control table records; None if there is none, or if the text is damaged."""
        try:
            known: dict[str, Any] = json.loads(text)
            found = Holder(**known)
        except (ValueError, TypeError, RecursionError):
            return None
        process, until = known["process"], known["until"]
        are_numbers = isinstance(process, int) and isinstance(until, int | float)
        return found if are_numbers and 0 < process < _PIDS else None

    def to_text(self) -> str:
        """Return the text for the control table."""
        return json.dumps(asdict(self), sort_keys=True)

    def keeps_out(self, other: Holder) -> bool:
        """Whether `other`, a process of this machine that has locked its state directory, must not write to the lake."""
        if self.identity == other.identity:
            return False  # this process had the lock, so it has ended
        if self.is_beside(other):
            return _is_running(self)
        return time.time() < self.until

    def is_beside(self, other: Holder) -> bool:
        """Whether `other`, a process of this machine, can look for the process."""
        mine, of_other = ((holder.host, holder.boot, holder.namespace) for holder in (self, other))
        return mine == of_other

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}, with the state directory {self.state}"


def writer_of(control: Control) -> Holder | None:
    """The process that has the lease of a lake now, as far as this machine can know; None if there is none."""
    found = Holder.from_text(control.lease)
    return found if found is not None and found.keeps_out(Holder.here(Path(), "")) else None


def _namespace() -> str:
    """The kernel's name of the process ids that this process sees: a container has others than its host."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process started, in ticks since the machine did; "" if that is unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]  # the fields after the name of the program


def _is_running(holder: Holder) -> bool:
    try:
        os.kill(holder.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is a process of another user
    # another process may have got the number
    return _started(holder.process) in ("", holder.started)


class Lease:
    """The right of this process to write to a lake, until `close`.

    `locked` is the lock of the state directory, which `close` also releases. `lake`: its name in messages; `note` receives a
    message if the lease of another process had ended. It is renewed every `every_s` seconds. Raises LakeInUseError while
    another process has the lease.
    """

    def __init__(
        self,
        control: Control,
        lake: str,
        state: Path,
        locked: IO[bytes],
        note: Callable[[str], None] = lambda _sentence: None,
        every_s: float = _EVERY_S,
    ) -> None:
        self._before: Holder | None
        self._every_s = every_s
        self._renewing = threading.Lock()
        self._control = control
        self._lake = lake
        self._locked = locked
        with ExitStack() as taken:
            taken.callback(_give_up, locked)
            self._own = Holder.here(state, identity_of(locked))
            taken.callback(self._end)
            self._renew_at = time.monotonic() + every_s
            control.take_lease(self._instead_of)
            control.check_owner = self._check
            if self._before is not None:
                note(f"the lease of another process has ended and is taken over: {self._before}")
            taken.pop_all()

    def _instead_of(self, text: str) -> str:
        """Return the record of this process, which replaces the record `text`. Raises LakeInUseError if another process
        holds the lease.
        """
        self._before = None
        found = Holder.from_text(text)
        if found is not None and found.keeps_out(self._own):
            hint = "stop it first, or wait until it has ended"
            if not found.is_beside(self._own):
                hint += f"; if it was killed, its lease ends at {utc_time(found.until)}"
            raise LakeInUseError(f"another process mirrors into {self._lake}: {found}", hint=hint)
        if found is not None and found.identity != self._own.identity:
            self._before = found
        return self._own.to_text()

    def keep(self) -> None:
        """Renew the lease if it is time to. Raises LakeInUseError if another process has taken it over."""
        self._check(self._control)
        self._renew(self._control)

    def check_not_ended(self) -> None:
        """Look at the record if the lease has ended: the process may have been suspended. Raises LakeInUseError if another process has
        taken it over.
        """
        if time.time() >= self._own.until:
            self._control.refresh()
            self._check(self._control)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the lease during work in which `keep` cannot be called for a long time, such as one read of a large table.

        A thread renews it. If another process has taken the lease over, the next `keep` raises the error.
        """
        is_done = threading.Event()
        beside = threading.Thread(
            target=self._keep_beside, args=(is_done,), name="binlake-lease", daemon=True
        )
        beside.start()
        try:
            yield
        finally:
            is_done.set()
            beside.join()

    def _keep_beside(self, is_done: threading.Event) -> None:
        """Renew the lease with a control table of this thread's own, until the work is done."""
        control: Control | None = None
        pause_s = 0.0
        while not is_done.wait(max(pause_s, self._renew_at - time.monotonic())):
            pause_s = 0.0
            try:
                control = control or self._control.beside()
                self._renew(control)
            except LakeInUseError:
                self._renew_at = float("-inf")  # so that `keep` looks at the table
                return
            except Exception:  # noqa: BLE001 - of a store that fails, which the work itself will notice
                pause_s = _PAUSE_S

    def _renew(self, control: Control) -> None:
        """Renew the lease if it is time to. Raises LakeInUseError if another process has taken it over."""
        with self._renewing:
            if time.monotonic() < self._renew_at:
                return
            control.refresh()
            self._check(control)
            own = replace(self._own, until=time.time() + _VALID_S)
            control.renew_lease(own.to_text())
            self._own = own
            self._renew_at = time.monotonic() + self._every_s

    def _is_own(self, found: Holder | None) -> bool:
        """Whether a record belongs to this process, whenever it was renewed."""
        own = self._own  # another thread may renew it
        return found is not None and replace(found, until=own.until) == own

    def _check(self, control: Control) -> None:
        found = Holder.from_text(control.lease)
        if not self._is_own(found):
            raise LakeInUseError(
                f"another process has taken over {self._lake}: {found or 'it has ended already'}",
                hint=f"this process did not renew its lease for {_VALID_S / 60:.0f} minutes; start it again if the other "
                "one has ended",
            )

    def close(self) -> None:
        """End the lease, so that any process can write to the lake."""
        self._end()
        self._locked.close()

    def _end(self) -> None:
        """Clear the record if it belongs to this process."""
        self._control.check_owner = lambda _: None
        # whatever the error, also if Spark has ended: without a renewal, the lease ends by itself
        with suppress(Exception):
            self._control.refresh()
            if self._is_own(Holder.from_text(self._control.lease)):
                self._control.renew_lease("")


def _give_up(locked: IO[bytes]) -> None:
    """Close a lock file after an error: on a full disk, closing it is another error, which says less."""
    with suppress(OSError):
        locked.close()
