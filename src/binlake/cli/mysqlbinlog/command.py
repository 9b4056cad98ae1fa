"""`binlake mysqlbinlog FILE…`: the text of the servers' own tools, by their options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from binlake.cli.common.lines import script_output
from binlake.cli.common.parameters import LogFiles, with_fields
from binlake.cli.common.terminal import fail_if_lost, note, say_result, skipping_nothing
from binlake.cli.mysqlbinlog.flags import (
    ChoiceFlags,
    OpeningFlags,
    OtherFlags,
    RemoteFlags,
    TextFlags,
)
from binlake.cli.mysqlbinlog.options import with_tool_options
from binlake.cli.mysqlbinlog.server import logs_from, raw_position, server_url
from binlake.errors import OptionError, SourceError
from binlake.source.replica.url import ServerUrl
from binlake.values.ledger import Ledger


@with_tool_options
@with_fields("choice", "text", "opening", "remote", "other")
def mysqlbinlog(
    connection: dict[str, str],
    files: LogFiles,
    choice: ChoiceFlags,
    text: TextFlags,
    opening: OpeningFlags,
    remote: RemoteFlags,
    other: OtherFlags,
) -> None:
    """Print a log as the servers' own tools do, as text that a mysql client replays.

    MySQL logs are printed in the format of mysqlbinlog 9.7, MariaDB logs in that of mariadb-binlog
    11.8; docs/mysqlbinlog.md lists the differences. Times are local, as in those tools.

    Examples:
      binlake mysqlbinlog binlog.000012 | mysql --binary-mode

      binlake mysqlbinlog -vv --base64-output=decode-rows binlog.000012 | less

      binlake mysqlbinlog -j 4711 --stop-datetime '2026-11-21 14:00' binlog.0000* > redo.sql

      binlake mysqlbinlog -R -h db1 -u repl --raw --to-last-log -r /backup/ binlog.000012
    """
    url = server_url(remote, connection) if remote.is_remote else None
    if remote.copies:
        _check_copy(choice, text, remote)
        assert url is not None, "refused above"
        _copy(url, files, choice, text, remote)
        return
    if url is not None:
        has_more = remote.to_last_log
        files = logs_from(url, files[0]) if has_more else [str(url.log(name)) for name in files]
    reading = opening.options()
    selection = choice.selection()
    options = text.options(choice.database)
    # loads pyarrow, which --raw does not need
    from binlake.replay.logs import chains_to_print, print_logs

    ledger = Ledger()
    with _output(text.result_file) as write, skipping_nothing():
        chains = chains_to_print(files, reading.index_directory, note)
        print_logs(chains, selection, options, write, note, ledger, reading)
    say_result(ledger)
    fail_if_lost(ledger)


def _check_copy(choice: ChoiceFlags, text: TextFlags, remote: RemoteFlags) -> None:
    """Check that --raw supports the given options. Raises OptionError."""
    if not remote.raw:
        raise OptionError(
            "--stop-never requires --raw", name="--stop-never",
            hint="use binlake tail URL to print changes as they commit",
        )  # fmt: skip
    if not remote.is_remote:
        raise OptionError(
            "--raw copies the logs of a server: it requires --read-from-remote-server",
            name="--raw",
        )
    unsupported = {
        "--stop-position": choice.stop_position, "--start-datetime": choice.start_datetime,
        "--stop-datetime": choice.stop_datetime, "--offset": choice.offset, "--database": choice.database,
        "--server-id": choice.server_id, "--include-gtids": choice.include_gtids,
        "--exclude-gtids": choice.exclude_gtids, "--skip-gtids": text.skip_gtids,
    }  # fmt: skip
    for name, value in unsupported.items():
        if value:
            raise OptionError(
                f"{name}: --raw copies whole logs, from --start-position on", name=name
            )


def _copy(
    url: ServerUrl, files: list[str], choice: ChoiceFlags, text: TextFlags, remote: RemoteFlags
) -> None:
    """Copy logs of a server byte for byte. Raises BinlogError."""
    from binlake.archive.raw import RawOptions, write_raw

    options = RawOptions(
        prefix=text.result_file or "",
        start_position=raw_position(choice.start_position),
        to_last_log=remote.to_last_log,
        stop_never=remote.stop_never,
        replica_id=remote.connection_server_id,
    )
    write_raw(url, files, options, note)


@contextmanager
def _output(path: str | None) -> Iterator[Callable[[bytes | memoryview], object]]:
    if path is None:
        with script_output() as write:
            yield write
        return
    try:
        file = Path(path).open("wb")  # noqa: SIM115
    except OSError as error:
        raise SourceError(f"cannot write {path}: {error.strerror}", errno=error.errno) from None
    with file:
        yield file.write
