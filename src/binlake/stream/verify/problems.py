"""The closed list of problems that `binlake verify` can find, and one finding as a value."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kind of a problem. A file that is only IN_USE does not fail the verification."""

    # of one file
    BAD_MAGIC = "bad magic"  # it does not begin as a binary log does
    BAD_CHECKSUM = "bad checksum"  # stored and computed CRC32 of an event differ
    BAD_LENGTH = "bad length"  # an event's length cannot be: from there on nothing is known
    BAD_EVENT = "bad event"  # an event that no checksum vouches for, or that the checks need, cannot be decoded
    REENCODED = "not the same encoded again"  # an event's fields are not all of its bytes
    TORN_TAIL = "torn tail"  # the file ends inside an event
    IN_USE = "in use"  # the server has not closed it: it is running, or it crashed
    INCIDENT = "incident"  # the server reports that events are missing
    LOCKED = "locked"  # encrypted, and the key is not given or does not open it
    UNSUPPORTED = "unsupported"  # of an unknown version, an unknown type: cannot be verified
    GTID_REPEATED = "GTID repeated"  # a transaction is there twice
    # between files
    MISSING_FILE = "missing file"  # a number is left out
    WRONG_SUCCESSOR = "wrong successor"  # a file ends by naming another file than the next one
    NO_TERMINATOR = "no terminator"  # a file that is not the last ends without ROTATE or STOP
    GTID_GAP = "GTID gap"  # a file presumes transactions that the files before it do not hold
    GTID_OVERLAP = "GTID overlap"  # a file does not know of transactions of the files before it


class Problem(NamedTuple):
    """A problem at byte `pos` of a file."""

    pos: int
    kind: Kind
    message: str


class ChainProblem(NamedTuple):
    """A problem between `file` and the one before it (or, if the message says so, after it)."""

    file: str
    kind: Kind
    message: str
