"""`binlake serve`: an archive as a source that replicas follow."""

from __future__ import annotations

import getpass
import os
import re
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from binlake.cli.flags import with_options
from binlake.cli.terminal import note
from binlake.errors import OptionError
from binlake.serve.metrics import serve_metrics
from binlake.serve.server import BinlogServer
from binlake.serve.settings import Settings
from binlake.source.keyring import Keyring
from binlake.values.options import ReadOptions

__all__ = ["serve"]

_PASSWORD_VARIABLE = "BINLAKE_SERVE_PASSWORD"
_MAX_PASSWORD_BYTES = 4096
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@with_options("keyring", "keyring_password_file")
def serve(
    path: Annotated[
        str,
        typer.Argument(metavar="DIR", help="An archive, or logs: directory, glob, .index, URI."),
    ],
    options: ReadOptions,
    user: Annotated[str, typer.Option(help="The name that replicas log in with.")] = "replica",
    password_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help=f"Its first line is the password; else ${_PASSWORD_VARIABLE}, else a question.",
        ),
    ] = None,
    bind: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 3307,
    source: Annotated[
        str, typer.Option(metavar="SERVER", help="Which server of an archive of several.")
    ] = "",
    server_id: Annotated[
        int | None,
        typer.Option(help="The server_id to answer with.", min=1, max=(1 << 32) - 1),
    ] = None,
    server_uuid: Annotated[
        str | None, typer.Option(metavar="UUID", help="The server_uuid to answer with (MySQL).")
    ] = None,
    ssl_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Certificate (PEM); else one is made.")
    ] = None,
    ssl_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its private key (PEM).")
    ] = None,
    require_tls: Annotated[
        bool, typer.Option("--require-tls", help="Refuse connections without TLS.")
    ] = False,
    max_connections: Annotated[
        int, typer.Option(help="Connections at the same time.", min=1)
    ] = 100,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port of Prometheus metrics; none without.", min=1, max=65535)
    ] = None,
) -> None:
    """Serve an archive to replicas, as the server that wrote its logs would.

    MySQL and MariaDB replicas attach with CHANGE REPLICATION SOURCE TO (CHANGE MASTER TO), by
    position or by GTID; mysqlbinlog --read-from-remote-server works too. What a running
    `binlake archive` adds is sent as it comes. Nothing is ever written.

    Examples:
      binlake serve /archive/3e11fa47-71ca-11e1-9e33-c80aa9429562 --password-file secret

      binlake serve /var/backups/binlogs --bind 0.0.0.0 --port 3306 --require-tls
    """
    settings = Settings(
        path=path,
        user=user,
        password=_password(password_file, user),
        bind=bind,
        port=port,
        source=source,
        server_id=server_id,
        server_uuid=_checked_uuid(server_uuid),
        certificate=ssl_cert,
        private_key=ssl_key,
        require_tls=require_tls,
        keyring=Keyring.of(options),
        max_connections=max_connections,
        metrics_port=metrics_port,
    )
    run(BinlogServer(settings, note))


def run(server: BinlogServer) -> None:
    """Serve until SIGTERM or SIGINT."""
    server.start()
    end_metrics = None
    previous = {
        number: signal.signal(number, lambda *_: server.stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        if server.settings.metrics_port is not None:
            end_metrics = serve_metrics(server, server.settings.metrics_port)
        names = server.library.chain.names
        host, port = server.address
        note(
            f"serving {names[0]} to {names[-1]} of {server.library.path} ({server.who.version}) at"
            f" {host}:{port} as server_id {server.who.server_id}"
            + (f", server_uuid {server.who.server_uuid}" if server.who.flavour == "mysql" else "")
        )
        if server.tls.self_made:
            note(f"TLS with a certificate made now, SHA-256 {server.tls.fingerprint.hex()}")
        server.run()
        note("stopping")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        server.close()
        if end_metrics is not None:
            end_metrics()


def _password(path: str | None, user: str) -> str:
    """The password of our user. Raises OptionError where there is none."""
    if path is not None:
        try:
            with Path(path).open("rb") as file:
                password = file.read(_MAX_PASSWORD_BYTES).partition(b"\n")[0].rstrip(b"\r").decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise OptionError(
                f"cannot read the password file {path}: {reason}", name="password_file"
            ) from None
    elif _PASSWORD_VARIABLE in os.environ:
        password = os.environ[_PASSWORD_VARIABLE]
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        password = getpass.getpass(f"Password that {user} will log in with: ")
    else:
        raise OptionError(
            "replicas need a password to log in with",
            name="password_file",
            hint=f"--password-file FILE, or ${_PASSWORD_VARIABLE}",
        )
    if not password:
        raise OptionError("the password is empty", name="password_file")
    return password


def _checked_uuid(text: str | None) -> str | None:
    if text is not None and not _UUID.fullmatch(text):
        raise OptionError(f"{text!r} is not a UUID", name="server_uuid", value=text)
    return None if text is None else text.lower()
