"""`binlake archive URL DIR`: a live server's logs, byte for byte, in a directory or object store."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from binlake.archive.archiver import ArchiveOptions, Archiver
from binlake.archive.finishing import COMPRESSIONS, Finish
from binlake.archive.folders import open_folder
from binlake.archive.metrics import ArchiveMetrics, serve_metrics
from binlake.archive.retention import Retention
from binlake.cli.common.flags import size_flag
from binlake.cli.common.parameters import Argument, Exit, Option, option_of_key, with_fields
from binlake.cli.common.server_flags import (
    ServerUrls,
    with_server_flags,
)
from binlake.cli.common.terminal import console, is_watched, note
from binlake.config.keys import ARCHIVE_KEYS, METRICS_KEYS
from binlake.config.toml_file import default_values
from binlake.errors import OptionError
from binlake.interrupts import end_by_signal
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from binlake.archive.jobs import Archives

_WATCH = "Monitoring"
_LINE_SECONDS = 60.0
_TERMINAL_LINE_SECONDS = 1.0
_KEYS = ARCHIVE_KEYS | METRICS_KEYS
_DEFAULTS = default_values(_KEYS)


@dataclass(frozen=True, slots=True)
class ArchiveFlags:
    """The options of `binlake archive`, without the options of the connection."""

    until_current: Annotated[
        bool,
        Option("--until-current", "--once", help="Exit after copying everything written so far."),
    ] = False
    first: Annotated[str, option_of_key(_KEYS["from"], "--from", metavar="LOG")] = _DEFAULTS["from"]
    compress: Annotated[
        str, option_of_key(_KEYS["compress"], metavar="HOW", one_of=COMPRESSIONS)
    ] = _DEFAULTS["compress"]
    index: Annotated[bool, option_of_key(_KEYS["index"], "--index/--no-index")] = _DEFAULTS["index"]
    key_index: Annotated[bool, option_of_key(_KEYS["key_index"], "--key-index")] = _DEFAULTS[
        "key_index"
    ]
    sync_seconds: Annotated[
        float | None,
        option_of_key(
            _KEYS["sync_seconds"], metavar="N", show_default=_KEYS["sync_seconds"].default
        ),
    ] = None
    restart_if_lost: Annotated[
        bool, option_of_key(_KEYS["restart_if_lost"], "--restart-if-lost")
    ] = _DEFAULTS["restart_if_lost"]
    keep_days: Annotated[
        float | None, option_of_key(_KEYS["keep_days"], metavar="N", panel="Retention")
    ] = None
    keep_bytes: Annotated[
        str | None, option_of_key(_KEYS["keep_bytes"], metavar="SIZE", panel="Retention")
    ] = None
    metrics_port: Annotated[
        int | None, option_of_key(_KEYS["metrics_port"], metavar="PORT", panel=_WATCH)
    ] = None
    metrics_address: Annotated[
        str, option_of_key(_KEYS["metrics_address"], metavar="HOST", panel=_WATCH)
    ] = _DEFAULTS["metrics_address"]
    quiet: Annotated[
        bool, Option("--quiet", "-q", panel=_WATCH, help="Do not print the status line.")
    ] = False

    def options(self) -> ArchiveOptions:
        """Return the options of an archive. Raises OptionError."""
        if self.key_index and not self.index:
            raise OptionError("--key-index and --no-index cannot be combined", name="key_index")
        size = self.keep_bytes
        return ArchiveOptions(
            until_current=self.until_current,
            finish=Finish(self.compress, self.index, self.key_index),
            first=self.first,
            restart_if_lost=self.restart_if_lost,
            retention=Retention(
                self.keep_days, None if size is None else size_flag("--keep-bytes", size)
            ),
            sync_s=self.sync_seconds,
            attempts=5 if self.until_current else None,
        )


# The URL sets the compression of a connection: here --compress is that of complete logs.
@with_server_flags(
    "--compress", "--skip-replication", beside_config=("until_current", "quiet", "metrics_address")
)
@with_fields("flags")
def archive(
    server: ServerUrls,
    *,
    directory: Annotated[
        str | None,
        Argument(metavar="DIR", required=False, help="Target directory or URI."),
    ] = None,
    config: Annotated[
        str | None,
        Option(metavar="FILE", help="Archive the servers of a TOML file, without URL and DIR."),
    ] = None,
    flags: ArchiveFlags,
) -> None:
    """Copy a server's binary logs as they are written, byte for byte, as `mysqlbinlog --raw` does.

    DIR is a directory or a URI (s3://…). Each server has its own directory in it, DIR/<server
    UUID>/. After any interruption, start the command again: it continues without gaps and without
    duplicates. Every command that takes FILE also takes DIR.

    Examples:
      binlake archive mysql://repl@db1/ /backup/binlogs

      binlake archive mysql://repl@db1/ s3://bucket/binlogs --compress zstd --keep-days 30

      binlake archive mysql://repl@db1,db2/ /backup/binlogs --metrics-port 9105

      binlake archive mariadb://repl@db1/ /backup/binlogs --until-current

      binlake archive --config /etc/binlake.toml
    """
    if config is not None:
        _archive_all(config, flags)
        return
    if directory is None:
        raise OptionError("DIR is missing: the directory for the logs", name="directory")
    options = flags.options()
    metrics = ArchiveMetrics()
    archiver = Archiver(server, open_folder(directory), options, note, metrics)
    port = flags.metrics_port
    endpoint = None if port is None else (flags.metrics_address, port)
    _run(archiver, [metrics], endpoint, quiet=flags.quiet)
    if metrics.file:
        note(f"everything before {metrics.file}:{metrics.offset} is in {directory}")
    if flags.until_current and archiver.failed:
        note(
            f"binlake: {counted(archiver.failed, 'complete log')} could not be indexed or"
            " compressed "
            "(see the reasons above); they are in the archive as they were received"
        )
        raise Exit(1)


def _archive_all(config: str, flags: ArchiveFlags) -> None:
    """Archive the servers of a configuration file. Raises OptionError."""
    from binlake.archive.jobs import Archives
    from binlake.config.configuration import read_configuration

    read = read_configuration(config)
    if not read.archives:
        raise OptionError(f"{config}: no [archive.servers.NAME] to archive", name="config")
    archives = Archives(read.archives, note, until_current=flags.until_current)
    _run(archives, list(archives.metrics.values()), read.metrics, quiet=flags.quiet)
    for job in read.archives:
        metrics = archives.metrics[job.name]
        if metrics.file:
            note(
                f"{job.name}: everything before {metrics.file}:{metrics.offset} is in {job.target}"
            )
    if archives.failed:
        raise Exit(1)


def _run(
    archiver: Archiver | Archives,
    metrics: list[ArchiveMetrics],
    endpoint: tuple[str, int] | None,
    *,
    quiet: bool,
) -> None:
    """Archive until the end or a signal, with the status line and, at `endpoint`, metrics."""
    served = None if endpoint is None else serve_metrics(metrics, *endpoint)
    if served is not None and endpoint is not None:
        note(f"metrics: http://{endpoint[0]}:{served.port}/metrics")
    try:
        with end_by_signal(archiver.close), _Status(metrics, quiet=quiet):
            archiver.run()
    finally:
        if served is not None:
            served.close()


class _Status:
    """The status line: renewed in place on a terminal, else a line now and then."""

    def __init__(self, metrics: list[ArchiveMetrics], *, quiet: bool) -> None:
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
            lines = [metrics.line() for metrics in self._metrics]
            if self._live is not None:
                self._live.update("\n".join(lines))
                continue
            for line in lines:
                note(line)
