"""Options for the tables that match a pattern: `DATABASE.TABLE=VALUE`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from binlake.errors import UnsupportedError
from binlake.mirror.table_patterns import patterns_of
from binlake.printable import printable
from binlake.values.option_texts import parse_table_pattern

_OWN = "_binlake"
#: What a mirror keeps in its state directory beside the directories of the namespaces.
LOCK, STAGING, PULSE = "mirror.lock", "mirror.staging", "pulse.json"
COPY_SUFFIX = ".copy.jsonl"
# Signs of paths, and of Hadoop's URIs and patterns.
_NOT_IN_PATHS = re.compile(r"[/\\:*?{}\[\]%#]")
_MOST_NAME_BYTES = 255
#: Outcomes for a table of an ALTER that cannot be applied; the first one is the default.
ALTER_POLICIES = ("quarantine", "resync", "text", "new-column")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_FIELD = re.compile(r"(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?(.+?)\s*\)|([^()]+?))\s*")
# by the names that Spark's PARTITIONED BY takes, too
_TRANSFORMS = {
    **{name: name for name in ("identity", "bucket", "truncate", "year", "month", "day", "hour")},
    **{f"{name}s": name for name in ("year", "month", "day", "hour")},
}
_WITH_WIDTH = ("bucket", "truncate")


@dataclass(frozen=True, slots=True)
class TableRule:
    """A pattern of tables, and the value for them."""

    pattern: str
    value: str

    @classmethod
    def parse(cls, text: str) -> TableRule:
        """Raises ValueError."""
        pattern, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise ValueError("expected DATABASE.TABLE=VALUE, with * and ? as wildcards")
        return cls(parse_table_pattern(pattern.strip()), value.strip())

    def matches(self, database: str, table: str) -> bool:
        """Whether it is about a table."""
        return patterns_of((self.pattern,)).match(database, table)


@dataclass(frozen=True, slots=True)
class LakeName:
    """Namespace and name of lake tables, in which `{database}` and `{table}` stand for the server's names."""

    namespace: str
    name: str

    def of(self, database: str, table: str) -> tuple[str, str]:
        """The names for a table of the server."""
        known = {"database": database, "table": table}
        namespace, name = (
            _PLACEHOLDER.sub(lambda found: known[found[1]], part)
            for part in (self.namespace, self.name)
        )
        return namespace, name


def parse_rename(text: str) -> LakeName:
    """The name of `DATABASE.TABLE=NAMESPACE.NAME`. Raises ValueError."""
    value = TableRule.parse(text).value
    unknown = [name for name in _PLACEHOLDER.findall(value) if name not in ("database", "table")]
    if unknown or "{" in _PLACEHOLDER.sub("", value) or "}" in _PLACEHOLDER.sub("", value):
        raise ValueError("the placeholders of a name are {database} and {table}")
    namespace, dot, name = value.partition(".")
    if not (namespace and dot and name) or "." in name or "/" in value:
        raise ValueError("expected NAMESPACE.NAME after the =, for example lake.{database}_{table}")
    if namespace.startswith(_OWN):
        raise ValueError("the namespace _binlake belongs to the mirror")
    return LakeName(namespace, name)


def check_lake_name(namespace: str, name: str) -> None:
    """Raise UnsupportedError for names that are no names of directories in the lake. Every user who may create
    tables on the server chooses them.
    """
    why = ""
    if namespace.lower().startswith(_OWN):
        why = "the namespace _binlake belongs to the mirror"
    if namespace.lower() in (LOCK, STAGING, PULSE) or namespace.endswith(COPY_SUFFIX):
        why = "a file of the mirror has the name of the namespace"
    for part in (namespace, name):
        if part in ("", ".", "..") or _NOT_IN_PATHS.search(part) or printable(part) != part:
            why = why or f"{part!r} is not the name of a directory"
        elif len(part.encode()) > _MOST_NAME_BYTES:
            why = why or "the name is too long for a directory"
    if why:
        raise UnsupportedError(
            f"the lake cannot have a table {namespace}.{name}: {why}",
            hint="give the table another name in the lake with --rename and run `binlake mirror resync`, or leave it out with --exclude-table",
        )


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec: a transform of a column; `width` of bucket and truncate, else 0."""

    transform: str
    column: str
    width: int = 0

    def __str__(self) -> str:
        width = f"{self.width}, " if self.width else ""
        return f"{self.transform}({width}{self.column})"


def parse_partition(text: str) -> tuple[PartitionField, ...]:
    """`days(created), bucket(16, id)`: a partition spec; a column alone is its identity. Raises ValueError."""
    found = tuple(_field(part) for part in re.split(r",(?![^(]*\))", text))
    if len(set(found)) < len(found):
        raise ValueError("a field occurs twice")
    return found


def _field(text: str) -> PartitionField:
    match = _FIELD.fullmatch(text.strip())
    name = "identity" if match is None or match[1] is None else match[1].lower()
    transform = _TRANSFORMS.get(name)
    if match is None or transform is None:
        raise ValueError(
            f"{text.strip()!r}: expected COLUMN, identity(COLUMN), bucket(N, COLUMN), truncate(N, COLUMN), "
            "years(COLUMN), months(COLUMN), days(COLUMN) or hours(COLUMN)"
        )
    width = int(match[2] or 0)
    if (transform in _WITH_WIDTH) != (width > 0) or width >= 1 << 31:
        expected = f"{transform}(N, COLUMN)" if transform in _WITH_WIDTH else f"{name}(COLUMN)"
        raise ValueError(f"{text.strip()!r}: expected {expected}")
    return PartitionField(transform, (match[3] or match[4]).strip("`"), width)


def parse_partition_rule(text: str) -> tuple[PartitionField, ...]:
    """The spec of `DATABASE.TABLE=SPEC`. Raises ValueError."""
    return parse_partition(TableRule.parse(text).value)


def parse_alter_rule(text: str) -> str:
    """The policy of `DATABASE.TABLE=HOW`. Raises ValueError."""
    value = TableRule.parse(text).value
    if value not in ALTER_POLICIES:
        raise ValueError(f"{value!r}: expected one of {', '.join(ALTER_POLICIES)}")
    return value
