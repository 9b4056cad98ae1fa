"""`binlake mysqlbinlog FILE…`: the text of the servers' own tools, by their options.

Long: two thirds are the declarations of the two tools' options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from binlake.archive.raw import RawOptions, write_raw
from binlake.cli.mysqlbinlog_options import with_tool_options
from binlake.cli.mysqlbinlog_server import (
    Login,
    check_raw,
    compression,
    raw_position,
    remote_files,
    server_url,
    tls_mode,
)
from binlake.cli.terminal import fail_if_lost, note, say_result
from binlake.errors import OptionError, SourceError
from binlake.replay.selection import Selection
from binlake.replay.text import Base64, TextOptions
from binlake.source.chain import resolve
from binlake.values.gtid import GtidSet, MariaGtid
from binlake.values.ledger import Ledger
from binlake.values.options import parse_time_us

__all__ = ["mysqlbinlog"]

_CHOICE = "Which events"
_TEXT = "How they are printed"
_SERVER = "From a server"


def _refused(why: str) -> Callable[[typer.CallbackParam, Any], None]:
    def refuse(parameter: typer.CallbackParam, value: Any) -> None:
        if value:
            name = max(parameter.opts, key=len)
            raise OptionError(f"{name}: {why}", name=name)

    return refuse


def _show_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"binlake mysqlbinlog {metadata.version('binlake')}")
        raise typer.Exit


_ELSEWHERE = _refused("this command has no flashback; see binlake --help")


def _server(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_SERVER, **more)


@with_tool_options
def mysqlbinlog(
    connection: dict[str, str],
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read; - is stdin.")],
    start_position: Annotated[
        str | None,
        typer.Option(
            "--start-position",
            "-j",
            metavar="POS",
            rich_help_panel=_CHOICE,
            help="From this position in the first file; MariaDB: or after these GTIDs.",
        ),
    ] = None,
    stop_position: Annotated[
        str | None,
        typer.Option(
            metavar="POS",
            rich_help_panel=_CHOICE,
            help="Up to this position in the last file; MariaDB: or up to these GTIDs.",
        ),
    ] = None,
    start_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", rich_help_panel=_CHOICE, help="From this local time on."),
    ] = None,
    stop_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", rich_help_panel=_CHOICE, help="Before this local time."),
    ] = None,
    offset: Annotated[
        int,
        typer.Option(
            "--offset",
            "-o",
            min=0,
            metavar="N",
            rich_help_panel=_CHOICE,
            help="Pass over the first N events.",
        ),
    ] = 0,
    database: Annotated[
        list[str] | None,
        typer.Option(
            "--database",
            "-d",
            metavar="DB",
            rich_help_panel=_CHOICE,
            help="Only changes of this database; may be repeated.",
        ),
    ] = None,
    server_id: Annotated[
        list[str] | None,
        typer.Option(
            "--server-id",
            "--do-server-ids",
            metavar="N[,N]",
            rich_help_panel=_CHOICE,
            help="Only events of these servers.",
        ),
    ] = None,
    ignore_server_ids: Annotated[
        list[str] | None,
        typer.Option(metavar="N[,N]", rich_help_panel=_CHOICE, help="No events of these servers."),
    ] = None,
    include_gtids: Annotated[
        list[str] | None,
        typer.Option(metavar="SET", rich_help_panel=_CHOICE, help="MySQL: only these GTIDs."),
    ] = None,
    exclude_gtids: Annotated[
        list[str] | None,
        typer.Option(metavar="SET", rich_help_panel=_CHOICE, help="MySQL: all but these GTIDs."),
    ] = None,
    do_domain_ids: Annotated[
        list[str] | None,
        typer.Option(metavar="N[,N]", rich_help_panel=_CHOICE, help="MariaDB: only these domains."),
    ] = None,
    ignore_domain_ids: Annotated[
        list[str] | None,
        typer.Option(metavar="N[,N]", rich_help_panel=_CHOICE, help="MariaDB: not these domains."),
    ] = None,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            rich_help_panel=_TEXT,
            help="Row changes as pseudo-SQL; -vv with their types.",
            show_default=False,
        ),
    ] = 0,
    base64_output: Annotated[
        Base64,
        typer.Option(rich_help_panel=_TEXT, help="BINLOG statements: auto, never, decode-rows."),
    ] = Base64.AUTO,
    hexdump: Annotated[
        bool, typer.Option("--hexdump", "-H", rich_help_panel=_TEXT, help="The bytes of events.")
    ] = False,
    short_form: Annotated[
        bool,
        typer.Option(
            "--short-form",
            "-s",
            rich_help_panel=_TEXT,
            help="Statements only, no row changes: not for replaying.",
        ),
    ] = False,
    skip_gtids: Annotated[
        bool,
        typer.Option(
            "--skip-gtids",
            rich_help_panel=_TEXT,
            help="Transactions get new GTIDs where they are replayed.",
        ),
    ] = False,
    rewrite_db: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD->NEW", rich_help_panel=_TEXT, help="Rename a database; may be repeated."
        ),
    ] = None,
    local_load: Annotated[
        str | None,
        typer.Option(
            "--local-load",
            "-l",
            metavar="DIR",
            rich_help_panel=_TEXT,
            help="Where the files of LOAD DATA go; the system's folder by default.",
        ),
    ] = None,
    print_table_metadata: Annotated[
        bool,
        typer.Option(
            "--print-table-metadata",
            rich_help_panel=_TEXT,
            help="Columns and keys of tables, as the log tells them.",
        ),
    ] = False,
    print_row_count: Annotated[
        bool,
        typer.Option(
            "--print-row-count/--skip-print-row-count",
            rich_help_panel=_TEXT,
            help="MariaDB: how many rows a statement changed.",
        ),
    ] = True,
    skip_annotate_row_events: Annotated[
        bool,
        typer.Option(
            "--skip-annotate-row-events",
            rich_help_panel=_TEXT,
            help="MariaDB: not the statements behind row changes.",
        ),
    ] = False,
    disable_log_bin: Annotated[
        bool,
        typer.Option(
            "--disable-log-bin",
            "-D",
            rich_help_panel=_TEXT,
            help="The replaying server does not log it.",
        ),
    ] = False,
    idempotent: Annotated[
        bool,
        typer.Option(
            "--idempotent",
            "-i",
            rich_help_panel=_TEXT,
            help="MySQL: rows that are there or gone already are no error.",
        ),
    ] = False,
    set_charset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_TEXT,
            help="Begin with SET NAMES of this character set.",
        ),
    ] = None,
    result_file: Annotated[
        str | None,
        typer.Option(
            "--result-file",
            "-r",
            metavar="FILE",
            rich_help_panel=_TEXT,
            help="Write there instead of to stdout.",
        ),
    ] = None,
    # said by many scripts; this is how it is here anyway
    _force_if_open: Annotated[
        bool, typer.Option("--force-if-open/--skip-force-if-open", "-F", hidden=True)
    ] = True,
    _force_read: Annotated[bool, typer.Option("--force-read", "-f", hidden=True)] = False,
    _verify: Annotated[bool, typer.Option("--verify-binlog-checksum", "-c", hidden=True)] = False,
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
        bool, _server("--raw", help="Copy the logs; --result-file is a prefix.")
    ] = False,
    host: Annotated[str, _server("--host", "-h", metavar="HOST", help="The server.")] = "",
    port: Annotated[
        int, _server("--port", "-P", metavar="PORT", help="Its port.", min=0, max=65535)
    ] = 0,
    socket: Annotated[
        str, _server("--socket", "-S", metavar="FILE", help="Its socket on this machine.")
    ] = "",
    user: Annotated[str, _server("--user", "-u", metavar="USER", help="Log in as.")] = "",
    password: Annotated[
        str | None,
        _server(
            "--password",
            "-p",
            metavar="TEXT",
            help="Without a text it is asked for. Others see it in the list of processes: ~/.my.cnf and BINLAKE_PASSWORD are safer.",
        ),
    ] = None,
    ssl_mode: Annotated[
        str | None, _server("--ssl-mode", metavar="MODE", help="How far TLS is insisted on.")
    ] = None,
    ssl: Annotated[
        bool | None, _server("--ssl/--skip-ssl", help="Only with TLS, or without it.")
    ] = None,
    ssl_verify: Annotated[
        bool | None,
        _server(
            "--ssl-verify-server-cert/--skip-ssl-verify-server-cert",
            help="Whether its certificate must be of its host.",
        ),
    ] = None,
    protocol: Annotated[
        str,
        _server("--protocol", metavar="tcp|socket", help="How to reach a server on this machine."),
    ] = "",
    ssl_ca: Annotated[
        str | None, _server("--ssl-ca", metavar="FILE", help="Who signs its certificate.")
    ] = None,
    ssl_cert: Annotated[
        str | None, _server("--ssl-cert", metavar="FILE", help="Our certificate.")
    ] = None,
    ssl_key: Annotated[str | None, _server("--ssl-key", metavar="FILE", help="Its key.")] = None,
    public_key: Annotated[
        str | None,
        _server("--server-public-key-path", metavar="FILE", help="The server's RSA key."),
    ] = None,
    _get_public_key: Annotated[
        bool, typer.Option("--get-server-public-key", hidden=True, help="It is asked for anyway.")
    ] = False,
    compress: Annotated[bool, _server("--compress", "-C", help="Compress the connection.")] = False,
    algorithms: Annotated[
        str | None,
        _server("--compression-algorithms", metavar="LIST", help="How: zlib|zstd|uncompressed."),
    ] = None,
    defaults_file: Annotated[
        str | None, _server("--defaults-file", metavar="FILE", help="Read it, not ~/.my.cnf.")
    ] = None,
    no_defaults: Annotated[bool, _server("--no-defaults", help="Read no option file.")] = False,
    to_last_log: Annotated[
        bool, _server("--to-last-log", "-t", help="Also the logs after the one named.")
    ] = False,
    stop_never: Annotated[
        bool, _server("--stop-never", help="With --raw: and what is written later.")
    ] = False,
    connection_server_id: Annotated[
        int,
        _server(
            "--connection-server-id",
            "--stop-never-slave-server-id",
            metavar="N",
            min=0,
            max=(1 << 32) - 1,
            help="Our number among its replicas.",
        ),
    ] = 0,
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, hidden=True, callback=_show_version),
    ] = False,
    _flashback: Annotated[
        bool, typer.Option("--flashback", "-B", hidden=True, callback=_ELSEWHERE)
    ] = False,
) -> None:
    """Print a log as the servers' own tools do, as text that a mysql client replays.

    MySQL logs come out in the words of mysqlbinlog 9.7, MariaDB logs in those of mariadb-binlog
    11.8; what differs is in docs/mysqlbinlog.md. Times are local, as in those tools.

    Examples:
      binlake mysqlbinlog binlog.000012 | mysql

      binlake mysqlbinlog -vv --base64-output=decode-rows binlog.000012 | less

      binlake mysqlbinlog -j 4711 --stop-datetime '2026-11-21 14:00' binlog.0000* > redo.sql

      binlake mysqlbinlog -R -h db1 -u repl --raw --to-last-log -r /backup/ binlog.000012
    """
    remote = remote or source is not None
    if remote:
        login = Login(
            host, port, socket, user, password, tls_mode(ssl_mode, ssl, ssl_verify), ssl_ca, ssl_cert,
            ssl_key, public_key, compression(compress, algorithms), "none" if no_defaults else defaults_file, protocol,
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
    start = _position("--start-position", start_position)
    stop = _position("--stop-position", stop_position)
    selection = Selection(
        start_position=start if isinstance(start, int) else None,
        stop_position=stop if isinstance(stop, int) else None,
        start_gtids=start if isinstance(start, dict) else {},
        stop_gtids=stop if isinstance(stop, dict) else {},
        start_time=_seconds("--start-datetime", start_datetime),
        stop_time=_seconds("--stop-datetime", stop_datetime),
        offset=offset,
        server_ids=_numbers("--server-id", server_id),
        ignored_server_ids=_numbers("--ignore-server-ids", ignore_server_ids),
        domain_ids=_numbers("--do-domain-ids", do_domain_ids),
        ignored_domain_ids=_numbers("--ignore-domain-ids", ignore_domain_ids),
        include_gtids=_gtids("--include-gtids", include_gtids),
        exclude_gtids=_gtids("--exclude-gtids", exclude_gtids),
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
        set_charset=_charset(set_charset),
        databases=frozenset(database or ()),
        rewrite_db=_renames(rewrite_db),
        local_load=_folder(local_load),
    )
    # loads pyarrow, which --raw has no use for
    from binlake.replay.logs import print_logs

    ledger = Ledger()
    with _output(result_file) as write:
        print_logs(resolve(files), selection, options, write, note, ledger)
    say_result(ledger)
    fail_if_lost(ledger)


def _position(flag: str, text: str | None) -> int | dict[int, int] | None:
    """A byte position, or MariaDB's GTIDs as sequence numbers by domain."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        gtids = [MariaGtid.parse(part) for part in text.split(",") if part]
    except ValueError as error:
        raise OptionError(
            f"{flag} {text!r}: {error}", name=flag, hint="expected a number, or GTIDs of MariaDB"
        ) from None
    found = {gtid.domain_id: gtid.seq_no for gtid in gtids}
    if len(found) != len(gtids):
        raise OptionError(f"{flag} {text!r}: a domain is named twice", name=flag)
    return found


