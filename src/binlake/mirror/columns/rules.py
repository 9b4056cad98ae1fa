"""Which columns are left out of the lake, and which are hashed, by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from binlake.errors import OptionError, UnsupportedError
from binlake.mirror.columns.hashing import KeyedHash, read_key
from binlake.mirror.columns.lake_columns import LakeColumns
from binlake.mirror.columns.names import caseless
from binlake.table.plan import TableTypes
from binlake.values.builds import PickledByName
from binlake.values.column_patterns import matches_column

Treatment = Literal["shown", "hashed", "as text", "left out"]
# By gh-ost, pt-online-schema-change, Spirit and others; with the time, if they are told to.
_NEW_TABLE = re.compile(r"_+(?P<of>.+?)(?:_\d{14})?_(?:gho|ghc|del|new|old)(?:_\d+)*")
_LONGEST_NAME = 64  # characters
#: How much of a column's values each treatment hides.
_HIDES = {"shown": 0, "as text": 0, "hashed": 1, "left out": 2}


@dataclass(frozen=True, slots=True)
class ColumnRules(PickledByName):
    """The patterns, `DATABASE.TABLE.COLUMN`; a column that matches both is left out.

    `key_file` holds the key of the hash; "": the environment does. The key itself does not travel: each
    process reads it, and `key_id` says which it must be, "" for any. `texts`: database, table and name of each
    column that the lake keeps as text, which the lake's tables record.
    """

    exclude: tuple[str, ...] = ()
    hash: tuple[str, ...] = ()
    key_file: str = ""
    key_id: str = ""
    texts: frozenset[tuple[str, str, str]] = frozenset()

    def with_texts(self, database: str, table: str, names: Iterable[str]) -> ColumnRules:
        """The rules with more columns of a table that the lake keeps as text."""
        found = frozenset((database, table, caseless(name)) for name in names)
        return replace(self, texts=self.texts | found) if found else self

    def pinned(self) -> ColumnRules:
        """Return the rules with the id of the current key. Raises OptionError if a key is needed and missing."""
        return replace(self, key_id=read_key(self.key_file).id) if self.hash else self

    def treatment(self, database: str, table: str, column: str) -> Treatment:
        """The treatment of a column."""
        if matches_column(self.exclude, database, table, column):
            return "left out"
        if matches_column(self.hash, database, table, column):
            return "hashed"
        return "as text" if (database, table, caseless(column)) in self.texts else "shown"

    def in_lake(self, database: str, table: str, types: TableTypes) -> LakeColumns:
        """How the lake has the columns of a table that is decoded with `types`. Raises OptionError."""
        texts = {
            kind.column.name: kind.column
            for kind in types.columns
            if self.treatment(database, table, kind.column.name) == "as text"
        }
        return LakeColumns(self.hashed(database, table, types.names), texts)

    def hashed(self, database: str, table: str, names: Iterable[str]) -> dict[str, KeyedHash]:
        """The hash of each column of a table that is hashed. Raises OptionError."""
        found = [n for n in names if self.treatment(database, table, n) == "hashed"]
        if not found:
            return {}
        keyed = read_key(self.key_file)
        if self.key_id not in ("", keyed.id):
            raise OptionError(
                "the hash key of this process differs from that of the process that began the work",
                name="hash_key_file",
                hint="the key file must be the same on the driver and on every executor",
            )
        return dict.fromkeys(found, keyed)

    def lake_schema(self, database: str, table: str, schema: pa.Schema) -> pa.Schema:
        """The schema of a table in which hashed columns, and those kept as text, are text. Those left out are not in `schema`."""
        fields = [
            pa.field(field.name, pa.string())
            if self.treatment(database, table, field.name) in ("hashed", "as text")
            else field
            for field in schema
        ]
        return pa.schema(fields, metadata=schema.metadata)

    def described(self, database: str, table: str, names: Iterable[str]) -> dict[str, Any]:
        """The record in the lake: the columns of a table that are left out or hashed, and the key's id.

        Empty if there are none. Raises OptionError where a key is needed and missing.
        """
        by_name = {name: self.treatment(database, table, name) for name in names}
        found: dict[str, Any] = {
            what: sorted(name for name, treatment in by_name.items() if treatment == what)
            for what in ("left out", "hashed")
        }
        if found["hashed"]:
            found["key"] = self.key_id or read_key(self.key_file).id
        return {what: value for what, value in found.items() if value}

    def newly_hidden(
        self, database: str, table: str, names: Iterable[str], before: Mapping[str, Any]
    ) -> list[str]:
        """The columns of a lake table that show more than these rules allow; `before`: what `described` was for them.

        A hash with an earlier key shows more, too. Raises OptionError where a key is needed and missing.
        """
        was = {
            caseless(name): what for what in ("left out", "hashed") for name in before.get(what, ())
        }
        found = []
        for name in names:
            earlier, now = was.get(caseless(name), "shown"), self.treatment(database, table, name)
            if _HIDES[now] > _HIDES[earlier]:
                found.append(name)
            elif now == earlier == "hashed":
                key = self.described(database, table, [name])["key"]
                found += [name] if key != before.get("key") else []
        return found

    def check(self, database: str, table: str, names: Iterable[str], key: Iterable[str]) -> None:
        """Raise UnsupportedError for a table that would have no key, or no column, and for the table that an online schema change
        makes of another one, if it would show more.
        """
        if altered := _NEW_TABLE.fullmatch(table):
            for of in self._altered_tables(table, altered["of"]):
                self._check_hides_as(database, table, of, names)
        for name in key:
            if self.treatment(database, table, name) == "left out":
                raise UnsupportedError(
                    f"{database}.{table}: column {name} is part of the key and cannot be left out",
                    hint="--hash-column hashes it instead",
                )
        if all(self.treatment(database, table, name) == "left out" for name in names):
            raise UnsupportedError(f"{database}.{table}: every column would be left out")

    def _altered_tables(self, table: str, of: str) -> Iterator[str]:
        """The names that a table may have of which an online schema change makes `table`: gh-ost cuts the end of a long one."""
        yield of
        if len(table) == _LONGEST_NAME:
            for pattern in (*self.exclude, *self.hash):
                yield from re.findall(rf"{re.escape(of.casefold())}[^.`*?]+", pattern.casefold())

    def _check_hides_as(self, database: str, table: str, of: str, names: Iterable[str]) -> None:
        """Raise UnsupportedError if a table shows a column that the table `of` hides."""
        for name in names:
            hidden = self.treatment(database, of, name)
            if _HIDES[hidden] > _HIDES[self.treatment(database, table, name)]:
                raise UnsupportedError(
                    f"{database}.{table}: an online schema change may make this table of {database}.{of}, whose column {name} is"
                    f" {hidden}, but here it would not be",
                    hint=f"leave the table out with --exclude-table, or use a pattern for both tables, such as '*.*.{name}'",
                )

    def check_renamed(
        self, database: str, table: str, before: Iterable[str], now: Iterable[str]
    ) -> None:
        """Raise UnsupportedError if a column that was hidden `before` may show more under a new name: it is unknown which statements
        have made the columns that the table has `now` of those.
        """
        old, new = ({caseless(name): name for name in names} for names in (before, now))
        gone = [name for key, name in old.items() if key not in new]
        for name in (name for key, name in new.items() if key not in old):
            treatment = self.treatment(database, table, name)
            for one in gone:
                was = self.treatment(database, table, one)
                if _HIDES[was] > _HIDES[treatment]:
                    raise UnsupportedError(
                        f"{database}.{table}: the server no longer has column {one}, which was {was}, and has a new column {name},"
                        f" which should be {treatment}: it may be the same column",
                        hint=f"hide column {name}, or run `binlake mirror resync` for the table if it may be {treatment}",
                    )

    def unmatched(self, columns: Iterable[tuple[str, str, str]]) -> list[str]:
        """The patterns that match none of these columns."""
        known = list(columns)
        return [
            pattern
            for pattern in (*self.exclude, *self.hash)
            if not any(matches_column((pattern,), *one) for one in known)
        ]
