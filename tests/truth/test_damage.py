"""Whatever is in a file, reading it gives rows or a BinlogError: nothing else, soon, in bounds.

BINLAKE_FUZZ_CASES says how many mutations are read (`make fuzz`: 100,000) and, from 100,000 on,
that small logs are cut at every byte; otherwise at their event bounds and some bytes more.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import BinlogError, TruncatedError
from support.logs.corpus_files import keys_beside
from support.logs.mutations import IS_THOROUGH, frames, mutated, snippets
from support.oracles.reading import Line, command, events, row_lines

pytestmark = pytest.mark.fuzz

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CASES = int(os.environ.get("BINLAKE_FUZZ_CASES", "3000"))
SMALL_BYTES = 6000
SECONDS = 120  # one read, on a busy machine; a loop without end would be longer
MEMORY_BYTES = 1 << 30  # growth over all reads; an allocation by a claimed size would be more

# Of an encrypted log every other byte is as good as any: they are damaged in their own way below.
ENCRYPTED = sorted(GOLDEN.glob("*/encrypted*/binlog.0*"))
LOGS = sorted(set(GOLDEN.glob("*/*/binlog.0*")) - set(ENCRYPTED))
SMALL = [path for path in LOGS if path.stat().st_size <= SMALL_BYTES]


@contextmanager
def limits() -> Iterator[None]:
    """Fail what takes too long or allocates without bound."""

    def stop(*_: object) -> None:
        raise AssertionError(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    assert grown < MEMORY_BYTES


def _name(path: Path) -> str:
    return "/".join(path.parts[-3:])


# --- prefixes ---


def _cuts(log: bytes) -> list[int]:
    if IS_THOROUGH:
        return list(range(len(log)))
    bounds = [at + move for at, _, _ in frames(log) for move in (-1, 0, 1)]
    return sorted({*bounds, *random.Random(len(log)).sample(range(len(log)), 40)})


def _read_until_error(path: Path, **given: Any) -> tuple[list[Line], BinlogError | None]:
    lines: list[Line] = []
    try:
        lines.extend(row_lines(path, **given))
    except BinlogError as error:
        return lines, error
    return lines, None


@pytest.mark.parametrize("path", SMALL, ids=_name)
def test_every_prefix_gives_a_prefix_of_the_rows(path: Path, tmp_path: Path) -> None:
    log = path.read_bytes()
    whole, stopped = _read_until_error(path)
    cut = tmp_path / path.name
    cut.write_bytes(log)
    in_use = log[21] & 1
    format_end = next(frames(log))[1] + 4
    for size in reversed(_cuts(log)):
        os.truncate(cut, size)
        with limits():
            lines, error = _read_until_error(cut)
        assert lines == whole[: len(lines)]
        if not error:
            continue
        assert isinstance(error, TruncatedError) or size < 4 or type(error) is type(stopped), error
        assert not in_use or size < format_end or type(error) is type(stopped), error


# --- mutations ---


def _print_rows(path: Path) -> None:
    code, out, err = command("rows", str(path))
    assert code in (0, 1, 2), code
    for line in out.splitlines():
        json.loads(line)
    assert code == 0 or err


def _read_text_rows_of_lenient_reader(path: Path) -> None:
    for _ in row_lines(path, on_error="skip", invalid="hex", assume_charset="utf8mb4", query=True):
        pass


def _read_tables(path: Path) -> None:
    log = binlake.open(path, before=True, uncommitted=True)
    for table in log.tables():
        for batch in log.changes(table):
            batch.validate(full=True)


def _read_events(path: Path) -> None:
    for event in events(path):
        json.dumps(event.to_fields())


def _read_views(path: Path) -> None:
    log = binlake.open(path)
    for view in ("events", "transactions", "statements"):
        for batch in log.view(view):
            batch.validate(full=True)


READERS: tuple[Callable[[Path], None], ...] = (
    _print_rows,
    _read_text_rows_of_lenient_reader,
    _read_tables,
    _read_events,
    _read_views,
)


def _seeds() -> list[bytes]:
    """Small logs: every small golden file, every transaction of the others."""
    found = []
    for path in LOGS:
        log = path.read_bytes()
        found += [log] if len(log) <= SMALL_BYTES else snippets(log)
    return [log for log in found if len(log) < 100_000]


SEEDS = _seeds()
SHARDS = 20


@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutations_give_rows_or_a_binlog_error(shard: int, tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    for number in range(shard, CASES, SHARDS):
        chance = random.Random(number)
        log = mutated(chance.choice(SEEDS), chance)
        reader = READERS[number % len(READERS)]
        path.write_bytes(log)
        try:
            with limits():
                reader(path)
        except BinlogError as error:
            str(error)
        except BaseException as error:
            kept = Path(os.environ.get("BINLAKE_FUZZ_KEEP", tmp_path)) / f"case-{number}.log"
            kept.write_bytes(log)
            raise AssertionError(f"case {number}, {reader.__name__}: {error!r}; {kept}") from error


# --- formats that lie ---


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_any_header_length_that_the_format_claims(on_error: str, tmp_path: Path) -> None:
    log = bytearray(next(p for p in LOGS if p.parts[-2] == "transactions").read_bytes())
    at = 4 + 19 + 2 + 50 + 4
    assert log[at] == 19
    path = tmp_path / "binlog.000001"
    for claimed in range(256):
        log[at] = claimed
        path.write_bytes(log)
        with limits():
            _, error = _read_until_error(path, on_error=on_error)
        assert error or on_error == "skip" or claimed == 19


# --- encrypted logs ---


@pytest.mark.parametrize("path", ENCRYPTED, ids=_name)
def test_every_prefix_of_an_encrypted_log_gives_a_prefix_of_the_rows(
    path: Path, tmp_path: Path
) -> None:
    log, keys = path.read_bytes(), keys_beside(path)
    whole, stopped = _read_until_error(path, **keys)
    assert stopped is None
    cut = tmp_path / path.name
    cut.write_bytes(log)
    sizes = range(len(log)) if IS_THOROUGH else random.Random(0).sample(range(len(log)), 150)
    for size in sorted({*sizes, len(log) - 1}, reverse=True):
        os.truncate(cut, size)
        with limits():
            lines, error = _read_until_error(cut, **keys)
        assert lines == whole[: len(lines)]
        assert error is None or isinstance(error, TruncatedError) or size < 4, (size, error)


def _mutated_bytes(log: bytes, chance: random.Random) -> bytes:
    data = bytearray(log)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, count = chance.randrange(len(data)), chance.randint(1, 40)
        # half of them where the encryption is described, and in the first events
        at = chance.choice((at, at % 700))
        kind = chance.randrange(5)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at : at + count] = bytes(chance.choice((0, 255)) for _ in range(count))
        elif kind == 2:
            data[at : at + 4] = chance.choice((0, 18, 19, 24, 1 << 31, (1 << 32) - 1)).to_bytes(4, "little")  # fmt: skip
        elif kind == 3:
            del data[at : at + count]
        else:
            data[at:at] = chance.randbytes(count)
    return bytes(data)


@pytest.mark.parametrize("path", ENCRYPTED, ids=_name)
def test_mutations_of_encrypted_logs_and_their_keys(path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / path.name
    keyring = tmp_path / "keyring"
    log, keys = path.read_bytes(), keys_beside(path)
    for number in range(CASES // 30):
        chance = random.Random(number)
        content = Path(keys["keyring"]).read_bytes()
        keyring.write_bytes(_mutated_bytes(content, chance) if chance.random() < 0.1 else content)
        damaged.write_bytes(_mutated_bytes(log, chance))
        skip = {"on_error": chance.choice(("stop", "skip")), "invalid": "hex"}
        try:
            with limits():
                for _ in row_lines(damaged, **{**keys, **skip, "keyring": str(keyring)}):
                    pass
        except BinlogError as error:
            str(error)
