"""Commands of click, made from the signatures of functions.

    def index(
        files: Annotated[list[str], Argument(metavar="FILE…", help="Logs to index.")],
        again: Annotated[bool, Option("--again", help="Also logs that have an index.")] = False,
    ) -> None: ...

`command` turns such a function into a click command. The annotation gives the type, the default
gives the default, and a `list` may be repeated. Typer works the same way, but it imports pydantic
to convert values, and that alone takes longer than `inspect` needs for a small log.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Self,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import click
from click.shell_completion import CompletionItem

from binlake.cli.common.command_help import HelpCommand, sentence
from binlake.errors import OptionError

if TYPE_CHECKING:
    from binlake.config.toml_file import Key

#: Ends a command with an exit code.
Exit = click.exceptions.Exit

_NUMBERS: dict[type, Callable[..., Any]] = {int: click.IntRange, float: click.FloatRange}
_PLAIN: dict[type, Callable[..., Any]] = {
    int: click.types.IntParamType,
    float: click.types.FloatParamType,
}


class Argument:
    """A positional argument; of a `list`, one or more. One that is not `required` may be None."""

    def __init__(self, *, metavar: str, help: str, required: bool = True) -> None:
        self._metavar = metavar
        self._help = help
        self._required = required

    def parameter(self, name: str, annotation: Any, _default: object) -> click.Argument:
        """Return the argument as click has it."""
        kind = _Kind.of(annotation)
        return _Argument(
            [name],
            help=self._help,
            metavar=self._metavar,
            type=click.STRING,
            nargs=-1 if kind.is_list else 1,
            required=self._required,
            callback=kind.convert,
            shell_complete=_completing(self._metavar),
        )


class Option:
    """An option. Without names it has the name of its parameter: `keep_days` is `--keep-days`.

    `panel`: the heading under which `--help` lists it. `min` and `max` limit a number. `count`: it
    has no value, its value is how often it is given. `show_default`: whether `--help` shows the
    default, or the text that it shows instead. `callback` is called with the parameter and the
    value. `choices` are what a shell completes. `one_of` are the same, and the only values.
    """

    def __init__(
        self,
        *names: str,
        help: str = "",
        metavar: str | None = None,
        panel: str | None = None,
        hidden: bool = False,
        show_default: bool | str = True,
        min: float | None = None,
        max: float | None = None,
        count: bool = False,
        is_eager: bool = False,
        callback: Callable[[click.Parameter, Any], None] | None = None,
        choices: Sequence[str] = (),
        one_of: Collection[str] = (),
    ) -> None:
        self._names = names
        self._panel = panel
        self._limits = {"min": min, "max": max}
        self._callback = callback
        self._choices = choices or tuple(one_of)
        self._one_of = one_of
        self._settings: dict[str, Any] = {
            "help": sentence(help),
            "metavar": metavar,
            "hidden": hidden,
            "show_default": show_default,
            "count": count,
            "is_eager": is_eager,
        }

    def parameter(self, name: str, annotation: Any, default: Any) -> click.Option:
        """Return the option as click has it."""
        kind = _Kind.of(annotation)
        names = self._names or (f"--{name.lstrip('_').replace('_', '-')}",)
        settings: dict[str, Any] = self._settings | {
            "default": default.value if isinstance(default, Enum) else default,
            "show_default": self._settings["show_default"] if default != "" else False,
            "multiple": kind.is_list,
        }
        if kind.base is bool:
            settings["is_flag"] = True
        elif not settings["count"]:
            settings["type"] = kind.click_type(**self._limits)
            if self._choices or _names_file(settings["metavar"]):
                settings["shell_complete"] = _completing(settings["metavar"], self._choices)
            if kind.base in _NUMBERS:
                settings["metavar"] = settings["metavar"] or "N"

        def received(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
            if self._one_of and value is not None and value not in self._one_of:
                message = f"{names[0]} {value}: expected one of {', '.join(self._one_of)}"
                raise OptionError(message, name=names[0], value=value)
            if self._callback is not None:
                self._callback(parameter, value)
            return kind.convert(context, parameter, value)

        option = _Option([name, *names], callback=received, **settings)
        option.panel = self._panel
        return option


def option_of_key(key: Key, *names: str, **settings: Any) -> Option:
    """Return an option with the meaning and the limits of a key of the configuration file."""
    least, most = key.limits
    return Option(*names, help=key.meaning, min=least, max=most, **settings)


def _names_file(metavar: str | None) -> bool:
    return metavar is not None and any(word in metavar for word in ("FILE", "DIR", "SET"))


def _completing(
    metavar: str | None, choices: Sequence[str] = ()
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return the completion of a value for a shell: the choices, or names of files."""

    def complete(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
        if _names_file(metavar) and not choices:
            return [CompletionItem(typed, type="file")]
        return [CompletionItem(choice) for choice in choices if choice.startswith(typed)]

    return complete


def command(
    name: str,
    function: Callable[..., Any],
    context_settings: dict[str, Any] | None = None,
    kind: type[HelpCommand] = HelpCommand,
) -> HelpCommand:
    """Make a function a command of a class; its docstring is the help."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return kind(
        name,
        params=[_parameter(parameter) for parameter in parameters],
        callback=function,
        help=inspect.getdoc(function),
        context_settings=context_settings,
    )


def member(group: click.Group, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function to a group as the command of this name."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        group.add_command(command(name, function))
        return function

    return add


def flag_name(flag: str) -> str:
    """Return the name of the parameter that receives a flag: `keep_days` for `--keep-days`."""
    return flag.removeprefix("--").replace("-", "_")


def flag_parameter(name: str, kind: Any, declared: Option | Argument) -> inspect.Parameter:
    """Return a parameter that commands can have in place of one that they declare."""
    default = False if kind is bool else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )


def with_parameters(
    command: Callable[..., Any],
    replaced: str,
    parameters: Sequence[inspect.Parameter],
    value_of: Callable[[dict[str, Any]], Any],
) -> Callable[..., Any]:
    """Replace one parameter of a command by others.

    `value_of` takes the values of `parameters` out of those that a user has given, and returns the
    value that the command receives as `replaced`.
    """

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        value = value_of(given)
        return command(**{replaced: value}, **given)

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != replaced
    ]
    arguments = [p for p in parameters if isinstance(get_args(p.annotation)[1], Argument)]
    return with_signature(run, [*arguments, *own, *(p for p in parameters if p not in arguments)])


def with_fields(*replaced: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace parameters of a command by options, which the fields of dataclasses declare.

        @dataclass(frozen=True, slots=True)
        class IndexFlags:
            again: Annotated[bool, Option("--again", help="Also logs that have an index.")] = False

        @with_fields("flags")
        def index(files: LogFiles, flags: IndexFlags) -> None: ...

    `replaced` names the parameters; the annotation of each is such a dataclass. `--help` lists the
    options in the order of the fields, in the place of the parameter.
    """
    return lambda command: _with_fields(command, replaced)


def _with_fields(command: Callable[..., Any], replaced: Collection[str]) -> Callable[..., Any]:
    shown: list[inspect.Parameter] = []
    tables: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name in replaced:
            flags = _field_parameters(parameter.annotation)
            tables[parameter.name] = parameter.annotation, [flag.name for flag in flags]
            shown += flags
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        values = {
            name: table(**{flag: given.pop(flag) for flag in flags})
            for name, (table, flags) in tables.items()
        }
        return command(**values, **given)

    return with_signature(run, shown)


def _field_parameters(table: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(table, include_extras=True)
    assert all(field.default_factory is MISSING for field in fields(table)), (
        "options have plain defaults"
    )
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(table)
    ]


def with_signature(
    run: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Give a wrapper its own parameters instead of the parameters of the function that it wraps."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]  # the signature above is the real one
    return run


def _parameter(parameter: inspect.Parameter) -> click.Parameter:
    annotation, declared = get_args(parameter.annotation)
    default = None if parameter.default is parameter.empty else parameter.default
    made: click.Parameter = declared.parameter(parameter.name, annotation, default)
    return made


@dataclass(frozen=True, slots=True)
class _Kind:
    """Parse an annotation: `list[str] | None` is a list of str, and None without a value."""

    base: type
    is_list: bool
    is_optional: bool

    @classmethod
    def of(cls, annotation: Any) -> Self:
        is_optional = isinstance(annotation, UnionType)
        if is_optional:
            (annotation,) = (kind for kind in get_args(annotation) if kind is not NoneType)
        is_list = get_origin(annotation) is list
        if is_list:
            (annotation,) = get_args(annotation)
        return cls(annotation, is_list, is_optional)

    def click_type(self, min: float | None, max: float | None) -> Any:
        """Return the click type that reads one value."""
        if self.base in _NUMBERS:
            # Without a limit it is no range: click would show the range of a number as "x<=None".
            is_range = min is not None or max is not None
            number = _NUMBERS[self.base](min=min, max=max) if is_range else _PLAIN[self.base]()
            number.name = "number"  # the name in an error
            return number
        if issubclass(self.base, Enum):
            return click.Choice([member.value for member in self.base])
        return click.Path(path_type=Path) if self.base is Path else click.STRING

    def convert(self, _: click.Context, __: click.Parameter, value: Any) -> Any:
        """Return the value that the function receives for one that click has read."""
        if self.is_list:
            return list(value) if value or not self.is_optional else None
        return self.base(value) if issubclass(self.base, Enum) else value


class _Option(click.Option):
    panel: str | None = None

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the text after the help, with a described default unchanged."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str) and "default" in extra:
            extra["default"] = self.show_default
        return extra


class _Argument(click.Argument):
    """An argument that `--help` lists, which click does only from 8.5 on."""

    def __init__(self, *names: Any, help: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.help = help

    def make_metavar(self, ctx: click.Context) -> str:
        return self.human_readable_name

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.human_readable_name, self.help or ""


#: The logs of commands that can read standard input.
LogFiles: TypeAlias = Annotated[
    list[str], Argument(metavar="FILE…", help="Logs to read; - is stdin.")
]
#: The file of commands that can write elsewhere than to standard output.
OutputFile: TypeAlias = Annotated[
    Path | None,
    Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout."),
]
