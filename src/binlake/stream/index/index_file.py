"""Open the index beside a log, if there is one (`log_index.py`).

Most logs have no index. To find that out this module does without pyarrow, whose import takes
longer than reading a small log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from binlake.source.chain import LogPath
from binlake.source.log_file import LogFile
from binlake.source.reader import source_error
from binlake.stream.index.beside import open_beside, read_beside
from binlake.values.log_names import index_path

if TYPE_CHECKING:
    from binlake.stream.index.index_columns import Stamp
    from binlake.stream.index.log_index import LogIndex

T = TypeVar("T")


def from_index(log: LogFile, read: Callable[[LogIndex], T]) -> T | str | None:
    """Return what `read` finds in the index beside an open log; None if there is none, and a message about an index
    that does not fit, or of which `read` raises ValueError.

    Logs that are always read from their beginning (compressed ones, pipes) have no index. Raises
    SourceError.
    """
    if not log.is_splittable or log.path == "-":
        return None
    path = index_path(log.path)
    try:
        data = read_beside(path, log.size)
        if data is None:
            return None
        from binlake.stream.index.index_columns import Stamp
        from binlake.stream.index.log_index import LogIndex

        index = LogIndex.of_file(memoryview(data).cast("B"), Stamp.of(log.name, log.reader))
        if index is not None:
            return read(index)
    except ValueError as error:
        return f"ignored the index {path}: {error}"
    return f"ignored the index {path}: {log.name} has changed since it was indexed"


def committed_between(
    log: LogPath, stamp: Stamp, count: int, since_us: int | None, until_us: int | None
) -> int | None:
    """Return how many of the `count` transactions of a log committed in [since_us, until_us), by the index beside it;
    None if that is not certain.

    `stamp` is that of the log. Of most logs, only the statistics of the index are read. Raises SourceError.
    """
    from binlake.stream.index.log_index import LogIndex

    path = index_path(log.path)
    try:
        file = open_beside(path)
        if file is None:
            return None
        with file:
            return LogIndex.committed_between(file, stamp, count, since_us, until_us)
    except ValueError:  # a read of the log reports it
        return None
    except OSError as error:
        raise source_error(path, error) from error
