"""Checks that take a moment, so that a mistake is an error before Spark starts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from binlake.errors import BinlogError, OptionError, SourceError
from binlake.follow.logs import DirectoryLogs
from binlake.mirror.control import NAMESPACE
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.lake_state import check_lake, check_store, index_directory, lock
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.logs import logs_directory
from binlake.mirror.source.privileges import check_privileges
from binlake.mirror.tables.formats import check_format
from binlake.source.bytes import is_uri, local_path
from binlake.source.locations import check_no_password, has_wildcards, location
from binlake.source.replica.connection import connect_any
from binlake.source.replica.url import ServerUrl
from binlake.values.options import ReadOptions


def check_location(url: str, lake: str, options: MirrorOptions) -> None:
    """Raise OptionError, SourceError for a server or a lake that the mirror cannot use."""
    check_no_password(url, "url")
    check_no_log(url)
    check_lake(lake)
    check_format(lake, options)
    check_store(lake)


def check_no_log(url: str) -> None:
    """Raise OptionError if the URL has a path: it names one log, and users may think that it chooses a database."""
    for one in ServerUrl.parse_all(url):
        if one.log_name:
            raise OptionError(
                f"a mirror reads all logs of a server, and the path of {one} names one log",
                name="url",
                hint=f"end the URL after the host; `--table '{one.log_name}.*'` chooses the tables of a database",
            )


def check_logs(logs: str | None) -> None:
    """Raise SourceError if an archive has no logs that can be read; OptionError if it is not there, or has those of several
    servers.
    """
    if logs is not None:
        # (a store has no directories: a prefix may get its first log later)
        is_local = not is_uri(path := local_path(logs))
        if is_local and not has_wildcards(logs) and (archive := location(path)).kind() == "missing":
            raise OptionError(f"{archive.shown} does not exist", name="logs", value=logs)
        with closing(DirectoryLogs([logs_directory(logs)], ReadOptions())) as found:
            found.look()


def check_server(url: str, logs: str | None = None) -> None:
    """Log in to the first host that answers. Raises ServerError, also if the server writes no binary log, and if the user lacks a
    privilege of the whole server; `logs`: the archive whose logs the mirror reads instead of those of the server.
    """
    with connect_any(ServerUrl.parse_all(url)) as server:
        server.end()
        check_privileges(server, reads_log=logs is None)


def check_tables(url: str, lake: str, options: MirrorOptions) -> None:
    """Raise OptionError if the options do not fit the tables of the server, for a directory without a mirror: others may
    have tables that a user has removed from the mirror.
    """
    if "://" in lake or Path(lake, NAMESPACE).is_dir():
        return
    tables = WantedTables(SourceHost(url), options)
    options.check_case(tables.has_lower_case_names)
    options.check_tables(tables.names())


def check_state(lake: str, state: str | None) -> None:
    """Raise BinlogError if another process mirrors into a lake, or if the directory of its row indexes cannot be written.

    Both may pass, so they are no mistakes of the user.
    """
    try:
        lock(index_directory(lake, state), lake).close()
    except SourceError as error:
        raise BinlogError(error.message, hint=error.hint) from error
