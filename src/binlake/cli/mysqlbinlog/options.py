"""The options of the servers' tools for connections and the environment, as tables.

`with_tool_options` gives them to the command, which receives the first kind as `connection`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from binlake.cli.common.parameters import Option
from binlake.errors import OptionError

__all__ = ["CONNECTION", "REFUSED", "UNNEEDED", "with_tool_options"]

#: Flag -> (option of a URL, placeholder of its value, help).
CONNECTION: dict[str, tuple[str, str, str]] = {
    "--bind-address": ("bind-address", "ADDRESS", "Address of this machine to connect from."),
    "--zstd-compression-level": (
        "zstd-compression-level",
        "N",
        "Compression level of zstd, 1 to 22.",
    ),
    "--defaults-extra-file": ("extra-option-file", "FILE", "Also read this file, last."),
    "--defaults-group-suffix": (
        "option-group-suffix",
        "TEXT",
        "Also read groups that end with this text.",
    ),
    "--login-path": (
        "login-path",
        "NAME",
        "A login that mysql_config_editor stored in ~/.mylogin.cnf.",
    ),
    "--ssl-capath": ("ssl-capath", "DIR", "Directory of certificate authorities, by hash."),
    "--ssl-crl": ("ssl-crl", "FILE", "Revoked certificates."),
    "--ssl-crlpath": ("ssl-crlpath", "DIR", "Directory of revoked certificates, by hash."),
    "--ssl-cipher": ("ssl-cipher", "LIST", "Ciphers up to TLS 1.2."),
    "--tls-version": ("tls-version", "LIST", "Versions of TLS (TLSv1.2,TLSv1.3)."),
}
#: Flag -> whether it has a value: accepted, and without effect, because nothing here depends on
#: it.
UNNEEDED: dict[str, bool] = {
    "--character-sets-dir": True,  # character sets are built in
    "--plugin-dir": True,  # so are logins, and the server says which one it wants
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
_PANEL = "From a server"


def with_tool_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of the tables; it receives `connection`, URL options by name."""

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        connection = {option: given.pop(_name(flag)) for flag, (option, _, _) in CONNECTION.items()}
        for flag in UNNEEDED:
            given.pop(_name(flag))
        for flag, (_, why) in REFUSED.items():
            if given.pop(_name(flag)):
                raise OptionError(f"{flag}: {why}", name=flag)
        return command(connection={k: v for k, v in connection.items() if v is not None}, **given)

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "connection"
    ]
    shown = [
        _parameter(flag, str, help=help, metavar=metavar, panel=_PANEL)
        for flag, (_, metavar, help) in CONNECTION.items()
    ]
    hidden = [
        _parameter(flag, str if has_value else bool, hidden=True)
        for flag, has_value in {**UNNEEDED, **{f: has for f, (has, _) in REFUSED.items()}}.items()
    ]
    parameters = [*own, *shown, *hidden]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # the signature above is the real one
    return run


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _parameter(flag: str, kind: type, **more: Any) -> inspect.Parameter:
    names = (flag, "-T") if flag == "--table" else (flag,)
    option = Option(*names, show_default=False, **more)
    is_text = kind is str
    return inspect.Parameter(
        _name(flag),
        inspect.Parameter.KEYWORD_ONLY,
        default=None if is_text else False,
        annotation=Annotated[str | None if is_text else bool, option],
    )
