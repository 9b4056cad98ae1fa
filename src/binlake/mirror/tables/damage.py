"""Errors of a lake table whose files are missing or damaged: they concern that table only."""

from __future__ import annotations

import pyarrow as pa

from binlake.errors import SourceError


class MissingFileError(SourceError, FileNotFoundError):
    """The lake has no such file, but the metadata of a table names it."""


#: Errors of reading a lake table with a missing or damaged file.
DAMAGED = (FileNotFoundError, pa.ArrowInvalid)
