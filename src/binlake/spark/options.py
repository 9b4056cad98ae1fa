"""Options of the `binlog` data source: every read option, and a few that only Spark needs.

Spark hands over texts under lower-cased names, so `exclude_table`, `excludeTable` and
`exclude-table` are one option here. A name that is none is an error that names the nearest
valid one: a misspelled filter that is ignored would show rows nobody asked for.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from binlake.errors import OptionError
from binlake.values.options import READ_OPTIONS, OptionSpec, ReadOptions, parse_bytes

__all__ = ["SPARK_OPTIONS", "VIEWS", "SourceOptions"]

VIEWS = ("changes", "table", "events", "transactions", "statements")

# 128 MiB is also Spark's own size of a file split; a task costs about 0.1 s before its first row.
DEFAULT_PARTITION_BYTES = 128 << 20
DEFAULT_SCAN_BYTES = 256 << 20

SPARK_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "view",
        "VIEW",
        "changes (any table), table (typed columns), events, transactions, statements; "
        "by default table if the option table names exactly one, else changes",
        str,
        None,
        choices=VIEWS,
        surfaces=("spark",),
    ),
    OptionSpec(
        "max_partition_bytes",
        "SIZE",
        "bytes of log that one task reads",
        parse_bytes,
        DEFAULT_PARTITION_BYTES,
        surfaces=("spark",),
    ),
    OptionSpec(
        "schema_scan_bytes",
        "SIZE",
        "bytes, from the newest backwards, that are looked at for a table's columns",
        parse_bytes,
        DEFAULT_SCAN_BYTES,
        surfaces=("spark",),
    ),
)

_SPARKS_OWN = ("path", "paths")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_SPECS: dict[str, OptionSpec] = {
    _plain(spec.name): spec for spec in (*READ_OPTIONS, *SPARK_OPTIONS) if "spark" in spec.surfaces
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The validated options of one `spark.read.format("binlog")`.

    `paths` as the user gave them, `view` one of `VIEWS`, `read` the options that every
    surface shares. Sizes are in bytes.
    """

    paths: tuple[str, ...]
    view: str
    read: ReadOptions
    max_partition_bytes: int = DEFAULT_PARTITION_BYTES
    schema_scan_bytes: int = DEFAULT_SCAN_BYTES

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Validate Spark's option map. Raises OptionError naming the option and a remedy."""
        texts: dict[str, str] = {}
        for key, text in given.items():
            if key.lower() in _SPARKS_OWN:
                continue
            spec = _SPECS.get(_plain(key))
            if spec is None:
                raise _unknown(key)
            if spec.name in texts:
                raise OptionError(f"option {spec.name} is given twice", name=spec.name)
            texts[spec.name] = text
        asked = texts.pop("view", None)
        sizes = {
            name: _size(name, texts.pop(name))
            for name in ("max_partition_bytes", "schema_scan_bytes")
            if name in texts
        }
        read = ReadOptions.parse(texts)
        return cls(paths=_paths(given), view=_view(asked, read), read=read, **sizes)

    @property
    def table(self) -> str:
        """The one table of the typed view, as `database.table`."""
        return self.read.table[0]


def _size(name: str, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise OptionError(f"option {name}: {text!r}: {error}", name=name, value=text) from None


def _unknown(key: str) -> OptionError:
    near = difflib.get_close_matches(_plain(key), _SPECS, n=1, cutoff=0.6)
    hint = (
        f"did you mean {_SPECS[near[0]].name}?"
        if near
        else f"options are: {', '.join(sorted(s.name for s in _SPECS.values()))}"
    )
    return OptionError(f"unknown option {key!r}", name=key, hint=hint)


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """`load(path)` arrives as `path`, `load([...])` as the JSON list `paths`."""
    found: list[str] = []
    for key, text in given.items():
        if key.lower() == "path":
            found.append(text)
        elif key.lower() == "paths":
            found.extend(json.loads(text))
    if not found:
        raise OptionError(
            "no path to read",
            name="path",
            hint="give one: .load(path), or OPTIONS (path …) of a temporary view",
        )
    return tuple(found)


def _names_one_table(read: ReadOptions) -> bool:
    return len(read.table) == 1 and not any(c in read.table[0] for c in "*?")


def _view(asked: str | None, read: ReadOptions) -> str:
    view = asked or ("table" if _names_one_table(read) else "changes")
    if view not in VIEWS:
        raise OptionError(
            f"option view: {asked!r} is not one of {', '.join(VIEWS)}", name="view", value=asked
        )
    if view == "table" and not _names_one_table(read):
        raise OptionError(
            "the view table needs the option table with exactly one DATABASE.TABLE",
            name="table",
            hint="for example .option('table', 'shop.orders')",
        )
    return view
