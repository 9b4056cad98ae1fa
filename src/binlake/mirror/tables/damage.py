"""Errors of a lake table whose files are missing or damaged: they concern that table only."""

from __future__ import annotations

import pyarrow as pa

from binlake.errors import SourceError


class MissingFileError(SourceError, FileNotFoundError):
    """The lake has no such file, but the metadata of a table names it."""


class DamagedFileError(SourceError):
    """The store returns a file of a table, but its content is not what the format of the file allows."""


#: Errors of reading a lake table with a missing or damaged file.
DAMAGED = (FileNotFoundError, DamagedFileError, pa.ArrowInvalid, pa.ArrowCapacityError)


def is_overflow(error: Exception) -> bool:
    """Whether the error is about Arrow's limit for the bytes of a column, and not about a file."""
    if isinstance(error, pa.ArrowCapacityError):
        return True
    return isinstance(error, pa.ArrowInvalid) and "offset overflow" in str(error)


#: What to do before a table can be copied again whose current metadata file is missing or damaged.
RESTORE = "restore the metadata file, or remove the table from the catalog"
