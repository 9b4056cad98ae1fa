"""The index beside a log, where there is one (`log_index.py`).

Most logs have none, and to find that out needs no pyarrow, whose import takes longer than reading
a small log.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from binlake.errors import SourceError
from binlake.source.bytes import file_system_for, is_uri, local_path
from binlake.source.log_file import LogFile
from binlake.source.reader import source_error
from binlake.values.log_names import index_path

if TYPE_CHECKING:
    from binlake.stream.index.log_index import LogIndex

__all__ = ["read_index"]


def read_index(log: LogFile) -> LogIndex | str | None:
    """The index beside an open log; None if there is none that could be used, and a sentence if
    there is one that does not fit. Raises SourceError.

    Of logs that are read from their beginning in any case (compressed ones, pipes) there is none.
    """
    if not log.is_splittable or log.path == "-":
        return None
    path = index_path(log.path)
    if not is_uri(path) and not Path(local_path(path)).exists():
        return None
    from binlake.stream.index.log_index import Stamp

    try:
        index = _open_index(path)
    except ValueError as error:
        return f"{path} is not used: {error}"
    if index is None:
        return None
    if index.stamp != Stamp.of(log.name, log.reader):
        return f"{path} is not used: {log.name} is not what it was when it was indexed"
    return index


def _open_index(path: str) -> LogIndex | None:
    import pyarrow as pa

    from binlake.stream.index.log_index import LogIndex

    try:
        if is_uri(path):
            files, inner = file_system_for(path)
            with files.open_input_file(inner) as file:
                return LogIndex.of_file(file)
        with pa.OSFile(local_path(path), "rb") as file:
            return LogIndex.of_file(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise source_error(path, error) from error
    except SourceError:
        return None
