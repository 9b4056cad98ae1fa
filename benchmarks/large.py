"""One large log, and a directory of 2,000 logs, beside a log of 1 GB: rates and memory of the commands.

make bench ARGS="--only large --runs 1 --large-gigabytes 20"

The large log consists of the transactions of the benchmark's first log, repeated. Each copy gets its own
positions, GTIDs, logical clock and checksums. The 2,000 logs are one log under 2,000 names, as large together as the
large one. Both are removed afterwards.
"""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.commands import BINLAKE
from benchmarks.goals import Goal

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench
    from benchmarks.measure import Measured

__all__ = ["LOGS", "copies", "large", "large_goals", "write_large"]

LOGS = 2000
_SMALL_BYTES = 10**9
_MAGIC_BYTES = 4
_HEADER = struct.Struct("<IBIIIH")  # timestamp, type, server id, length, next position, flags
_NEXT_POSITION = struct.Struct("<I")
_NEXT_POSITION_AT = 13
_CRC = struct.Struct("<I")
_TABLE_MAP, _GTID = 19, 33
# Of a GTID event, after flags and UUID; then, after a byte, when its transaction may be applied.
_GNO = struct.Struct("<Q")
_GNO_AT = 19 + 1 + 16
_CLOCK = struct.Struct("<QQ")
_CLOCK_AT = _GNO_AT + 8 + 1
ROOT = Path(__file__).resolve().parents[1]
_FREE_BYTES = 2 << 30  # that must stay on the disk


@dataclass(frozen=True, slots=True)
class _Repeated:
    """The beginning of a log, and its transactions with rows, from the first to the last."""

    start: bytes
    events: list[bytes]
    transactions: int

    @classmethod
    def of(cls, log: Path) -> _Repeated:
        data = log.read_bytes()
        places = list(_places(data))
        gtids = [at for at, kind in places if kind == _GTID]
        table_maps = [at for at, kind in places if kind == _TABLE_MAP]
        first = max(at for at in gtids if at < table_maps[0])
        ends = [at for at, kind in places if kind != _GTID and at > table_maps[-1]]
        last = next((at for at in gtids if at > table_maps[-1]), None)
        # behind the last transaction only the event that ends the log
        end = last if last is not None else ends[-1]
        bounds = [at for at, _ in places if first <= at < end] + [end]
        events = [data[a:b] for a, b in itertools.pairwise(bounds)]
        return cls(data[: gtids[0]], events, sum(first <= at < end for at in gtids))


def _places(data: bytes) -> Iterator[tuple[int, int]]:
    """The position and the type of each event."""
    at = _MAGIC_BYTES
    while at < len(data):
        _, kind, _, length, _, _ = _HEADER.unpack_from(data, at)
        yield at, kind
        at += length


def copies(source: Path) -> Iterator[bytes]:
    """The beginning of a log, and then its transactions again and again, without an end."""
    repeated = _Repeated.of(source)
    yield repeated.start
    end, turn = len(repeated.start), 0
    while True:
        out = bytearray()
        for event in repeated.events:
            new = bytearray(event)
            end += len(new)
            _NEXT_POSITION.pack_into(new, _NEXT_POSITION_AT, end & 0xFFFFFFFF)
            if new[4] == _GTID:
                _later(new, turn * repeated.transactions)
            _CRC.pack_into(new, len(new) - 4, zlib.crc32(memoryview(new)[:-4]))
            out += new
        yield bytes(out)
        turn += 1


def _later(gtid: bytearray, transactions: int) -> None:
    """Give a GTID event the number and the clock of a transaction that many later."""
    (number,) = _GNO.unpack_from(gtid, _GNO_AT)
    _GNO.pack_into(gtid, _GNO_AT, number + transactions)
    last, own = _CLOCK.unpack_from(gtid, _CLOCK_AT)
    _CLOCK.pack_into(gtid, _CLOCK_AT, last + transactions, own + transactions)


