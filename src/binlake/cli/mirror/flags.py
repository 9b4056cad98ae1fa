"""The flags of `binlake mirror run` that are options of a mirror, made from the fields of `MirrorOptions`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from binlake.cli.common.flags import size_flag
from binlake.cli.common.parameters import Option, flag_name, flag_parameter, with_signature
from binlake.errors import OptionError
from binlake.mirror.options import MIRROR_OPTIONS, MirrorOption

_OPTIONS = {_option.name: _option for _option in MIRROR_OPTIONS if _option.flag}
_NAMED = re.compile(rf"\boption ({'|'.join(_OPTIONS)})\b")
# a value that the option has: reasons also contain statements and paths of partitions
_CHOSEN = re.compile(
    r"(?<![^\s(])(?:option )?(?P<name>"
    + "|".join(
        rf"{one.name}(?==(?:{'|'.join(one.choices)})\b(?![/=(]))"
        for one in _OPTIONS.values()
        if one.choices
    )
    + ")="
)


@contextmanager
def naming_flags() -> Iterator[None]:
    """Replace the names of options in OptionErrors by the flags that users of the command have typed."""
    try:
        yield
    except OptionError as error:
        error.message = _with_flags(error.message)
        raise


def reason_with_flags(reason: str) -> str:
    """Return a reason, which the lake has for users of Python, too, with flags for options."""
    chosen = _CHOSEN.sub(lambda found: f"{_OPTIONS[found['name']].flag} ", reason)
    return _with_flags(chosen)


def _with_flags(text: str) -> str:
    return _NAMED.sub(lambda found: _OPTIONS[found[1]].flag, text)


def with_mirror_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Put a flag per option in the place of the parameter `options`, which receives those that are given."""

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        values = {name: given.pop(flag_name(option.flag)) for name, option in _OPTIONS.items()}
        read = {n: _read(_OPTIONS[n], value) for n, value in values.items() if value is not None}
        return command(options=read, **given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "options":
            parameters += map(_parameter, _OPTIONS.values())
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    return with_signature(run, parameters)


def _parameter(option: MirrorOption) -> inspect.Parameter:
    kind = str if option.is_size else option.kind
    declared = Option(
        option.flag,
        metavar=option.metavar,
        help=option.help,
        min=option.least if kind in (int, float) else None,
        choices=option.choices,
        show_default=option.shown_default or True,
    )
    wanted = list[str] | None if option.is_list else kind | None
    return flag_parameter(flag_name(option.flag), wanted, declared)


def _read(option: MirrorOption, value: Any) -> Any:
    if option.is_file:
        return str(Path(value).absolute())
    return size_flag(option.flag, value) if option.is_size else value
