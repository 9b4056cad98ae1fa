"""Whole logs as text: the loop over their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from binlake.errors import BinlogError, OptionError
from binlake.replay.event_text import TextOptions
from binlake.replay.load_files import LoadFiles
from binlake.replay.plain_events import PlainEvents
from binlake.replay.printer import Printer
from binlake.replay.printer_mariadb import MariadbPrinter
from binlake.replay.printer_mysql import MysqlPrinter
from binlake.replay.selection import Choice, EventSelection, Selector
from binlake.source.chain import Chain, about_relay_logs, without_relay_logs
from binlake.source.resolve import resolve
from binlake.stream.log_events import LogEvent, events_of_piece
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Piece
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_PRINTERS = {"mysql": MysqlPrinter, "mariadb": MariadbPrinter}


def print_logs(
    chains: Sequence[Chain],
    selection: EventSelection,
    options: TextOptions,
    write: Callable[[bytes | memoryview], object],
    warn: Callable[[str], None],
    ledger: Ledger,
    reading: ReadOptions,
) -> None:
    """Print the chosen events of all logs, in the words of the server that wrote them.

    Where reading ends in an error, what was printed is closed first, so that a client that
    replays it rolls back what is not whole. `reading` says how logs are opened; its filters are not
    used. Raises BinlogError; OptionError for logs of both flavours.
    """
    options = replace(options, restores_gtid_variables=selection.by_maria_gtid)
    text = _LogText(selection, sum(len(chain.files) for chain in chains), options, write, warn)
    try:
        for piece, ordinal in _pieces(chains, selection.start_position or 0, ledger, reading):
            try:
                if not text.add(piece, ordinal):
                    break
            except BinlogError as error:
                raise error.at(file=piece.window.file.name) from None
    except BinlogError:
        text.end()
        raise
    if text.printer is None:
        text.begin("mysql")
    text.end()


class _LogText:
    """The text of logs, piece by piece. `files` is how many logs there are."""

    def __init__(
        self,
        selection: EventSelection,
        files: int,
        options: TextOptions,
        write: Callable[[bytes | memoryview], object],
        warn: Callable[[str], None],
    ) -> None:
        self.printer: Printer | None = None
        self._plain: PlainEvents | None = None
        self._selection = selection
        self._selector = Selector(selection, files)
        self._last_file = files - 1
        self._options = options
        self._write = write
        self._warn = warn
        self._flavour = ""
        self._file = -1

    def begin(self, flavour: str) -> Printer:
        """Print what comes before all events."""
        load_files = LoadFiles(self._options.local_load)
        self.printer = _PRINTERS[flavour](self._options, self._write, load_files, self._warn)
        self.printer.begin()
        self._flavour = flavour
        if self._selection.is_by_position_only:
            self._plain = PlainEvents(self.printer, self._options)
        return self.printer

    def end(self) -> None:
        """Print what comes after all events."""
        if self.printer is not None:
            self.printer.end()

    def add(self, piece: Piece, ordinal: int) -> bool:
        """Print what is chosen of a piece; whether there may be more. Raises BinlogError."""
        printer = self._printer_of(piece, ordinal)
        at = piece.first
        while at < piece.last:
            if count := self._plain_frames(piece, at, ordinal):
                at += count
                continue
            (event,) = events_of_piece(piece.part(at, at + 1))
            choice = self._selector.choose(event, ordinal)
            if choice is Choice.STOP:
                return False
            if choice is Choice.HIDE:
                printer.hide(event)
            elif choice is Choice.SHOW:
                self._show(printer, event)
            at += 1
        return True

    def _printer_of(self, piece: Piece, ordinal: int) -> Printer:
        flavour = piece.window.format.flavour
        if self.printer is None:
            self._file = ordinal
            return self.begin(flavour)
        if ordinal != self._file:
            if flavour != self._flavour:
                raise OptionError(
                    "some logs are of MySQL, others of MariaDB, and one script cannot contain the"
                    " statements of both; print them separately"
                )
            self._file = ordinal
            self.printer.next_file()
        return self.printer

    def _plain_frames(self, piece: Piece, at: int, ordinal: int) -> int:
        """Print plain events from a frame on: how many."""
        if self._plain is None:
            return 0
        wanted = self._selection
        start = wanted.start_position if ordinal == 0 else None
        if start is not None and piece.window.block.frame(at).offset < start:
            return 0
        return self._plain.print(
            piece, at, wanted.stop_position if ordinal == self._last_file else None
        )

    def _show(self, printer: Printer, event: LogEvent) -> None:
        if event.checksum == "bad":
            event.window.verify(event.index, event.index + 1)
        if self._plain is None:
            printer.show(event)
        else:
            self._plain.show(event)


def chains_to_print(
    files: Sequence[str],
    index_directories: Sequence[str] = (),
    say: Callable[[str], object] = lambda _: None,
) -> list[Chain]:
    """The chains of logs to print, in the order given. A name that stands for the logs of several
    servers is refused: the text is replayed as the changes of one. `index_directories` is the option
    index_directory. `say` receives a message about relay logs that are left out.
    """
    found = resolve(files, index_directories)
    for sentence in about_relay_logs(found, lambda _: "name their files"):
        say(sentence)
    chains = without_relay_logs(found)
    if len(chains) > 1:
        for path in files:
            found = without_relay_logs(resolve([path], index_directories))
            if len(found) > 1:
                names = ", ".join(chain.source for chain in found)
                raise OptionError(
                    f"{path} contains the logs of {len(found)} sources ({names}), but a script"
                    " replays the changes of one",
                    name="FILE",
                    hint="name the directory or the files of one",
                )
    return chains


def _pieces(
    chains: Sequence[Chain], start: int, ledger: Ledger, reading: ReadOptions
) -> Iterator[tuple[Piece, int]]:
    """All events, each piece with the ordinal of its file among all files; of the first file those
    from byte `start` on, and perhaps those before it.
    """
    before = 0
    readers = LogReader.of_chains(chains, reading, ledger, start)
    for chain, reader in zip(chains, readers, strict=True):
        for piece in reader.pieces():
            yield piece, before + piece.window.file.ordinal
        before += len(chain.files)
