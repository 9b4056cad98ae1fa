"""Turn windows of frames into plain runs and ended groups: the only transaction state.

One `Grouper` follows one chain of files in order. It holds at most one open group. Prepared (XA)
transactions and filters are not its concern. `stream/groups/group.py` has the grammar of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from binlake.core.events.control_text import text_step
from binlake.core.events.plain_groups import PlainGroups
from binlake.core.events.steps import Steps
from binlake.errors import FormatError, MalformedError, UnsupportedError
from binlake.events.common.format_description import is_pre_release
from binlake.events.common.query import QueryEvent
from binlake.format.event_types import event_name
from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F
from binlake.stream.event_at import event_at
from binlake.stream.groups.group import BEGIN_STEPS, GTID_STEPS, OPENING, Group
from binlake.stream.groups.step_table import steps_of
from binlake.stream.groups.transaction_frames import HELD_BYTES
from binlake.stream.runs import Outcome, PlainRun
from binlake.values.position import ChainPosition
from binlake.values.step import Step

if TYPE_CHECKING:
    from binlake.source.window import Window


class Ended(NamedTuple):
    """A group that has ended, and how."""

    group: Group
    outcome: Outcome


#: The plain transactions that come in runs; None: every transaction is a group of its own.
FindPlain = Callable[[Steps], PlainGroups | None]
#: Called for a frame that cannot be decoded: (window, index, why).
OnDamage = Callable[["Window", int, FormatError], None]


def plain_runs(steps: Steps) -> PlainGroups:
    """Plain transactions come in runs: the native way."""
    return PlainGroups(steps)


def every_group_alone(steps: Steps) -> None:
    """No runs: every transaction is a group of its own."""
    return


class Grouper:
    """Takes windows in the order of the log.

    The grouper calls `on_damage` for an event that cannot be decoded although its framing and
    checksum are right (the option on_error=skip). Without `on_damage` it raises the error.
    An open group holds at most `held_bytes` of windows.
    """

    def __init__(
        self,
        find_plain: FindPlain = plain_runs,
        on_damage: OnDamage | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self._on_damage = on_damage
        self._held_bytes = held_bytes
        self.open: Group | None = None
        self._find_plain = find_plain
        self._next: ChainPosition | None = None

    def window(self, window: Window) -> Iterator[PlainRun | Ended]:
        """Return the plain runs and groups that end in this window. Raises FormatError,
        UnsupportedError.
        """
        steps = steps_of(window)
        plain = None if is_pre_release(window.format) else self._find_plain(steps)
        yield from self._after_gap(window)
        index, count = 0, steps.count
        while index < count:
            if self.open is None and plain is not None and (low := plain.at(index)) >= 0:
                run = PlainRun(window, plain, low, plain.run(low))
                yield run
                index = run.last
                continue
            try:
                index, ended = self._step(window, index, steps)
            except FormatError as error:
                if self._on_damage is None:
                    raise
                self._on_damage(window, index, error)
                index, ended = self._lose(window, index, steps)
            if ended is not None:
                yield ended
        self._next = ChainPosition(window.file.ordinal, window.file.name, window.end)

    def _step(self, window: Window, index: int, steps: Steps) -> tuple[int, Ended | None]:
        """Take frame `index`; returns the next index, and the group that ended. Raises FormatError."""
        step = steps.step(index)
        if step == Step.UNDECIDED:
            step = _decide(window, index)
        if step in (Step.NEUTRAL, Step.CONTROL) and self.open is None:
            return index + 1, None
        if step == Step.CONTROL:
            return index + 1, self._end(Outcome.TORN) if _ends_group(window, index) else None
        if self.open is not None and self.open.interrupted_by(step):
            return index, self._end(Outcome.TORN)
        index, outcome = self._feed(window, index, step, steps)
        return index, None if outcome is None else self._end(outcome)

    def _lose(self, window: Window, index: int, steps: Steps) -> tuple[int, Ended | None]:
        """Mark frame `index` as undecodable: its transaction is torn, and the events up to the
        start of another transaction are lost.
        """
        opened = steps.step(index) in GTID_STEPS  # the BEGIN after it opens no other
        index += 1
        while index < steps.count:
            step = steps.step(index)
            if step in OPENING and not (opened and step in BEGIN_STEPS):
                break
            opened = opened and step == Step.NEUTRAL
            index += 1
        return index, self._end(Outcome.TORN) if self.open is not None else None

    def finish(self) -> Iterator[Ended]:
        """End the input: a group that is still open is torn."""
        if self.open is not None:
            yield self._end(Outcome.TORN)

    def goes_on(self, windows: Iterable[Window]) -> bool:
        """Whether events of these windows belong to the open group. The state does not change.

        Raises FormatError, UnsupportedError.
        """
        if self.open is None:
            return False
        for window in windows:
            steps = steps_of(window)
            for index in range(steps.count):
                step = steps.step(index)
                if step == Step.UNDECIDED:
                    step = _decide(window, index)
                if step == Step.CONTROL and _ends_group(window, index):
                    return False
                if step not in (Step.NEUTRAL, Step.CONTROL):
                    return not self.open.interrupted_by(step)
        return False

    def _after_gap(self, window: Window) -> Iterator[Ended]:
        """Note that bytes were skipped, or that another file begins: unless a relay log continues,
        the open group is torn.
        """
        here = ChainPosition(window.file.ordinal, window.file.name, window.start)
        same_file = self._next is not None and self._next.ordinal == here.ordinal
        joined = self._next == here if same_file else window.file.is_relay
        if self.open is not None and not joined:
            yield self._end(Outcome.TORN)

    def _end(self, outcome: Outcome) -> Ended:
        group, self.open = self.open, None
        assert group is not None
        return Ended(group, outcome)

    def _feed(
        self, window: Window, index: int, step: int, steps: Steps
    ) -> tuple[int, Outcome | None]:
        """Take frame `index` and the body frames after it; return the next index, and the outcome
        if the group has ended.
        """
        if step == Step.UNKNOWN:
            raise _unknown(window, index)
        group = self.open
        if group is None:
            group = self.open = Group(window, index, self._held_bytes)
        body_until = steps.body_until(index, steps.count) if group.begun else index
        if body_until > index:
            group.frames.add(window, index, body_until)
            group.pass_body()
            _note_bytes(group, window, index, body_until)
            return body_until, None
        _note_bytes(group, window, index, index + 1)
        if step == Step.PAYLOAD:
            return index + 1, self._payload(group, window, index)
        group.frames.add(window, index, index + 1)
        group.at = group.frames.size
        return index + 1, group.take(step, window, index, steps)

    def _payload(self, group: Group, window: Window, index: int) -> Outcome | None:
        """Read all events of a payload to find how the transaction ends and what it undoes."""
        outcome: Outcome | None = None
        group.pass_body()
        group.outer = window.frame(index)
        for inner in group.frames.add_payload(window, index):
            steps = steps_of(inner)
            group.note_time(inner, 0)
            shift = group.frames.size - inner.end
            frame = 0
            while frame < steps.count:
                step = steps.step(frame)
                if outcome is not None or step in _NOT_INSIDE:
                    raise MalformedError(
                        f"{event_name(inner.frame(frame).type_code)} inside a payload"
                        + (" after the end of its transaction" if outcome is not None else ""),
                        file=window.file.name,
                        event_pos=group.outer.offset,
                        event_type="TRANSACTION_PAYLOAD_EVENT",
                        offset=inner.frame(frame).offset,
                    )
                body_until = steps.body_until(frame, steps.count) if group.begun else frame
                if body_until > frame:
                    frame = body_until
                    continue
                group.at = shift + inner.block.end(frame)
                outcome = group.take(step, inner, frame, steps)
                frame += 1
        group.outer = None
        return outcome


def _note_bytes(group: Group, window: Window, first: int, last: int) -> None:
    end = window.block.end(last - 1)
    group.end = ChainPosition(window.file.ordinal, window.file.name, end)
    group.note_time(window, first)
    group.last_us = window.frame(last - 1).timestamp * 1_000_000
    group.file_bytes += end - window.frame(first).offset


def _ends_group(window: Window, index: int) -> bool:
    """Whether a control event tears the open group.

    It does not in a relay log, which has its own control events between those of the source, nor
    if it is artificial, for a stream.
    """
    artificial = window.frame(index).flags & LOG_EVENT_ARTIFICIAL_F
    return not window.file.is_relay and not artificial


#: Steps of events that a payload cannot hold.
_NOT_INSIDE = (OPENING - {Step.BEGIN, Step.XA_START}) | {
    Step.PAYLOAD,
    Step.CONTROL,
    Step.UNKNOWN,
}


def _decide(window: Window, index: int) -> Step:
    """Return the step of an event that has to be decoded first. Raises FormatError."""
    frame = window.frame(index)
    event = event_at(window, index)
    if isinstance(event, QueryEvent):
        return text_step(event.sql_raw)[0]
    raise MalformedError(
        "the event is too short",
        file=window.file.name,
        event_pos=frame.offset,
        event_type=event.name,
    )


def _unknown(window: Window, index: int) -> UnsupportedError:
    frame = window.frame(index)
    return UnsupportedError(
        f"event type {frame.type_code} is unknown and not marked as ignorable",
        file=window.file.name,
        event_pos=frame.offset,
        event_type=event_name(frame.type_code),
    )
