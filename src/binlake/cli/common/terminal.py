"""The messages and progress of commands, on stderr only.

Modules that only some runs need (rich, the search for a log's content) are imported where they are
used: users wait for the start of commands that follow a server.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from binlake.cli.common.flags import with_flags
from binlake.cli.common.lines import print_message
from binlake.cli.common.parameters import Exit
from binlake.errors import BinlogError, FormatError, OptionError
from binlake.source.bytes import is_uri
from binlake.source.chain import Chain
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger
from binlake.values.options import FILTER_OPTIONS, ReadOptions

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

# Filters beside `at` that can leave out its transaction.
_OTHER_FILTERS = frozenset(FILTER_OPTIONS) - {"at", "source", "table", "exclude_table", "op"}
_WORTH_A_BAR_BYTES = 32 << 20
_ZONE = re.compile(r"(?:[zZ]|[+-]\d\d:?\d\d)\s*$|^@|^-\d|^now$")


def is_watched() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


@cache
def console() -> Console:
    """Return stderr as rich writes it, for drawing on a terminal."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Print one line on stderr, with flags for options."""
    print_message(with_flags(text))


def say_time_zone(options: ReadOptions) -> None:
    """Report once that times without a zone were read as UTC.

    The texts are searched in the command line, because `options` contains only moments.
    """
    if options.since is None and options.until is None:
        return
    given = [text for flag in ("--since", "--until") for text in _given(flag)]
    if not all(map(names_zone, given)):
        note("times without a zone are UTC")


def names_zone(text: str) -> bool:
    """Whether a time names its zone, or needs none."""
    return _ZONE.search(text) is not None


def _given(flag: str) -> list[str]:
    found = [following for word, following in pairwise(sys.argv) if word == flag]
    return found + [word.partition("=")[2] for word in sys.argv if word.startswith(flag + "=")]


def log_input(files: Sequence[str], options: ReadOptions) -> LogInput:
    """Return the logs that a command reads, and report which of them it does not read. Raises SourceError;
    OptionError if a position or a GTID is ambiguous.
    """
    logs = LogInput(files, options)
    say_excluded(logs)
    return logs


def say_excluded(logs: LogInput) -> None:
    """Report the logs that are not read: because of a position or a GTID, or because they are relay logs."""
    for remark in logs.remarks:
        note(remark)


@contextmanager
def reading(logs: LogInput, ledger: Ledger) -> Iterator[Callable[[Iterable[T]], Iterable[T]]]:
    """A progress bar as of `watching`; the error of a damaged log also gets a hint."""
    with hinting(logs.options), watching(logs.chains, ledger) as seen:
        yield seen


@contextmanager
def watching(
    chains: Sequence[Chain], ledger: Ledger
) -> Iterator[Callable[[Iterable[T]], Iterable[T]]]:
    """A progress bar over the bytes of logs: yields a wrapper for the loop that reads them.

    The bar appears on a terminal only, for reads that take a while. Errors of the block get the path of their log.
    """
    try:
        with _progress(chains, ledger) as seen:
            yield seen
    except BinlogError as error:
        error.at(path=_path_of(error.file, chains))
        raise


def _path_of(name: str | None, chains: Sequence[Chain]) -> str | None:
    """The path of the log with this name, if there is one only, and it is a file of this machine."""
    paths = [file.path for chain in chains for file in chain.files if file.name == name]
    return paths[0] if len(paths) == 1 and not is_uri(paths[0]) and paths[0] != "-" else None


@contextmanager
def _progress(
    chains: Sequence[Chain], ledger: Ledger
) -> Iterator[Callable[[Iterable[T]], Iterable[T]]]:
    sizes = [log.size for chain in chains for log in chain.files]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    if not is_watched() or (total is not None and total < _WORTH_A_BAR_BYTES):
        yield lambda items: items
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(), transient=True) as progress:
        bar = progress.add_task("reading", total=total)

        def watched(items: Iterable[T]) -> Iterable[T]:
            for item in items:
                progress.update(bar, completed=ledger.total.bytes)
                yield item

        yield watched


@contextmanager
def hinting(options: ReadOptions) -> Iterator[None]:
    """Add a hint to the error of a damaged log."""
    try:
        yield
    except FormatError as error:
        from binlake.format.magic import FIRST_EVENT
        from binlake.source.log_file import SKIP_HINT

        # in a log with a damaged beginning nothing can be read, so nothing can be skipped
        if options.on_error == "stop" and (error.event_pos or 0) > FIRST_EVENT:
            error.hinted(SKIP_HINT)
        raise


@contextmanager
def skipping_nothing() -> Iterator[None]:
    """Remove the hint at --on-error from errors, for commands without it: an output that lacks changes is of no use."""
    try:
        yield
    except FormatError as error:
        from binlake.source.log_file import SKIP_HINT

        if error.hint == SKIP_HINT:
            error.hint = None
        raise


def say_if_nothing_matched(logs: LogInput, ledger: Ledger) -> None:
    """If a read of row changes found nothing that the filters match, print that, and the contents of the logs.
    Also print which tables an excluded name misses because of its case.
    """
    if not ledger.matched(logs.options):
        say_nothing_found(logs, ledger)
    if logs.options.exclude_table:
        from binlake.values.table_filter import TableFilter

        tables = TableFilter(logs.options)
        for name in sorted(ledger.rows):
            for pattern in tables.spelled_otherwise(*name):
                note(
                    f"--exclude-table {pattern} does not exclude {'.'.join(name)}: upper and lower case are different"
                )


def say_nothing_found(logs: LogInput, ledger: Ledger) -> None:
    """If filters left nothing, print that, and the contents of the logs.

    Raises OptionError if the option `at` names a transaction that the logs do not contain.
    """
    options = logs.options
    if not options.filters:
        return
    from binlake.stream.overview import nothing_found, transaction_not_found

    sys.stdout.flush()
    if _is_not_there(options, ledger):
        raise transaction_not_found(logs.chains, options)
    note(nothing_found(logs.chains, options))


def _is_not_there(options: ReadOptions, ledger: Ledger) -> bool:
    """Whether the logs do not contain the transaction of the option `at`: neither another filter nor damage hides it."""
    if options.at is None or ledger.skipped or any(ledger.transactions.values()):
        return False
    return not any(getattr(options, name) for name in _OTHER_FILTERS)


def refuse_unknown_table(logs: LogInput) -> None:
    """Raise OptionError if the logs surely contain nothing about the only table of the option table."""
    from binlake.stream.overview import unknown_table

    found = unknown_table(logs.chains, logs.options)
    if found is not None:
        name = logs.options.table[0]
        raise OptionError(
            f"table {name}: the logs contain no change of it and no statement about it",
            name="table",
            value=name,
            hint=found,
        )


def fail_if_lost(ledger: Ledger) -> None:
    """Exit with code 1 if a read skipped damaged data: with --on-error skip it raises no error."""
    if ledger.skipped:
        raise Exit(1)


def say_result(ledger: Ledger) -> None:
    """Print what a read did not show, skipped or doubts; nothing if all is well."""
    sys.stdout.flush()
    for line in ledger.remarks():
        note(line)
