"""Lake tables and tables of a server in memory, for tests of the tables that a mirror follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from binlake.errors import ServerError, SourceError
from binlake.follow.offsets import StreamOffset
from binlake.mirror.control import Control, position_properties
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.mirror.tables.damage import MissingFileError
from binlake.mirror.tables.versions import Version, ancestors
from binlake.values.position import Position

OFFSET = StreamOffset(Position("1-2-3", "binlog.000001", 4, gtid_set=""))


class Stored:
    """A table of the lake, with its properties only."""

    def __init__(self, name: tuple[str, str], properties: Mapping[str, str]) -> None:
        self.full_name = ".".join(name)
        self.properties = dict(properties)
        self.summary = position_properties(OFFSET, 1)
        self.snapshot = 1
        self.error: Exception | None = None
        self.snapshots: list[dict[str, Any]] = []
        self.set_back = ""
        self.format = "iceberg"
        self.expired = 0

    def describe(self) -> dict[str, Any]:
        properties = dict(self.properties)  # a change is seen after another look
        return {"uuid": self.full_name, "properties": properties, "summary": self.summary}

    def file_states(self) -> list[Any]:
        return []

    def remove_orphans(self, *_of: Any) -> int:
        return 0

    def refresh(self) -> None:
        """Its properties are those in memory."""

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.properties.update(properties)

    def replace_properties(
        self, expected: Mapping[str, str | None], properties: Mapping[str, str]
    ) -> None:
        self.set_properties(properties)

    @property
    def stored(self) -> Stored:
        return self

    def lineage(self) -> Iterator[Version]:
        yield Version(self.snapshot, self.summary)
        yield from ancestors(self.snapshot, self.snapshots)

    def expire(self, *_how: Any) -> None:
        self.expired += 1

    def append(self, _rows: Any, properties: Mapping[str, str]) -> None:
        self.summary = dict(properties)


class FakeLake:
    """Lake tables by namespace and name, in memory."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], Stored] = {}
        self.refused: set[tuple[str, ...]] = set()
        self.missing: set[tuple[str, ...]] = set()
        self.loaded: list[tuple[str, ...]] = []

    def tables(self) -> list[tuple[str, str]]:
        return list(self.stored)

    def exists(self, *name: str) -> bool:
        return name in self.stored

    def create(
        self, namespace: str, name: str, _schema: Any, properties: Mapping[str, str]
    ) -> None:
        self.stored[namespace, name] = Stored((namespace, name), properties)

    def load(self, *name: str) -> Stored:
        self.loaded.append(name)
        if name in self.missing:
            raise MissingFileError(f"{'.'.join(name)}: Iceberg refuses: v1.metadata.json")
        if name in self.refused:
            raise SourceError(f"{'.'.join(name)}: Iceberg refuses: Forbidden")
        return self.stored[name]  # type: ignore[index]

    def open_table(self, namespace: str, name: str, *_how: Any) -> Stored:
        if (error := self.stored[namespace, name].error) is not None:
            raise error
        return self.stored[namespace, name]

    def copy_of(self, recorded: str, database: str, table: str) -> None:
        """Add the lake table of a table whose record has this name."""
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in (database, table))
        properties = {
            "binlake.table": recorded,
            "binlake.key": '["id"]',
            "binlake.create-table": f"CREATE TABLE {quoted} (`id` int NOT NULL, PRIMARY KEY (`id`));",
        }
        self.stored[database, table] = Stored((database, table), properties)


class Unreadable:
    """The tables of a server; it answers with an error when `shop.bad` is read."""

    def __init__(self, error: ServerError) -> None:
        self.error = error
        self.read_times = 0

    def names(self) -> list[tuple[str, str]]:
        return [("shop", "bad"), ("shop", "good")]

    def has(self, name: tuple[str, str]) -> bool:
        return name in self.names()

    def read(self, _name: tuple[str, str]) -> None:
        self.read_times += 1
        raise self.error


def started(
    lake: FakeLake,
    folder: Path,
    control: Control | None = None,
    note: Callable[[str], None] = lambda _sentence: None,
    **more: Any,
) -> tuple[FollowedTables, Control]:
    """The tables of a mirror that has just opened them."""
    control = control or Control(lake, "mysql://db1/", MirrorOptions())  # type: ignore[arg-type]
    options = control.options
    tables = FollowedTables(
        lake, SourceHost("mysql://db1/"), SimpleNamespace(), SimpleNamespace(), control, options, options.column_rules, folder,  # type: ignore[arg-type]
        note=note, watch=lambda _progress: None, is_interrupted=lambda: False, **more,
    )  # fmt: skip
    tables.open()
    return tables, control


def of_server(tables: FollowedTables, *names: str) -> None:
    """Let the server have these tables."""
    split = [(database, table) for database, _, table in (name.partition(".") for name in names)]
    wants = tables.source.wants
    tables.source = SimpleNamespace(  # type: ignore[assignment]
        visible=lambda: split,
        views=list,
        names=lambda: [n for n in split if wants(*n)],
        wants=wants,
        has_lower_case_names=lambda: False,
    )
