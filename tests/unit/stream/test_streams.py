"""Pipes and compressed files: what is needed again is kept until it is."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from binlake.stream.runs import Transaction
from support.logs.log_builder import query_body
from support.logs.stream_log import (
    SID,
    StreamLog,
    frames_of,
    inner_event,
    rows_in,
    transactions,
    transactions_in,
)


@contextmanager
def pipe(folder: Path, data: bytes) -> Iterator[Path]:
    """A named pipe from which `data` can be read once."""
    path = folder / "pipe.000001"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    try:
        yield path
    finally:
        writer.join()


def demanding() -> StreamLog:
    """Needs its beginning again at its end: XA over many events, a payload, a long transaction."""
    log = StreamLog().xa_prepared(1, b"x")
    for gno in range(2, 40):
        log.plain(gno)
    log.gtid(40).query(b"BEGIN")
    for _ in range(30):
        log.rows(100)
    log.xid()
    log.gtid(41).payload(inner_event(2, query_body(b"BEGIN")) + inner_event(16, bytes(8)))
    return log.xa_decided(42, b"x")


@pytest.fixture(params=["of chains", "in memory", "read again"])
def read(request: pytest.FixtureRequest) -> Callable[[Path], Iterator[Transaction]]:
    """The transactions of a file, as all readers read them, and with limits on what an open one holds in memory."""
    held_bytes = {"in memory": 64 << 20, "read again": 100}.get(request.param)
    return transactions if held_bytes is None else partial(transactions_in, held_bytes=held_bytes)


def test_a_pipe_reads_like_a_file(
    tmp_path: Path, read: Callable[[Path], Iterator[Transaction]]
) -> None:
    log = demanding()
    whole = [(t.gtid, frames_of(t)) for t in read(log.write(tmp_path))]
    assert whole[-1][0] == f"{SID}:42"
    with pipe(tmp_path, log.bytes()) as path:
        assert [(t.gtid, frames_of(t)) for t in read(path)] == whole


def test_so_does_a_compressed_file(
    tmp_path: Path, read: Callable[[Path], Iterator[Transaction]]
) -> None:
    log = demanding()
    whole = [(t.gtid, rows_in(t)) for t in read(log.write(tmp_path))]
    path = tmp_path / "binlog.000009.gz"
    path.write_bytes(gzip.compress(log.bytes()))
    assert [(t.gtid, rows_in(t)) for t in read(path)] == whole
