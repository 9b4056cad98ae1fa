"""The target of the fuzzer: an input is a log, and all readers of logs read it.

A `BinlogError` is the answer that a damaged log deserves. Any other exception is a finding.
"""

from __future__ import annotations

import io
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import binlake
from binlake.cli.inspect.event_json import EventJsonWriter
from binlake.cli.inspect.event_lines import EventLineWriter
from binlake.cli.inspect.event_writer import EventWriter
from binlake.errors import BinlogError
from binlake.replay.event_text import Base64, TextOptions
from binlake.replay.logs import chains_to_print, print_logs
from binlake.replay.selection import EventSelection
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.table.decode import ChangeDecoder
from binlake.table.row_json import json_lines
from binlake.table.sql.row_sql import Redo
from binlake.table.sql.sql_script import ForeignKeys, forward_script
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from support.logs.mutations import has_checksums, mutated, signed

__all__ = ["change_log", "read_log", "sign_log"]

_OPTIONS = ReadOptions.parse({"max_memory": 1 << 24})
_LENIENT = ReadOptions.parse(
    {"max_memory": 1 << 24, "invalid": "hex", "assume_charset": "utf8mb4", "on_error": "skip"}
)
_TEXT = TextOptions(verbose=2)
_TEXT_ROWS = TextOptions(verbose=2, base64_output=Base64.DECODE_ROWS, print_table_metadata=True)


def _log_file() -> Path:
    """One file for all inputs, in memory where the system has such a folder."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    held = tempfile.TemporaryDirectory(prefix="binlake-fuzz-", dir=folder)
    _HELD.append(held)
    return Path(held.name) / "binlog.000001"


_HELD: list[tempfile.TemporaryDirectory[str]] = []
_LOG = _log_file()


def read_log(log: bytes) -> None:
    """Read a log in every way. Raises what is not a BinlogError."""
    _LOG.write_bytes(log)
    for read in _READERS:
        try:
            read()
        except BinlogError as error:
            str(error)


def change_log(log: bytes, seed: int) -> bytes:
    """A mutation that knows events: their lengths stay right, and mostly their checksums."""
    return bytes(mutated(log, random.Random(seed)))


def sign_log(log: bytes) -> bytes:
    """The log with right checksums, so that they do not keep a mutation from the decoders."""
    return bytes(signed(log)) if has_checksums(log) else log


# -- the readers -----------------------------------------------------------------------------------


def _readers(options: ReadOptions) -> Iterator[LogReader]:
    yield from LogReader.of_chains(resolve([str(_LOG)]), options, Ledger())


def _read_rows() -> None:
    """Read as far as possible: the readers below stop at what is damaged."""
    for reader in _readers(_LENIENT):
        for changes in ChangeDecoder(_LENIENT, Target.TEXT, Ledger()).read(reader):
            json_lines(changes, _LENIENT)


def _read_tables() -> None:
    log = binlake.open(_LOG, before=True, uncommitted=True, max_memory=1 << 24)
    for table in log.tables():
        for batch in log.changes(table):
            batch.validate(full=True)


def _read_sql() -> None:
    for reader in _readers(_OPTIONS):
        changes = ChangeDecoder(_OPTIONS, Target.TEXT, Ledger()).read(reader)
        for _ in forward_script(changes, Redo(), ForeignKeys()):
            pass


def _write_events(kind: type[EventWriter]) -> None:
    writer = kind(io.BytesIO(), "utf-8", "backslashreplace", None)
    for reader in _readers(_OPTIONS):
        for piece in reader.pieces():
            writer.write(piece)


def _print(options: TextOptions) -> None:
    chains = chains_to_print([str(_LOG)])
    print_logs(
        chains, EventSelection(), options, lambda _: None, lambda _: None, Ledger(), _OPTIONS
    )


_READERS: tuple[Callable[[], None], ...] = (
    _read_rows,
    _read_tables,
    _read_sql,
    lambda: _write_events(EventLineWriter),
    lambda: _write_events(EventJsonWriter),
    lambda: _print(_TEXT),
    lambda: _print(_TEXT_ROWS),
)
