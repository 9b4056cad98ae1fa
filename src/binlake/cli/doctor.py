"""`binlake doctor URL`: check a live server's settings, with the SQL to fix problems."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Annotated, NamedTuple

from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Exit, Option
from binlake.cli.common.server_flags import ServerUrls, with_server_flags
from binlake.errors import BinlogError, OptionError
from binlake.source.replica.connection import ServerConnection, connect
from binlake.source.replica.handshake import FollowOptions
from binlake.source.replica.health import Finding, Severity, Who, clashes, examine
from binlake.source.replica.url import ServerUrl


class Examined(NamedTuple):
    """A server and what was found on it."""

    url: ServerUrl
    connection: ServerConnection
    who: Who
    found: list[Finding]


class Report(ABC):
    """Prints the results of the checks. `name` is the name of a server, listener or mirror in a file."""

    @abstractmethod
    def server(self, name: str, examined: Examined) -> None:
        """Print the findings of a server."""

    @abstractmethod
    def error(self, name: str, table: str, error: BinlogError) -> None:
        """Print a problem that prevented the check of `table` of the file."""

    @abstractmethod
    def servable(self, name: str, logs: str) -> None:
        """Print that a listener can serve its logs."""


class JsonReport(Report):
    """One JSON object for each server."""

    def server(self, name: str, examined: Examined) -> None:
        connection = examined.connection
        identity = {"server": str(examined.url), "identity": examined.who.identity}
        version = {"flavour": connection.flavour, "version": connection.version_text}
        listed = [asdict(finding) for finding in examined.found]
        named = {"name": name} if name else {}
        print(json.dumps({**named, **identity, **version, "findings": listed}))

    def error(self, name: str, table: str, error: BinlogError) -> None:
        problem = Finding(Severity.PROBLEM, "config", f"[{table}] {error}", "")
        print(json.dumps({"name": name, "findings": [asdict(problem)]}))

    def servable(self, name: str, logs: str) -> None:
        """Print nothing: a listener is not a server."""


class TextReport(Report):
    """Lines for people."""

    def server(self, name: str, examined: Examined) -> None:
        connection = examined.connection
        about = f"{connection.where}: {connection.flavour} {connection.version_text}"
        show(f"{name}{': ' if name else ''}{about}, {examined.who.identity}")
        for finding in examined.found:
            show(f"{finding.severity:<8} {finding.what}{': ' if finding.why else ''}{finding.why}")
            if finding.sql:
                show(f"         {finding.sql};")
        if not any(finding.severity is not Severity.NOTE for finding in examined.found):
            print("all is well")

    def error(self, name: str, table: str, error: BinlogError) -> None:
        show(f"{name}: [{table}] {error}")

    def servable(self, name: str, logs: str) -> None:
        show(f"{name}: {logs} can be served")


@with_server_flags(beside_config=("as_json",))
def doctor(
    server: ServerUrls,
    config: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Check a TOML file of archive and serve, or of mirror, and its servers.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per server.")] = False,
) -> None:
    """Check a live server's settings for replication problems, and print the SQL to fix them.

    It also checks privileges, retention, replication, tables and the clock. It changes nothing. The exit
    code is 1 if there are problems.

    Examples:
      binlake doctor mysql://repl@db1/

      binlake doctor mariadb://repl@db1/ --json | jq -r '.findings[].sql | select(. != "")'

      binlake doctor --config /etc/binlake.toml
    """
    report: Report = JsonReport() if as_json else TextReport()
    problems = _examine(server, report) if config is None else _check_file(config, report)
    if problems:
        raise Exit(1)


def _check_file(config: str, report: Report) -> bool:
    """Check everything that a configuration file names; return whether there are problems. Raises
    OptionError.
    """
    from binlake.config.configuration import read_configuration
    from binlake.mirror.configuration import configures_mirror
    from binlake.serve.server import BinlogServer

    if configures_mirror(config):
        return _check_mirror(config, report)
    read = read_configuration(config)
    problems = False
    for job in read.archives:
        try:
            problems |= _examine(job.urls, report, job.name)
        except BinlogError as error:
            problems = True
            report.error(job.name, f"archive.servers.{job.name}", error)
    for name, settings in read.listeners:
        try:
            served = BinlogServer(settings, lambda _: None)
        except BinlogError as error:
            problems = True
            report.error(name, f"serve.listeners.{name}", error)
            continue
        logs = served.library.chain.shown
        served.close()
        report.servable(name, f"{logs} of {settings.path}")
    return problems


def _check_mirror(config: str, report: Report) -> bool:
    """Check a file of `mirror --config`, its server, and that no table is in two modes and no two tables
    have one name in the lake; return whether there are problems. Raises OptionError.
    """
    from binlake.cli.mirror.common import need_libraries
    from binlake.mirror.configuration import read_mirror_configuration

    values = read_mirror_configuration(config).values
    need_libraries()
    from binlake.mirror.followed.wanted import WantedTables
    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.source.host import SourceHost

    options = MirrorOptions.of(values)
    options.column_rules.pinned()
    urls = ServerUrl.parse_all(values["url"])
    try:
        problems = _examine(urls, report, "mirror")
        tables = WantedTables(SourceHost(values["url"]), options)
        options.check_case(tables.has_lower_case_names)
        options.check_tables(tables.names())
    except OptionError:
        raise
    except BinlogError as error:
        problems = True
        report.error("mirror", "mirror", error)
    return problems


def _examine(server: ServerUrls, report: Report, name: str = "") -> bool:
    """Check servers that replicate one another; return whether there are problems."""
    examined = []
    for url in server:
        with connect(url) as connection:
            found = examine(connection, FollowOptions.of(url))
            examined.append(Examined(url, connection, Who.of(connection), found))
    problems = False
    for one, common in zip(examined, clashes([one.who for one in examined]), strict=True):
        found = [*common, *one.found]
        problems = problems or any(f.severity is Severity.PROBLEM for f in found)
        report.server(name, one._replace(found=found))
    return problems
