"""What each frame means for the grouping of events into transactions, found natively.

`Steps.load` gives every frame of a window a step, from the table of event types, the flags of
rows and GTID events and the first bytes of QUERY texts. `Steps.plain` then finds the longest
run of *plain* transactions, which need no Python at all:

    [GTID] BEGIN (rows query | annotate | TABLE_MAP | ROWS)* (XID | COMMIT)

(a MariaDB GTID stands for BEGIN). `stream/transactions.py` treats the frames between such
runs one by one. A step that the header and a few bytes cannot tell (a compressed QUERY, a
body too short) is UNDECIDED, and left to `stream/`, which can decode events.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

import cython

from binlake.core.control_text import text_step
from binlake.core.cursor import Cursor
from binlake.core.frames import FrameBlock
from binlake.core.gtid import GtidFields
from binlake.errors import MalformedError
from binlake.format.event_types import QUERY_EVENT
from binlake.values.step import Step

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

__all__ = ["Steps"]


# The steps that the native loops compare with.
_NEUTRAL = cython.declare(cython.int, int(Step.NEUTRAL))
_UNKNOWN = cython.declare(cython.int, int(Step.UNKNOWN))
_UNDECIDED = cython.declare(cython.int, int(Step.UNDECIDED))
_PREFIX = cython.declare(cython.int, int(Step.PREFIX))
_TEXT = cython.declare(cython.int, int(Step.TEXT))
_TABLE_MAP = cython.declare(cython.int, int(Step.TABLE_MAP))
_ROWS = cython.declare(cython.int, int(Step.ROWS))
_ROWS_END = cython.declare(cython.int, int(Step.ROWS_END))
_GTID = cython.declare(cython.int, int(Step.GTID))
_GTID_OPEN = cython.declare(cython.int, int(Step.GTID_OPEN))
_GTID_OTHER = cython.declare(cython.int, int(Step.GTID_OTHER))
_BEGIN = cython.declare(cython.int, int(Step.BEGIN))
_XID = cython.declare(cython.int, int(Step.XID))
_COMMIT = cython.declare(cython.int, int(Step.COMMIT))
_ROLLBACK = cython.declare(cython.int, int(Step.ROLLBACK))
_STATEMENT = cython.declare(cython.int, int(Step.STATEMENT))

_QUERY_EVENT = cython.declare(cython.int, QUERY_EVENT)
_IGNORABLE = cython.declare(cython.int, 0x80)  # header flag: an unknown type may be left out
_STMT_END = cython.declare(cython.int, 0x01)  # rows flag
_MARIADB_NOT_PLAIN = cython.declare(
    cython.int, 0x01 | 0x40 | 0x80
)  # standalone, prepared XA, completed XA
_TEXT_HEAD_BYTES = cython.declare(
    cython.Py_ssize_t, 65536
)  # longer leading comments are not looked behind
#: First letters, upper case, of the texts that `text_step` may answer otherwise than STATEMENT.
_CONTROL_HEADS = frozenset((b"BEG", b"COM", b"ROL", b"REL", b"SAV", b"STA", b"XA"))
_COMMENT_OR_SPACE = frozenset((b" ", b"\t", b"\r", b"\n", b"\x0b", b"\x0c", b"/", b"-", b"#"))


@cython.final
@cython.cclass
class Steps:
    """The steps of one window's frames, and the plain transactions among them.

    One object serves all windows of one event format. `step_of[type]` is the step of each
    type code as far as the type tells (QUERY_EVENT: STATEMENT); `rows_flags_at[type]` where
    the flags of a rows event lie in its body. `header_bytes`, `checksum_bytes` and
    `query_header_bytes` (the post-header of QUERY) are the format's.

    After `load`: `count` frames. After `plain`: `groups` transactions, each with a keep mark
    that the `keep_…` methods clear.
    """

    def __init__(
        self,
        step_of: bytes,
        rows_flags_at: bytes,
        header_bytes: int,
        checksum_bytes: int,
        query_header_bytes: int,
    ) -> None:
        if len(step_of) != 256 or len(rows_flags_at) != 256:
            raise ValueError("a step and a place for each of 256 types")
        self._step_of = step_of
        self._rows_flags_at = rows_flags_at
        self._header_bytes = header_bytes
        self._checksum_bytes = checksum_bytes
        self._query_header = query_header_bytes
        self.count = 0
        self.groups = 0
        self._base = 0
        self._gtid = GtidFields()
        self._room(1024)

    def _room(self, frames: int) -> None:
        self._step = memoryview(bytearray(frames))
        self._keep = memoryview(bytearray(frames))
        self._group_first = memoryview(bytearray(8 * (frames + 1))).cast("q")

    def load(self, data: Buffer, base: cython.longlong, block: FrameBlock) -> None:
        """Find the step of every frame of `block`, whose bytes lie in `data` (`base`: file
        offset of `data[0]`). The buffer is kept until the next load.

        Raises IndexError if a frame does not lie in `data`.
        """
        if len(self._step) < block.count:
            self._room(2 * block.count)
        self._cursor = Cursor(data)
        self._data = self._cursor.view
        self._base = base
        self._block = block
        self.count = block.count
        self.groups = 0
        i: cython.Py_ssize_t
        for i in range(self.count):
            self._step[i] = self._step_at(i)

    def step(self, frame: cython.Py_ssize_t) -> int:
        """The step of a frame, as a number (compare with `Step`). Raises IndexError."""
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        return self._step[frame]

    def decide(self, frame: cython.Py_ssize_t, step: cython.int) -> None:
        """Set the step of an UNDECIDED frame."""
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        self._step[frame] = step

    def _step_at(self, frame: cython.Py_ssize_t) -> int:
        block: FrameBlock = self._block
        type_code: cython.int = block.type_code[frame]
        step: cython.int = self._step_of[type_code]
        if step == _TABLE_MAP:
            return step
        start: cython.Py_ssize_t = block.offset[frame] - self._base
        hi: cython.Py_ssize_t = start + block.length[frame] - self._checksum_bytes
        lo: cython.Py_ssize_t = start + self._header_bytes
        if start < 0 or hi + self._checksum_bytes > len(self._data):
            raise IndexError(f"frame {frame} is not in the data")
        if step == _ROWS:
            return self._rows_step(lo, hi, type_code)
        if step == _STATEMENT and type_code == _QUERY_EVENT:
            return self._query_step(frame)
        if step == _GTID_OPEN:
            return self._gtid_step(lo, hi)
        if step == _UNKNOWN and block.flags[frame] & _IGNORABLE:
            return _NEUTRAL
        return step

    def _rows_step(
        self, lo: cython.Py_ssize_t, hi: cython.Py_ssize_t, type_code: cython.int
    ) -> int:
        at: cython.Py_ssize_t = lo + self._rows_flags_at[type_code]
        if at < hi and self._data[at] & _STMT_END:
            return _ROWS_END
        return _ROWS  # one that is too short is found by its decoder

    def _gtid_step(self, lo: cython.Py_ssize_t, hi: cython.Py_ssize_t) -> int:
        """MariaDB: seq_no 8, domain 4, flags 1."""
        if lo + 12 >= hi:
            return _UNDECIDED
        if self._data[lo + 12] & _MARIADB_NOT_PLAIN:
            return _GTID_OTHER
        return _GTID_OPEN

    def _query_step(self, frame: cython.Py_ssize_t) -> int:
        if not self._enter_text(frame):
            return _UNDECIDED
        size: cython.Py_ssize_t = self._cursor.left()
        if size == 5 and self._says(b"BEGIN"):
            return _BEGIN
        if size == 6 and self._says(b"COMMIT"):
            return _COMMIT
        start: cython.Py_ssize_t = self._cursor.pos
        head: bytes = self._cursor.take(min(size, 3)).upper()
        if head in _CONTROL_HEADS or head[:2] == b"XA" or head[:1] in _COMMENT_OR_SPACE:
            self._cursor.pos = start
            return int(text_step(self._cursor.take(min(size, _TEXT_HEAD_BYTES)))[0])
        return _STATEMENT

    def _enter_text(self, frame: cython.Py_ssize_t) -> bool:
        """Stand at the text of a QUERY event; False if the body is too short to have one.

        QUERY: thread 4, exec time 4, database length 1, error 2, status length 2; the status
        variables, the database name, NUL, the text.
        """
        self._enter(frame)
        lo: cython.Py_ssize_t = self._cursor.pos
        if self._cursor.left() < self._query_header or self._query_header < 13:
            return False
        status: cython.Py_ssize_t = self._data[lo + 11] | (self._data[lo + 12] << 8)
        lo += self._query_header + status + self._data[lo + 8] + 1
        if lo > self._cursor.end:
            return False
        self._cursor.pos = lo
        return True

    def query_text(self, frame: cython.Py_ssize_t) -> bytes:
        """The text of a QUERY event (not of a compressed one), in its connection's character
        set. Raises MalformedError for a body too short to have one, IndexError.
        """
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        if not self._enter_text(frame):
            raise MalformedError("the event ends before its statement", field="sql")
        return self._cursor.take(self._cursor.left())

    def query_thread(self, frame: cython.Py_ssize_t) -> int:
        """The thread id of a QUERY event. Raises TruncatedError, IndexError."""
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        self._enter(frame)
        return self._cursor.u32()

    def _says(self, word: bytes) -> bool:
        """Whether the bytes at the cursor are `word`; there are at least as many."""
        k: cython.Py_ssize_t
        for k in range(len(word)):  # noqa: SIM110 - a generator would be no C loop
            if self._data[self._cursor.pos + k] != word[k]:
                return False
        return True

    def plain(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> int:
        """The end of the run of plain transactions that starts at frame `first` (`first` if
        there is none), before frame `last`; `groups` says how many they are.

        Raises IndexError for frames that are not there.
        """
        if not 0 <= first <= last <= self.count:
            raise IndexError(f"frames [{first}, {last}) of {self.count}")
        frame: cython.Py_ssize_t = first
        end: cython.Py_ssize_t = first
        groups: cython.Py_ssize_t = 0
        step: cython.int
        while frame < last:
            step = self._step[frame]
            if step == _GTID:
                frame += 1
                if frame == last or self._step[frame] != _BEGIN:
                    break
            elif step != _GTID_OPEN and step != _BEGIN:
                break
            frame += 1
            step = _TEXT
            while frame < last:
                step = self._step[frame]
                if not _TEXT <= step <= _ROWS_END:
                    break
                frame += 1
            if frame == last or (step != _XID and step != _COMMIT):
                break
            frame += 1
            self._group_first[groups] = end
            self._keep[groups] = 1
            groups += 1
            end = frame
        self._group_first[groups] = end
        self.groups = groups
        return end

    def calm(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> int:
        """The first frame from `first` on, before `last`, that is more than a part of the body
        of an open transaction: not TABLE_MAP, ROWS, TEXT, PREFIX or NEUTRAL; `last` if none.

        Raises IndexError for frames that are not there.
        """
        if not 0 <= first <= last <= self.count:
            raise IndexError(f"frames [{first}, {last}) of {self.count}")
        while first < last:
            step: cython.int = self._step[first]
            if step != _NEUTRAL and not _PREFIX <= step <= _ROWS_END:
                break
            first += 1
        return first

    def commit_us(self, frame: cython.Py_ssize_t) -> int:
        """Commit time of the transaction whose first event is `frame`, microseconds since 1970
        UTC: a MySQL GTID event's immediate commit timestamp, else the header's whole second.

        Raises TruncatedError for a GTID event that is cut, IndexError.
        """
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        if self._step[frame] == _GTID:
            self._parse_gtid(frame)
            if self._gtid.immediate_commit_us:
                return self._gtid.immediate_commit_us
        return cython.cast(cython.Py_ssize_t, self._block.timestamp[frame]) * 1_000_000

    def thread_id(self, frame: cython.Py_ssize_t) -> int:
        """Thread of the plain transaction whose first event is `frame`, or -1 if the log does
        not tell: of its BEGIN, or of the MariaDB GTID event (11.5 and newer).

        Raises TruncatedError for an event that is cut, IndexError.
        """
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        if self._step[frame] == _GTID_OPEN:
            self._parse_gtid(frame)
            return self._gtid.thread_id
        if self._step[frame] == _GTID:
            frame += 1
        if frame == self.count or self._step[frame] != _BEGIN:
            return -1
        return self.query_thread(frame)

    def _enter(self, frame: cython.Py_ssize_t) -> int:
        """Stand at the body of a frame."""
        start: cython.Py_ssize_t = self._block.offset[frame] - self._base
        return self._cursor.enter(
            start + self._header_bytes,
            start + self._block.length[frame] - self._checksum_bytes,
        )

    def _parse_gtid(self, frame: cython.Py_ssize_t) -> int:
        self._enter(frame)
        if self._step[frame] == _GTID:
            return self._gtid.parse_mysql(self._cursor)
        return self._gtid.parse_mariadb(self._cursor)

    # -- which of the plain transactions are wanted -----------------------------------------

    def keep_times(self, since_us: cython.Py_ssize_t, until_us: cython.Py_ssize_t) -> None:
        """Keep those whose commit time is in [since_us, until_us). Raises TruncatedError."""
        g: cython.Py_ssize_t
        for g in range(self.groups):
            if self._keep[g]:
                self._keep[g] = since_us <= self.commit_us(self._group_first[g]) < until_us

    def keep_offsets(self, start: cython.longlong, stop: cython.longlong) -> None:
        """Keep those whose first event lies in [start, stop) of the file."""
        g: cython.Py_ssize_t
        for g in range(self.groups):
            if self._keep[g]:
                self._keep[g] = start <= self._block.offset[self._group_first[g]] < stop

    def keep_around(self, offset: cython.longlong) -> None:
        """Keep those in which this file offset lies: their first byte, inside, or their end."""
        g: cython.Py_ssize_t
        for g in range(self.groups):
            last: cython.Py_ssize_t = self._group_first[g + 1] - 1
            end: cython.longlong = self._block.offset[last] + self._block.length[last]
            if not self._block.offset[self._group_first[g]] <= offset <= end:
                self._keep[g] = 0

    def keep_servers(self, server_ids: Container[int]) -> None:
        """Keep those whose first event was written by one of these servers."""
        g: cython.Py_ssize_t
        for g in range(self.groups):
            if self._keep[g]:
                self._keep[g] = self._block.server_id[self._group_first[g]] in server_ids

    def keep_threads(self, thread_ids: Container[int]) -> int:
        """Keep those of these threads; returns how many do not tell their thread (not kept)."""
        g: cython.Py_ssize_t
        unknown: cython.Py_ssize_t = 0
        for g in range(self.groups):
            if self._keep[g]:
                thread: cython.Py_ssize_t = self.thread_id(self._group_first[g])
                unknown += thread < 0
                self._keep[g] = thread in thread_ids
        return unknown

    def keep_gtids(
        self,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
    ) -> None:
        """Keep those whose GTID one of the predicates accepts: `mysql(sid, gno)`,
        `mariadb(domain, server, sequence)`. Those without a GTID are not kept.
        """
        g: cython.Py_ssize_t
        for g in range(self.groups):
            if self._keep[g]:
                self._keep[g] = self._gtid_in(self._group_first[g], mysql, mariadb)

    def drop_gtids(
        self,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
    ) -> None:
        """Keep those whose GTID the predicates (see `keep_gtids`) do not accept."""
        g: cython.Py_ssize_t
        for g in range(self.groups):
            if self._keep[g]:
                self._keep[g] = not self._gtid_in(self._group_first[g], mysql, mariadb)

    def _gtid_in(
        self,
        frame: cython.Py_ssize_t,
        mysql: Callable[[bytes, int], bool],
        mariadb: Callable[[int, int, int], bool],
    ) -> bool:
        step: cython.int = self._step[frame]
        if step == _GTID:
            self._parse_gtid(frame)
            return self._gtid.gno > 0 and mysql(self._gtid.sid, self._gtid.gno)
        if step == _GTID_OPEN:
            self._parse_gtid(frame)
            return mariadb(self._gtid.domain_id, self._block.server_id[frame], self._gtid.seq_no)
        return False

    def kept(self, group: cython.Py_ssize_t) -> tuple[int, int, int, int]:
        """The first stretch of kept transactions at or after number `group`: its first frame,
        the frame after its last, how many transactions it has, and the number to go on with.
        It is empty (0 transactions) when no more are kept. Raises IndexError.
        """
        if not 0 <= group <= self.groups:
            raise IndexError(f"transaction {group} of {self.groups}")
        while group < self.groups and not self._keep[group]:
            group += 1
        last: cython.Py_ssize_t = group
        while last < self.groups and self._keep[last]:
            last += 1
        return self._group_first[group], self._group_first[last], last - group, last
