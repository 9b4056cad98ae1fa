"""Comparisons of all tables with the source, made by the running mirror every so often."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from binlake.errors import BinlogError
from binlake.mirror.control import Control
from binlake.mirror.equality.compare import VerifyOptions
from binlake.mirror.lease import LakeInUseError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.pulse import Pulse
from binlake.mirror.stopped import PausedError
from binlake.mirror.verification import ComparedMirror, Verification, compare_tables
from binlake.values.quantities import counted

# of a table: the message of the mirror shows the first. More take more reads of the lake's table, during which there are no rounds.
_MOST_DIFFERENCES = 10
# Clocks are set back by less than this in normal operation, which is no reason to compare again.
_CLOCK_STEP_S = 60.0
#: Compares tables of a mirror (all without names) with the source. Raises BinlogError.
ComparesTables = Callable[[ComparedMirror, Sequence[str], VerifyOptions], Verification]


class ScheduledVerification:
    """Compares every `verify_every_s` seconds, also counted over restarts; 0: never. Each time compares the next sample.

    `compare` compares the tables of the mirror with the source. `control` records whether the mirror is paused, which ends a
    comparison. It looks every `look_s` seconds, because that is a request to a lake in a store.
    """

    _look_at = float("inf")

    def __init__(
        self,
        options: MirrorOptions,
        pulse: Pulse,
        note: Callable[[str], None],
        compare: ComparesTables = compare_tables,
        control: Control | None = None,
        look_s: float = 10.0,
    ) -> None:
        self._look_s = look_s
        self._control = control
        self._compare = compare
        self._every_s = options.verify_every_s
        self._options = VerifyOptions(
            sample=options.verify_sample, most_differences=_MOST_DIFFERENCES
        )
        self._pulse = pulse
        self._note = note
        pulse.schedule_verification(self._every_s)
        self._due_s = pulse.verified_s + self._every_s

    def work(self, mirror: ComparedMirror) -> None:
        """Compare if it is time to. A failure of the comparison is noted, and does not end the mirror.

        Raises the error of a round that the comparison needs, and LakeInUseError.
        """
        now = time.time()
        # a time that is further in the future was recorded while the clock was ahead
        if not self._every_s or now < self._due_s <= now + self._every_s + _CLOCK_STEP_S:
            return
        self._due_s = time.time() + self._every_s
        self._look_at = float("-inf")
        try:
            found = self._compare(mirror, (), self._next_sample())
        except PausedError:
            self._due_s = 0.0
            self._note(
                "the comparison with the server has ended because the mirror is paused; it begins again after"
                " `binlake mirror resume`"
            )
            return
        except BinlogError as error:
            # another round might apply changes again that are in the lake already, or write to a lake of another process
            if error is mirror.round_error or isinstance(error, LakeInUseError):
                raise
            self._note(f"the tables could not be compared with the server: {error}")
            return
        finally:
            self._look_at = float("inf")
        different = [table for table in found.tables if table.state == "different"]
        left = {
            table.table: table.reason for table in found.tables if table.state == "not compared"
        }
        self._pulse.verified(
            [table.table for table in different],
            left,
            [table.table for table in found.tables if table.state == "equal"],
            self._options.sample,
        )
        place = f"{found.log_file}:{found.log_pos}"
        if self._options.sample < 1:
            place = f"{place} (sample {found.sample_number})"
        for table in different:
            first = str(table.differences[0]) if table.differences else "checksums differ"
            self._note(f"{table.table} differs from the server at {place}: {first}")
        for name, reason in left.items():
            self._note(f"{name} was not compared with the server: {reason}")
        result = (
            f"{counted(len(different), 'table')} {'differs' if len(different) == 1 else 'differ'}"
        )
        if left:
            result += f", {len(left)} {'was' if len(left) == 1 else 'were'} not compared"
        self._note(f"compared with the server at {place}: {result}")

    def check_not_paused(self) -> None:
        """Raise PausedError if the mirror was paused while `work` compares. It looks every few seconds."""
        if self._control is not None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + self._look_s
            self._control.refresh()
            self._control.check_not_paused()

    def _next_sample(self) -> VerifyOptions:
        """The options with the number after that of the last comparison, also before a restart."""
        return replace(self._options, sample_number=self._pulse.comparisons)
