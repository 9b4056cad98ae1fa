"""Write the changes of `rows` and `tail`: JSON lines, or the generic view as a table."""

from __future__ import annotations

import errno
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from binlake.cli.common.lines import text_output
from binlake.cli.common.output_file import output_file
from binlake.cli.common.parameters import Option
from binlake.core.text.text_output import TextBuffer
from binlake.errors import OptionError
from binlake.table.batches import Changes
from binlake.table.row_json import change_batch, change_schema, json_lines
from binlake.values.closing import Closing
from binlake.values.options import ReadOptions

#: The formats of `rows`.
FORMATS = ("json", "csv", "csv-guarded", "arrow", "parquet")
# characters that make a spreadsheet take the cell for a formula
_FORMULA = r"\A([=+\-@\t\r])"
_BINARY_FORMATS = ("arrow", "parquet")


def format_option(formats: Sequence[str], *, show_default: bool | str = True) -> Option:
    """Return the option --format of a command with these formats."""
    text = f"Format of the output ({'|'.join(formats)})."
    names = ("--format", "-f")
    return Option(*names, metavar="FORMAT", help=text, show_default=show_default, one_of=formats)


class TableWriter(Protocol):
    """Writes a table batch by batch."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class Shaped(NamedTuple):
    """Changes, and their output; None if that is made during writing."""

    changes: Changes
    made: TextBuffer | pa.RecordBatch | None


class ChangeWriter(Closing):
    """Writes changes to `target`, at most `limit` rows of them; closing it ends the output."""

    def __init__(
        self, form: str, options: ReadOptions, target: BinaryIO, limit: int | None
    ) -> None:
        self._options = options
        self._target = target
        self._left = limit
        self._table: TableWriter | None = None
        if form != "json":
            self._table = table_writer(form, target, change_schema(options))

    def shape(self, changes: Changes) -> Shaped:
        """Return the output of changes. May be called by several threads."""
        if self._table is not None:
            return Shaped(changes, change_batch(changes, self._options))
        # the place of a limit is known only during writing
        lines = json_lines(changes, self._options) if self._left is None else None
        return Shaped(changes, lines)

    def write(self, shaped: Shaped) -> bool:
        """Write the result of `shape`; return whether more is wanted."""
        changes, made = shaped
        if self._table is not None:
            assert isinstance(made, pa.RecordBatch)
            batch = made.slice(0, self._left)
            self._table.write_batch(batch)
            return self._counted(batch.num_rows)
        lines = json_lines(changes, self._options, self._left) if made is None else made
        self._target.write(lines)
        return self._counted(changes.count)

    def flush(self) -> None:
        """Flush the output. Raises BrokenPipeError if the reader has closed the output."""
        self._target.flush()
        if _is_abandoned(self._target):
            raise BrokenPipeError(errno.EPIPE, "the reader has closed the output")

    def close(self) -> None:
        """Write the end of a table; the target stays open."""
        if self._table is not None:
            self._table.close()
            self._table = None

    def _counted(self, rows: int) -> bool:
        if self._left is not None:
            self._left -= rows
        return self._left is None or self._left > 0


def _is_abandoned(target: BinaryIO) -> bool:
    """Whether it is a pipe without a reader (`| head`): a process that only waits does not notice
    otherwise.
    """
    try:
        descriptor = target.fileno()
    except OSError:
        return False  # not a file of the system
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are always reported
    return any(events & select.POLLERR for _, events in poll.poll(0))


@contextmanager
def open_target(
    output: Path | None,
    form: str,
    opened: Callable[[Path, str], AbstractContextManager[BinaryIO]] = output_file,
) -> Iterator[BinaryIO]:
    """Open the output: standard output, or a file as `opened` makes it. Raises OptionError."""
    if output is None:
        if form in _BINARY_FORMATS and sys.stdout.isatty():
            raise OptionError(
                f"--format {form} is binary",
                name="format",
                value=form,
                hint="write to a file with --output",
            )
        if form != "json":
            with text_output() as file:
                yield file
            return
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with opened(output, "output") as file:
        yield file


def _csv_writer(sink: pa.NativeFile, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    import pyarrow.csv

    return pyarrow.csv.CSVWriter(sink, schema)


class _GuardedCsv:
    """CSV for spreadsheets: a text that would be a formula has an apostrophe in front."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        self._writer = _csv_writer(sink, schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [
            pc.replace_substring_regex(column, _FORMULA, r"'\1")
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            else column
            for column in batch.columns
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))

    def close(self) -> None:
        self._writer.close()


def _parquet_writer(sink: pa.NativeFile, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")


_WRITERS: dict[str, Callable[[pa.NativeFile, pa.Schema], TableWriter]] = {
    "csv": _csv_writer,
    "csv-guarded": _GuardedCsv,
    "arrow": pa.ipc.new_stream,
    "parquet": _parquet_writer,
}


def table_writer(form: str, target: BinaryIO, schema: pa.Schema) -> TableWriter:
    """Return a writer of batches in one of `FORMATS`, except json."""
    return _WRITERS[form](pa.PythonFile(target, mode="w"), schema)
