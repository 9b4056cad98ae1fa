"""Errors of a lake table whose files are missing or damaged: they concern that table only."""

from __future__ import annotations

import pyarrow as pa

from binlake.errors import SourceError


class MissingFileError(SourceError, FileNotFoundError):
    """The lake has no such file, but the metadata of a table names it."""


class DamagedFileError(SourceError):
    """The store returns a file of a table, but its content is not what the format of the file allows."""


#: Arrow's errors of rows: a value that a type does not hold, or more bytes in a column than Arrow's offsets reach.
OF_ROWS = (pa.ArrowInvalid, pa.ArrowCapacityError)
#: Errors of reading a lake table with a missing or damaged file.
DAMAGED = (FileNotFoundError, DamagedFileError, *OF_ROWS)


def is_overflow(error: Exception) -> bool:
    """Whether the error is about Arrow's limit for the bytes of a column, and not about a file."""
    if isinstance(error, pa.ArrowCapacityError):
        return True
    return isinstance(error, pa.ArrowInvalid) and "offset overflow" in str(error)


def why_overflow(error: Exception) -> str:
    """The reason of a quarantine for an error that `is_overflow`, with the options that help."""
    why = str(error).partition("\n")[0]
    return f"rows that are read together have more than 2 GB in a column ({why}): set a smaller --round-bytes or chunk_rows"


def why_damaged(error: Exception) -> str:
    """The reason of a quarantine for an error of reading a lake table, see `DAMAGED`."""
    if is_overflow(error):
        return why_overflow(error)
    why = str(error).partition("\n")[0]
    if isinstance(error, DAMAGED):
        return f"a file of its lake table is missing or damaged: {why}"
    return why


#: What to do before a table can be copied again whose current metadata file is missing or damaged.
RESTORE = "restore the metadata file, or remove the table from the catalog"
