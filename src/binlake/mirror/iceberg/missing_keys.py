"""The keys that a row index lacks, and how they get into it from the data files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from binlake.mirror.iceberg.live_rows import Lookup
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables.keys import SortedKeys

# the keys of small files become one run of about so many rows
_RUN_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class MissingKeys:
    """Data files of a table whose keys its index lacks. `files`: the number of rows of each, by path."""

    table: str
    files: Mapping[str, int]
    lookup: Lookup
    schema: pa.Schema

    @property
    def rows(self) -> int:
        """The number of rows of all these files."""
        return sum(self.files.values())

    def add_to(self, index: RowIndex, paths: Iterable[str]) -> None:
        """Read some of the files, one after the other, and add their keys. Raises `DAMAGED`, SourceError, SchemaError."""
        held: dict[str, SortedKeys] = {}
        rows = 0
        for path in paths:
            keys = self.lookup.keys_of_file(path, self.schema)
            if keys is None:
                index.add_files({path: 0}, ())
                continue
            held[path] = keys
            rows += len(keys.positions)
            if rows >= _RUN_ROWS:
                index.add_together(held)
                held, rows = {}, 0
        index.add_together(held)


class KeyReader:
    """Reads the keys in the thread of the caller."""

    def add(self, index: RowIndex, missing: MissingKeys) -> None:
        """Add all keys of these files to the index. Raises `DAMAGED`, SourceError, SchemaError."""
        missing.add_to(index, missing.files)
