"""The index beside a log: where its transactions are, when they committed, what they changed.

    binlog.000012
    binlog.000012.index.parquet      of binlog.000012.zst too

The file has one row per committed transaction of one log (`COLUMNS`). Its metadata describe the
log at the time of indexing: its length, and digests of its first and last bytes. binlake ignores
an index that does not fit its log, and reports that.

An index saves reading; it never changes a result. It shows which bytes can be skipped: those of
*plain* transactions that no filter wants (`passages.py`). All other bytes are read: the wanted transactions, and
everything that a reader has to see in any case (DDL, statements, XA, rolled back or damaged
transactions), none of which is plain. So a missing row costs time but loses nothing.

It is written and read part by part, so the memory that it takes does not grow with the number of transactions, except
for the compressed file itself: 2 to 10 bytes for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from binlake.source.arrays import scalar
from binlake.stream.index.index_columns import (
    COLUMNS,
    COMMIT_TIMES,
    Stamp,
    check_claims,
    check_pages,
    commit_bounds,
    described,
    read_groups,
    stamp_of,
)
from binlake.stream.index.parquet_footer import Footer

# Of one row group, which is read at once: 40 MB in memory.
_GROUP_ROWS = 1 << 18
_DELTAS = ("pos", "end_pos", "bytes", "commit_us")


class LogIndex:
    """The index of the log with a stamp: the bytes of its file, whose parts are read when they are asked for.

    `rows` is the number of transactions.
    """

    def __init__(self, data: memoryview, footer: Footer, stamp: Stamp) -> None:
        self._data = data
        self._footer = footer
        self.stamp = stamp
        self.rows: int = footer.rows

    @classmethod
    def of_rows(cls, parts: Iterable[pa.Table], stamp: Stamp) -> LogIndex:
        """Make the index of tables with COLUMNS, in the order of `pos`."""
        sink = pa.BufferOutputStream()
        columns = [name for name in COLUMNS.names if name not in (*_DELTAS, "gtid")]
        with pq.ParquetWriter(
            sink,
            described(stamp),
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=columns,
            column_encoding=dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
        ) as writer:
            for group in _groups(parts):
                writer.write_table(group, row_group_size=_GROUP_ROWS)
        data = memoryview(sink.getvalue())
        return cls(data, _footer_of(data), stamp)

    @classmethod
    def of_file(cls, data: memoryview, stamp: Stamp | None) -> LogIndex | None:
        """Return the index in the bytes of its file; None if it is not the index of the log with this stamp.

        Raises ValueError if it is not an index of this version, and where it would take more memory than the log
        justifies: others may have made both.
        """
        footer = _footer_of(data)
        if stamp is None or stamp_of(footer) != stamp:
            return None
        check_claims(footer, stamp.bytes)
        check_pages(footer, data, stamp.bytes)
        return cls(data, footer, stamp)

    def to_bytes(self) -> bytes:
        """Return the Parquet file."""
        return bytes(self._data)

    def parts(self, names: Sequence[str] = COLUMNS.names) -> Iterator[pa.Table]:
        """Return some of COLUMNS, in the order of `pos`, a part of the rows at a time.

        Raises ValueError where the file is damaged.
        """
        return read_groups(self._footer, self._data, self.stamp.bytes, names)

    def check(self) -> int:
        """Read everything; return the number of transactions. Raises ValueError."""
        return sum(part.num_rows for part in self.parts())

    def find(self, gtid: str) -> dict[str, Any] | None:
        """Return the row of a transaction by its GTID, or None. Raises ValueError."""
        for rows in self.parts():
            at = pc.index(rows["gtid"], scalar(gtid)).as_py()
            if at >= 0:
                row: dict[str, Any] = rows.slice(at, 1).to_pylist()[0]
                return row
        return None

    @staticmethod
    def committed_between(
        file: pa.NativeFile, stamp: Stamp, count: int, since_us: int | None, until_us: int | None
    ) -> int | None:
        """Return how many of the transactions in an index committed in [since_us, until_us); None if a time is not
        known, or if the index is not that of the log with a stamp and `count` transactions.

        It reads the column of times only where the least and the greatest time do not decide it, and never another
        one. Raises OSError, and ValueError as `of_file`.
        """
        footer = Footer(lambda start, end: bytes(file.read_at(end - start, start)), file.size())
        if stamp_of(footer) != stamp or footer.rows != count:
            return None
        check_claims(footer, stamp.bytes)
        bounds = commit_bounds(footer)
        if bounds is None:
            return None
        least, most = bounds
        if (since_us is None or since_us <= least) and (until_us is None or most < until_us):
            return count
        if (since_us is not None and most < since_us) or (
            until_us is not None and until_us <= least
        ):
            return 0
        data = memoryview(bytearray(footer.start))
        for chunk in footer.chunks(COMMIT_TIMES):
            # a ValueError if the file has become shorter
            data[chunk.start : chunk.end] = file.read_at(chunk.end - chunk.start, chunk.start)
        check_pages(footer, data, stamp.bytes, COMMIT_TIMES)
        found = 0
        for part in read_groups(footer, data, stamp.bytes, ["commit_us"]):
            times = part["commit_us"]
            inside = pc.greater_equal(times, scalar(least if since_us is None else since_us))
            if until_us is not None:
                inside = pc.and_(inside, pc.less(times, scalar(until_us)))
            found += pc.sum(inside).as_py() or 0
        return found


def _footer_of(data: memoryview) -> Footer:
    return Footer(lambda start, end: bytes(data[start:end]), len(data))


def _groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together, up to a row group."""
    held: list[pa.Table] = []
    count = 0
    for part in parts:
        while count + part.num_rows >= _GROUP_ROWS:
            room = _GROUP_ROWS - count
            yield pa.concat_tables([*held, part.slice(0, room)])
            held, count, part = [], 0, part.slice(room)
        if part.num_rows:
            held.append(part)
            count += part.num_rows
    if held:
        yield pa.concat_tables(held)
