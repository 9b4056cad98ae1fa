"""`mirror` from a TOML file: source, lake, options, and the settings of Spark.

[mirror]
url = "mysql://repl@db1/"
lake = "/lake"
tables = ["shop.*"]

[mirror.spark]
"spark.master" = "local[2]"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlake.config.toml_file import Key, WholeNumber, number, open_toml, path, place, size, text
from binlake.errors import OptionError
from binlake.mirror.options import MIRROR_OPTIONS, MirrorOption
from binlake.source.replica.url import holds_password


def _texts(value: Any, folder: Path) -> tuple[str, ...]:
    """A string or a list of strings."""
    return tuple(text(one, folder) for one in (value if isinstance(value, list) else [value]))


def _url(value: Any, folder: Path) -> str:
    if holds_password(text(value, folder)):
        raise ValueError("the URL contains a password; use its option password-file")
    return text(value, folder)


def _interval(value: Any, folder: Path) -> float:
    """Seconds, at least as many as the flag of the command takes."""
    seconds = number(value, folder)
    if seconds < _LEAST_INTERVAL_S:
        raise ValueError(f"expected at least {_LEAST_INTERVAL_S} seconds")
    return seconds


_MOST = 1 << 40
_LEAST_INTERVAL_S = 0.01


def _key(option: MirrorOption) -> Key:
    """The key of an option of the mirror."""
    if option.is_list:
        return Key(_texts, option.help)
    if option.is_size:
        return Key(size, option.help)
    if option.kind is int:
        return Key(WholeNumber(int(option.least or 0), _MOST), option.help)
    if option.kind is float:
        return Key(number, option.help)
    return Key(path if option.is_file else text, option.help)


_KEYS: dict[str, Key] = {
    "url": Key(_url, "the server"),
    "lake": Key(place, "the lake: a directory or URI"),
    "logs": Key(place, "read the changes from this archive"),
    "state": Key(path, "directory on this machine for the row indexes"),
    "metrics_port": Key(WholeNumber(0, 65535), "port for Prometheus"),
    "metrics_address": Key(text, "address for Prometheus"),
    "interval_seconds": Key(_interval, "seconds between two checks of an idle log"),
    **{option.name: _key(option) for option in MIRROR_OPTIONS},
}
#: The names of flags that are not those of keys, such as `max_rate` for `max_rows_per_s`, each with the key.
_FLAGS = {
    "interval": "interval_seconds",
    **{
        name: option.name
        for option in MIRROR_OPTIONS
        if option.flag and (name := option.flag.removeprefix("--").replace("-", "_")) not in _KEYS
    },
}


@dataclass(frozen=True, slots=True)
class MirrorConfiguration:
    """The contents of a file: the values of `[mirror]` by key, and the settings of `[mirror.spark]`."""

    values: Mapping[str, Any]
    spark: Mapping[str, str]


def configures_mirror(file: str) -> bool:
    """Whether a file is one of `mirror --config`. Raises OptionError."""
    return "mirror" in open_toml(file)


def read_mirror_configuration(file: str) -> MirrorConfiguration:
    """Read a file. Raises OptionError."""
    top = open_toml(file)
    if "mirror" not in top:
        raise OptionError(f"{file}: the table [mirror] is missing", name="config")
    mirror = top.table("mirror")
    values = mirror.take(_KEYS | {flag: _KEYS[key] for flag, key in _FLAGS.items()}, ("spark",))
    for flag in _FLAGS.keys() & values.keys():
        if _FLAGS[flag] in values:
            raise mirror.error(flag, f"this is another name of {_FLAGS[flag]}, which is also set")
        values[_FLAGS[flag]] = values.pop(flag)
    for name in ("url", "lake"):
        if name not in values:
            raise mirror.error(name, "this key is missing")
    spark = mirror.table("spark")
    settings = spark.take({name: Key(text, "") for name in spark})
    return MirrorConfiguration(values, settings)
