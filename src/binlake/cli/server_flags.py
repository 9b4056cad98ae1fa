"""The flags of commands that talk to a live server: what its URL may say, as flags.

A command function takes `server: ServerUrls`; `with_server_flags` replaces that parameter by
the argument URL and one flag per option of a connection.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from binlake.source.replica.url import ServerUrl

__all__ = ["CONNECTION_FLAGS", "ServerUrls", "with_server_flags", "with_server_flags_except"]

#: The servers that were named: of several, those that replicate one another.
ServerUrls: TypeAlias = tuple[ServerUrl, ...]

_PANEL = "Connection (the URL's query takes them too, without --)"

#: Flag -> (option of the URL, what stands for its value). `--server-id` is a filter, so our own
#: number among the replicas is `--replica-id`.
CONNECTION_FLAGS: dict[str, tuple[str, str, str]] = {
    "--password-file": ("password-file", "FILE", "first line: the password"),
    "--option-file": ("option-file", "FILE", "read [client] there, not in ~/.my.cnf; none"),
    "--ssl-mode": ("ssl-mode", "MODE", "disabled|preferred|required|verify_ca|verify_identity"),
    "--ssl-ca": ("ssl-ca", "FILE", "authorities that sign the server's certificate"),
    "--ssl-cert": ("ssl-cert", "FILE", "certificate of this client"),
    "--ssl-key": ("ssl-key", "FILE", "key of this client"),
    "--server-public-key": ("server-public-key", "FILE", "the server's RSA key, without TLS"),
    "--compress": ("compress", "zlib|zstd", "compress the connection"),
    "--bind-address": ("bind-address", "ADDRESS", "of this machine, to connect from"),
    "--connect-timeout": ("connect-timeout", "SECONDS", "until a login must have succeeded"),
    "--read-timeout": ("read-timeout", "SECONDS", "of silence: the server is dead"),
    "--heartbeat": ("heartbeat", "SECONDS", "how often an idle server shows that it is alive"),
    "--replica-id": ("server-id", "N", "our number among the replicas; default: one is chosen"),
    "--report-host": ("report-host", "HOST", "shown in the server's list of replicas"),
    "--report-port": ("report-port", "PORT", "shown there"),
    "--report-user": ("report-user", "USER", "shown there"),
    "--semi-sync": ("semi-sync", "on|off", "acknowledge what is durable"),
    "--skip-replication": ("skip-replication", "keep|drop|filter", "events with that flag"),
}


def with_server_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument URL and the flags; it receives them as `server`."""
    return with_server_flags_except()(command)


def with_server_flags_except(*flags: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for a command to which some of the flags mean nothing, or something else."""
    kept = [flag for flag in CONNECTION_FLAGS if flag not in flags]
    return lambda command: _with(command, kept)


def _with(command: Callable[..., Any], flags: Sequence[str]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(**given: Any) -> Any:
        text = given.pop("url")
        options = {
            CONNECTION_FLAGS[flag][0].replace("-", "_"): given.pop(_parameter_name(flag))
            for flag in flags
        }
        urls = tuple(url.with_options(**options) for url in ServerUrl.parse_all(text))
        return command(server=urls, **given)

    url = inspect.Parameter(
        "url",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[
            str,
            typer.Argument(metavar="URL", help="mysql://user@host:port/ or mariadb://…; several "
                           "hosts, separated by commas, replicate one another."),
        ],
    )  # fmt: skip
    others = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "server"
    ]
    parameters = [url, *others, *(_parameter(flag) for flag in flags)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # the signature above is the real one
    return run


def _parameter_name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _parameter(flag: str) -> inspect.Parameter:
    _, metavar, text = CONNECTION_FLAGS[flag]
    option = typer.Option(
        flag, metavar=metavar, help=text, rich_help_panel=_PANEL, show_default=False
    )
    return inspect.Parameter(
        _parameter_name(flag),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )
