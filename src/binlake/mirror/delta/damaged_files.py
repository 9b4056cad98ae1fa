"""The missing or damaged file of a Delta table that has made a command of Delta fail.

The exceptions of Spark and Delta for such a file are many, and are those of a disk that fails, too. So the files
themselves are examined.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from urllib.parse import unquote

from binlake.errors import BinlogError, SourceError
from binlake.mirror.delta.log import DeltaLog
from binlake.mirror.tables.damage import DamagedFileError, MissingFileError
from binlake.mirror.tables.deletion_vectors import decode_vector

_PIECE_BYTES = 1 << 20


def damage_of(
    path: Path, said: str, read: Callable[[Path], None], needed: Container[str] = ()
) -> SourceError | None:
    """The error of a missing or damaged file that made a command of Delta fail; None if there is none, or if the disk fails.

    `said` is the text of Delta's exception; the error ends with it. Only files that it names and those that are `needed`, the
    data files that the command reads, can have made the command fail; `needed` has their names in the log. `read` has Spark read
    a data file, and raises BinlogError if that fails: Spark also compares the checksums that it has written beside the file.
    """
    try:
        _look(DeltaLog(path), unquote(said), read, needed)
    except (MissingFileError, DamagedFileError) as error:
        return type(error)(f"{error.message}; {said}", hint=error.hint, **error.context)
    except (BinlogError, OSError):
        return None
    return None


def _look(log: DeltaLog, said: str, read: Callable[[Path], None], needed: Container[str]) -> None:
    """Raise MissingFileError or DamagedFileError for the first file that made the command fail."""
    log.update()
    for name, file in log.files.items():
        data = log.data_file(name)
        if data is None or not (data.name in said or name in needed):
            continue
        if not data.exists():
            raise MissingFileError(f"{data} is missing")
        if (vector := log.vector(file)) is not None:
            decode_vector(vector, name)
        if data.name in said:
            with data.open("rb") as source:  # raises OSError if the disk fails
                while source.read(_PIECE_BYTES):
                    pass
            _read_again(data, read)


def _read_again(data: Path, read: Callable[[Path], None]) -> None:
    """Raise DamagedFileError if Spark cannot read a file: then the failure was not one that passes."""
    try:
        read(data)
    except BinlogError as error:
        raise DamagedFileError(f"{data} is damaged: {error.message}") from None
