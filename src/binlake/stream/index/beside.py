"""Read a file that binlake wrote beside a log: an index, a key index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from binlake.source.bytes import file_system_for, is_uri, local_path
from binlake.source.reader import source_error
from binlake.source.replica.url import is_server_url

if TYPE_CHECKING:
    import pyarrow as pa

# An index is smaller than its log, of which the length may not be known. Others may have made the file.
_MOST_BYTES = 64 << 20


def read_beside(path: str, log_bytes: int | None) -> pa.Buffer | None:
    """Return the bytes of a file beside a log of `log_bytes` bytes (None: not known); None if there is no file.

    They are a copy in memory. A mapping would end the process with SIGBUS where another one truncates the file.
    Raises SourceError, and ValueError for a file that is too large for an index of the log.
    """
    most = _MOST_BYTES + (log_bytes or 0)
    try:
        file = open_beside(path)
        if file is None:
            return None
        with file:
            if (size := file.size()) > most:
                raise ValueError(f"it has {size:,} bytes, too many for an index of this log")
            return file.read_buffer()
    except OSError as error:
        raise source_error(path, error) from error


def open_beside(path: str) -> pa.NativeFile | None:
    """Open a file, to read parts of it; None if it does not exist, as beside a log of a live server.
    Raises SourceError; its reads raise OSError.

    For a local file that does not exist, this does without pyarrow, whose import takes longer than reading
    a small log.
    """
    if is_server_url(path):
        return None
    if not is_uri(path) and not os.path.isfile(local_path(path)):  # noqa: PTH113 -- there may be very many
        return None
    import pyarrow as pa

    try:
        if is_uri(path):
            files, inner = file_system_for(path)
            return files.open_input_file(inner)
        return pa.OSFile(local_path(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise source_error(path, error) from error
