"""Open the key index beside a log, if there is one (`key_index.py`), and see whether it fits its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zstandard

from binlake.source.bytes import open_reader
from binlake.source.chain import LogPath
from binlake.source.reader import ByteReader, source_error
from binlake.stream.index.beside import open_beside, read_beside
from binlake.values.log_names import key_index_path

if TYPE_CHECKING:
    from binlake.stream.index.key_index import KeyIndex

# The header of a zstd frame is not longer.
_FRAME_HEADER_BYTES = 18


def read_key_index(log: LogPath) -> KeyIndex | str | None:
    """Return the key index beside a log, or None, and a message about one that does not fit.

    Of a compressed log, which is not inflated for this, only its beginning and its length are compared. Raises
    SourceError.
    """
    path = key_index_path(log.path)
    try:
        index = _open(path, log.size)
    except ValueError as error:
        return f"ignored the key index {path}: {error}"
    if index is None:
        return None
    with open_reader(log.path, log.size) as reader:
        if not _fits(index, log, reader):
            return f"ignored the key index {path}: {log.name} has changed since it was indexed"
    return index


def _open(path: str, log_bytes: int | None) -> KeyIndex | None:
    data = read_beside(path, log_bytes)
    if data is None:
        return None
    import pyarrow as pa

    from binlake.stream.index.key_index import KeyIndex

    return KeyIndex.of_file(pa.BufferReader(data))


def _fits(index: KeyIndex, log: LogPath, reader: ByteReader) -> bool:
    from binlake.stream.index.index_columns import Stamp

    if reader.size is not None:
        return index.stamp == Stamp.of(log.name, reader)
    stamp = index.stamp
    if stamp.name != log.name or stamp.head != Stamp.head_of(reader, stamp.bytes):
        return False
    return _inflated_bytes(log.path) == stamp.bytes


def _inflated_bytes(path: str) -> int | None:
    """The length of the log in a zstd file, which its header tells; None if it does not."""
    if not path.endswith(".zst"):
        return None
    try:
        file = open_beside(path)
        if file is None:
            return None
        with file:
            size = zstandard.frame_content_size(file.read(_FRAME_HEADER_BYTES))
    except OSError as error:
        raise source_error(path, error) from error
    except zstandard.ZstdError:
        return None
    return size if size >= 0 else None
