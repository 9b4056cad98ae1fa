"""Texts that many rows share: stored once, and copied to the rows by their numbers."""

from __future__ import annotations

import pyarrow as pa

from binlake.core.columns.text_columns import spread

_FEW_BYTES = 1 << 16
_PADDING = bytes(64)  # after few texts, so that the kernel may copy beyond the end of each


def spread_texts(texts: pa.Array, index: pa.Array) -> pa.Array:
    """Return text `index[i]` for each row i, null where the index is null: a faster
    `texts.take(index)`.

    `texts` are strings, `index` integers of 8, 32 or 64 bits. Raises pyarrow.ArrowIndexError for a
    number that no text has, UnsupportedError for more than 2 GiB.
    """
    if texts.null_count or texts.offset or index.offset or not len(texts) or not len(index):
        return texts.take(index)
    _, ends, data = texts.buffers()
    stored = memoryview(b"" if data is None else data).cast("B")
    if len(stored) < _FEW_BYTES:
        stored = memoryview(bytes(stored) + _PADDING)
    validity, numbers = index.buffers()
    count = len(index)
    used = memoryview(numbers).cast("B")[: count * index.type.bit_width // 8]
    starts = memoryview(ends).cast("B")[: 4 * (len(texts) + 1)]
    try:
        offsets, values = spread(stored, starts, used, count)
    except IndexError:  # a null may have any number
        return texts.take(index)
    return pa.Array.from_buffers(
        pa.string(),
        count,
        [validity if index.null_count else None, pa.py_buffer(offsets), pa.py_buffer(values)],
        index.null_count,
    )