def _seconds(flag: str, text: str | None) -> int | None:
    """Seconds since 1970 of a local time, rounded up: an event's time has no fraction."""
    if text is None:
        return None
    try:
        microseconds = parse_time_us(text)
    except ValueError as error:
        raise OptionError(f"{flag} {text!r}: {error}", name=flag) from None
    naive = datetime.fromtimestamp(microseconds / 1_000_000, UTC).replace(tzinfo=None)
    return -int(-naive.astimezone().timestamp() // 1)


def _numbers(flag: str, texts: list[str] | None) -> frozenset[int]:
    words = [word.strip() for text in texts or () for word in text.split(",")]
    if bad := [word for word in words if not word.isdecimal()]:
        raise OptionError(f"{flag}: {bad[0]!r} is not a number", name=flag)
    return frozenset(map(int, words))


def _gtids(flag: str, texts: list[str] | None) -> GtidSet | None:
    if not texts:
        return None
    try:
        return GtidSet.parse(",".join(texts))
    except ValueError as error:
        raise OptionError(f"{flag}: {error}", name=flag) from None


def _charset(name: str | None) -> str | None:
    if name is not None and not name.isalnum():
        raise OptionError(f"--set-charset: {name!r} is not the name of a character set")
    return name


def _renames(texts: list[str] | None) -> dict[str, str]:
    renames = {}
    for text in texts or ():
        old, arrow, new = (part.strip() for part in text.partition("->"))
        if not (old and arrow and new):
            raise OptionError(f"--rewrite-db {text!r}: expected 'old->new'", name="--rewrite-db")
        renames[old] = new
    return renames


def _folder(path: str | None) -> str | None:
    if path is not None and not Path(path).is_dir():
        raise OptionError(f"--local-load: {path} is not a folder", name="--local-load")
    return path


@contextmanager
def _output(path: str | None) -> Iterator[Callable[[bytes], object]]:
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    try:
        file = Path(path).open("wb")  # noqa: SIM115
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from None
    with file:
        yield file.write
