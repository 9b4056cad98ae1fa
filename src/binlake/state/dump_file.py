"""Open the file of a dump: plain, or compressed as .gz or .zst.

A compressed dump is inflated into a file without a name in the directory for temporary files, because it is read
twice. Its inflated size is limited: a file of 1 MB may inflate to 1 GB with gzip, and to 30 GB with zstd.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from binlake.errors import FormatError, SourceError
from binlake.source.inflate import MAGIC_BYTES, decompressor_for
from binlake.table.schema.dump_text import LONGEST_TOKEN_BYTES, WINDOW_BYTES, DumpText
from binlake.values.options import ReadOptions

# Dumps of real tables shrink to a fifth or a tenth. An inflated file may have max_memory plus this number of times its
# stored bytes, as a compressed transaction.
_MOST_INFLATION = 100
# A statement is in memory as a whole. It may have a quarter of max_memory plus this number of times the stored bytes
# of the file, as an event of a compressed log.
_MOST_STATEMENT_INFLATION = 32
_HINT = "if you trust the dump, decompress it first, or raise the option max_memory"


def open_dump(path: str, options: ReadOptions, window_bytes: int = WINDOW_BYTES) -> DumpText:
    """Open a dump, to be closed. Raises SourceError for a file that cannot be read, is a pipe, is empty, or inflates to more than
    `max_memory` allows. `window_bytes` is as in DumpText.
    """
    try:
        with ExitStack() as stack:
            mode = Path(path).stat().st_mode  # to open a pipe may wait
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise SourceError(
                    f"{path} is not a regular file; binlake reads a dump twice",
                    hint="save it as a file; binlake decompresses .gz and .zst files",
                )
            file = stack.enter_context(Path(path).open("rb"))
            decompress = decompressor_for(os.pread(file.fileno(), MAGIC_BYTES, 0))
            if decompress is None:
                text = DumpText(file, path, window_bytes=window_bytes)
            else:
                packed_bytes = os.fstat(file.fileno()).st_size
                whole = stack.enter_context(tempfile.TemporaryFile(prefix="binlake-"))
                most_bytes = options.max_memory + _MOST_INFLATION * packed_bytes
                _inflate(path, decompress(file.read), whole, most_bytes)
                statement = options.max_memory // 4 + _MOST_STATEMENT_INFLATION * packed_bytes
                statement = min(statement, LONGEST_TOKEN_BYTES)
                text = DumpText(
                    whole,
                    path,
                    window_bytes=window_bytes,
                    longest_token_bytes=statement,
                    hint=_HINT,
                )
                file.close()
            if len(text) == 0:
                raise SourceError(f"{path} is empty")
            stack.pop_all()
            return text
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from None


def _inflate(path: str, pieces: Iterator[bytes], whole: BinaryIO, most_bytes: int) -> None:
    """Write inflated bytes to a file. Raises SourceError for more than `most_bytes`, or damage."""
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            if size > most_bytes:
                raise SourceError(
                    f"{path} inflates to more than {most_bytes:,} bytes, the limit that option max_memory sets for a file"
                    " of its size",
                    hint=_HINT,
                )
            _write(path, whole, piece)
    except FormatError as error:
        raise SourceError(f"cannot read {path}: {error.message}") from None


def _write(path: str, whole: BinaryIO, piece: bytes) -> None:
    try:
        whole.write(piece)
        whole.flush()  # a full disk is an error here
    except OSError as error:
        raise SourceError(
            f"cannot inflate {path} into a file in {tempfile.gettempdir()}: {error.strerror or error}",
            hint="set TMPDIR to a directory with more free space, or decompress the dump first",
        ) from None
