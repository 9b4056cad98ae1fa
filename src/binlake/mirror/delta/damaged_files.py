"""The missing or damaged file of a Delta table that has made a command of Delta fail.

The exceptions of Spark and Delta for such a file are many, and are those of a disk that fails, too. So the files
themselves are examined.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from binlake.errors import BinlogError, SourceError
from binlake.mirror.delta.log import DeltaLog
from binlake.mirror.tables.damage import DamagedFileError, MissingFileError
from binlake.mirror.tables.deletion_vectors import decode_vector


def damage_of(path: Path, said: str, read: Callable[[Path], None]) -> SourceError | None:
    """The error of a table's file that is missing or damaged; None if none is, or if the disk fails.

    `said` is the text of Delta's exception. `read` has Spark read a data file, and raises BinlogError if that fails: Spark
    also compares the checksums that it has written beside the file.
    """
    try:
        log = DeltaLog(path)
        log.update()
        for name, file in log.files.items():
            data = path / unquote(name)
            if not data.exists():
                return MissingFileError(f"{data} is missing")
            if (vector := log.vector(file)) is not None:
                decode_vector(vector, name)
            if data.name in unquote(said):
                data.read_bytes()  # raises OSError if the disk fails
                _read_again(data, read)
    except (MissingFileError, DamagedFileError) as error:
        return error
    except (BinlogError, OSError):
        return None
    return None


def _read_again(data: Path, read: Callable[[Path], None]) -> None:
    """Raise DamagedFileError if Spark cannot read a file: then the failure was not one that passes."""
    try:
        read(data)
    except BinlogError as error:
        raise DamagedFileError(f"{data} is damaged: {error.message}") from None
