"""The effect of each frame of a window on the grouping of events into transactions.

A *step* comes from the table of event types, the flags of rows and GTID events, and the first
bytes of QUERY texts. They are found for a whole window in one pass that does not hold the
interpreter's lock; only texts that may be savepoints, XA statements or commented are matched
afterwards. If the header and a few bytes do not determine the step (a compressed QUERY, a body too
short), it is UNDECIDED, and `stream/` decodes the event.

`core/events/plain_groups.py` finds whole transactions among the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from binlake.core.events.control_text import text_step
from binlake.core.events.frames import FrameBlock
from binlake.core.memory.cursor import Cursor
from binlake.errors import MalformedError
from binlake.format.event_types import EVENT_TYPES, QUERY_EVENT
from binlake.format.flags import FL_COMPLETED_XA, FL_PREPARED_XA, FL_STANDALONE
from binlake.values.step import Step

if not cython.compiled:  # compiled, they are the C constants of format_constants.pxd
    from binlake.format.flags import LOG_EVENT_IGNORABLE_F, ROWS_STMT_END_F
if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview


# The steps that the native loops compare with.
_NEUTRAL = cython.declare(cython.int, int(Step.NEUTRAL))
_UNKNOWN = cython.declare(cython.int, int(Step.UNKNOWN))
_UNDECIDED = cython.declare(cython.int, int(Step.UNDECIDED))
_PREFIX = cython.declare(cython.int, int(Step.PREFIX))
_TABLE_MAP = cython.declare(cython.int, int(Step.TABLE_MAP))
_ROWS = cython.declare(cython.int, int(Step.ROWS))
_ROWS_END = cython.declare(cython.int, int(Step.ROWS_END))
_GTID_OPEN = cython.declare(cython.int, int(Step.GTID_OPEN))
_GTID_OTHER = cython.declare(cython.int, int(Step.GTID_OTHER))
_BEGIN = cython.declare(cython.int, int(Step.BEGIN))
_COMMIT = cython.declare(cython.int, int(Step.COMMIT))
_STATEMENT = cython.declare(cython.int, int(Step.STATEMENT))
_BY_TEXT = cython.declare(cython.int, 255)  # to be matched with `text_step`
_OUTSIDE = cython.declare(cython.int, 254)  # the frame is not in the data

_QUERY_EVENT = cython.declare(cython.int, QUERY_EVENT)
_QUERY_HEADER_BYTES = cython.declare(cython.Py_ssize_t, EVENT_TYPES[QUERY_EVENT].post_header_length)
_MARIADB_NOT_PLAIN = cython.declare(cython.int, FL_STANDALONE | FL_PREPARED_XA | FL_COMPLETED_XA)
_TEXT_HEAD_BYTES = cython.declare(
    cython.Py_ssize_t, 65536
)  # longer leading comments are not looked behind
# Frames lie apart, so that each would be waited for when its turn comes, here and in PlainGroups.
_FRAMES_AHEAD = cython.declare(cython.Py_ssize_t, 8)


@cython.final
@cython.cclass
class StepRules:
    """The tables to find the steps of events of one format.

    `step_of[type]` is the step of each type code as far as the type determines it (QUERY_EVENT:
    STATEMENT); `rows_flags_at[type]` where the flags of a rows event lie in its body.
    `header_bytes`, `checksum_bytes` and `query_header_bytes` (the post-header of QUERY) are the
    format's.
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
        self.step_of = step_of
        self.rows_flags_at = rows_flags_at
        self.header_bytes = header_bytes
        self.checksum_bytes = checksum_bytes
        self.query_header_bytes = query_header_bytes


