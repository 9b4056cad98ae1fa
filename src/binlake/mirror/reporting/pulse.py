"""The current state of a mirror, in a file on its machine, written every few seconds, also while the source is idle.

A lake commit records the position of a mirror. It does not show whether the mirror is running,
whether anything has happened since, or how far the log has grown: this file does. Losing it does no
harm.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from binlake.errors import BinlogError
from binlake.follow.logs import LogsNow
from binlake.mirror.table_rules import PULSE
from binlake.mirror.tables.sweep import Sweep
from binlake.source.bytes import remove_partials, replacing
from binlake.values.position import Position, is_log_of

_WINDOW_S = 60.0
_SHOW_PART_S = 0.5
_SHOW_PAUSE = 10  # times as long as the last part of a status took


@dataclass(frozen=True, slots=True)
class Beats:
    """How often, in seconds, the state of a mirror is written (`every_s`) and shown (`shown_every_s`)."""

    every_s: float = 2.0
    shown_every_s: float = 10.0


#: The default.
EVERY_FEW_SECONDS = Beats()


@dataclass(frozen=True, slots=True)
class Difference:
    """A table that a comparison has found different.

    `sample`: the number of the newest sample in which it was different, None if all rows were compared. `equal_since`:
    how many samples in succession were equal after that one.
    """

    sample: int | None = None
    equal_since: int = 0


@dataclass(frozen=True, slots=True)
class Beat:
    """A moment of a mirror. Times are seconds since 1970.

    `behind_bytes`: of log that the lake did not have at `checked_s`; 0: it had everything, None: the end of the source's
    log was not known. `complete_s`: the last time when the lake had everything, 0: not since the mirror started. `fresh_s`: the commit
    time of the last transaction that the lake has for all followed tables, 0: not known.
    `changes_per_second`: rows that were applied in the last minute. `verified_s`: when the loop last
    compared the tables with the source, 0: never; `differences` are those of tables that were not equal, see
    `Pulse.verified`; `not_compared` are the tables that it did not compare, each with the reason. `sample`: the number of
    the sample that it compared, None: all rows. `verify_due_s`: when the next such comparison is or was due, 0: none is
    scheduled. `comparisons`: how many there were; the next one compares the sample of this number.
    `zero_dates`: by `database.table.column`, the zero and partial dates that copies and rounds have read as null since there
    is such a file. `waiting`: the wanted tables that the lake does not show yet, each with the reason. `lake`: the identity
    of the lake (`Control.lake_id`).
    """

    checked_s: float
    behind_bytes: int | None
    changes_per_second: float
    verified_s: float = 0.0
    complete_s: float = 0.0
    differences: Mapping[str, Difference] = field(default_factory=dict)
    not_compared: Mapping[str, str] = field(default_factory=dict)
    sample: int | None = None
    verify_due_s: float = 0.0
    comparisons: int = 0
    zero_dates: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    lake: str = ""
    fresh_s: float = 0.0

    @property
    def different(self) -> tuple[str, ...]:
        """The names of the tables that were not equal."""
        return tuple(sorted(self.differences))


class Pulse:
    """Writes the beats of one mirror. `look` lists the source's logs, and returns None if the source does not answer;
    `show` is called after some beats; it may return steps that show the status, which are made a part at a time. `waiting` returns the tables that wait for a copy, each with the reason.

    `show` takes a small part of the time only. If it raises BinlogError, `note` receives the error, once. The file of
    another lake than `lake` (`Control.lake_id`), which has used the same directory, does not count.
    """

    def __init__(
        self,
        directory: Path,
        look: Callable[[], LogsNow | None],
        show: Callable[[], Iterable[None] | None],
        beats: Beats = EVERY_FEW_SECONDS,
        note: Callable[[str], None] = lambda _sentence: None,
        waiting: Callable[[], Mapping[str, str]] = dict,
        lake: str = "",
    ) -> None:
        self._path = directory / PULSE
        remove_partials(directory, [file.name for file in directory.iterdir()])
        self._look = look
        self._show = show
        self._beats = beats
        self._note = note
        self._waiting = waiting
        self._why_not_shown = ""
        self._showing = Sweep(_SHOW_PART_S, _SHOW_PAUSE)
        self._show_next = float("-inf")
        self._next = self._busy_next = float("-inf")
        self._applied: deque[tuple[float, int]] = deque()
        known = last_beat(directory, lake) or Beat(0.0, None, 0.0, lake=lake)
        self._last = replace(known, complete_s=0.0, fresh_s=0.0, lake=lake)
        self._position: Position | None = None
        self._verify_every_s = 0.0

    @property
    def verified_s(self) -> float:
        """When all tables were last compared, seconds since 1970; 0: never."""
        return self._last.verified_s

    @property
    def comparisons(self) -> int:
        """How often all tables, or samples of them, were compared, also before a restart."""
        return self._last.comparisons

    def applied(self, rows: int) -> None:
        """Count committed rows."""
        self._applied.append((time.monotonic(), rows))

    def read_as_null(self, zero_dates: Mapping[str, int]) -> None:
        """Count zero and partial dates, by column."""
        found = Counter(self._last.zero_dates)
        found.update(zero_dates)
        self._last = replace(self._last, zero_dates=dict(found))

    def schedule_verification(self, every_s: float) -> None:
        """Compare all tables every so often; 0: never. If there was no comparison yet, the first is due now, or since an
        earlier run.
        """
        self._verify_every_s = every_s
        due_s = 0.0
        now = time.time()
        # the clock may have been ahead: a time that is not over yet counts as none
        if every_s and 0 < self.verified_s <= now:
            due_s = self.verified_s + every_s
        elif every_s:
            due_s = min(self._last.verify_due_s or now, now)
        self._last = replace(self._last, verify_due_s=due_s)

    def verified(
        self,
        different: Collection[str],
        not_compared: Mapping[str, str],
        equal: Collection[str] = (),
        share: float = 1.0,
    ) -> None:
        """Record a comparison of a `share` of the rows of all tables: those that differ, why others were not compared, and
        those that were equal.

        A table that has differed does so until as many samples in succession were equal as all its rows need, or until it
        was copied again: another sample has other rows.
        """
        number = None if share == 1 else self._last.comparisons
        found: dict[str, Difference] = {}
        for name, known in self._last.differences.items():
            equal_since = known.equal_since + 1
            if name in not_compared:
                found[name] = replace(known, equal_since=0)
            elif name in equal and equal_since < math.ceil(1 / share):
                found[name] = replace(known, equal_since=equal_since)
        self._last = replace(
            self._last,
            verified_s=time.time(),
            differences=found | dict.fromkeys(different, Difference(number)),
            not_compared=not_compared,
            sample=number,
            comparisons=self._last.comparisons + 1,
        )
        self.schedule_verification(self._verify_every_s)
        self._next = float("-inf")

    def copied(self, name: str) -> None:
        """Forget that a table differed: it was copied again."""
        others = {known: found for known, found in self._last.differences.items() if known != name}
        self._last = replace(self._last, differences=others)

    def beat(self, position: Position | None, commit_us: int | None = None) -> None:
        """Write the state of the mirror, which has reached `position`, if it is time to. None: it follows no table.

        `commit_us`: the commit time of the last transaction before the position, microseconds since 1970, None: not known. Raises
        BinlogError.
        """
        if time.monotonic() >= self._next:
            self.beat_now(position, commit_us)

    def beat_now(self, position: Position | None, commit_us: int | None = None) -> None:
        """Write it in any case."""
        now = time.monotonic()
        self._next = now + self._beats.every_s
        checked_s, logs = time.time(), self._look()
        behind = _known_behind(logs, position)
        fresh_s = self._last.fresh_s
        if position != self._position:
            # The server's clock may be ahead: a mirror that stays at the position gets older all the same.
            self._position, fresh_s = position, min((commit_us or 0) / 1e6, checked_s)
        self._last = replace(
            self._last,
            checked_s=checked_s,
            behind_bytes=behind,
            changes_per_second=self._rate(now),
            complete_s=checked_s if behind == 0 else self._last.complete_s,
            fresh_s=fresh_s,
        )
        self._write_and_show(now)

    def busy(self) -> None:
        """During a copy, write which tables wait, and show the status, if it is time to. The log is not checked.

        Raises BinlogError.
        """
        now = time.monotonic()
        if now >= self._busy_next:
            self._busy_next = now + self._beats.every_s
            self._write_and_show(now)

    def _write_and_show(self, now: float) -> None:
        self._last = replace(self._last, waiting=dict(self._waiting()))
        try:
            with replacing(self._path) as file:
                file.write(json.dumps(asdict(self._last)).encode())
        except OSError as error:
            raise BinlogError(f"cannot write {self._path}: {error.strerror}") from error
        # with many tables, or a slow catalog, this takes minutes: there are rounds between two parts of it
        try:
            if self._showing.is_over and now >= self._show_next:
                self._show_next = now + self._beats.shown_every_s
                self._showing.begin(self._show_steps())
            self._showing.work()
        except BinlogError as error:
            if str(error) != self._why_not_shown:
                self._why_not_shown = str(error)
                self._note(f"the status of the mirror cannot be shown: {error}")

    def _show_steps(self) -> Iterator[None]:
        yield from self._show() or ()
        self._why_not_shown = ""
        yield  # so that a status of one step takes its part of the time, too

    def _rate(self, now: float) -> float:
        while self._applied and now - self._applied[0][0] > _WINDOW_S:
            self._applied.popleft()
        return sum(rows for _, rows in self._applied) / _WINDOW_S


def last_beat(directory: Path, lake: str | None = None) -> Beat | None:
    """The newest beat; None where there is none on this machine. `lake`: the identity of the lake, None if it is known that
    no other one uses the directory. Earlier commits wrote no identity, and only the names of tables that were different.
    """
    try:
        known = json.loads((directory / PULSE).read_text("utf-8"))
        earlier: dict[str, Any] = {name: {} for name in known.pop("different", ())}
        differences = {
            name: Difference(**found)
            for name, found in dict(known.get("differences", earlier)).items()
        }
        beat = Beat(**{**known, "differences": differences})
        found = replace(
            beat,
            not_compared=dict(beat.not_compared),
            zero_dates=dict(beat.zero_dates),
            waiting=dict(beat.waiting),
        )
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    return found if lake is None or found.lake in ("", lake) else None


def _known_behind(now: LogsNow | None, position: Position | None) -> int | None:
    """The bytes of log after a position; None if the logs or the position are not known, or are those of two servers."""
    if now is None or position is None:
        return None
    # an archive adds a part to the identity of its server, which may be on either side
    one, other = now.server_uuid, position.server_uuid
    is_same = is_log_of(one, other) or is_log_of(other, one)
    return behind_bytes(now, position) if is_same else None


def behind_bytes(now: LogsNow, position: Position) -> int:
    """The bytes of log after a position, in files whose sizes are known."""
    first = now.number_of(position.file)
    newest = now.numbers[-1]
    if first is None:
        first = now.numbers[0]
        done = 0
    else:
        done = position.offset
    ends = {n: now.files[n].size or 0 for n in now.numbers if n >= first}
    if now.end is not None:
        ends[newest] = now.end.offset
    return max(0, sum(ends.values()) - done)
