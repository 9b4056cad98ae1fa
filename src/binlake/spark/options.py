"""Options of the `binlog` data source: every read option, and a few that only Spark needs.

Spark passes texts under lower-cased names, so `exclude_table`, `excludeTable` and `exclude-table`
are one option here. An unknown name is an error that suggests the nearest valid one: if a
misspelled filter were ignored, a read would show unwanted rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from binlake.errors import OptionError
from binlake.source.bytes import is_uri, local_path
from binlake.source.locations import check_no_password
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.values.builds import PickledByName
from binlake.values.option_spec import OptionSpec, option, specs_of
from binlake.values.option_texts import (
    parse_bytes,
    parse_count,
    parse_file_position,
    parse_time_us,
)
from binlake.values.options import READ_OPTIONS, ReadOptions
from binlake.values.position import FilePosition
from binlake.values.similar_names import question_of, similar_names

VIEWS = ("changes", "table", "events", "transactions", "statements", "ledger")

DEFAULT_SCAN_BYTES = 256 << 20

_SURFACE = ("spark",)


def _parse_bytes_or_none(text: str) -> int:
    return 0 if text.strip() == "0" else parse_bytes(text)


def parse_start(text: str) -> str | FilePosition:
    """Parse the value of `starting_offsets`: a position, a word, or a GTID set."""
    text = text.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    with suppress(ValueError):
        if gtids := GtidProgress(text).text:
            return gtids
    try:
        return parse_file_position(text)
    except ValueError:
        raise ValueError("neither earliest, latest, FILE:POS nor a GTID set") from None


@dataclass(frozen=True, slots=True)
class StreamOptions(PickledByName):
    """The options that only a stream has. `starting_offsets` is the result of `parse_start`."""

    starting_offsets: str | FilePosition | None = option(
        "START",
        "where a new query starts: earliest (the default), latest, a position, or after a GTID set",
        parse_start,
        surfaces=_SURFACE,
    )
    starting_timestamp: int | None = option(
        "TIME",
        "a new query starts at the first transaction committed at or after this time",
        parse_time_us,
        surfaces=_SURFACE,
    )
    max_bytes_per_batch: int | None = option(
        "SIZE", "bytes of log in one batch", parse_bytes, surfaces=_SURFACE
    )
    max_rows_per_batch: int | None = option(
        "N",
        "row changes in one batch, of the selected tables and operations",
        parse_count,
        surfaces=_SURFACE,
    )
    max_transactions_per_batch: int | None = option(
        "N", "transactions in one batch", parse_count, surfaces=_SURFACE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(PickledByName):
    """The validated options of one `spark.read.format("binlog")`, or `readStream`.

    `paths` are as the user gave them, or the URL of a server. `read` are the options that every
    surface shares, `stream` those that only a stream has. Sizes are in bytes.
    """

    paths: tuple[str, ...]
    read: ReadOptions
    view: str = option(
        "VIEW",
        "changes (any table), table (typed columns), events, transactions, statements, "
        "ledger (what each task read and left out); "
        "by default table if the option table names exactly one, else changes",
        choices=VIEWS,
        surfaces=_SURFACE,
    )
    max_partition_bytes: int | None = option(
        "SIZE",
        "bytes of log that one task reads; by default a share for each core, of 16 to 128 MB",
        parse_bytes,
        surfaces=_SURFACE,
    )
    schema_scan_bytes: int = option(
        "SIZE",
        "bytes of the newest logs that the driver searches for a table's columns",
        parse_bytes,
        default=DEFAULT_SCAN_BYTES,
        surfaces=_SURFACE,
    )
    ddl_scan_bytes: int = option(
        "SIZE",
        "the driver reads the DDL of local logs for all tasks if they have no more bytes than this; logs "
        "with an index count as 1 MB; 0: never",
        _parse_bytes_or_none,
        default=DEFAULT_SCAN_BYTES,
        surfaces=_SURFACE,
    )
    stream: StreamOptions = StreamOptions()
    ledger_path: str | None = option(
        "DIR",
        "directory or URI for the ledgers: each read or micro-batch writes a JSON file; the "
        "driver and all executors write there",
        surfaces=_SURFACE,
    )

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
        server = texts.pop(_SERVER.name, None)
        ledger_path = _ledger_path(texts.pop("ledger_path", None))
        sizes = {
            name: _SPECS[_plain(name)].value_of(texts.pop(name))
            for name in ("max_partition_bytes", "schema_scan_bytes", "ddl_scan_bytes")
            if name in texts
        }
        stream = _stream_options(texts)
        read = ReadOptions.parse(texts)
        if read.schema is not None:
            check_no_password(read.schema, "schema")
        paths = _paths(given, server)
        return cls(
            paths=paths,
            view=_view(asked, read),
            read=read,
            stream=stream,
            ledger_path=ledger_path,
            **sizes,
        )

    def refuse_stream_options(self) -> None:
        """Check a batch read. Raises OptionError for an option that only streams have."""
        for field in fields(self.stream):
            if getattr(self.stream, field.name) is not None:
                raise OptionError(
                    f"option {field.name} is for readStream, but this is a batch read",
                    name=field.name,
                    hint="use the options since, until, start, stop and gtid to limit a batch read",
                )

    @property
    def table(self) -> str:
        """The one table of the typed view, as `database.table`."""
        return self.read.table[0]

    @property
    def names_one_table(self) -> bool:
        """Whether the options name exactly one table."""
        return _names_one_table(self.read)

    @property
    def shows_rows(self) -> bool:
        """Whether the view has row changes, for which DDL completes what row events lack."""
        return self.view in ("changes", "table", "ledger")

    @property
    def label(self) -> str:
        """The source of the read, in the form that messages use."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}" + (f" ({self.table})" if self.names_one_table else "")

    @property
    def facts(self) -> dict[str, Any]:
        """The source of the read, in the form of a ledger in `ledger_path`."""
        return {"inputs": list(self.paths), "view": self.view, "tables": list(self.read.table)}

    @property
    def identity(self) -> tuple[Any, ...]:
        """The facts that decide which rows a read has."""
        return self.paths, self.view, self.read


