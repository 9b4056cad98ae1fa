"""The flags of commands that connect to a live server: the options of its URL, as flags.

A command function takes `server: ServerUrls`; `with_server_flags` replaces that parameter by the
argument URL and one flag per option of a connection.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from binlake.cli.common.parameters import Argument, Option
from binlake.errors import OptionError
from binlake.source.replica.url import ServerUrl

__all__ = [
    "CONNECTION_FLAGS",
    "ServerUrls",
    "refuse_beside_config",
    "with_server_flags",
    "with_server_flags_except",
]

#: The servers of the URL; several servers replicate one another.
ServerUrls: TypeAlias = tuple[ServerUrl, ...]

_PANEL = "Connection (the URL's query takes them too, without --)"

#: Flag -> (option of the URL, placeholder of its value). `--server-id` is a filter, so the server
#: id of binlake as a replica is `--replica-id`.
CONNECTION_FLAGS: dict[str, tuple[str, str, str]] = {
    "--password-file": ("password-file", "FILE", "file whose first line is the password"),
    "--option-file": ("option-file", "FILE", "option file instead of ~/.my.cnf; none reads none"),
    "--ssl-mode": ("ssl-mode", "MODE", "disabled|preferred|required|verify_ca|verify_identity"),
    "--ssl-ca": ("ssl-ca", "FILE", "certificate authorities for the server's certificate"),
    "--ssl-cert": ("ssl-cert", "FILE", "the client's certificate"),
    "--ssl-key": ("ssl-key", "FILE", "the client's key"),
    "--server-public-key": (
        "server-public-key",
        "FILE",
        "the server's RSA key, for logins without TLS",
    ),
    "--compress": ("compress", "zlib|zstd", "compress the connection"),
    "--bind-address": ("bind-address", "ADDRESS", "address of this machine to connect from"),
    "--connect-timeout": ("connect-timeout", "SECONDS", "time limit for a login"),
    "--read-timeout": ("read-timeout", "SECONDS", "silence after which the server counts as lost"),
    "--heartbeat": ("heartbeat", "SECONDS", "interval between heartbeats of an idle server"),
    "--replica-id": (
        "server-id",
        "N",
        "server_id of binlake among the replicas; default: a free one",
    ),
    "--report-host": ("report-host", "HOST", "host shown in SHOW REPLICAS"),
    "--report-port": ("report-port", "PORT", "shown there"),
    "--report-user": ("report-user", "USER", "shown there"),
    "--semi-sync": ("semi-sync", "on|off", "act as a semi-synchronous replica"),
    "--skip-replication": ("skip-replication", "keep|drop|filter", "events with that flag"),
}


def with_server_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument URL and the flags; it receives them as `server`."""
    return with_server_flags_except()(command)


def with_server_flags_except(
    *flags: str, or_config: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for a command in which some of the flags have no meaning, or another one.

    With `or_config` the URL may be missing: the command takes `config`, a file that names servers.
    """
    kept = [flag for flag in CONNECTION_FLAGS if flag not in flags]
    return lambda command: _with(command, kept, or_config=or_config)


def _with(
    command: Callable[..., Any], flags: Sequence[str], *, or_config: bool
) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(**given: Any) -> Any:
        text = given.pop("url")
        values = {flag: given.pop(_parameter_name(flag)) for flag in flags}
        if or_config and (text is None or given["config"] is not None):
            if given["config"] is None:
                raise OptionError("URL is missing: give one, or --config FILE", name="url")
            named = [flag for flag, value in values.items() if value is not None]
            refuse_beside_config(given["config"], ["URL"] * (text is not None) + named)
            return command(server=(), **given)
        options = {CONNECTION_FLAGS[f][0].replace("-", "_"): v for f, v in values.items()}
        urls = tuple(url.with_options(**options) for url in ServerUrl.parse_all(text))
        return command(server=urls, **given)

    url = inspect.Parameter(
        "url",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[
            str,
            Argument(metavar="URL", required=not or_config,
                     help="mysql://user@host:port/ or mariadb://…; several "
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


def refuse_beside_config(config: str, given: Sequence[str]) -> None:
    """Raise OptionError for flags that belong in the file of `--config`."""
    if given:
        raise OptionError(
            f"{', '.join(given)}: not together with --config; set it in {config}",
            name="config",
        )


def _parameter_name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _parameter(flag: str) -> inspect.Parameter:
    _, metavar, text = CONNECTION_FLAGS[flag]
    option = Option(flag, metavar=metavar, help=text, panel=_PANEL, show_default=False)
    return inspect.Parameter(
        _parameter_name(flag),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )
