"""`binlake doctor URL`: what of a live server will make trouble, and the SQL that mends it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from binlake.cli.server_flags import ServerUrls, with_server_flags
from binlake.source.replica.connection import connect
from binlake.source.replica.health import Finding, Severity, Who, clashes, examine
from binlake.source.replica.session import FollowOptions

__all__ = ["doctor"]


@with_server_flags
def doctor(
    server: ServerUrls,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per server.")] = False,
) -> None:
    """Say what of a live server will make trouble for whoever follows its logs.

    Looks at settings, privileges, retention, replication, tables and the clock, and prints the
    SQL that mends what is wrong; nothing is changed. Exit code 1 if there are problems.

    Examples:
      binlake doctor mysql://repl@db1/

      binlake doctor mariadb://repl@db1/ --json | jq -r '.findings[].sql | select(. != "")'
    """
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
            print(json.dumps({**identity, **version, "findings": listed}))
        else:
            about = f"{connection.where}: {connection.flavour} {connection.version_text}"
            print(f"{about}, {who.identity}")
            _show(found)
    if problems:
        raise typer.Exit(1)


def _show(found: list[Finding]) -> None:
    for finding in found:
        print(f"{finding.severity:<8} {finding.what}{': ' if finding.why else ''}{finding.why}")
        if finding.sql:
            print(f"         {finding.sql};")
    if not any(finding.severity is not Severity.NOTE for finding in found):
        print("all is well")
