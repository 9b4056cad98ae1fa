"""The plain transactions of a window, found once, as columns.

    groups = PlainGroups(steps)
    groups.count, groups.first[i], groups.last[i], groups.commit_us[i], …

A transaction is *plain* if it needs no Python at all:

    [GTID] BEGIN (rows query | annotate | TABLE_MAP | ROWS)* (XID | COMMIT)

where a MariaDB GTID stands for BEGIN. One pass classifies all frames of a window and does
not hold the interpreter's lock. Readers, filters, counters, boundaries of batches and the row
decoder read these columns. Only this module determines where a plain transaction starts, when it was
committed, and which server and thread wrote it.

Whether a transaction begins at a frame depends on what is before it, which only the grouper in
`stream/` knows: it asks for the one at the frame that it has reached (`at`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

import cython

from binlake.core.events.frames import FrameBlock
from binlake.core.events.gtid import GtidFields
from binlake.core.events.steps import StepRules, Steps
from binlake.format.event_types import GTID_EVENT, GTID_LOG_EVENT, QUERY_EVENT
from binlake.values.step import Step

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

#: What a transaction's GTID is, in `PlainGroups.gtid_kind`.
NO_GTID = 0
MYSQL = 1
MARIADB = 2

_NO_GTID = cython.declare(cython.uchar, NO_GTID)
_MYSQL = cython.declare(cython.uchar, MYSQL)
_MARIADB = cython.declare(cython.uchar, MARIADB)

_TEXT = cython.declare(cython.int, int(Step.TEXT))
_ROWS_END = cython.declare(cython.int, int(Step.ROWS_END))
_GTID = cython.declare(cython.int, int(Step.GTID))
_GTID_OPEN = cython.declare(cython.int, int(Step.GTID_OPEN))
_BEGIN = cython.declare(cython.int, int(Step.BEGIN))
_XID = cython.declare(cython.int, int(Step.XID))
_COMMIT = cython.declare(cython.int, int(Step.COMMIT))

_QUERY_EVENT = cython.declare(cython.int, QUERY_EVENT)
_GTID_LOG_EVENT = cython.declare(cython.int, GTID_LOG_EVENT)
_GTID_EVENT = cython.declare(cython.int, GTID_EVENT)
_SID_BYTES = cython.declare(cython.Py_ssize_t, 16)


def commit_time_us(immediate_commit_us: cython.longlong, timestamp: cython.longlong) -> int:
    """Commit time of a transaction, microseconds since 1970 UTC: that of its MySQL GTID event, or
    where there is none (0) the whole second in the header of its first event.
    """
    return immediate_commit_us if immediate_commit_us > 0 else timestamp * 1_000_000


@cython.final
@cython.cclass
class PlainGroups:
    """`count` plain transactions of the frames of `steps`, in order. A value: nothing changes it.

    Entry i of each column belongs to transaction i: `first` and `last`, its frames
    [first, last); `commit_us` (see `commit_time_us`); `begun_us`, the earliest time of its
    first two events (whole seconds: a GTID event has the time of the COMMIT, BEGIN that of the
    first statement); `thread_id`, -1 if the log does not contain it: that of the GTID event
    (MariaDB 11.5), of BEGIN, or of COMMIT; `gtid_kind` (NO_GTID, MYSQL, MARIADB) and `number`,
    the gno or sequence number; `domain_id` of MariaDB's, `sid_at` the index in the data of a MySQL UUID.

    One whose GTID event is cut is not plain: who decodes the event will say so.
    """

    if not cython.compiled:  # declared in plain_groups.pxd
        first: memoryview
        last: memoryview
        commit_us: memoryview
        begun_us: memoryview
        thread_id: memoryview
        number: memoryview
        domain_id: memoryview
        sid_at: memoryview
        gtid_kind: memoryview

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.block = steps.block
        self.count = 0
        self._gtid = GtidFields()
        self._text_sid = b""
        self._sid_text = ""
        most: cython.Py_ssize_t = self._most(steps)
        self.first = _column(most)
        self.last = _column(most)
        self.commit_us = _column(most)
        self.begun_us = _column(most)
        self.thread_id = _column(most)
        self.number = _column(most)
        self.domain_id = _column(most)
        self.sid_at = _column(most)
        self.gtid_kind = memoryview(bytearray(max(most, 1)))
        with cython.nogil:
            self._find(steps, steps.rules, steps.block)

    def __len__(self) -> int:
        return self.count

    def at(self, frame: cython.Py_ssize_t) -> int:
        """The transaction whose first frame is `frame`; -1 if there is none."""
        group: cython.Py_ssize_t = self.around(frame)
        return group if group >= 0 and self.first[group] == frame else -1

    def around(self, frame: cython.Py_ssize_t) -> int:
        """The last transaction that starts at or before `frame`; -1 if there is none."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.count
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) >> 1
            if self.first[middle] <= frame:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def run(self, group: cython.Py_ssize_t) -> int:
        """The end of the transactions from `group` on that follow each other without a gap.

        Raises IndexError.
        """
        if not 0 <= group < self.count:
            raise IndexError(f"transaction {group} of {self.count}")
        group += 1
        while group < self.count and self.first[group] == self.last[group - 1]:
            group += 1
        return group

    def start(self, group: cython.Py_ssize_t) -> int:
        """File offset of the first byte of a transaction. Raises IndexError."""
        return self.block.offset[self.first[self._checked(group)]]

    def end(self, group: cython.Py_ssize_t) -> int:
        """File offset of the byte after a transaction. Raises IndexError."""
        frame: cython.Py_ssize_t = self.last[self._checked(group)] - 1
        return self.block.offset[frame] + self.block.length[frame]

    def sid(self, group: cython.Py_ssize_t) -> bytes:
        """The UUID of a MySQL GTID; b"" for others. Raises IndexError."""
        if self.gtid_kind[self._checked(group)] != _MYSQL:
            return b""
        at: cython.Py_ssize_t = self.sid_at[group]
        return bytes(self.steps.cursor.view[at : at + _SID_BYTES])

    def gtid(self, group: cython.Py_ssize_t) -> str | None:
        """The GTID as its flavour spells it; None where there is none. Raises IndexError."""
        kind: cython.uchar = self.gtid_kind[self._checked(group)]
        if kind == _NO_GTID:
            return None
        if kind == _MARIADB:
            server_id = self.block.server_id[self.first[group]]
            number = cython.cast(cython.ulonglong, self.number[group])
            return f"{self.domain_id[group]}-{server_id}-{number}"
        sid = self.sid(group)
        if sid != self._text_sid:
            digits = sid.hex()
            self._sid_text = "-".join(
                (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            )
            self._text_sid = sid
        return f"{self._sid_text}:{self.number[group]}"

    def mysql_intervals(
        self, low: cython.Py_ssize_t, high: cython.Py_ssize_t
    ) -> list[tuple[bytes, int, int]]:
        """The MySQL GTIDs of the transactions [low, high), as (UUID, first gno, last gno), in
        order. Raises IndexError.
        """
        if not 0 <= low <= high <= self.count:
            raise IndexError(f"transactions [{low}, {high}) of {self.count}")
        found: list[tuple[bytes, int, int]] = []
        head: cython.Py_ssize_t = -1
        before: cython.Py_ssize_t = -1
        group: cython.Py_ssize_t
        for group in range(low, high):
            if self.gtid_kind[group] != _MYSQL or self.number[group] <= 0:
                continue
            if head >= 0:
                if self.number[group] == self.number[before] + 1 and self._same_sid(before, group):
                    before = group
                    continue
                found.append((self.sid(head), self.number[head], self.number[before]))
            head = group
            before = group
        if head >= 0:
            found.append((self.sid(head), self.number[head], self.number[before]))
        return found

    def mariadb_intervals(
        self, low: cython.Py_ssize_t, high: cython.Py_ssize_t
    ) -> list[tuple[int, int, int, int]]:
        """MariaDB's GTIDs of the transactions [low, high), as (domain, server, first and last
        sequence number), in order. Raises IndexError.
        """
        if not 0 <= low <= high <= self.count:
            raise IndexError(f"transactions [{low}, {high}) of {self.count}")
        found: list[tuple[int, int, int, int]] = []
        group: cython.Py_ssize_t
        domain: cython.longlong = 0
        server: cython.longlong = 0
        first: cython.ulonglong = 0
        last: cython.ulonglong = 0
        some: cython.bint = False
        for group in range(low, high):
            if self.gtid_kind[group] != _MARIADB:
                continue
            number: cython.ulonglong = cython.cast(cython.ulonglong, self.number[group])
            server_id: cython.longlong = self.block.server_id[self.first[group]]
            if (
                some
                and number == last + 1
                and self.domain_id[group] == domain
                and server_id == server
            ):
                last = number
                continue
            if some:
                found.append((domain, server, first, last))
            some = True
            domain = self.domain_id[group]
            server = server_id
            first = last = number
        if some:
            found.append((domain, server, first, last))
        return found

    def _checked(self, group: cython.Py_ssize_t) -> int:
        if not 0 <= group < self.count:
            raise IndexError(f"transaction {group} of {self.count}")
        return group

    def _same_sid(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t) -> bool:
        data = self.steps.cursor.view
        a: cython.Py_ssize_t = self.sid_at[one]
        b: cython.Py_ssize_t = self.sid_at[other]
        return bool(data[a : a + _SID_BYTES] == data[b : b + _SID_BYTES])

    # -- the pass over a window ---------------------------------------------------------------

    def _most(self, steps: Steps) -> int:
        """At most how many plain transactions there are: as many as have an end."""
        frame: cython.Py_ssize_t
        ends: cython.Py_ssize_t = 0
        for frame in range(steps.count):
            ends += steps.code[frame] == _XID or steps.code[frame] == _COMMIT
        return ends

    def _find(self, steps: Steps, rules: StepRules, block: FrameBlock) -> int:
        frame: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        step: cython.int
        while frame < steps.count:
            step = steps.code[frame]
            end = -1
            if step in (_GTID, _GTID_OPEN, _BEGIN):
                end = self._end_of(steps, frame, step)
            if end < 0 or not self._note(steps, rules, block, frame, end):
                frame += 1
            else:
                frame = end
        return 0

    def _end_of(self, steps: Steps, frame: cython.Py_ssize_t, step: cython.int) -> int:
        """The frame after the plain transaction that starts at `frame`, -1 if none does."""
        last: cython.Py_ssize_t = steps.count
        frame += 1
        if step == _GTID:
            if frame == last or steps.code[frame] != _BEGIN:
                return -1
            frame += 1
        while frame < last:
            step = steps.code[frame]
            if not _TEXT <= step <= _ROWS_END:
                return frame + 1 if step in (_XID, _COMMIT) else -1
            frame += 1
        return -1

    def _note(
        self,
        steps: Steps,
        rules: StepRules,
        block: FrameBlock,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> bool:
        """Add the transaction of frames [first, last); False if its GTID event is cut."""
        group: cython.Py_ssize_t = self.count
        step: cython.int = steps.code[first]
        kind: cython.uchar = _NO_GTID
        immediate_us: cython.longlong = 0
        thread: cython.longlong = -1
        begin: cython.Py_ssize_t = first
        lo: cython.Py_ssize_t = steps.body_start(rules, block, first)
        hi: cython.Py_ssize_t = steps.body_end(rules, block, first)
        if step == _GTID:
            if self._gtid.read_mysql(steps.data, lo, hi) < 0:
                return False
            if block.type_code[first] == _GTID_LOG_EVENT:
                kind = _MYSQL
            immediate_us = self._gtid.immediate_commit_us
            self.number[group] = self._gtid.gno
            self.sid_at[group] = self._gtid.sid_at
            begin = first + 1
        elif step == _GTID_OPEN:
            if self._gtid.read_mariadb(steps.data, lo, hi) < 0:
                return False
            if block.type_code[first] == _GTID_EVENT:
                kind = _MARIADB
            thread = self._gtid.thread_id
            self.number[group] = cython.cast(cython.longlong, self._gtid.seq_no)
            self.domain_id[group] = self._gtid.domain_id
            begin = -1
        if thread < 0 and begin >= 0:
            thread = self._thread_of(steps, rules, block, begin)
        if thread < 0 and block.type_code[last - 1] == _QUERY_EVENT:
            thread = self._thread_of(steps, rules, block, last - 1)
        self.first[group] = first
        self.last[group] = last
        self.gtid_kind[group] = kind
        self.thread_id[group] = thread
        self.commit_us[group] = commit_time_us(immediate_us, block.timestamp[first])
        self.begun_us[group] = (
            cython.cast(cython.longlong, min(block.timestamp[first], block.timestamp[first + 1]))
            * 1_000_000
        )
        self.count = group + 1
        return True

    def _thread_of(
        self, steps: Steps, rules: StepRules, block: FrameBlock, frame: cython.Py_ssize_t
    ) -> int:
        """The thread of a QUERY event that has a text: its first four bytes."""
        at: cython.Py_ssize_t = steps.body_start(rules, block, frame)
        value: cython.longlong = steps.data[at + 3]
        value = value << 8 | steps.data[at + 2]
        value = value << 8 | steps.data[at + 1]
        return value << 8 | steps.data[at]


def _column(entries: cython.Py_ssize_t) -> memoryview:
    """A column of 64-bit integers."""
    return memoryview(bytearray(8 * max(entries, 1))).cast("q")


@cython.final
@cython.cclass
class GroupMask:
    """Which of the transactions [low, high) of `groups` are wanted: all, until methods drop some."""

    def __init__(
        self, groups: PlainGroups, low: cython.Py_ssize_t, high: cython.Py_ssize_t
    ) -> None:
        if not 0 <= low <= high <= groups.count:
            raise IndexError(f"transactions [{low}, {high}) of {groups.count}")
        self.groups = groups
        self.low = low
        self.high = high
        self._keep = memoryview(bytearray(b"\1") * max(high - low, 1))

    def keep_times(self, since_us: cython.longlong, until_us: cython.longlong) -> None:
        """Keep those whose commit time is in [since_us, until_us)."""
        g: cython.Py_ssize_t
        for g in range(self.low, self.high):
            if not since_us <= self.groups.commit_us[g] < until_us:
                self._keep[g - self.low] = 0

    def keep_offsets(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Keep those whose first event lies in [start, stop) of the file."""
        g: cython.Py_ssize_t
        for g in range(self.low, self.high):
            if not start <= self.groups.block.offset[self.groups.first[g]] < stop:
                self._keep[g - self.low] = 0

    def keep_around(self, offset: cython.longlong) -> None:
        """Keep those in which this file offset lies: their first byte, inside, or their end."""
        g: cython.Py_ssize_t
        for g in range(self.low, self.high):
            if not self.groups.start(g) <= offset <= self.groups.end(g):
                self._keep[g - self.low] = 0

    def keep_servers(self, server_ids: Container[int]) -> None:
        """Keep those whose first event was written by one of these servers."""
        g: cython.Py_ssize_t
        for g in range(self.low, self.high):
            if self.groups.block.server_id[self.groups.first[g]] not in server_ids:
                self._keep[g - self.low] = 0

    def keep_threads(self, thread_ids: Container[int]) -> int:
        """Keep the transactions of these threads. Returns the number of transactions without a thread; they are dropped."""
        g: cython.Py_ssize_t
        unknown: cython.Py_ssize_t = 0
        for g in range(self.low, self.high):
            if self._keep[g - self.low]:
                thread: cython.longlong = self.groups.thread_id[g]
                unknown += thread < 0
                self._keep[g - self.low] = thread in thread_ids
        return unknown

    def keep_gtids(
        self,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
    ) -> None:
        """Keep those whose GTID one of the predicates accepts: `mysql(sid, gno)`,
        `mariadb(domain, server, sequence)`. Those without a GTID are not kept.
        """
        self._choose_gtids(mysql, mariadb, True)

    def drop_gtids(
        self,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
    ) -> None:
        """Keep those whose GTID the predicates (see `keep_gtids`) do not accept."""
        self._choose_gtids(mysql, mariadb, False)

    def stretches(self) -> list[tuple[int, int]]:
        """The transactions that are kept, as ranges [low, high) without gaps."""
        found: list[tuple[int, int]] = []
        g: cython.Py_ssize_t = self.low
        while g < self.high:
            if not self._keep[g - self.low]:
                g += 1
                continue
            low: cython.Py_ssize_t = g
            while g < self.high and self._keep[g - self.low]:
                g += 1
            found.append((low, g))
        return found

    def _choose_gtids(
        self,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
        wanted: cython.bint,
    ) -> int:
        g: cython.Py_ssize_t
        for g in range(self.low, self.high):
            if self._keep[g - self.low]:
                self._keep[g - self.low] = self._accepts(mysql, mariadb, g) == wanted
        return 0

    def _accepts(
        self,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
        g: cython.Py_ssize_t,
    ) -> bool:
        groups: PlainGroups = self.groups
        kind: cython.uchar = groups.gtid_kind[g]
        if kind == _MYSQL:
            return groups.number[g] > 0 and mysql(groups.sid(g), groups.number[g])
        if kind == _MARIADB:
            server_id = groups.block.server_id[groups.first[g]]
            number = cython.cast(cython.ulonglong, groups.number[g])
            return mariadb(groups.domain_id[g], server_id, number)
        return False
