"""The options of the servers' tools for connections and the environment, as tables.

`with_tool_options` gives them to the command, which receives the first kind as `connection`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from binlake.cli.common.parameters import Option, flag_name, flag_parameter, with_parameters
from binlake.cli.common.server_flags import url_flag
from binlake.errors import OptionError

#: Flag -> option of a URL.
CONNECTION: dict[str, str] = {
    "--ssl-ca": "ssl-ca",
    "--ssl-cert": "ssl-cert",
    "--ssl-key": "ssl-key",
    "--ssl-capath": "ssl-capath",
    "--ssl-crl": "ssl-crl",
    "--ssl-crlpath": "ssl-crlpath",
    "--ssl-cipher": "ssl-cipher",
    "--tls-version": "tls-version",
    "--server-public-key-path": "server-public-key",
    "--bind-address": "bind-address",
    "--zstd-compression-level": "zstd-compression-level",
    "--defaults-extra-file": "extra-option-file",
    "--defaults-group-suffix": "option-group-suffix",
    "--login-path": "login-path",
}
#: Flag -> whether it has a value: accepted, and without effect, because nothing here depends on
#: it.
UNNEEDED: dict[str, bool] = {
    "--character-sets-dir": True,  # character sets are built in
    "--plugin-dir": True,  # so are logins, and the server names the one that it wants
    "--default-auth": True,
    "--open-files-limit": True,
    "--print-row-event-positions": False,
    "--gtid-strict-mode": False,
    "--no-login-paths": False,  # binlake reads only files that are named
    "--debug-check": False,
    "--debug-info": False,
}
#: Flag -> (whether it has a value, why it is refused, or the option to use instead).
REFUSED: dict[str, tuple[bool, str]] = {
    "--tls-ciphersuites": (True, "the suites of TLS 1.3 cannot be chosen; use --tls-version"),
    "--tls-sni-servername": (True, "binlake sends the name of the host"),
    "--ssl-fips-mode": (True, "set it in the configuration of OpenSSL on this machine"),
    "--ssl-session-data": (True, "binlake does not reuse TLS sessions"),
    "--ssl-session-data-continue-on-failed-reuse": (False, "binlake does not reuse TLS sessions"),
    "--ssl-fp": (True, "use --ssl-ca and --ssl-mode=verify_identity"),
    "--ssl-fplist": (True, "use --ssl-ca and --ssl-mode=verify_identity"),
    "--server-id-bits": (True, "a server_id has 32 bits here"),
    "--require-row-format": (False, "see binlake rows --on-unshown error"),
    "--table": (True, "see binlake rows --table, binlake sql --table"),
    "--skip-print-row-event-positions": (False, "the output does not contain them"),
    "--skip-gtid-strict-mode": (False, "binlake always checks the order of positions"),
    "--print-defaults": (False, "see binlake mysqlbinlog --help"),
    "--binlog-row-event-max-size": (True, "binlake prints events as they are in the log"),
}
PANEL = "From a server"


def with_tool_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of the tables; it receives `connection`, URL options by name."""

    def connection_of(given: dict[str, Any]) -> dict[str, str]:
        connection = {option: given.pop(flag_name(flag)) for flag, option in CONNECTION.items()}
        for flag in UNNEEDED:
            given.pop(flag_name(flag))
        for flag, (_, why) in REFUSED.items():
            if given.pop(flag_name(flag)):
                raise OptionError(f"{flag}: {why}", name=flag)
        return {flag_name(name): v for name, v in connection.items() if v is not None}

    shown = [url_flag(flag, option, PANEL) for flag, option in CONNECTION.items()]
    takes_value = UNNEEDED | {flag: has for flag, (has, _) in REFUSED.items()}
    hidden = [_hidden(flag, str | None if has else bool) for flag, has in takes_value.items()]
    return with_parameters(command, "connection", [*shown, *hidden], connection_of)


def _hidden(flag: str, kind: Any) -> inspect.Parameter:
    names = (flag, "-T") if flag == "--table" else (flag,)
    return flag_parameter(flag_name(flag), kind, Option(*names, hidden=True))
