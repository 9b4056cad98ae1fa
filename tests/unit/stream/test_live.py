"""Transactions of blocks as a server sends them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest

from binlake.source.replica.follower import Block, Follower
from binlake.stream.live import LiveReader
from binlake.stream.runs import Outcome, Transaction
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.stream_log import StreamLog, rows_in


class Blocks:
    """A follower that delivers each event of a log as a block."""

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self.format_description = bytes(log.data[4 : log.offsets[1]])

    def __iter__(self) -> Iterator[Block]:
        data = bytes(self._log.data)
        for start, end in pairwise([*self._log.offsets[1:], len(data)]):
            yield Block("binlog.000001", start, data[start:end], 0.0, "")


def test_a_prepared_transaction_does_not_let_the_temporary_file_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each moment a transaction is prepared, so there is always a block that has to wait."""
    log = StreamLog().xa_prepared(1, b"1")
    for number in range(2, 50):
        log.plain(100 + number).xa_prepared(number, b"%d" % number)
        log.xa_decided(200 + number, b"%d" % (number - 1))
    files = []
    make: Any = tempfile.TemporaryFile

    def made(**options: Any) -> Any:
        files.append(make(**options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", made)
    ledger = Ledger()
    live = LiveReader(cast(Follower, Blocks(log)), ReadOptions(), ledger, lambda: None, most_held=0)
    sizes, shown = [], 0
    for run in live.runs():
        sizes += [os.fstat(file.fileno()).st_size for file in files if not file.closed]
        assert isinstance(run, Transaction)  # each is in several blocks
        assert rows_in(run) == 1
        shown += 1
    assert ledger.transactions[Outcome.COMMITTED] == shown == 2 * 48
    assert 0 < max(sizes) < len(log.data) // 10


class WithEmptyBlocks(Blocks):
    """A follower that delivers a block without bytes before each event."""

    def __iter__(self) -> Iterator[Block]:
        for block in super().__iter__():
            yield Block(block.file, block.start, b"", 0.0, "")
            yield block


def test_blocks_without_bytes_take_no_place_in_the_temporary_file() -> None:
    log = StreamLog().xa_prepared(1, b"1").plain(100).xa_decided(200, b"1")
    ledger = Ledger()
    follower = cast(Follower, WithEmptyBlocks(log))
    live = LiveReader(follower, ReadOptions(), ledger, lambda: None, most_held=0)
    assert [rows_in(run) for run in live.runs() if isinstance(run, Transaction)] == [1, 1]
