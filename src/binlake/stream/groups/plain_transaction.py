"""The transactions of a plain run as objects, which look up their fields in the columns of the
run.

A log has millions of plain transactions, and most callers read three or four fields of each. So an
object consists of a run and a number. It computes a field on first access, and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from binlake.events.common.xid import XidEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.format.event_types import Role, codes_of
from binlake.stream.event_at import event_at
from binlake.stream.runs import Outcome, Piece, PlainRun, Transaction
from binlake.values.position import ChainPosition

_SECOND_US = 1_000_000
_GTID_CODES = frozenset(codes_of(Role.GTID))


def plain_transactions(run: PlainRun) -> Iterator[Transaction]:
    """Yield the transactions of a run, one by one."""
    new = _PlainTransaction.__new__
    for group in range(run.low, run.high):
        transaction = new(_PlainTransaction)
        transaction._run = run
        transaction._group = group
        yield transaction


class _PlainTransaction(Transaction):
    """The transaction `_group` of the columns of `_run`."""

    __slots__ = ("_group", "_run")
    __qualname__ = "Transaction"
    _run: PlainRun
    _group: int

    def __getattr__(self, name: str) -> Any:
        """A field that is computed on first access. Raises BinlogError."""
        make = _FIELDS.get(name)
        if make is None:
            raise AttributeError(name)
        value = make(self._run, self._group)
        setattr(self, name, value)
        return value

    @property
    def gtid(self) -> str | None:
        return self._run.plain.gtid(self._group)


def _position(run: PlainRun, offset: int) -> ChainPosition:
    file = run.window.file
    return ChainPosition(file.ordinal, file.name, offset)


def _start(run: PlainRun, group: int) -> ChainPosition:
    return _position(run, run.plain.start(group))


def _thread_id(run: PlainRun, group: int) -> int | None:
    thread = int(run.plain.thread_id[group])
    return None if thread < 0 else thread


def _gtid_event(run: PlainRun, group: int) -> GtidEvent | MariadbGtidEvent | None:
    first = run.plain.first[group]
    if run.window.block.type_code[first] not in _GTID_CODES:
        return None
    event = event_at(run.window, first)
    assert isinstance(event, GtidEvent | MariadbGtidEvent), "so its code says"
    return event


def _xid(run: PlainRun, group: int) -> int | None:
    event = event_at(run.window, run.plain.last[group] - 1)
    return event.xid if isinstance(event, XidEvent) else None


def _duration_us(run: PlainRun, group: int) -> int:
    plain = run.plain
    commit_us = plain.commit_us[group]
    ended_us = run.window.block.timestamp[plain.last[group] - 1] * _SECOND_US
    return max(0, max(commit_us - commit_us % _SECOND_US, ended_us) - plain.begun_us[group])


def _pieces(run: PlainRun, group: int) -> Callable[[], Iterator[Piece]]:
    plain = run.plain
    return lambda: iter((Piece(run.window, plain.first[group], plain.last[group]),))


_FIELDS: dict[str, Callable[[PlainRun, int], Any]] = {
    "outcome": lambda _run, _group: Outcome.COMMITTED,
    "start": _start,
    "end": lambda run, group: _position(run, run.plain.end(group)),
    "decided": _start,
    "commit_us": lambda run, group: run.plain.commit_us[group],
    "server_id": lambda run, group: run.window.block.server_id[run.plain.first[group]],
    "thread_id": _thread_id,
    "file": lambda run, _group: run.window.file,
    "statements": lambda _run, _group: (),
    "bytes": lambda run, group: run.plain.end(group) - run.plain.start(group),
    "gtid_event": _gtid_event,
    "xid": _xid,
    "xa_xid": lambda _run, _group: None,
    "duration_us": _duration_us,
    "is_remarked": lambda _run, _group: False,
    "needs_file": lambda run, _group: run.needs_file,
    "held_bytes": lambda run, group: run.plain.end(group) - run.plain.start(group),
    "_pieces": _pieces,
}
