"""Read a file that binlake wrote beside a log: an index, a key index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from binlake.errors import SourceError
from binlake.source.bytes import file_system_for, is_uri, local_path
from binlake.source.reader import source_error

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["open_beside", "read_beside"]


def read_beside(path: str) -> pa.Buffer | None:
    """Return the bytes of a file; None if there is none. Raises SourceError.

    They are a copy in memory. A mapping would end the process with SIGBUS where another one truncates the file.
    """
    try:
        file = open_beside(path)
        if file is None:
            return None
        with file:
            return file.read_buffer()
    except OSError as error:
        raise source_error(path, error) from error


def open_beside(path: str) -> pa.NativeFile | None:
    """Open a file, to read parts of it; None if there is none. Raises SourceError; its reads raise OSError.

    For a local file that does not exist, this does without pyarrow, whose import takes longer than reading
    a small log.
    """
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
    except SourceError:
        return None
