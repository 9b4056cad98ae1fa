"""`binlake doctor URL`: check a live server's settings, with the SQL to fix problems."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Exit, Option
from binlake.cli.common.server_flags import ServerUrls, with_server_flags
from binlake.errors import BinlogError, OptionError
from binlake.source.replica.connection import connect
from binlake.source.replica.handshake import FollowOptions
from binlake.source.replica.health import Finding, Severity, Who, clashes, examine


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
    """Check a live server for problems with following its logs.

    Checks settings, privileges, retention, replication, tables and the clock, and prints the SQL to
    fix the problems. It changes nothing. The exit code is 1 if there are problems.

    Examples:
      binlake doctor mysql://repl@db1/

      binlake doctor mariadb://repl@db1/ --json | jq -r '.findings[].sql | select(. != "")'

      binlake doctor --config /etc/binlake.toml
    """
    if config is not None:
        problems = _check_file(config, as_json)
    else:
        problems = _examine(server, as_json)
    if problems:
        raise Exit(1)


def _check_file(config: str, as_json: bool) -> bool:
    """Check everything that a configuration file names; return whether there are problems. Raises
    OptionError.
    """
    from binlake.config.configuration import read_configuration
    from binlake.mirror.configuration import configures_mirror
    from binlake.serve.server import BinlogServer

    if configures_mirror(config):
        return _check_mirror(config, as_json)
    read = read_configuration(config)
    problems = False
    for job in read.archives:
        try:
            problems |= _examine(job.urls, as_json, job.name)
        except BinlogError as error:
            problems = True
            _report(job.name, f"archive.servers.{job.name}", error, as_json)
    for name, settings in read.listeners:
        try:
            served = BinlogServer(settings, lambda _: None)
        except BinlogError as error:
            problems = True
            _report(name, f"serve.listeners.{name}", error, as_json)
            continue
        names = served.library.chain.names
        served.close()
        if not as_json:
            show(f"{name}: {names[0]} to {names[-1]} of {settings.path} can be served")
    return problems


def _check_mirror(config: str, as_json: bool) -> bool:
    """Check a file of `mirror --config`, its server, and that no table is in two modes and no two tables
    have one name in the lake; return whether there are
    problems. Raises OptionError.
    """
    from binlake.cli.mirror.common import need_libraries
    from binlake.mirror.configuration import read_mirror_configuration

    values = read_mirror_configuration(config).values
    need_libraries()
    from binlake.mirror.followed.wanted import WantedTables
    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.source.host import SourceHost
    from binlake.source.replica.url import ServerUrl

    options = MirrorOptions.of(values)
    options.column_rules.pinned()
    urls = ServerUrl.parse_all(values["url"])
    try:
        problems = _examine(urls, as_json, "mirror")
        names = WantedTables(SourceHost(values["url"]), options).names()
        options.check_lake_names(names)
        for name in names:
            options.mode(*name)
    except OptionError:
        raise
    except BinlogError as error:
        problems = True
        _report("mirror", "mirror", error, as_json)
    return problems


def _report(name: str, table: str, error: BinlogError, as_json: bool) -> None:
    """One problem that prevented the check of a server or an archive."""
    text = f"[{table}] {error}"
    if as_json:
        problem = {"severity": Severity.PROBLEM, "subject": "config", "what": text}
        print(json.dumps({"name": name, "findings": [problem]}))
    else:
        show(f"{name}: {text}")


def _examine(server: ServerUrls, as_json: bool, name: str = "") -> bool:
    """Check servers that replicate one another; return whether there are problems."""
    examined = []
    for url in server:
        with connect(url) as connection:
            found = examine(connection, FollowOptions.of(url))
            examined.append((url, connection, Who.of(connection), found))
    together = clashes([who for _, _, who, _ in examined])
    problems = False
    for (url, connection, who, findings), common in zip(examined, together, strict=True):
        found = [*common, *findings]
        problems = problems or any(f.severity is Severity.PROBLEM for f in found)
        if as_json:
            identity = {"server": str(url), "identity": who.identity}
            version = {"flavour": connection.flavour, "version": connection.version_text}
            listed = [asdict(finding) for finding in found]
            named = {"name": name} if name else {}
            print(json.dumps({**named, **identity, **version, "findings": listed}))
        else:
            about = f"{connection.where}: {connection.flavour} {connection.version_text}"
            show(f"{name}{': ' if name else ''}{about}, {who.identity}")
            _show(found)
    return problems


def _show(found: list[Finding]) -> None:
    for finding in found:
        show(f"{finding.severity:<8} {finding.what}{': ' if finding.why else ''}{finding.why}")
        if finding.sql:
            show(f"         {finding.sql};")
    if not any(finding.severity is not Severity.NOTE for finding in found):
        print("all is well")
