"""An estimate of the memory for rows of a lake table, made from its data files before rows are read.

The metadata of the lake contain the sizes of the compressed files. The largest files show how many more bytes their rows have in
memory. Their footers contain the number of rows, for numbers and dates, and the uncompressed size of texts. A text in a dictionary
is in the file once, so some rows of such columns are read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from binlake.mirror.tables.data_files import parquet_file

_MOST_FILES = 4
_SAMPLE_ROWS = 4096
_OFFSET_BYTES = 4


class FileSize(NamedTuple):
    """A data file, its rows, and its bytes."""

    path: str
    rows: int
    bytes: int


@dataclass
class RowSizes:
    """The estimate for one table. A file does not change, so the size of its rows is found once."""

    _known: dict[str, int] = field(default_factory=dict)

    def average(self, files: Iterable[FileSize]) -> int:
        """How many bytes a row has in memory, at least 1. Raises as `parquet_file`."""
        sizes = list(files)
        largest = heapq.nlargest(_MOST_FILES, sizes, key=lambda file: file.bytes)
        known = self._known
        self._known = {
            one.path: known.get(one.path) or bytes_in_memory(one.path) for one in largest
        }
        rows = sum(file.rows for file in sizes)
        if not rows:
            return 1
        stored = sum(file.bytes for file in largest)
        ratio = sum(self._known.values()) / max(1, stored)
        return max(1, int(sum(file.bytes for file in sizes) * ratio / rows))


def bytes_in_memory(path: str) -> int:
    """About how many bytes the rows of a Parquet file have as Arrow columns. Raises as `parquet_file`."""
    with parquet_file(path) as file:
        rows, total = file.metadata.num_rows, 0
        in_dictionaries: list[str] = []
        for one, leaves in _leaves(file.schema_arrow):
            if (width := _bit_width(one.type)) is not None:
                total += rows * width // 8
                continue
            chunks = [
                file.metadata.row_group(group).column(leaf)
                for group in range(file.metadata.num_row_groups)
                for leaf in leaves
            ]
            total += sum(chunk.total_uncompressed_size for chunk in chunks) + rows * _OFFSET_BYTES
            if any(chunk.has_dictionary_page for chunk in chunks):
                in_dictionaries.append(one.name)
        return total + _sampled(file, in_dictionaries)


def _sampled(file: pq.ParquetFile, names: Sequence[str]) -> int:
    """How many bytes columns have in memory, by their first rows: a dictionary has a value once."""
    if not names or not file.metadata.num_rows:
        return 0
    first = next(file.iter_batches(_SAMPLE_ROWS, columns=list(names), use_threads=False))
    return int(first.nbytes * file.metadata.num_rows // max(1, first.num_rows))


def _bit_width(kind: pa.DataType) -> int | None:
    try:
        return int(kind.bit_width)
    except ValueError:  # text, lists and structs have none
        return None


def _leaves(schema: pa.Schema) -> Iterator[tuple[pa.Field, range]]:
    """The columns, and the numbers of the Parquet columns of each."""
    first = 0
    for one in schema:
        count = _leaf_count(one.type)
        yield one, range(first, first + count)
        first += count


def _leaf_count(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_leaf_count(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _leaf_count(kind.value_type)
    if pa.types.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    return 1
