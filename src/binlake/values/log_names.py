"""Names of log files, which servers number, and of the files beside them.

binlog.000012        <base>.<number>: both flavours; three digits at least until MySQL 4.0
binlog-000012.ibb    MariaDB's InnoDB binlog
binlog.000012.index.parquet    the index of a log (stream/index/log_index.py)
binlog.000012.keys.arrow       its key index (stream/index/key_index.py)
"""

from __future__ import annotations

import re
from typing import NamedTuple

INDEX_SUFFIX = ".index.parquet"
KEY_INDEX_SUFFIX = ".keys.arrow"

_NUMBERED = re.compile(
    r"(?P<head>.+\.)(?P<digits>\d{1,255})|(?P<ibb>.+-)(?P<ibb_digits>\d{6,255})\.ibb"
)


class LogName(NamedTuple):
    """A numbered file name: the part before the number, the digits, and the part after them."""

    head: str
    digits: str
    tail: str

    @classmethod
    def parse(cls, name: str) -> LogName | None:
        """The parts of a base name (no directory, no .gz); None if it has no number."""
        found = _NUMBERED.fullmatch(name)
        if found is None:
            return None
        if found["ibb"] is not None:
            return cls(found["ibb"], found["ibb_digits"], ".ibb")
        return cls(found["head"], found["digits"], "")

    @property
    def base(self) -> str:
        """The part that all names of one chain share: `binlog`, `binlog-.ibb`."""
        return self.head + self.tail if self.tail else self.head[:-1]

    @property
    def is_ibb(self) -> bool:
        """Whether a file of this name belongs to MariaDB's InnoDB binlog."""
        return bool(self.tail)

    @property
    def number(self) -> int:
        """The number."""
        return int(self.digits)

    def numbered(self, number: int) -> str:
        """The name that a file of this number has in the same chain."""
        # if a number fills all digits, the padding of smaller numbers is unknown
        width = len(self.digits) if self.digits.startswith("0") else min(6, len(self.digits))
        return f"{self.head}{number:0{width}d}{self.tail}"


def index_path(path: str) -> str:
    """Where the index of a log is: beside it, without .gz or .zst."""
    return _uncompressed(path) + INDEX_SUFFIX


def key_index_path(path: str) -> str:
    """Where the key index of a log is: beside it, without .gz or .zst."""
    return _uncompressed(path) + KEY_INDEX_SUFFIX


def _uncompressed(path: str) -> str:
    for suffix in (".gz", ".zst"):
        path = path.removesuffix(suffix)
    return path