def write_large(source: Path, target: Path, size: int) -> None:
    """Write a log of about `size` bytes: it ends with a whole transaction."""
    with target.open("wb") as out:
        for piece in copies(source):
            left = size - out.tell()
            if left < len(piece):
                out.write(piece[: _end_of_transaction(piece, left)])
                return
            out.write(piece)


def _end_of_transaction(piece: bytes, size: int) -> int:
    """Where the first transaction begins that does so after `size` bytes."""
    at = 0
    while at < len(piece):
        _, kind, _, length, _, _ = _HEADER.unpack_from(piece, at)
        if kind == _GTID and at >= size:
            return at
        at += length
    return at


def large(bench: Bench, table: str, gigabytes: float, scratch: Path) -> None:
    """Time the commands on a log of 1 GB, on a large one, and on a directory of many."""
    size = int(gigabytes * 10**9)
    free = shutil.disk_usage(scratch).free
    if free < size + _SMALL_BYTES + _FREE_BYTES:
        raise SystemExit(
            f"{gigabytes:g} GB of logs do not fit on the disk ({free / 1e9:.0f} GB are free): "
            "use --large-gigabytes"
        )
    for name, wanted in (("1 GB", _SMALL_BYTES), ("one log", size)):
        log = scratch / "binlog.000001"
        _write(bench.log, log, wanted)
        _time(bench, table, name, log, log.stat().st_size)
        for beside in (log, *scratch.glob("*index*")):
            beside.unlink()
    _many(bench, table, size // LOGS, scratch)


def _many(bench: Bench, table: str, log_bytes: int, scratch: Path) -> None:
    """Costs of 2,000 logs, each about so large: one log under many names."""
    whole = scratch / "whole"
    _write(bench.log, whole, log_bytes)
    folder = scratch / "logs"
    folder.mkdir()
    for number in range(1, LOGS + 1):
        os.link(whole, folder / f"binlog.{number:06d}")
    # one log under many names: verify would report that no log continues the one before
    _time(bench, table, f"{LOGS:,} logs", folder, LOGS * whole.stat().st_size, but=("verify",))


def _write(source: Path, target: Path, size: int) -> None:
    # in a process of its own: Linux counts the memory of this one to each process that it starts
    words: list[str | Path] = [sys.executable, "-m", "benchmarks.large", source, target, str(size)]
    subprocess.run(words, cwd=ROOT, check=True)


def _time(
    bench: Bench, table: str, name: str, path: Path, size: int, but: Sequence[str] = ()
) -> None:
    for what, words in (
        ("stats", ["stats"]),
        ("verify", ["verify"]),
        ("rows", ["rows", "--table", table]),
        ("index", ["index", "--again"]),
    ):
        if what in but:
            continue
        command: list[str | Path] = [*BINLAKE, *words, path]
        done = bench.command(_name(what, name), command, warmup=0, keep_output=False)
        done.output["bytes"] = size


def _name(what: str, where: str) -> str:
    return f"{what}, {where}"


def large_goals(done: Mapping[str, Measured]) -> Iterator[Goal]:
    """The lines of the result table: rates and memory, beside those for 1 GB."""
    for where in ("1 GB", "one log", f"{LOGS:,} logs"):
        for what in ("stats", "verify", "rows", "index"):
            name = _name(what, where)
            if name in done:
                size = done[name].output["bytes"] / 1e9
                yield Goal(f"{name}: MB/s, of {size:.3g} GB", partial(_rate, name), "", bool)
                yield Goal("the same: peak memory, MB", partial(_memory, name), "", bool)


def _rate(name: str, done: dict[str, Measured]) -> float:
    rate: float = done[name].output["bytes"] / 1e6 / done[name].seconds
    return rate


def _memory(name: str, done: dict[str, Measured]) -> float:
    return done[name].peak_memory_bytes / 1e6


if __name__ == "__main__":
    write_large(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
