"""Where `rows` and `tail` write changes: JSON lines, or the generic view as a table."""

from __future__ import annotations

import errno
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa

from binlake.cli.output_file import output_file
from binlake.errors import OptionError
from binlake.table.batches import Changes
from binlake.table.row_json import change_batch, change_schema, json_lines
from binlake.values.options import ReadOptions

__all__ = ["FORMATS", "ChangeWriter", "check_format", "open_target"]

#: What `rows` can write.
FORMATS = ("json", "csv", "arrow", "parquet")
_BINARY_FORMATS = ("arrow", "parquet")


def check_format(form: str, formats: tuple[str, ...]) -> None:
    """Raises OptionError for a format that is not among `formats`."""
    if form not in formats:
        raise OptionError(
            f"--format {form}: not one of {', '.join(formats)}", name="format", value=form
        )


class ChangeWriter:
    """Writes changes to `target`, at most `limit` rows of them; closing it ends the output."""

    def __init__(
        self, form: str, options: ReadOptions, target: BinaryIO, limit: int | None
    ) -> None:
        self._options = options
        self._target = target
        self._left = limit
        self._table: pa.ipc.RecordBatchStreamWriter | None = None
        if form != "json":
            sink = pa.PythonFile(target, mode="w")
            self._table = _WRITERS[form](sink, change_schema(options))

    def write(self, changes: Changes) -> bool:
        """Write changes; whether more are wanted."""
        if self._table is not None:
            batch = change_batch(changes, self._options).slice(0, self._left)
            self._table.write_batch(batch)
            return self._counted(batch.num_rows)
        text = json_lines(changes, self._options).to_pybytes()
        if self._left is None:
            self._target.write(text)
            return True
        lines = text.splitlines(keepends=True)[: self._left]
        self._target.writelines(lines)
        return self._counted(len(lines))

    def flush(self) -> None:
        """Hand on what has been written. Raises BrokenPipeError when nobody reads any more."""
        self._target.flush()
        if _is_abandoned(self._target):
            raise BrokenPipeError(errno.EPIPE, "nobody reads what is written")

    def close(self) -> None:
        """Write the end of a table; the target stays open."""
        if self._table is not None:
            self._table.close()
            self._table = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _counted(self, rows: int) -> bool:
        if self._left is not None:
            self._left -= rows
        return self._left is None or self._left > 0


def _is_abandoned(target: BinaryIO) -> bool:
    """Whether it is a pipe that nobody reads (`| head`): who only waits is not told by a write."""
    try:
        descriptor = target.fileno()
    except OSError:
        return False  # no file of the system
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are always told
    return any(events & select.POLLERR for _, events in poll.poll(0))


@contextmanager
def open_target(
    output: Path | None,
    form: str,
    opened: Callable[[Path, str], AbstractContextManager[BinaryIO]] = output_file,
) -> Iterator[BinaryIO]:
    """The open output: standard output, or a file as `opened` makes it. Raises OptionError."""
    if output is None:
        if form in _BINARY_FORMATS and sys.stdout.isatty():
            raise OptionError(
                f"--format {form} is binary",
                name="format",
                value=form,
                hint="name a file with --output",
            )
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with opened(output, "output") as file:
        yield file


def _csv_writer(sink: pa.NativeFile, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    import pyarrow.csv

    return pyarrow.csv.CSVWriter(sink, schema)


def _parquet_writer(sink: pa.NativeFile, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")


_WRITERS: dict[str, Callable[[pa.NativeFile, pa.Schema], pa.ipc.RecordBatchStreamWriter]] = {
    "csv": _csv_writer,
    "arrow": pa.ipc.new_stream,
    "parquet": _parquet_writer,
}
