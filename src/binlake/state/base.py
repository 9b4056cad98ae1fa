"""The rows that a state is computed from: those of a dump, a Parquet file or a live server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self

import pyarrow as pa

from binlake.errors import SourceError
from binlake.state.origin import Origin
from binlake.state.shape import TableShape

__all__ = ["Base", "MissingTableError"]


class MissingTableError(SourceError):
    """A file does not have the rows of a table; `origin` is its place in the log."""

    def __init__(self, message: str, origin: Origin, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.origin = origin


class Base(ABC):
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
