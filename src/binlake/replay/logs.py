"""Whole logs as text: the loop over their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from binlake.errors import BinlogError, OptionError
from binlake.replay.load_files import LoadFiles
from binlake.replay.printer import Printer
from binlake.replay.printer_mariadb import MariadbPrinter
from binlake.replay.printer_mysql import MysqlPrinter
from binlake.replay.selection import Choice, Selection, Selector
from binlake.replay.text import TextOptions
from binlake.source.chain import Chain
from binlake.stream.log_events import LogEvent
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["print_logs"]

_PRINTERS = {"mysql": MysqlPrinter, "mariadb": MariadbPrinter}


def print_logs(
    chains: Sequence[Chain],
    selection: Selection,
    options: TextOptions,
    write: Callable[[bytes], object],
    warn: Callable[[str], None],
    ledger: Ledger,
) -> None:
    """Print the chosen events of all logs, in the words of the server that wrote them.

    Where reading ends in an error, what was printed is closed first, so that a client that
    replays it rolls back what is not whole. Raises BinlogError; OptionError for logs of both
    flavours.
    """
    options = replace(options, restores_gtid_variables=selection.by_maria_gtid)
    printer: Printer | None = None
    selector = Selector(selection, sum(len(chain.files) for chain in chains))
    flavour = file = None
    try:
        for event, ordinal in _events(chains, selection.start_position or 0, ledger):
            if printer is None:
                flavour = event.window.format.flavour
                printer = _PRINTERS[flavour](options, write, LoadFiles(options.local_load), warn)
                printer.begin()
            elif ordinal != file:
                if event.window.format.flavour != flavour:
                    raise OptionError(
                        "the logs are of MySQL and of MariaDB, and neither's statements are the"
                        " other's; print them one after the other"
                    )
                printer.next_file()
            file = ordinal
            choice = selector.choose(event, ordinal)
            if choice is Choice.STOP:
                break
            if choice is Choice.HIDE:
                printer.hide(event)
            elif choice is Choice.SHOW:
                if event.checksum == "bad":
                    event.window.verify(event.index, event.index + 1)
                printer.show(event)
    except BinlogError:
        if printer is not None:
            printer.end()
        raise
    if printer is None:
        printer = MysqlPrinter(options, write, LoadFiles(options.local_load), warn)
        printer.begin()
    printer.end()


def _events(chains: Sequence[Chain], start: int, ledger: Ledger) -> Iterator[tuple[LogEvent, int]]:
    """All events, each with the ordinal of its file among all files; of the first file those from
    byte `start` on, and perhaps those before it.
    """
    before = 0
    readers = LogReader.of_chains(chains, ReadOptions(), ledger, start)
    for chain, reader in zip(chains, readers, strict=True):
        for event in reader.events():
            yield event, before + event.window.file.ordinal
        before += len(chain.files)
