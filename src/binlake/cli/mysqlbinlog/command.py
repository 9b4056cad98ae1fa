"""`binlake mysqlbinlog FILE…`: the text of the servers' own tools, by their options.

Long: two thirds are the declarations of the two tools' options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import click

from binlake.cli.common.flags import renamed_databases
from binlake.cli.common.lines import script_output
from binlake.cli.common.parameters import Exit, LogFiles, Option
from binlake.cli.common.terminal import fail_if_lost, note, say_result, skipping_nothing
from binlake.cli.mysqlbinlog.options import PANEL, with_tool_options
from binlake.cli.mysqlbinlog.server import (
    LoginOptions,
    check_raw,
    compression,
    raw_position,
    remote_files,
    server_url,
    tls_mode,
)
from binlake.cli.mysqlbinlog.values import (
    charset_name,
    gtid_set,
    id_numbers,
    load_folder,
    local_seconds,
    position_or_gtids,
)
from binlake.errors import OptionError, SourceError
from binlake.replay.event_text import Base64, TextOptions
from binlake.replay.selection import EventSelection
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_CHOICE = "Which events"
_TEXT = "How they are printed"
_READING = "Opening logs"


def _refused(why: str) -> Callable[[click.Parameter, Any], None]:
    def refuse(parameter: click.Parameter, value: Any) -> None:
        if value:
            name = max(parameter.opts, key=len)
            raise OptionError(f"{name}: {why}", name=name)

    return refuse


def _show_version(_: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"binlake mysqlbinlog {metadata.version('binlake')}")
        raise Exit


_ELSEWHERE = _refused("use binlake sql --undo, which writes the statements that reverse changes")


def _server(*names: str, help: str, **more: Any) -> Any:
    return Option(*names, help=help, panel=PANEL, **more)


@with_tool_options
def mysqlbinlog(
    connection: dict[str, str],
    files: LogFiles,
    start_position: Annotated[
        str | None,
        Option(
            "--start-position",
            "-j",
            metavar="POS",
            panel=_CHOICE,
            help="From this position in the first file; MariaDB: or after these GTIDs.",
        ),
    ] = None,
    stop_position: Annotated[
        str | None,
        Option(
            metavar="POS",
            panel=_CHOICE,
            help="Up to this position in the last file; MariaDB: or up to these GTIDs.",
        ),
    ] = None,
    start_datetime: Annotated[
        str | None,
        Option(metavar="TIME", panel=_CHOICE, help="From this local time on."),
    ] = None,
    stop_datetime: Annotated[
        str | None,
        Option(metavar="TIME", panel=_CHOICE, help="Before this local time."),
    ] = None,
    offset: Annotated[
        int,
        Option(
            "--offset",
            "-o",
            min=0,
            metavar="N",
            panel=_CHOICE,
            help="Skip the first N events.",
        ),
    ] = 0,
    database: Annotated[
        list[str] | None,
        Option(
            "--database",
            "-d",
            metavar="DB",
            panel=_CHOICE,
            help="Only changes of this database; may be repeated.",
        ),
    ] = None,
    server_id: Annotated[
        list[str] | None,
        Option(
            "--server-id",
            "--do-server-ids",
            metavar="N[,N]",
            panel=_CHOICE,
            help="Only events of these servers.",
        ),
    ] = None,
    ignore_server_ids: Annotated[
        list[str] | None,
        Option(metavar="N[,N]", panel=_CHOICE, help="Leave out events of these servers."),
    ] = None,
    include_gtids: Annotated[
        list[str] | None,
        Option(metavar="SET", panel=_CHOICE, help="MySQL: only these GTIDs."),
    ] = None,
    exclude_gtids: Annotated[
        list[str] | None,
        Option(metavar="SET", panel=_CHOICE, help="MySQL: all but these GTIDs."),
    ] = None,
    do_domain_ids: Annotated[
        list[str] | None,
        Option(metavar="N[,N]", panel=_CHOICE, help="MariaDB: only these domains."),
    ] = None,
    ignore_domain_ids: Annotated[
        list[str] | None,
        Option(metavar="N[,N]", panel=_CHOICE, help="MariaDB: leave out these domains."),
    ] = None,
    verbose: Annotated[
        int,
        Option(
            "--verbose",
            "-v",
            count=True,
            panel=_TEXT,
            help="Row changes as pseudo-SQL; -vv with their types.",
            show_default=False,
        ),
    ] = 0,
    base64_output: Annotated[
        Base64,
        Option(panel=_TEXT, help="BINLOG statements: auto, never, decode-rows."),
    ] = Base64.AUTO,
    hexdump: Annotated[
        bool, Option("--hexdump", "-H", panel=_TEXT, help="Print the bytes of each event.")
    ] = False,
    short_form: Annotated[
        bool,
        Option(
            "--short-form",
            "-s",
            panel=_TEXT,
            help="Print statements only, without row changes; not for replaying.",
        ),
    ] = False,
    skip_gtids: Annotated[
        bool,
        Option(
            "--skip-gtids",
            panel=_TEXT,
            help="Let replayed transactions get new GTIDs.",
        ),
    ] = False,
    rewrite_db: Annotated[
        list[str] | None,
        Option(metavar="OLD->NEW", panel=_TEXT, help="Rename a database; may be repeated."),
    ] = None,
    local_load: Annotated[
        str | None,
        Option(
            "--local-load",
            "-l",
            metavar="DIR",
            panel=_TEXT,
            help="Directory for the files of LOAD DATA; by default the system's temporary directory.",
        ),
    ] = None,
    print_table_metadata: Annotated[
        bool,
        Option(
            "--print-table-metadata",
            panel=_TEXT,
            help="Print the metadata of tables: columns and keys.",
        ),
    ] = False,
    print_row_count: Annotated[
        bool,
        Option(
            "--print-row-count/--skip-print-row-count",
            panel=_TEXT,
            help="MariaDB: print the number of rows that a statement changed.",
        ),
    ] = True,
    skip_annotate_row_events: Annotated[
        bool,
        Option(
            "--skip-annotate-row-events",
            panel=_TEXT,
            help="MariaDB: leave out the statements that caused row changes.",
        ),
    ] = False,
    disable_log_bin: Annotated[
        bool,
        Option(
            "--disable-log-bin",
            "-D",
            panel=_TEXT,
            help="Do not log the replay on the server.",
        ),
    ] = False,
    idempotent: Annotated[
        bool,
        Option(
            "--idempotent",
            "-i",
            panel=_TEXT,
            help="MySQL: ignore duplicate-key and key-not-found errors during the replay.",
        ),
    ] = False,
    set_charset: Annotated[
        str | None,
        Option(
            metavar="NAME",
            panel=_TEXT,
            help="Begin with SET NAMES of this character set.",
        ),
    ] = None,
    result_file: Annotated[
        str | None,
        Option(
            "--result-file",
            "-r",
            metavar="FILE",
            panel=_TEXT,
            help="Write to this file instead of stdout.",
        ),
    ] = None,
    index_directory: Annotated[
        list[str] | None,
        Option(
            metavar="DIR",
            panel=_READING,
            help="An index file may name logs there; may be repeated.",
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            panel=_READING,
            help="Limit on the memory that a log makes the command use.",
        ),
    ] = None,
    # many scripts pass this; it is the default behaviour here
    _force_if_open: Annotated[
        bool, Option("--force-if-open/--skip-force-if-open", "-F", hidden=True)
    ] = True,
    _force_read: Annotated[bool, Option("--force-read", "-f", hidden=True)] = False,
    _verify: Annotated[bool, Option("--verify-binlog-checksum", "-c", hidden=True)] = False,
    # from a server
    remote: Annotated[
        bool,
        _server("--read-from-remote-server", "-R", help="FILE… are logs of a server."),
    ] = False,
    source: Annotated[
        str | None,
        _server(
            "--read-from-remote-source",
            "--read-from-remote-master",
            metavar="TYPE",
            help="The same (binlog-dump-non-gtids|binlog-dump-gtids).",
        ),
    ] = None,
    raw: Annotated[
        bool,
        _server(
            "--raw", help="Copy the logs byte for byte; --result-file is a prefix for their names."
        ),
    ] = False,
    host: Annotated[
        str, _server("--host", "-h", metavar="HOST", help="Server to connect to.")
    ] = "",
    port: Annotated[
        int, _server("--port", "-P", metavar="PORT", help="Port of the server.", min=0, max=65535)
    ] = 0,
    socket: Annotated[
        str,
        _server("--socket", "-S", metavar="FILE", help="Unix socket of a server on this machine."),
    ] = "",
    user: Annotated[str, _server("--user", "-u", metavar="USER", help="User to log in as.")] = "",
    password: Annotated[
        str | None,
        _server(
            "--password",
            "-p",
            metavar="TEXT",
            help="Password; without TEXT, binlake asks for it. Others can see TEXT in the process list: ~/.my.cnf and BINLAKE_PASSWORD are safer.",
        ),
    ] = None,
    ssl_mode: Annotated[
        str | None,
        _server(
            "--ssl-mode",
            metavar="MODE",
            help="disabled, preferred, required, verify_ca or verify_identity.",
        ),
    ] = None,
    ssl: Annotated[
        bool | None, _server("--ssl/--skip-ssl", help="Require TLS, or disable it.")
    ] = None,
    ssl_verify: Annotated[
        bool | None,
        _server(
            "--ssl-verify-server-cert/--skip-ssl-verify-server-cert",
            help="Verify that the certificate belongs to the host.",
        ),
    ] = None,
    protocol: Annotated[
        str,
        _server(
            "--protocol", metavar="tcp|socket", help="How to connect to a server on this machine."
        ),
    ] = "",
    _get_public_key: Annotated[
        bool,
        Option("--get-server-public-key", hidden=True, help="Ignored: such a key is not verified."),
    ] = False,
    compress: Annotated[bool, _server("--compress", "-C", help="Compress the connection.")] = False,
    algorithms: Annotated[
        str | None,
        _server(
            "--compression-algorithms",
            metavar="LIST",
            help="Compression to use: zlib, zstd or uncompressed.",
        ),
    ] = None,
    defaults_file: Annotated[
        str | None,
        _server("--defaults-file", metavar="FILE", help="Read this file instead of ~/.my.cnf."),
    ] = None,
    no_defaults: Annotated[bool, _server("--no-defaults", help="Read no option file.")] = False,
    to_last_log: Annotated[
        bool, _server("--to-last-log", "-t", help="Also read the logs after the named one.")
    ] = False,
    stop_never: Annotated[
        bool, _server("--stop-never", help="With --raw: keep copying new data until stopped.")
    ] = False,
    connection_server_id: Annotated[
        int,
        _server(
            "--connection-server-id",
            "--stop-never-slave-server-id",
            metavar="N",
            min=0,
            max=(1 << 32) - 1,
            help="server_id of binlake among the replicas.",
        ),
    ] = 0,
    _version: Annotated[
        bool,
        Option("--version", "-V", is_eager=True, hidden=True, callback=_show_version),
    ] = False,
    _flashback: Annotated[
        bool, Option("--flashback", "-B", hidden=True, callback=_ELSEWHERE)
    ] = False,
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
    remote = remote or source is not None
    if remote:
        login = LoginOptions(
            host, port, socket, user, password, tls_mode(ssl_mode, ssl, ssl_verify),
            compression(compress, algorithms), "none" if no_defaults else defaults_file, protocol,
            connection,
        )  # fmt: skip
        url = server_url(login)
    if raw or stop_never:
        given = {
            "--stop-position": stop_position, "--start-datetime": start_datetime,
            "--stop-datetime": stop_datetime, "--offset": offset, "--database": database,
            "--server-id": server_id, "--include-gtids": include_gtids,
            "--exclude-gtids": exclude_gtids, "--skip-gtids": skip_gtids,
        }  # fmt: skip
        check_raw(remote, raw, [name for name, value in given.items() if value])
        from binlake.archive.raw import RawOptions, write_raw

        options_of_raw = RawOptions(
            prefix=result_file or "",
            start_position=raw_position(start_position),
            to_last_log=to_last_log,
            stop_never=stop_never,
            replica_id=connection_server_id,
        )
        write_raw(url, files, options_of_raw, note)
        return
    if remote:
        files = remote_files(url, files, to_last_log)
    reading = ReadOptions.parse({"index_directory": index_directory, "max_memory": max_memory})
    start = position_or_gtids("--start-position", start_position)
    stop = position_or_gtids("--stop-position", stop_position)
    selection = EventSelection(
        start_position=start if isinstance(start, int) else None,
        stop_position=stop if isinstance(stop, int) else None,
        start_gtids=start if isinstance(start, dict) else {},
        stop_gtids=stop if isinstance(stop, dict) else {},
        start_time=local_seconds("--start-datetime", start_datetime),
        stop_time=local_seconds("--stop-datetime", stop_datetime),
        offset=offset,
        server_ids=id_numbers("--server-id", server_id),
        ignored_server_ids=id_numbers("--ignore-server-ids", ignore_server_ids),
        domain_ids=id_numbers("--do-domain-ids", do_domain_ids),
        ignored_domain_ids=id_numbers("--ignore-domain-ids", ignore_domain_ids),
        include_gtids=gtid_set("--include-gtids", include_gtids),
        exclude_gtids=gtid_set("--exclude-gtids", exclude_gtids),
    )
    options = TextOptions(
        base64_output=base64_output,
        verbose=verbose,
        hexdump=hexdump,
        short_form=short_form,
        skip_gtids=skip_gtids,
        skip_annotate_row_events=skip_annotate_row_events,
        print_row_count=print_row_count,
        print_table_metadata=print_table_metadata,
        idempotent=idempotent,
        disable_log_bin=disable_log_bin,
        set_charset=charset_name(set_charset),
        databases=frozenset(database or ()),
        rewrite_db=renamed_databases(rewrite_db),
        local_load=load_folder(local_load),
    )
    # loads pyarrow, which --raw does not need
    from binlake.replay.logs import chains_to_print, print_logs

    ledger = Ledger()
    with _output(result_file) as write, skipping_nothing():
        chains = chains_to_print(files, reading.index_directory)
        print_logs(chains, selection, options, write, note, ledger, reading)
    say_result(ledger)
    fail_if_lost(ledger)


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
