"""Reading logs as `binlake rows` and `binlake inspect` do, without a process per log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from binlake.events.base import Event
from binlake.events.registry import decode_event
from binlake.source.chain import resolve
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import Split
from binlake.table.batches import Changes
from binlake.table.decode import ChangeDecoder
from binlake.table.row_json import json_lines
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["Line", "events", "lines_without_ddl", "row_lines", "split_lines"]

Line = dict[str, Any]


def row_lines(*paths: Path | str, ledger: Ledger | None = None, **given: Any) -> Iterator[Line]:
    """The objects that `binlake rows PATH…` prints; options by their names."""
    options = ReadOptions.parse(given)
    held = Ledger() if ledger is None else ledger
    for reader in LogReader.of_chains(resolve([str(path) for path in paths]), options, held):
        decoder = ChangeDecoder(options, Target.TEXT, held)
        yield from _lines(decoder.read(reader), options)


def lines_without_ddl(*paths: Path | str, **given: Any) -> Iterator[Line]:
    """The objects with the names from row events and the schema, which the tasks of a stream know."""
    options = ReadOptions.parse(given)
    held = Ledger()
    for reader in LogReader.of_chains(resolve([str(path) for path in paths]), options, held):
        yield from _lines(ChangeDecoder(options, Target.TEXT, held).decode(reader.runs()), options)


def split_lines(splits: Iterable[Split], ledger: Ledger, **given: Any) -> Iterator[Line]:
    """The objects from splits, each read by itself as a Spark task does."""
    options = ReadOptions.parse(given)
    for split in splits:
        decoder = ChangeDecoder(options, Target.TEXT, ledger)
        yield from _lines(
            decoder.decode(LogReader.of_split(split, options, ledger).runs()), options
        )


def _lines(decoded: Iterable[Changes], options: ReadOptions) -> Iterator[Line]:
    for changes in decoded:
        yield from map(json.loads, bytes(json_lines(changes, options)).splitlines())


def events(path: Path, **given: Any) -> Iterator[Event]:
    """The events of the file itself, those of a payload not among them; options by their names."""
    keyring = Keyring.of(ReadOptions.parse(given))
    with LogFile.open(str(path), keyring=keyring) as log:
        for window in log.windows():
            for i in range(len(window)):
                yield decode_event(window.frame(i), window.body(i), window.format)
