"""`binlake serve`: serve an archive as a source that replicas follow."""

from __future__ import annotations

import getpass
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Annotated

from binlake.cli.common.flags import with_options
from binlake.cli.common.parameters import Argument, Option, option_of_key, with_fields
from binlake.cli.common.server_flags import refuse_beside_config
from binlake.cli.common.terminal import note
from binlake.config.keys import LISTENER_KEYS, SERVE_KEYS
from binlake.config.toml_file import default_values
from binlake.errors import OptionError
from binlake.interrupts import end_by_signal
from binlake.serve.library import Library
from binlake.serve.metrics import serve_metrics
from binlake.serve.server import BinlogServer
from binlake.serve.settings import Settings
from binlake.source.keyring import Keyring
from binlake.source.replica.passwords import password_of_file
from binlake.values.gtid import SERVER_UUID
from binlake.values.options import ReadOptions

_PASSWORD_VARIABLE = "BINLAKE_SERVE_PASSWORD"
_STEP_SECONDS = 0.5
_KEYS = SERVE_KEYS | LISTENER_KEYS
_DEFAULTS = default_values(_KEYS)


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The options of `binlake serve` for one archive."""

    user: Annotated[str, option_of_key(_KEYS["user"])] = _DEFAULTS["user"]
    password_file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help=f"File whose first line is the password. By default binlake uses ${_PASSWORD_VARIABLE}, or prompts for it.",
        ),
    ] = None
    bind: Annotated[str, option_of_key(_KEYS["bind"])] = _DEFAULTS["bind"]
    port: Annotated[int, option_of_key(_KEYS["port"])] = 3307  # a listener of a file names its port
    source: Annotated[str, option_of_key(_KEYS["source"], metavar="SERVER")] = ""
    server_id: Annotated[int | None, option_of_key(_KEYS["server_id"])] = None
    server_uuid: Annotated[str | None, option_of_key(_KEYS["server_uuid"], metavar="UUID")] = None
    ssl_cert: Annotated[str | None, option_of_key(_KEYS["ssl_cert"], metavar="FILE")] = None
    ssl_key: Annotated[str | None, option_of_key(_KEYS["ssl_key"], metavar="FILE")] = None
    require_tls: Annotated[bool, option_of_key(_KEYS["require_tls"], "--require-tls")] = _DEFAULTS[
        "require_tls"
    ]
    max_connections: Annotated[int, option_of_key(_KEYS["max_connections"])] = _DEFAULTS[
        "max_connections"
    ]
    metrics_port: Annotated[int | None, option_of_key(_KEYS["metrics_port"])] = None

    def settings(self, path: str, keyring: Keyring | None) -> Settings:
        """Return how the archive is served; asks for the password if it is not given. Raises OptionError, SourceError."""
        password = _given_password(self.password_file)
        if password is None:
            Library(path, self.source, keyring)  # a wrong path is an error before binlake asks
            password = _asked_password(self.user)
        if not password:
            raise OptionError("the password is empty", name="password_file")
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["password_file"]
        values["server_uuid"] = _checked_uuid(self.server_uuid)
        return Settings(path=path, password=password, keyring=keyring, **values)


@with_options("keyring", "keyring_password_file")
@with_fields("flags")
def serve(
    options: ReadOptions,
    *,
    path: Annotated[
        str | None,
        Argument(
            metavar="DIR",
            required=False,
            help="An archive, or logs: directory, glob, .index, URI.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        Option(metavar="FILE", help="Serve the archives of a TOML file, without DIR."),
    ] = None,
    flags: ServeFlags,
) -> None:
    """Let replicas follow an archive in place of the server that wrote it.

    MySQL and MariaDB replicas attach with CHANGE REPLICATION SOURCE TO (CHANGE MASTER TO), by
    position or by GTID; mysqlbinlog --read-from-remote-server works too. Replicas receive new events
    as a running `binlake archive` adds them. serve writes nothing.

    Examples:
      binlake serve /archive/3e11fa47-71ca-11e1-9e33-c80aa9429562 --password-file secret

      binlake serve /var/backups/binlogs --bind 0.0.0.0 --port 3306 --require-tls

      binlake serve --config /etc/binlake.toml
    """
    if config is not None:
        refuse_beside_config(config, "keyring_password_file")
        _serve_all(config)
        return
    if path is None:
        raise OptionError("DIR is missing: the archive to serve", name="path")
    settings = flags.settings(path, Keyring.of(options))
    run([BinlogServer(settings, note)])


def _serve_all(config: str) -> None:
    """Serve the archives of a configuration file. Raises OptionError, SourceError."""
    from binlake.config.configuration import read_configuration

    listeners = read_configuration(config).listeners
    if not listeners:
        raise OptionError(f"{config}: no [serve.listeners.NAME] to serve", name="config")
    run([BinlogServer(settings, _noting(name)) for name, settings in listeners])


def _noting(name: str) -> Callable[[str], None]:
    return lambda line: note(f"{name}: {line}")


def run(servers: Sequence[BinlogServer]) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = threading.Event()
    threads = [threading.Thread(target=server.run) for server in servers]
    with end_by_signal(stop.set), ExitStack() as stack:
        for server in servers:
            stack.callback(server.close)
            server.start()
            if server.settings.metrics_port is not None:
                stack.callback(serve_metrics(server, server.settings.metrics_port))
            _introduce(server)
        for thread in threads:
            thread.start()
        # in steps, so that a signal is handled meanwhile
        while not stop.wait(_STEP_SECONDS) and any(thread.is_alive() for thread in threads):
            pass
        note("stopping")
        for server in servers:
            server.stop()
        for thread in threads:
            thread.join()


def _introduce(server: BinlogServer) -> None:
    """Print the served logs and the address."""
    host, port = server.address
    server.note(
        f"serving {server.library.chain.shown} of {server.library.path} ({server.who.version}) at"
        f" {host}:{port} as server_id {server.who.server_id}"
        + (f", server_uuid {server.who.server_uuid}" if server.who.flavour == "mysql" else "")
    )
    if server.tls.self_made:
        server.note(f"TLS with a new certificate, SHA-256 {server.tls.fingerprint.hex()}")


def _given_password(path: str | None) -> str | None:
    """Return the password of a file or of the environment, None if neither is given."""
    return os.environ.get(_PASSWORD_VARIABLE) if path is None else password_of_file(path)


def _asked_password(user: str) -> str:
    """Ask for the password of the user. Raises OptionError without a terminal to ask on."""
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        return getpass.getpass(f"Password that {user} will log in with: ")
    raise OptionError(
        "the password with which replicas log in is missing",
        name="password_file",
        hint=f"use --password-file FILE or ${_PASSWORD_VARIABLE}",
    )


def _checked_uuid(text: str | None) -> str | None:
    if text is not None and not SERVER_UUID.fullmatch(text):
        raise OptionError(f"{text!r} is not a UUID", name="server_uuid", value=text)
    return None if text is None else text.lower()
