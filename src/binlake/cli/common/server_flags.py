"""The flags of commands that connect to a live server: the options of its URL, as flags.

A command function takes `server: ServerUrls`; `with_server_flags` replaces that parameter by the
argument URL and one flag per option of a connection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from binlake.cli.common.parameters import (
    Argument,
    Option,
    flag_name,
    flag_parameter,
    with_parameters,
)
from binlake.errors import OptionError
from binlake.source.replica.url import URL_OPTIONS, ServerUrl

#: The servers of the URL; several servers replicate one another.
ServerUrls: TypeAlias = tuple[ServerUrl, ...]

_PANEL = "Connection (the query of the URL also accepts these, without --)"

#: Flags of a connection whose names are those of the URL's options.
_SAME_NAME = (
    "password-file", "option-file", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "server-public-key",
    "compress", "bind-address", "connect-timeout", "read-timeout", "heartbeat", "report-host",
    "report-port", "report-user", "semi-sync", "skip-replication",
)  # fmt: skip
#: Flag -> option of the URL. `--server-id` is a filter, so the server id of binlake as a replica is
#: `--replica-id`.
CONNECTION_FLAGS = {f"--{name}": name for name in _SAME_NAME} | {"--replica-id": "server-id"}


def with_server_flags(
    *excluded: str, beside_config: Collection[str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the argument URL and the flags; it receives them as `server`.

    `excluded`: flags that have no meaning in the command, or another one. With `beside_config` the URL may be missing: the command takes `config`, a file that names servers. Beside it,
    only these parameters can be given.
    """
    kept = [flag for flag in CONNECTION_FLAGS if flag not in excluded]
    return lambda command: _with(command, kept, beside_config)


def _with(
    command: Callable[..., Any], flags: Sequence[str], beside_config: Collection[str] | None
) -> Callable[..., Any]:
    def urls_of(given: dict[str, Any]) -> ServerUrls:
        text = given.pop("url")
        values = {flag: given.pop(flag_name(flag)) for flag in flags}
        if beside_config is not None and given["config"] is not None:
            refuse_beside_config(given["config"], *beside_config)
            return ()
        if text is None:
            raise OptionError("URL is missing: give one, or --config FILE", name="url")
        options = {flag_name(CONNECTION_FLAGS[f]): value for f, value in values.items()}
        return tuple(url.with_options(**options) for url in ServerUrl.parse_all(text))

    help = (
        "The server: mysql://user@host:port/ or mariadb://…; several hosts, separated by commas, replicate"
        " one another."
    )
    url = flag_parameter(
        "url", str, Argument(metavar="URL", required=beside_config is None, help=help)
    )
    parameters = [url, *(url_flag(flag, CONNECTION_FLAGS[flag], _PANEL) for flag in flags)]
    return with_parameters(command, "server", parameters, urls_of)


def url_flag(flag: str, name: str, panel: str) -> inspect.Parameter:
    """Return the flag that sets an option of a URL; its help is made of the option's meaning."""
    meaning, metavar = URL_OPTIONS[name]
    option = Option(flag, metavar=metavar, help=meaning, panel=panel, show_default=False)
    return flag_parameter(flag_name(flag), str | None, option)


def refuse_beside_config(config: str, *allowed: str) -> None:
    """Raise OptionError for given arguments that belong in the file of `--config`: all but the parameters `allowed`."""
    context = click.get_current_context()
    given = [
        _spelling(parameter, context)
        for parameter in context.command.params
        if parameter.name not in ("config", *allowed)
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        raise OptionError(
            f"{', '.join(given)} cannot be combined with --config; set it in {config}",
            name="config",
        )


def _spelling(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.make_metavar(context)
    is_off = parameter.secondary_opts and context.params[parameter.name or ""] is False
    return (parameter.secondary_opts if is_off else parameter.opts)[0]