# It is one of `paths` in the end, so it is not a field.
_SERVER = OptionSpec(
    "server",
    "URL",
    "a live server to read from, instead of a path; never put the password into it",
    surfaces=_SURFACE,
)

SPARK_OPTIONS = (*specs_of(SourceOptions), _SERVER)
STREAM_OPTIONS = specs_of(StreamOptions)

_SPARKS_OWN = ("path", "paths")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_SPECS: dict[str, OptionSpec] = {
    _plain(spec.name): spec
    for spec in (*READ_OPTIONS, *SPARK_OPTIONS, *STREAM_OPTIONS)
    if "spark" in spec.surfaces
}


def _stream_options(texts: dict[str, str]) -> StreamOptions:
    """Take the options of streams out of `texts`. Raises OptionError."""
    values = {
        spec.name: spec.value_of(texts.pop(spec.name))
        for spec in STREAM_OPTIONS
        if spec.name in texts
    }
    if "starting_offsets" in values and "starting_timestamp" in values:
        raise OptionError(
            "options starting_offsets and starting_timestamp cannot be combined",
            name="starting_timestamp",
        )
    return StreamOptions(**values)


def _unknown(key: str) -> OptionError:
    near = [_SPECS[plain].name for plain in similar_names(_plain(key), _SPECS)]
    listed = f"options are: {', '.join(sorted(s.name for s in _SPECS.values()))}"
    hint = question_of(near) or listed
    return OptionError(f"unknown option {key!r}", name=key, hint=hint)


def _paths(given: Mapping[str, str], server: str | None) -> tuple[str, ...]:
    """`load(path)` arrives as `path`, `load([...])` as the JSON list `paths`."""
    found: list[str] = []
    for key, text in given.items():
        if key.lower() == "path":
            found.append(text)
        elif key.lower() == "paths":
            found.extend(json.loads(text))
    if server is not None:
        if found:
            raise OptionError(
                "option server and a path cannot be combined",
                name=_SERVER.name,
                hint="call .load() without a path",
            )
        found.append(server)
    if not found:
        raise OptionError(
            "no path to read",
            name="path",
            hint="give one: .load(path), or OPTIONS (path …) of a temporary view; "
            "or the option server",
        )
    for path in found:
        check_no_password(path, "path" if server is None else _SERVER.name)
        if server is not None or is_server_url(path):
            ServerUrl.parse_all(path)  # a malformed URL is reported here, in one line
    return tuple(found)


def _ledger_path(text: str | None) -> str | None:
    """Return the option's directory; a local one as an absolute path, since processes have their
    own directories.
    """
    if text is None:
        return None
    if not text.strip() or is_server_url(text):
        raise OptionError(
            f"option ledger_path: {text!r} is not a directory", name="ledger_path", value=text
        )
    check_no_password(text, "ledger_path")
    return text if is_uri(text) else str(Path(local_path(text)).absolute())


def _names_one_table(read: ReadOptions) -> bool:
    return len(read.table) == 1 and not any(c in read.table[0] for c in "*?")


def _view(asked: str | None, read: ReadOptions) -> str:
    view = asked or ("table" if _names_one_table(read) else "changes")
    if view not in VIEWS:
        raise OptionError(
            f"option view: {asked!r}: expected one of {', '.join(VIEWS)}", name="view", value=asked
        )
    if view == "table" and not _names_one_table(read):
        raise OptionError(
            "the view table needs the option table with exactly one DATABASE.TABLE",
            name="table",
            hint="for example .option('table', 'shop.orders')",
        )
    if view not in ("table", "changes"):
        read.refuse_row_filters(f"the view {view}")
    return view
