"""`binlake ui FILE…`: a page in the browser that shows the changes in logs."""

from __future__ import annotations

import importlib.util
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

from binlake.cli.common.flags import UI_OPTIONS, with_read_options
from binlake.cli.common.parameters import Argument, Option
from binlake.cli.common.terminal import log_input, note, say_time_zone
from binlake.errors import BinlogError, OptionError
from binlake.interrupts import end_by_signal
from binlake.source.bytes import pipe_in
from binlake.source.replica.url import is_server_url
from binlake.stream.log_reader import LogReader
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_STEP_SECONDS = 0.2


@with_read_options(UI_OPTIONS)
def ui(
    files: Annotated[
        list[str], Argument(metavar="FILE…", help="Logs to show: files, globs, directories, URIs.")
    ],
    options: ReadOptions,
    port: Annotated[
        int, Option(help="Port to listen on; 0 selects a free port.", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
) -> None:
    """Show logs as a page in the browser: what changed, when, by which transaction.

    The page has a timeline that zooms, tables, the largest and longest transactions, a search by
    condition and by key, and the SQL that reverses what it shows. It only reads. The command listens on
    127.0.0.1, and answers only browsers that have opened the printed address. Ctrl-C ends it. Needs pip
    install 'binlake[ui]'.

    Examples:
      binlake ui /var/lib/mysql/

      binlake ui binlog.000012 binlog.000013 --schema schema.sql

      binlake ui /archive/ --since '2026-11-21 14:00' --port 8700 --no-browser
    """
    _expect_libraries()
    say_time_zone(options)
    _refuse_what_is_read_once(files)
    logs = log_input(files, options)
    _expect_logs(logs)
    from binlake.ui.opened_logs import LogSession
    from binlake.ui.server import PageServer

    server = PageServer(LogSession(logs.chains, options, files), port)
    stop = threading.Event()
    with end_by_signal(stop.set), ExitStack() as stack:
        stack.callback(server.close)
        server.start()
        note(f"the page is at {server.url}")
        if browser:
            webbrowser.open(server.url)
        # in steps, so that a signal is handled meanwhile
        while not stop.wait(_STEP_SECONDS) and server.is_running:
            pass
        note("stopping")


def _expect_libraries() -> None:
    """Raises BinlogError without the extra."""
    for name in ("starlette", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise BinlogError(f"ui needs the library {name}", hint="pip install 'binlake[ui]'")


def _expect_logs(logs: LogInput) -> None:
    """Read the first event of each chain: a file that is no log is reported before anything is served.

    Raises BinlogError.
    """
    first = [replace(chain, files=chain.files[:1]) for chain in logs.chains]
    for reader in LogReader.of_chains(first, logs.options.opening(), Ledger()):
        next(reader.events(), None)


def _refuse_what_is_read_once(files: Sequence[str]) -> None:
    for path in files:
        if (pipe := pipe_in([path])) is not None or is_server_url(path):
            what = "a live server" if pipe is None else pipe
            raise OptionError(
                f"ui reads parts of the logs repeatedly, and cannot read {what}",
                name="FILE",
                hint="give files; binlake archive copies the logs of a server",
            )
