"""Files of sorted keys, which tasks write and the driver reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from binlake.mirror.apply.task_files import opened, task_output
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.tables.data_files import reading
from binlake.mirror.tables.keys import Keys, SortedKeys
from binlake.source.bytes import writing


def write_keys(pieces: Iterable[SortedKeys], directory: str) -> str:
    """Write keys of one table into a new file in the directory of a `TaskFiles`; return its path. Raises SourceError.

    There is at least one piece. `read_keys` returns the same pieces, also those without a key.
    """
    batches = map(_batch, pieces)
    first = next(batches)
    path, output = task_output(directory)
    with writing(path), output, pa.ipc.new_file(output, first.schema) as out:
        out.write_batch(first)
        for batch in batches:
            out.write_batch(batch)
    return path


def read_keys(path: str) -> Iterator[SortedKeys]:
    """The pieces in a file of `write_keys`, one after the other. A local file is mapped into memory. Raises SourceError."""
    with reading(path), opened(path) as source, pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield _sorted_keys(reader.get_batch(number))


def _batch(piece: SortedKeys) -> pa.RecordBatch:
    keys = piece.keys
    low = pa.nulls(len(keys), pa.uint64()) if keys.low is None else from_numpy(keys.low)
    return pa.RecordBatch.from_pydict(
        {"high": from_numpy(keys.high), "low": low, "position": from_numpy(piece.positions)}
    )


def _sorted_keys(batch: pa.RecordBatch) -> SortedKeys:
    high, low, positions = (batch.column(name) for name in ("high", "low", "position"))
    is_whole = pa.types.is_signed_integer(high.type)
    keys = Keys(to_numpy(high), None if is_whole else to_numpy(low))
    return SortedKeys(keys, to_numpy(positions))
