"""The rows that a state is computed from: those of a dump, a Parquet file or a live server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from binlake.state.origin import Origin
from binlake.state.shape import TableShape

__all__ = ["Base"]


class Base(Protocol):
    """Rows of one table, and the place in the log that they belong to.

    `name` names them in messages. `create_table` is the statement that declares the table.
    """

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> TableShape: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def create_table(self) -> str: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the schema of the shape. Raises BinlogError."""
        ...
