"""Keys of rows as numbers that an index can sort: one integer column as it is, else 128 bits of a hash.

Two rows have one key if the server's images of their key columns are equal, byte for byte, except in the few character sets
in which a character has two codes (`followed/key_charsets.py`).
Collations do not matter: a server that changes the spelling of a key logs the old key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.columns.value_digests import value_digests
from binlake.errors import SchemaError
from binlake.mirror.columns.numpy_arrays import to_numpy
from binlake.source.arrays import array, scalar

Numbers = npt.NDArray[np.generic]

#: A place of a row: the lower bits are its position in a data file, the upper ones the number of the file.
POSITION_BITS = np.uint64(32)

# of columns that are joined at the same time: Arrow's limit is 2 GiB, and the lengths are added
_JOINED_BYTES = 64 << 20

_EMPTY, _COLON, _OF_NULL = map(scalar, ("", ":", "-"))
_NO_BYTES = scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True)
class Keys:
    """A key per row: `high` alone (int64), or `high` and `low` (uint64 each) of a hash."""

    high: Numbers
    low: Numbers | None

    def __len__(self) -> int:
        return len(self.high)

    def take(self, rows: Numbers) -> Keys:
        """The keys of these rows."""
        return Keys(self.high[rows], None if self.low is None else self.low[rows])

    def part(self, first: int, end: int) -> Keys:
        """The keys of the rows from `first` to before `end`, without a copy."""
        return Keys(self.high[first:end], None if self.low is None else self.low[first:end])

    @classmethod
    def joined(cls, parts: Sequence[Keys]) -> Keys:
        """The keys of several parts of rows of one table."""
        lows = [keys.low for keys in parts if keys.low is not None]
        high = np.concatenate([keys.high for keys in parts])
        return cls(high, np.concatenate(lows) if lows else None)

    def ids(self) -> npt.NDArray[np.int64]:
        """A number per row, from 0 on, equal where keys are equal, in the order of `high`."""
        if self.low is None:
            return np.unique(self.high, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(self.high)  # half a hash distinguishes nearly all keys
        high, low = self.high[order], self.low[order]
        others = low[1:] != low[:-1]
        if (others & (high[1:] == high[:-1])).any():
            order = np.lexsort((self.low, self.high))
            high, low = self.high[order], self.low[order]
            others = low[1:] != low[:-1]
        begins = others | (high[1:] != high[:-1])
        found = np.empty(len(self), np.int64)
        found[order] = np.concatenate([[0][: len(self)], np.cumsum(begins)])
        return found


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """The keys of a data file in their order, and the position of each.

    Of several data files, `positions` also has the number of the file, from 0, above `POSITION_BITS`.
    """

    keys: Keys
    positions: npt.NDArray[np.uint64]


def by_file(places: npt.NDArray[np.uint64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each number of a data file in places of rows, and which of the places are in this file, in their order."""
    if not len(places):
        return
    numbers = (places >> POSITION_BITS).astype(np.int64)
    least = int(numbers.min())
    # NumPy sorts numbers of 16 bits in linear time
    kind = np.uint16 if int(numbers.max()) - least < 1 << 16 else np.int64
    order = np.argsort((numbers - least).astype(kind), kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order])) + 1
    for of in np.split(order, begins):
        yield int(numbers[of[0]]), of


def sorted_keys(keys: Keys, positions: npt.NDArray[np.integer[Any]] | None = None) -> SortedKeys:
    """The keys of rows of a data file, and where in the file each is; of all of its rows without `positions`."""
    order = np.argsort(keys.high, kind="stable")
    where = order if positions is None else positions[order]
    return SortedKeys(keys.take(order), where.astype(np.uint64))


def sorted_files(files: Sequence[SortedKeys]) -> SortedKeys:
    """The keys of data files, at least one, as those of several data files."""
    if len(files) == 1:
        return files[0]
    places = [of.positions | np.uint64(n) << POSITION_BITS for n, of in enumerate(files)]
    return sorted_keys(Keys.joined([of.keys for of in files]), np.concatenate(places))


