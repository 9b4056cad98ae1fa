"""The rows that a state is computed from: the rows of a dump, a Parquet file or a live server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa

from binlake.errors import OptionError, SourceError
from binlake.state.origin import Origin
from binlake.state.shape import TableShape
from binlake.table.checks.ambiguous_name import ambiguous_name
from binlake.values.closing import Closing


class MissingTableError(SourceError):
    """The rows of a table are not in a file or on a server: `base` names it, and `origin` is its place in the log."""

    def __init__(self, message: str, base: str, origin: Origin, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.base = base
        self.origin = origin


def ambiguous_in(where: str, tables: Sequence[tuple[str, str]]) -> OptionError:
    """Return the error for a name that means several tables of a dump, a server or a log."""
    return ambiguous_name(f"{where} has", tables, "take the rows from a dump of one of them")


class Base(Closing):
    """Rows of one table, and the place in the log that they belong to; to be closed.

    `name` names them in messages. `create_table` is the statement that declares the table.
    """

    name: str
    shape: TableShape
    origin: Origin
    create_table: str

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the schema of the shape. Raises BinlogError."""

    @abstractmethod
    def close(self) -> None:
        """Close the file, or end the session."""
