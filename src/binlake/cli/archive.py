"""`binlake archive URL DIR`: a live server's logs, byte for byte, in a directory or object store."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from binlake.archive.archiver import ArchiveOptions, Archiver
from binlake.archive.finishing import COMPRESSIONS, Finish
from binlake.archive.folder import open_folder
from binlake.archive.metrics import ArchiveMetrics
from binlake.archive.retention import Retention
from binlake.archive.start import OLDEST
from binlake.cli.server_flags import ServerUrls, with_server_flags_except
from binlake.cli.terminal import console, is_watched, note
from binlake.errors import OptionError
from binlake.values.ledger import counted
from binlake.values.options import parse_bytes

__all__ = ["archive"]

_KEEP = "What is kept"
_WATCH = "Watching it"
_LINE_SECONDS = 60.0
_TERMINAL_LINE_SECONDS = 1.0


# of a connection, its compression is said in the URL: here --compress is that of complete logs
@with_server_flags_except("--compress", "--skip-replication")
def archive(
    server: ServerUrls,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where the logs go: a directory or a URI.")
    ],
    until_current: Annotated[
        bool, typer.Option("--until-current", help="End where the server's log ends now.")
    ] = False,
    first: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="LOG",
            help="First log of a server that is new here: a name, oldest or newest.",
        ),
    ] = OLDEST,
    compress: Annotated[
        str,
        typer.Option(metavar="HOW", help=f"Complete logs ({'|'.join(COMPRESSIONS)})."),
    ] = "none",
    index: Annotated[
        bool, typer.Option("--index/--no-index", help="Write an index beside each complete log.")
    ] = True,
    sync_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=0,
            help="While more is coming, make it durable so often.",
            show_default="1; object store: 10",
        ),
    ] = None,
    restart_if_lost: Annotated[
        bool,
        typer.Option(
            "--restart-if-lost",
            help="Where the server has purged what comes next: begin another directory.",
        ),
    ] = False,
    keep_days: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0, rich_help_panel=_KEEP, help="Remove logs that ended earlier."
        ),
    ] = None,
    keep_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", rich_help_panel=_KEEP, help="Remove the oldest logs above this."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65535, rich_help_panel=_WATCH, help="Answer Prometheus."
        ),
    ] = None,
    metrics_address: Annotated[
        str, typer.Option(metavar="HOST", rich_help_panel=_WATCH, help="Where it listens.")
    ] = "127.0.0.1",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", rich_help_panel=_WATCH, help="No status line.")
    ] = False,
) -> None:
    """Follow a server and keep its binary logs, byte for byte, as `mysqlbinlog --raw` does.

    DIR is a directory or a URI (s3://…); each server has its own directory in it, DIR/<server
    UUID>/. Started again after whatever ended it, it goes on where it was: nothing is lost and
    nothing double. Every command that takes FILE takes DIR.

    Examples:
      binlake archive mysql://repl@db1/ /backup/binlogs

      binlake archive mysql://repl@db1/ s3://bucket/binlogs --compress zstd --keep-days 30

      binlake archive mysql://repl@db1,db2/ /backup/binlogs --metrics-port 9105

      binlake archive mariadb://repl@db1/ /backup/binlogs --until-current
    """
    if compress not in COMPRESSIONS:
        raise OptionError(
            f"--compress {compress}: not one of {', '.join(COMPRESSIONS)}", name="compress"
        )
    options = ArchiveOptions(
        until_current=until_current,
        finish=Finish(compress, index),
        first=first,
        restart_if_lost=restart_if_lost,
        retention=Retention(keep_days, _size(keep_bytes)),
        sync_s=sync_seconds,
        attempts=5 if until_current else None,
    )
    metrics = ArchiveMetrics()
    root = open_folder(directory)
    archiver = Archiver(server, root, options, note, metrics)
    served = metrics.serve(metrics_address, metrics_port) if metrics_port is not None else None
    if served is not None:
        note(f"metrics: http://{metrics_address}:{served.server_port}/metrics")
    _end_by_signal(archiver.close)
    status = _Status(metrics, quiet=quiet)
    try:
        with status:
            archiver.run()
    finally:
        if served is not None:
            served.shutdown()
            served.server_close()
    if metrics.file:
        note(f"everything before {metrics.file}:{metrics.offset} is in {directory}")
    if until_current and archiver.failed:
        note(
            f"binlake: {counted(archiver.failed, 'complete log')} could not be indexed or compressed "
            "(why is said above): what is here of them is as it came"
        )
        raise typer.Exit(1)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise OptionError(f"--keep-bytes {text!r}: {error}", name="keep_bytes") from None


def _end_by_signal(end: Callable[[], None]) -> None:
    """SIGTERM and Ctrl-C end in order: what has come is made durable. A second Ctrl-C does not wait."""

    def on_signal(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        end()

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError):  # not the main thread
            signal.signal(number, on_signal)


class _Status:
    """The status line: renewed in place on a terminal, else a line now and then."""

    def __init__(self, metrics: ArchiveMetrics, *, quiet: bool) -> None:
        self._metrics = metrics
        self._quiet = quiet
        self._over = threading.Event()
        self._live: Any = None
        self._thread = threading.Thread(target=self._run, name="binlake-status", daemon=True)

    def __enter__(self) -> None:
        if self._quiet:
            return
        if is_watched():
            self._live = console().status("connecting")
            self._live.start()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._live is not None:
            self._live.stop()

    def _run(self) -> None:
        seconds = _LINE_SECONDS if self._live is None else _TERMINAL_LINE_SECONDS
        while not self._over.wait(seconds):
            if self._live is not None:
                self._live.update(self._metrics.line())
            else:
                note(self._metrics.line())
