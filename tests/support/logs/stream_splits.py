"""Reading logs split by split, as tasks do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import Split
from binlake.stream.runs import Transaction
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.stream_log import rows_in


def read_splits(
    splits: Iterable[Split], options: ReadOptions, ledger: Ledger
) -> Iterator[tuple[Transaction, int]]:
    """The transactions of the splits, with the number of their rows events."""
    for split in splits:
        for transaction in LogReader.of_split(split, options, ledger).transactions():
            yield transaction, rows_in(transaction)


def facts(reader: LogReader) -> list[tuple[Any, ...]]:
    """Everything about every transaction of a reader, comparable."""
    found = []
    for t in reader.transactions():
        frames = tuple(
            (piece.window.frame(i).offset, None if piece.outer is None else piece.outer.offset)
            for piece in t.pieces()
            for i in range(piece.first, piece.last)
        )
        key = (t.start[::2], t.end[::2], t.decided[::2], t.outcome, t.gtid, t.commit_us)
        found.append((*key, t.thread_id, t.server_id, t.bytes, frames))
    return found


def cut(split: Split, at: int) -> tuple[Split, Split]:
    """A whole file's split as two."""
    return replace(split, end=at), replace(split, start=at)