def sorted_parts(parts: Sequence[tuple[Keys, npt.NDArray[np.integer[Any]]]]) -> SortedKeys | None:
    """The keys of parts of the rows of data files, and where each is; None if there are no parts."""
    if not parts:
        return None
    keys = Keys.joined([keys for keys, _ in parts])
    return sorted_keys(keys, np.concatenate([positions for _, positions in parts]))


def is_whole(kinds: list[pa.DataType]) -> bool:
    """Whether a key of columns of these types is kept as it is, and not as a hash."""
    return len(kinds) == 1 and pa.types.is_integer(kinds[0]) and kinds[0] != pa.uint64()


def check_keys(columns: Sequence[pa.ChunkedArray], names: Sequence[str]) -> None:
    """Raise SchemaError for a NULL in key columns: the server has a value there."""
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            raise SchemaError(
                f"key column {name} has a value that its type in the lake cannot represent",
                hint="zero dates in a key need --zero-date text: start the mirror with it, then run `binlake mirror resync`",
            )


def keys_of(columns: list[pa.ChunkedArray], names: list[str]) -> Keys:
    """The keys of rows, of their key columns. Raises SchemaError for a NULL."""
    check_keys(columns, names)
    if is_whole([column.type for column in columns]):
        return Keys(to_numpy(columns[0].cast(pa.int64())), None)
    return _hashed(columns)


def keys_of_rows(rows: pa.Table, schema: pa.Schema, key: Sequence[str]) -> Keys:
    """The keys of rows of a table with this schema; without key columns, of whole rows. Raises SchemaError."""
    if not key:
        return row_hashes(rows.select(schema.names))
    return keys_of([rows.column(name) for name in key], list(key))


def row_hashes(rows: pa.Table) -> Keys:
    """A hash of each whole row, including NULLs, which replaces the key of a table without one."""
    return _hashed([rows.column(i) for i in range(rows.num_columns)])


def _hashed(columns: list[pa.ChunkedArray]) -> Keys:
    rows = len(columns[0])
    nbytes = sum(column.nbytes for column in columns)
    if len(columns) > 1 and rows > 1 and nbytes > _JOINED_BYTES:
        half = rows // 2
        first, second = [c.slice(0, half) for c in columns], [c.slice(half) for c in columns]
        return Keys.joined([_hashed(first), _hashed(second)])
    parts: list[pa.ChunkedArray] = []
    for column in columns:
        data = value_bytes(column)
        if len(columns) > 1:  # a length before each, so that no two rows look the same
            length = pc.cast(pc.binary_length(data), pa.string())
            framed = pc.binary_join_element_wise(length, _COLON, _EMPTY)
            mark = pc.if_else(pc.is_null(data), _OF_NULL, framed)
            parts.append(mark.cast(pa.binary()))
            data = pc.fill_null(data, _NO_BYTES)
        parts.append(data)
    whole = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NO_BYTES)
    pairs = np.concatenate([np.empty((0, 2), "<u8"), *map(_digests, whole.chunks)])
    return Keys(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))


def _digests(values: pa.BinaryArray) -> Numbers:
    """Two numbers of the hash of each value; zeros for NULL, which no value has."""
    _, offsets, data = values.buffers()
    if not len(values):
        return np.empty((0, 2), "<u8")
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
    bytes_of_all = b"" if data is None else np.frombuffer(data, np.uint8)
    pairs = np.frombuffer(value_digests(ends, bytes_of_all), "<u8").reshape(-1, 2)
    if values.null_count:
        pairs[to_numpy(values.is_null())] = 0
    return pairs


def value_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each value as bytes that no other value of the type has."""
    kind = column.type
    if pa.types.is_nested(kind):
        texts = [None if v is None else json.dumps(v, default=_plain) for v in column.to_pylist()]
        return pa.chunked_array([array(texts, pa.string())]).cast(pa.binary())
    if pa.types.is_floating(kind):  # the bits: as bytes, -0.0 and 0.0 differ
        width = kind.bit_width // 8
        values = column.cast(pa.float64() if width == 2 else kind).combine_chunks()
        bits = values.view(pa.int32() if width == 4 else pa.int64())
        return pa.chunked_array([bits.cast(pa.string()).cast(pa.binary())])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).cast(pa.string()).cast(pa.binary())
    return column.cast(pa.string()).cast(pa.binary())


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