@cython.final
@cython.cclass
class Steps:
    """The steps of the `count` frames of `block`, whose bytes lie in `data` (`base`: file offset
    of `data[0]`). A value: nothing changes it.

    Raises IndexError if a frame does not lie in `data`.
    """

    def __init__(
        self, rules: StepRules, data: Buffer, base: cython.longlong, block: FrameBlock
    ) -> None:
        self.rules = rules
        self.cursor = Cursor(data)
        self.data = self.cursor.view
        self.base = base
        self.block = block
        self.count = block.count
        self.code = memoryview(bytearray(max(self.count, 1)))
        found: cython.Py_ssize_t
        with cython.nogil:
            found = self._find(rules, block)
        if found < 0:
            raise IndexError(f"frame {-found - 1} is not in the data")
        if found:
            self._match_texts()

    def step(self, frame: cython.Py_ssize_t) -> int:
        """The step of a frame, as a number (compare with `Step`). Raises IndexError."""
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        return self.code[frame]

    def body_until(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> int:
        """The first frame from `first` on, before `last`, that is more than a part of the body
        of an open transaction: not TABLE_MAP, ROWS, TEXT, PREFIX or NEUTRAL; `last` if none.

        Raises IndexError for frames that are not there.
        """
        if not 0 <= first <= last <= self.count:
            raise IndexError(f"frames [{first}, {last}) of {self.count}")
        while first < last:
            step: cython.int = self.code[first]
            if step != _NEUTRAL and not _PREFIX <= step <= _ROWS_END:
                break
            first += 1
        return first

    def query_text(self, frame: cython.Py_ssize_t) -> bytes:
        """The text of a QUERY event (not of a compressed one), in its connection's character
        set. Raises MalformedError for a body too short to have one, IndexError.
        """
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        at: cython.Py_ssize_t = self._text_at(self.rules, self.block, frame)
        if at < 0:
            raise MalformedError("the event ends before its statement", field="sql")
        return bytes(self.cursor.view[at : self.body_end(self.rules, self.block, frame)])

    def query_thread(self, frame: cython.Py_ssize_t) -> int:
        """The thread id of a QUERY event. Raises TruncatedError, IndexError."""
        if not 0 <= frame < self.count:
            raise IndexError(f"frame {frame} of {self.count}")
        start: cython.Py_ssize_t = self.body_start(self.rules, self.block, frame)
        self.cursor.enter(start, max(start, self.body_end(self.rules, self.block, frame)))
        return self.cursor.u32()

    # -- the pass over a window ---------------------------------------------------------------

    def body_start(self, rules: StepRules, block: FrameBlock, frame: cython.Py_ssize_t) -> int:
        """Index in `data` of the byte after a frame's header."""
        return block.offset[frame] - self.base + rules.header_bytes

    def body_end(self, rules: StepRules, block: FrameBlock, frame: cython.Py_ssize_t) -> int:
        """Index in `data` of the byte after a frame's body."""
        return block.offset[frame] - self.base + block.length[frame] - rules.checksum_bytes

    def _find(self, rules: StepRules, block: FrameBlock) -> int:
        """Set the steps of all frames; returns how many are to be matched by their text, or
        -1 minus the frame that does not lie in the data.
        """
        frame: cython.Py_ssize_t
        step: cython.int
        texts: cython.Py_ssize_t = 0
        ahead: cython.Py_ssize_t
        for frame in range(self.count):
            ahead = min(frame + _FRAMES_AHEAD, self.count - 1)
            fetch_early(self.data, self.body_start(rules, block, ahead))  # noqa: F821 - in steps.pxd
            step = rules.step_of[block.type_code[frame]]
            if step != _TABLE_MAP:
                step = self._step_at(rules, block, frame, step)
                if step == _OUTSIDE:
                    return -1 - frame
                texts += step == _BY_TEXT
            self.code[frame] = step
        return texts

    def _step_at(
        self, rules: StepRules, block: FrameBlock, frame: cython.Py_ssize_t, step: cython.int
    ) -> int:
        """The step of a frame whose type has the step `step`."""
        type_code: cython.int = block.type_code[frame]
        lo: cython.Py_ssize_t = self.body_start(rules, block, frame)
        hi: cython.Py_ssize_t = self.body_end(rules, block, frame)
        if lo < rules.header_bytes or hi + rules.checksum_bytes > self.data.shape[0]:
            return _OUTSIDE
        if step == _ROWS:
            lo += rules.rows_flags_at[type_code]
            if lo < hi and self.data[lo] & ROWS_STMT_END_F:
                return _ROWS_END
            return _ROWS  # one that is too short is found by its decoder
        if step == _STATEMENT and type_code == _QUERY_EVENT:
            return self._query_step(rules, block, frame)
        if step == _GTID_OPEN:  # MariaDB: seq_no 8, domain 4, flags 1
            if lo + 12 >= hi:
                return _UNDECIDED
            return _GTID_OTHER if self.data[lo + 12] & _MARIADB_NOT_PLAIN else _GTID_OPEN
        if step == _UNKNOWN and block.flags[frame] & LOG_EVENT_IGNORABLE_F:
            return _NEUTRAL
        return step

    def _query_step(self, rules: StepRules, block: FrameBlock, frame: cython.Py_ssize_t) -> int:
        at: cython.Py_ssize_t = self._text_at(rules, block, frame)
        if at < 0:
            return _UNDECIDED
        size: cython.Py_ssize_t = self.body_end(rules, block, frame) - at
        if size == 5 and self._is_begin(at):
            return _BEGIN
        if size == 6 and self._is_commit(at):
            return _COMMIT
        return _BY_TEXT if self._may_control(at, size) else _STATEMENT

    def _text_at(self, rules: StepRules, block: FrameBlock, frame: cython.Py_ssize_t) -> int:
        """Index of the text of a QUERY event; -1 if the body is too short to have one.

        QUERY: thread 4, exec time 4, database length 1, error 2, status length 2; the status
        variables, the database name, NUL, the text.
        """
        lo: cython.Py_ssize_t = self.body_start(rules, block, frame)
        hi: cython.Py_ssize_t = self.body_end(rules, block, frame)
        if rules.query_header_bytes < _QUERY_HEADER_BYTES or hi - lo < rules.query_header_bytes:
            return -1
        status: cython.Py_ssize_t = self.data[lo + 11] | (self.data[lo + 12] << 8)
        lo += rules.query_header_bytes + status + self.data[lo + 8] + 1
        return lo if lo <= hi else -1

    def _is_begin(self, at: cython.Py_ssize_t) -> bool:
        """Whether the five bytes of a text are BEGIN."""
        return (
            self.data[at] == 66
            and self.data[at + 1] == 69
            and self.data[at + 2] == 71
            and self.data[at + 3] == 73
            and self.data[at + 4] == 78
        )

    def _is_commit(self, at: cython.Py_ssize_t) -> bool:
        """Whether the six bytes of a text are COMMIT."""
        return (
            self.data[at] == 67
            and self.data[at + 1] == 79
            and self.data[at + 2] == 77
            and self.data[at + 3] == 77
            and self.data[at + 4] == 73
            and self.data[at + 5] == 84
        )

    def _may_control(self, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bool:
        """Whether a text begins with white space, a comment, or letters (BEG, COM, ROL, REL, SAV,
        STA, XA) of a statement that `text_step` knows.
        """
        if size == 0:
            return False
        a: cython.int = self.data[at]
        if a == 32 or 9 <= a <= 13 or a == 35 or a == 45 or a == 47:  # space, #, -, /
            return True
        if size < 2:
            return False
        a &= 0xDF  # a letter in upper case
        b: cython.int = self.data[at + 1] & 0xDF
        if a == 88:
            return b == 65
        if size < 3:
            return False
        c: cython.int = self.data[at + 2] & 0xDF
        if a == 66:
            return b == 69 and c == 71
        if a == 67:
            return b == 79 and c == 77
        if a == 82:
            return (b == 79 or b == 69) and c == 76
        return a == 83 and ((b == 65 and c == 86) or (b == 84 and c == 65))

    def _match_texts(self) -> int:
        """Settle the steps that depend on a statement's words."""
        frame: cython.Py_ssize_t
        for frame in range(self.count):
            if self.code[frame] == _BY_TEXT:
                at: cython.Py_ssize_t = self._text_at(self.rules, self.block, frame)
                end: cython.Py_ssize_t = self.body_end(self.rules, self.block, frame)
                head = bytes(self.cursor.view[at : min(end, at + _TEXT_HEAD_BYTES)])
                self.code[frame] = int(text_step(head)[0])
        return 0
