"""The options of `binlake mysqlbinlog` as tables: one dataclass for each group, one field for each option.

Names and texts are those of the servers' tools. `options.py` has the tables of the options for connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import click

from binlake.cli.common.flags import renamed_databases
from binlake.cli.common.parameters import Exit, Option
from binlake.cli.mysqlbinlog.options import PANEL
from binlake.cli.mysqlbinlog.values import (
    charset_name,
    gtid_set,
    id_numbers,
    load_folder,
    local_seconds,
    position_or_gtids,
)
from binlake.errors import OptionError
from binlake.replay.event_text import Base64, TextOptions
from binlake.replay.selection import EventSelection
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


@dataclass(frozen=True, slots=True)
class ChoiceFlags:
    """The options that choose events."""

    start_position: Annotated[
        str | None,
        Option(
            "--start-position",
            "-j",
            metavar="POS",
            panel=_CHOICE,
            help="From this position in the first file; MariaDB: or after these GTIDs.",
        ),
    ] = None
    stop_position: Annotated[
        str | None,
        Option(
            metavar="POS",
            panel=_CHOICE,
            help="Up to this position in the last file; MariaDB: or up to these GTIDs.",
        ),
    ] = None
    start_datetime: Annotated[
        str | None,
        Option(
            metavar="TIME", panel=_CHOICE, help="From this time on; local time if it names no zone."
        ),
    ] = None
    stop_datetime: Annotated[
        str | None,
        Option(
            metavar="TIME", panel=_CHOICE, help="Before this time; local time if it names no zone."
        ),
    ] = None
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
    ] = 0
    database: Annotated[
        list[str] | None,
        Option(
            "--database",
            "-d",
            metavar="DB",
            panel=_CHOICE,
            help="Only changes of this database; may be repeated.",
        ),
    ] = None
    server_id: Annotated[
        list[str] | None,
        Option(
            "--server-id",
            "--do-server-ids",
            metavar="N[,N]",
            panel=_CHOICE,
            help="Only events of these servers.",
        ),
    ] = None
    ignore_server_ids: Annotated[
        list[str] | None,
        Option(metavar="N[,N]", panel=_CHOICE, help="Leave out events of these servers."),
    ] = None
    include_gtids: Annotated[
        list[str] | None,
        Option(metavar="SET", panel=_CHOICE, help="MySQL: only these GTIDs."),
    ] = None
    exclude_gtids: Annotated[
        list[str] | None,
        Option(metavar="SET", panel=_CHOICE, help="MySQL: all but these GTIDs."),
    ] = None
    do_domain_ids: Annotated[
        list[str] | None,
        Option(metavar="N[,N]", panel=_CHOICE, help="MariaDB: only these domains."),
    ] = None
    ignore_domain_ids: Annotated[
        list[str] | None,
        Option(metavar="N[,N]", panel=_CHOICE, help="MariaDB: leave out these domains."),
    ] = None

    def selection(self) -> EventSelection:
        """Return the chosen events. Raises OptionError."""
        start = position_or_gtids("--start-position", self.start_position)
        stop = position_or_gtids("--stop-position", self.stop_position)
        return EventSelection(
            start_position=start if isinstance(start, int) else None,
            stop_position=stop if isinstance(stop, int) else None,
            start_gtids=start if isinstance(start, dict) else {},
            stop_gtids=stop if isinstance(stop, dict) else {},
            start_time=local_seconds("--start-datetime", self.start_datetime),
            stop_time=local_seconds("--stop-datetime", self.stop_datetime),
            offset=self.offset,
            server_ids=id_numbers("--server-id", self.server_id),
            ignored_server_ids=id_numbers("--ignore-server-ids", self.ignore_server_ids),
            domain_ids=id_numbers("--do-domain-ids", self.do_domain_ids),
            ignored_domain_ids=id_numbers("--ignore-domain-ids", self.ignore_domain_ids),
            include_gtids=gtid_set("--include-gtids", self.include_gtids),
            exclude_gtids=gtid_set("--exclude-gtids", self.exclude_gtids),
        )


@dataclass(frozen=True, slots=True)
class TextFlags:
    """The options of the text, and where it is written."""

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
    ] = 0
    base64_output: Annotated[
        Base64,
        Option(panel=_TEXT, help="BINLOG statements: auto, never, decode-rows."),
    ] = Base64.AUTO
    hexdump: Annotated[
        bool, Option("--hexdump", "-H", panel=_TEXT, help="Print the bytes of each event.")
    ] = False
    short_form: Annotated[
        bool,
        Option(
            "--short-form",
            "-s",
            panel=_TEXT,
            help="Print statements only, without row changes; not for replaying.",
        ),
    ] = False
    skip_gtids: Annotated[
        bool,
        Option(
            "--skip-gtids",
            panel=_TEXT,
            help="Let replayed transactions get new GTIDs.",
        ),
    ] = False
    rewrite_db: Annotated[
        list[str] | None,
        Option(metavar="OLD->NEW", panel=_TEXT, help="Rename a database; may be repeated."),
    ] = None
    local_load: Annotated[
        str | None,
        Option(
            "--local-load",
            "-l",
            metavar="DIR",
            panel=_TEXT,
            help="Directory for the files of LOAD DATA; by default the system's temporary directory.",
        ),
    ] = None
    print_table_metadata: Annotated[
        bool,
        Option(
            "--print-table-metadata",
            panel=_TEXT,
            help="Print the metadata of tables: columns and keys.",
        ),
    ] = False
    print_row_count: Annotated[
        bool,
        Option(
            "--print-row-count/--skip-print-row-count",
            panel=_TEXT,
            help="MariaDB: print the number of rows that a statement changed.",
        ),
    ] = True
    skip_annotate_row_events: Annotated[
        bool,
        Option(
            "--skip-annotate-row-events",
            panel=_TEXT,
            help="MariaDB: leave out the statements that caused row changes.",
        ),
    ] = False
    disable_log_bin: Annotated[
        bool,
        Option(
            "--disable-log-bin",
            "-D",
            panel=_TEXT,
            help="Do not log the replay on the server.",
        ),
    ] = False
    idempotent: Annotated[
        bool,
        Option(
            "--idempotent",
            "-i",
            panel=_TEXT,
            help="MySQL: ignore duplicate-key and key-not-found errors during the replay.",
        ),
    ] = False
    set_charset: Annotated[
        str | None,
        Option(
            metavar="NAME",
            panel=_TEXT,
            help="Begin with SET NAMES of this character set.",
        ),
    ] = None
    result_file: Annotated[
        str | None,
        Option(
            "--result-file",
            "-r",
            metavar="FILE",
            panel=_TEXT,
            help="Write to this file instead of stdout.",
        ),
    ] = None

    def options(self, databases: list[str] | None) -> TextOptions:
        """Return the options of the text of changes in some databases, or in all. Raises OptionError."""
        return TextOptions(
            base64_output=self.base64_output,
            verbose=self.verbose,
            hexdump=self.hexdump,
            short_form=self.short_form,
            skip_gtids=self.skip_gtids,
            skip_annotate_row_events=self.skip_annotate_row_events,
            print_row_count=self.print_row_count,
            print_table_metadata=self.print_table_metadata,
            idempotent=self.idempotent,
            disable_log_bin=self.disable_log_bin,
            set_charset=charset_name(self.set_charset),
            databases=frozenset(databases or ()),
            rewrite_db=renamed_databases(self.rewrite_db),
            local_load=load_folder(self.local_load),
        )


@dataclass(frozen=True, slots=True)
class OpeningFlags:
    """The options for opening logs.

    The hidden ones have no effect. Scripts pass them, and binlake always verifies checksums and opens logs in use.
    """

    index_directory: Annotated[
        list[str] | None,
        Option(
            metavar="DIR",
            panel=_READING,
            help="An index file may name logs there; may be repeated.",
        ),
    ] = None
    max_memory: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            panel=_READING,
            help="Limit on the memory that the contents of a log can require.",
        ),
    ] = None
    force_if_open: Annotated[
        bool, Option("--force-if-open/--skip-force-if-open", "-F", hidden=True)
    ] = True
    force_read: Annotated[bool, Option("--force-read", "-f", hidden=True)] = False
    verify_checksum: Annotated[bool, Option("--verify-binlog-checksum", "-c", hidden=True)] = False

    def options(self) -> ReadOptions:
        """Return them as options of a read. Raises OptionError."""
        return ReadOptions.parse(
            {"index_directory": self.index_directory, "max_memory": self.max_memory}
        )


@dataclass(frozen=True, slots=True)
class RemoteFlags:
    """The options for logs of a server; "" and 0: the values of ~/.my.cnf."""

    remote: Annotated[
        bool,
        _server("--read-from-remote-server", "-R", help="Read the logs FILE… from a server."),
    ] = False
    source: Annotated[
        str | None,
        _server(
            "--read-from-remote-source",
            "--read-from-remote-master",
            metavar="TYPE",
            help="The same, with the type of the dump: binlog-dump-non-gtids or binlog-dump-gtids.",
        ),
    ] = None
    raw: Annotated[
        bool,
        _server(
            "--raw", help="Copy the logs byte for byte; --result-file is a prefix for their names."
        ),
    ] = False
    host: Annotated[str, _server("--host", "-h", metavar="HOST", help="Server to connect to.")] = ""
    port: Annotated[
        int, _server("--port", "-P", metavar="PORT", help="Port of the server.", min=0, max=65535)
    ] = 0
    socket: Annotated[
        str,
        _server("--socket", "-S", metavar="FILE", help="Unix socket of a server on this machine."),
    ] = ""
    user: Annotated[str, _server("--user", "-u", metavar="USER", help="User to log in as.")] = ""
    password: Annotated[
        str | None,
        _server(
            "--password",
            "-p",
            metavar="TEXT",
            help="Password; without TEXT, binlake asks for it. Others can see TEXT in the process list: ~/.my.cnf and BINLAKE_PASSWORD are safer.",
        ),
    ] = field(default=None, repr=False)
    ssl_mode: Annotated[
        str | None,
        _server(
            "--ssl-mode",
            metavar="MODE",
            help="TLS: disabled, preferred, required, verify_ca or verify_identity.",
        ),
    ] = None
    ssl: Annotated[bool | None, _server("--ssl/--skip-ssl", help="Require TLS, or disable it.")] = (
        None
    )
    ssl_verify: Annotated[
        bool | None,
        _server(
            "--ssl-verify-server-cert/--skip-ssl-verify-server-cert",
            help="Verify that the certificate belongs to the host.",
        ),
    ] = None
    protocol: Annotated[
        str,
        _server(
            "--protocol", metavar="tcp|socket", help="How to connect to a server on this machine."
        ),
    ] = ""
    get_public_key: Annotated[
        bool,
        Option("--get-server-public-key", hidden=True, help="Ignored: such a key is not verified."),
    ] = False
    compress: Annotated[bool, _server("--compress", "-C", help="Compress the connection.")] = False
    algorithms: Annotated[
        str | None,
        _server(
            "--compression-algorithms",
            metavar="LIST",
            help="Compression to use: zlib, zstd or uncompressed.",
        ),
    ] = None
    defaults_file: Annotated[
        str | None,
        _server("--defaults-file", metavar="FILE", help="Read this file instead of ~/.my.cnf."),
    ] = None
    no_defaults: Annotated[bool, _server("--no-defaults", help="Read no option file.")] = False
    to_last_log: Annotated[
        bool, _server("--to-last-log", "-t", help="Also read the logs after the named one.")
    ] = False
    stop_never: Annotated[
        bool, _server("--stop-never", help="With --raw: keep copying new data until stopped.")
    ] = False
    connection_server_id: Annotated[
        int,
        _server(
            "--connection-server-id",
            "--stop-never-slave-server-id",
            metavar="N",
            min=0,
            max=(1 << 32) - 1,
            help="The server_id of binlake among the replicas.",
        ),
    ] = 0

    @property
    def is_remote(self) -> bool:
        """Whether the logs are read from a server."""
        return self.remote or self.source is not None

    @property
    def copies(self) -> bool:
        """Whether the command copies logs, or has an option that only a copy supports."""
        return self.raw or self.stop_never


@dataclass(frozen=True, slots=True)
class OtherFlags:
    """The options that end the command."""

    version: Annotated[
        bool,
        Option("--version", "-V", is_eager=True, hidden=True, callback=_show_version),
    ] = False
    flashback: Annotated[bool, Option("--flashback", "-B", hidden=True, callback=_ELSEWHERE)] = (
        False
    )
