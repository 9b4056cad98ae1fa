"""Options as fields of a dataclass: help, values and parsing.

    @dataclass(frozen=True)
    class Options:
        until: int | None = option("TIME", "only transactions before this time", parse_time_us)

`specs_of(Options)` has an `OptionSpec` for each such field. Flags of the command line, Spark options and
the documentation are made from these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any

from binlake.errors import OptionError
from binlake.values.gtid import Gtid, MariaGtid
from binlake.values.option_texts import (
    moment_us,
    parse_bool,
    parse_bytes,
    parse_count,
    parse_file_position,
    parse_number,
    parse_position,
    parse_text,
    parse_time_us,
)
from binlake.values.position import FilePosition

_SPEC = "binlake.option"
_SURFACES = ("cli", "spark", "api")

# Values that an API caller may give instead of a text, by the option's parser: a type and what makes
# the final value of it. (A bool is an int to Python, never to a person.)
_READY: dict[Callable[[str], Any], tuple[type | tuple[type, ...], Callable[[Any], Any]]] = {
    parse_time_us: (date, moment_us),
    parse_file_position: (FilePosition, lambda value: value),
    parse_number: (int, lambda value: parse_number(str(value))),
    parse_count: (int, lambda value: parse_count(str(value))),
    parse_bytes: (int, lambda value: parse_bytes(str(value))),
    parse_bool: (bool, bool),
    parse_text: (os.PathLike, os.fspath),
    parse_position: ((FilePosition, Gtid, MariaGtid), str),
}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option. `parse` turns one text into its value and raises ValueError with a hint.

    `choices` restricts the text; `surfaces` says where it exists: "cli", "spark", "api".
    """

    name: str
    metavar: str
    help: str
    parse: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    surfaces: tuple[str, ...] = _SURFACES

    @property
    def repeatable(self) -> bool:
        """Whether the value is a tuple; texts may also be separated by commas."""
        return isinstance(self.default, tuple)

    def value_of(self, given: Any) -> Any:
        """Return the value of a text, or of what an API caller gives. Raises OptionError."""
        if not self.repeatable:
            return self._one(given)
        several = isinstance(given, Iterable) and not isinstance(given, str)
        values = []
        for item in given if several else [given]:
            parts = item.split(",") if isinstance(item, str) else [item]
            values += [self._one(part) for part in parts]
        return tuple(values)

    def _one(self, given: Any) -> Any:
        try:
            if not isinstance(given, str):
                return self._ready(given)
            text = given.strip() if self.repeatable or self.choices else given
            if self.choices and text not in self.choices:
                raise ValueError(f"expected one of {', '.join(self.choices)}")
            return self.parse(text)
        except ValueError as error:
            raise OptionError(
                f"option {self.name}: {given!r}: {error}", name=self.name, value=given
            ) from None

    def _ready(self, given: Any) -> Any:
        kind, convert = _READY.get(self.parse, (str, str))
        if not isinstance(given, kind) or (isinstance(given, bool) and kind is int):
            raise ValueError(f"a value of type {type(given).__name__} is not expected here")
        return convert(given)


def option(
    metavar: str,
    help: str,
    parse: Callable[[str], Any] = str,
    *,
    default: Any = None,
    choices: tuple[str, ...] = (),
    surfaces: tuple[str, ...] = _SURFACES,
) -> Any:
    """Return the field of a dataclass that is an option. If the default is a tuple, the option is repeatable."""
    spec = metavar, help, parse, default, choices, surfaces
    return field(default=default, metadata={_SPEC: spec})


def specs_of(options: type[Any]) -> tuple[OptionSpec, ...]:
    """Return the options among the fields of a dataclass, in their order."""
    return tuple(
        OptionSpec(f.name, *f.metadata[_SPEC]) for f in fields(options) if _SPEC in f.metadata
    )
