"""Choose the logs that an archive may drop: the oldest, whole logs only, never the one being
written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from binlake.archive.folder import Folder
from binlake.archive.layout import logs_among
from binlake.archive.writer import write_index_file
from binlake.errors import BinlogError, SourceError
from binlake.source.log_file import LogFile
from binlake.source.resolve import log_name
from binlake.values.log_names import index_path, key_index_path

_SUFFIXES = ("", ".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits on an archive: it keeps logs that ended in the last `days`, and the newest logs of together at most
    `bytes` (as stored). None: no limit. A log is removed when one of the two limits excludes it.
    """

    days: float | None = None
    bytes: int | None = None

    @property
    def keeps_everything(self) -> bool:
        """Whether nothing is ever removed."""
        return self.days is None and self.bytes is None


class Expired(NamedTuple):
    """The logs to remove, oldest first. `unreadable` is the error of the log whose beginning would show the age
    of the next one; None if there is no such error.
    """

    names: list[str]
    unreadable: BinlogError | None = None


def expired(folder: Folder, rule: Retention, growing: str, now: float | None = None) -> Expired:
    """Return the logs to remove: from the beginning of the chain up to the first kept log.

    `growing` and the logs after it are kept. `now` is in seconds since 1970.
    """
    if rule.keeps_everything:
        return Expired([])
    sizes = folder.sizes()
    names = logs_among(sizes)
    stored = {n: sum(sizes.get(n + suffix, 0) for suffix in _SUFFIXES) for n in names}
    left = sum(stored.values())
    moment = time.time() if now is None else now
    found: list[str] = []
    for name, following in pairwise(names):
        if name == growing:
            break
        if rule.bytes is None or left <= rule.bytes:
            if rule.days is None:
                break
            try:
                if not _is_older(folder, sizes, following, moment, rule.days):
                    break
            except BinlogError as error:
                # of the growing log, the first event may not be written yet
                return Expired(found, None if following == growing else error)
        found.append(name)
        left -= stored[name]
    return Expired(found)


def purge(folder: Folder, names: list[str]) -> None:
    """Remove logs, which are the oldest ones.

    They are removed from the index file first, so that it never names a missing log. Raises
    SourceError.
    """
    if not names:
        return
    write_index_file(folder, without=names)
    for name in names:
        for suffix in _SUFFIXES:
            folder.remove(name + suffix)
        for beside in (index_path(name), key_index_path(name)):
            folder.remove(log_name(beside))


def _is_older(
    folder: Folder, sizes: dict[str, int], following: str, now: float, days: float
) -> bool:
    """Whether a log ended that long ago: when the one that follows it began. Raises BinlogError."""
    stored = next((following + s for s in _SUFFIXES if following + s in sizes), following)
    try:
        with LogFile.open(folder.path_of(stored)) as log:
            for window in log.windows(verify=False, window_bytes=4096):
                return now - window.block.timestamp[0] > days * 86_400
    except BinlogError as error:
        if not _has_gone(folder, stored):
            error.at(file=following)
            raise
    return False


def _has_gone(folder: Folder, stored: str) -> bool:
    """Whether a file is not there any more, as when its compressed file has taken its place; or whether that is unknown."""
    try:
        return stored not in folder.sizes()
    except SourceError:
        return True
