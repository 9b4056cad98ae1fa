"""The part of `binlake mysqlbinlog` about servers: the connection, and which of their logs."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from binlake.errors import OptionError
from binlake.source.replica.passwords import remember
from binlake.source.replica.url import ServerUrl
from binlake.source.resolve import resolve

if TYPE_CHECKING:
    from binlake.cli.mysqlbinlog.flags import RemoteFlags

#: Stands for a password that the user types: no text that a shell can pass.
ASK_PASSWORD = "\0"

_PROTOCOLS = ("", "tcp", "socket")


def server_url(login: RemoteFlags, connection: Mapping[str, str]) -> ServerUrl:
    """Return the URL of a login, with the options of `connection`. Its password is remembered, not in the
    URL. Raises OptionError.
    """
    mode = tls_mode(login.ssl_mode, ssl=login.ssl, verify=login.ssl_verify)
    algorithms = login.algorithms
    if algorithms is None and login.compress:
        algorithms = "zlib"
    compress = None if algorithms is None else _compression(algorithms)
    url = ServerUrl(
        "mysql", _host(login), 0 if login.socket else login.port, login.user, login.socket
    ).with_options(
        ssl_mode=mode.lower() if mode is not None else None,
        compress=compress,
        option_file="none" if login.no_defaults else login.defaults_file,
        **connection,
    )
    password = login.password
    if password == ASK_PASSWORD:
        password = getpass.getpass("Enter password: ")
    if password is not None:
        remember(url.account, password)
    return url


def _host(login: RemoteFlags) -> str:
    """Return the host of a connection over TCP, or ""; as for the tool, localhost is not an
    address.
    """
    protocol = login.protocol.lower()
    if protocol not in _PROTOCOLS:
        raise OptionError(
            f"--protocol {login.protocol!r}: expected tcp or socket", name="--protocol"
        )
    if protocol == "tcp" and login.socket:
        raise OptionError("--protocol tcp and --socket cannot be combined", name="--protocol")
    if protocol == "socket" and not login.socket:
        raise OptionError("--protocol socket requires --socket FILE", name="--protocol")
    if login.socket or (login.host == "localhost" and not login.port and not protocol):
        return ""
    return login.host or ("localhost" if protocol else "")


def tls_mode(mode: str | None, *, ssl: bool | None, verify: bool | None) -> str | None:
    """Return the mode of MySQL's --ssl-mode, or MariaDB's two flags. Raises OptionError."""
    if ssl is None and verify is None:
        return mode
    if mode is not None:
        raise OptionError(
            "--ssl-mode cannot be combined with --ssl, --skip-ssl and --ssl-verify-server-cert",
            name="--ssl-mode",
        )
    if verify:
        if ssl is False:
            raise OptionError("--ssl-verify-server-cert needs TLS", name="--skip-ssl")
        return "verify_identity"
    return None if ssl is None else "required" if ssl else "disabled"


def _compression(algorithms: str) -> str:
    """Return the first of the tool's algorithms, the preferred one, as a URL has it. Raises OptionError."""
    named = [name.strip().lower() for name in algorithms.split(",")]
    for name in named:
        if name not in ("zlib", "zstd", "uncompressed"):
            raise OptionError(
                f"--compression-algorithms {name!r}: expected one of zlib, zstd, uncompressed",
                name="--compression-algorithms",
            )
    # the URL has an empty word for none
    return "" if named[0] == "uncompressed" else named[0]


def password_asked_for(arguments: Sequence[str]) -> list[str]:
    """Mark `-p` and `--password` without a text in a command line: the tools then ask for the
    password.
    """
    return [f"--password={ASK_PASSWORD}" if a in ("-p", "--password") else a for a in arguments]


def raw_position(text: str | None) -> int:
    """Parse a byte position. Raises OptionError."""
    if text is None:
        return 0
    if not text.isdecimal():
        raise OptionError(
            f"--start-position {text!r}: with --raw it must be a number", name="--start-position"
        )
    return int(text)


def logs_from(url: ServerUrl, name: str) -> list[str]:
    """Return a log of a server and all later ones, in the form that every command reads. Raises SourceError,
    ServerError.
    """
    (chain,) = resolve([str(url)])
    first = next((n for n, file in enumerate(chain.files) if file.name == name), None)
    if first is None:
        raise OptionError(f"{url.where} has no log {name}", name="FILE")
    return [file.path for file in chain.files[first:]]
