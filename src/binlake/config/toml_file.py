"""Tables of a TOML file, read key by key; every error names the file, the table and the key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlake.errors import OptionError
from binlake.source.bytes import is_uri
from binlake.values.similar_names import did_you_mean

_MAX_BYTES = 256 << 10
# Before it is parsed: the parser's time grows with the square of the parts of a key.
_LONG_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*+(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){16}""",
    re.MULTILINE,
)
_MOST_SHOWN = 80

#: Converts a value of the file; raises ValueError with the expected form.
Parse = Callable[[Any, Path], Any]


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """Reads a whole number from `least` to `most`."""

    least: int
    most: int

    def __call__(self, value: Any, _: Path) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.least <= value <= self.most:
            raise ValueError(f"expected a whole number from {self.least} to {self.most}")
        return int(value)


@dataclass(frozen=True, slots=True)
class Key:
    """One key: how its value is read, its meaning, and its default for the documentation."""

    parse: Parse
    meaning: str
    default: str = ""

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """The smallest and the largest number that a command accepts; None without a limit."""
        if isinstance(self.parse, WholeNumber):
            return self.parse.least, self.parse.most
        return (0 if self.parse is number else None), None

    @property
    def default_value(self) -> Any:
        """The default as the value of an option; None without one."""
        if not self.default:
            return None
        if self.parse is flag:
            return self.default == "true"
        return int(self.default) if isinstance(self.parse, WholeNumber) else self.default


def default_values(keys: Mapping[str, Key]) -> dict[str, Any]:
    """Return the defaults of keys as values of options; None for a key without one."""
    return {name: key.default_value for name, key in keys.items()}


class Table:
    """A table of a file. `take` reads the keys that it knows; any other key is an error."""

    def __init__(self, file: Path, name: str, values: Mapping[str, Any]) -> None:
        self.file = file
        self.name = name
        self._values = dict(values)

    def error(self, key: str, message: str, hint: str | None = None) -> OptionError:
        """Return an error about one key."""
        key = key[:_MOST_SHOWN]
        where = f"[{self.name}] {key}" if self.name else key
        return OptionError(f"{self.file}: {where}: {message}", name="config", hint=hint)

    def take(self, keys: Mapping[str, Key], tables: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the values of the keys that are set. `tables` are read with `table` and `named`.

        Raises OptionError for an unknown key and for a wrong value.
        """
        found = {}
        for name, value in self._values.items():
            if name in tables:
                if not isinstance(value, dict):
                    raise self.error(name, f"this is a table: [{self._inner(name)}]")
                continue
            key = keys.get(name)
            if key is None:
                raise self._unknown(name, (*keys, *tables))
            try:
                found[name] = key.parse(value, self.file.parent)
            except ValueError as problem:
                raise self.error(name, str(problem)) from None
        return found

    def table(self, name: str) -> Table:
        """Return a table inside this one; empty if the file does not have it."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise self.error(name, f"this is a table: [{self._inner(name)}]")
        return Table(self.file, self._inner(name), value)

    def named(self, name: str) -> Iterator[tuple[str, Table]]:
        """Return the tables `[name.…]` by their own names, in the order of the file."""
        outer = self.table(name)
        for own in outer._values:
            if not own.isprintable() or len(own) > _MOST_SHOWN:
                raise outer.error(own, "this is not a valid name")
            yield own, outer.table(own)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def _inner(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name

    def _unknown(self, name: str, known: tuple[str, ...]) -> OptionError:
        hint = did_you_mean(name, known) or f"keys: {', '.join(known)}"
        return self.error(name, "unknown key", hint)


def open_toml(file: str) -> Table:
    """The outermost table of a file. Raises OptionError."""
    import tomllib  # `archive` and `serve` read the keys of a file that they rarely have

    path = Path(file)
    try:
        with path.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise OptionError(f"{file}: a configuration file has at most 256 kB", name="config")
        content = data.decode()
        if (long := _LONG_KEY.search(content)) is not None:
            line = content.count("\n", 0, long.start()) + 1
            raise OptionError(
                f"{file}, line {line}: a key has at most 16 parts between dots", name="config"
            )
        return Table(path, "", tomllib.loads(content))
    except OptionError:  # a ValueError
        raise
    except OSError as error:
        raise OptionError(f"cannot read {file}: {error.strerror}", name="config") from None
    except (ValueError, RecursionError) as error:  # ValueError: also a number of many digits
        raise OptionError(f"{file}: not a TOML file: {error}", name="config") from None


def text(value: Any, _: Path) -> str:
    """Read a string that is not empty."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("expected a string")
    return value


def path(value: Any, folder: Path) -> str:
    """Read the path of a file, relative to the folder of the configuration."""
    return str(folder / os.path.expanduser(text(value, folder)))  # noqa: PTH111 - never raises


def place(value: Any, folder: Path) -> str:
    """Read a URI, or the path of a directory, relative to the folder of the configuration."""
    return text(value, folder) if is_uri(text(value, folder)) else path(value, folder)


def flag(value: Any, _: Path) -> bool:
    """Read `true` or `false`."""
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def number(value: Any, _: Path) -> float:
    """Read a number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53:
        raise ValueError("expected a number that is not negative")
    return float(value)


def size(value: Any, folder: Path) -> int:
    """Read a number of bytes, or a text such as "500GB"."""
    from binlake.values.option_texts import parse_bytes

    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError('expected a size such as "500GB"')
    return parse_bytes(str(value))
