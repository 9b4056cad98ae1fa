"""The rows of a table on the server, as the lake should have them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from binlake.errors import FormatError
from binlake.mirror.columns.lake_columns import LakeColumns
from binlake.mirror.equality.pauses import with_pauses
from binlake.mirror.equality.sums import NO_PART, PartSum, TableParts
from binlake.snapshot.table_rows import RowSelect
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.prepared import BatchLimits

_LIMITS = BatchLimits()


@dataclass(slots=True)
class SourceRows:
    """The server's rows. `pause` is called every few seconds while the server computes or sends them, and may raise errors.

    `_condition`: the rows that are read, as SQL, where binlake itself finds the part of each row; None: the server finds it.
    """

    server: ServerConnection
    parts: TableParts
    columns: LakeColumns
    pause: Callable[[], None]
    _condition: str | None = None

    def __post_init__(self) -> None:
        if self.columns.hashed:
            self._condition = (
                ""  # the server does not know the key of the hash, nor the part of a row
            )

    @property
    def is_placed_here(self) -> bool:
        """Whether binlake finds the part of each row, so that it is the same part as in the lake."""
        return self._condition is not None

    def sums(self) -> dict[int, PartSum]:
        """The checksums of all parts that are compared."""
        if self._condition is not None:
            return self.parts.of_rows(self._read(self._condition))
        # one statement, which may take hours
        return with_pauses(lambda: self.parts.of_server(self.server), self.server, self.pause)

    def place_here(self, parts: TableParts, condition: str) -> dict[int, PartSum]:
        """From now on, let binlake find the part of each row that meets a condition (SQL; "": of all rows). Return the checksums."""
        self.parts, self._condition = parts, condition
        return parts.of_rows(self._read(condition))

    def of_parts(self, numbers: Sequence[int]) -> Iterator[pa.Table]:
        """Read the rows of some parts; more rows where binlake finds their parts."""
        return self._read(
            self.parts.condition(numbers) if self._condition is None else self._condition
        )

    def wanted(self, numbers: Sequence[int]) -> Container[int]:
        """Return the parts whose rows count. If the server has chosen the rows, all count."""
        return frozenset(numbers) if self.is_placed_here else range(NO_PART, self.parts.count)

    def _read(self, condition: str) -> Iterator[pa.Table]:
        wanted = pa.schema([pa.field(f.name, f.type) for f in self.parts.fields])
        for batch in self._batches(condition):
            self.pause()
            try:
                rows = self.columns.rows(batch).select(wanted.names).cast(wanted)
            except (
                pa.ArrowInvalid
            ) as error:  # of the lake's files, it would mean that one is damaged
                raise FormatError(
                    f"{self.parts.table.full_name}: a value of the server does not fit its column in the lake: {error}"
                ) from None
            yield rows

    def _batches(self, condition: str) -> Iterator[pa.RecordBatch]:
        """The server's own values. It may look for hours until it has found the rows of a batch."""
        select = RowSelect(self.parts.table, _LIMITS)
        batches = iter(select.batches_to_the_end(self.server, condition))
        while True:
            batch = with_pauses(lambda: next(batches, None), self.server, self.pause)
            if batch is None:
                return
            yield batch
