"""The rows of one table in a dump: the output of mysqldump or mariadb-dump, plain or compressed.

The dump is read twice: once for the definition of the table and the place in the log, once for its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from binlake.errors import SchemaError, SourceError
from binlake.format.sql_names import quoted_name
from binlake.state.base import Base, MissingTableError
from binlake.state.dump_file import open_dump
from binlake.state.dump_values import DumpLiteral, insert_head, insert_rows, value_reader
from binlake.state.origin import Origin, origin_in_dump
from binlake.state.shape import Row, TableShape, collations_in, key_of
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.dump_text import WINDOW_BYTES
from binlake.table.schema.schema_file import DumpPart, dump_parts, named_database
from binlake.table.schema.sql_tokens import UnreadableTableError
from binlake.values.options import ReadOptions

_BATCH_ROWS = 8192
_BATCH_BYTES = 16 << 20
_MOST_NAMED = 8  # tables in the message about a missing one
_MOST_BETWEEN = 4 << 20
_UTF8MB3 = ("utf8", "utf8mb3")  # the default of mysqldump 5.5 to 5.7
_UTF8 = (*_UTF8MB3, "utf8mb4")
#: Character sets with characters that utf8mb3 lacks: such a dump contains `?` for them.
_BEYOND_UTF8MB3 = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
_USE_UTF8MB4 = "make it with --default-character-set=utf8mb4"
_NAMES = re.compile(rb"\bSET\s+NAMES\s+'?(\w+)", re.IGNORECASE)
_IN_UTC = re.compile(rb"\bSET\s+TIME_ZONE\s*=\s*'\+00:00'", re.IGNORECASE)
_PARTIAL = re.compile(rb"^-- WHERE:", re.MULTILINE)
_HEAD_BYTES = 64 << 10
# the first text of a dump, and the last one that belongs to it
_FRAMES = (
    (re.compile(rb"^-- (?:MySQL|MariaDB) dump ", re.MULTILINE), b"-- Dump completed"),
    (re.compile(rb"SET @OLD_SQL_NOTES=@@SQL_NOTES"), b"SET SQL_NOTES=@OLD_SQL_NOTES"),
)


def _marks(table: str) -> tuple[bytes, ...]:
    """The text of a dump before the rows of a table, also if there are none."""
    name = quoted_name(table).encode()
    return (
        b"-- Dumping data for table " + name,
        b"LOCK TABLES " + name + b" WRITE",
        b"ALTER TABLE " + name + b" DISABLE KEYS",
    )


class Dump(Base):
    """One table of a dump, to be closed. Raises SourceError if the dump does not have the table, or is
    not complete. `window_bytes` is as in DumpText.
    """

    def __init__(
        self,
        path: str,
        database: str,
        table: str,
        flavour: str,
        options: ReadOptions,
        *,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.name = f"the dump {path}"
        self._path = path
        self._wanted = (database, table)
        self._charset: str | None = None
        self._in_utc = False
        self._others: dict[str, None] = {}
        self.origin = Origin()
        self.create_table = ""
        with ExitStack() as stack:
            self._data = stack.enter_context(open_dump(path, options, window_bytes))
            self._check_whole()
            declared = self._survey()
            self._open = stack.pop_all()
        key = key_of(self.create_table, declared)
        try:
            self.shape = TableShape.of(
                declared,
                flavour,
                key,
                options,
                collations_in(self.create_table, flavour),
                is_rounded=True,
            )
        except SchemaError as error:
            raise SourceError(
                f"{path}: {error.message}",
                hint="make the dump with --create-options, which --opt includes",
            ) from None

    def close(self) -> None:
        self._open.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises SourceError for a statement that is not understood."""
        self._check_readable()
        names, kinds = self.shape.names, self.shape.kinds
        readers = {name.lower(): (name, value_reader(kind)) for name, kind in kinds.items()}
        rows: list[Row] = []
        taken = 0
        for start, end in self._inserts():
            text = self._data[start:end]
            head = insert_head(text)
            assert head is not None, "the survey has read it"
            if head.end < 0:
                raise self._error("INSERT without VALUES", start)
            listed = head.columns
            if listed is None:
                listed = tuple(c.name for c in self.shape.declared.columns)
            columns = [readers.get(name.lower()) for name in listed]
            missing = set(names) - {column[0] for column in columns if column is not None}
            if missing:
                raise self._error(f"INSERT without column {min(missing)}", start)
            try:
                for values in insert_rows(text, head.end, len(listed)):
                    rows.append(
                        {
                            column[0]: None if value is None else column[1](value)
                            for column, value in zip(columns, values, strict=True)
                            if column is not None
                        }
                    )
                    if len(rows) == _BATCH_ROWS:
                        yield self._batch(rows, start)
                        rows = []
            except SourceError as error:
                raise self._error(error.message, start + int(error.offset or 0)) from None
            except ValueError as error:
                raise self._error(self._misfit(columns, values, error), start) from None
            taken += end - start
            if taken > _BATCH_BYTES and rows:
                yield self._batch(rows, start)
                rows, taken = [], 0
        if rows:
            yield self._batch(rows, len(self._data))

    # -- reading -------------------------------------------------------------------------------

    def _batch(self, rows: list[Row], place: int) -> pa.RecordBatch:
        try:
            return self.shape.batch(rows)
        except (OverflowError, TypeError, ValueError) as error:
            raise self._error(f"a value does not fit into its column: {error}", place) from None

    def _misfit(
        self,
        columns: Sequence[tuple[str, object] | None],
        values: list[DumpLiteral | None],
        error: Exception,
    ) -> str:
        for column, value in zip(columns, values, strict=True):
            if column is None or value is None:
                continue
            try:
                value_reader(self.shape.kinds[column[0]])(value)
            except ValueError:
                return f"a value of column {column[0]} cannot be read: {error}"
        return f"a value cannot be read: {error}"

    def _error(self, message: str, place: int) -> SourceError:
        line = self._data.newlines(0, place) + 1
        return SourceError(f"{self._path}, line {line}: {message}")

    def _check_readable(self) -> None:
        if (self._charset or _UTF8[-1]) not in _UTF8:
            raise SourceError(
                f"{self._path}: the dump is in character set {self._charset}",
                hint=_USE_UTF8MB4,
            )
        columns = self.shape.declared.columns
        wider = [c.name for c in columns if c.charset in _BEYOND_UTF8MB3 and not c.generated]
        if wider and self._charset in _UTF8MB3:
            raise SourceError(
                f"{self._path}: the dump is in character set {self._charset}, which lacks characters that column"
                f" {wider[0]} may contain",
                hint=_USE_UTF8MB4,
            )
        moments = [c.name for c in columns if c.sql.startswith("timestamp")]
        if moments and not self._in_utc:
            raise SourceError(
                f"{self._path}: the dump does not set the time zone of TIMESTAMP column {moments[0]}",
                hint="make it without --skip-tz-utc",
            )

    def _check_whole(self) -> None:
        for begins, ends in _FRAMES:
            if begins.search(self._data[:_HEAD_BYTES]) and ends not in self._data[-_HEAD_BYTES:]:
                raise SourceError(
                    f"{self._path}: the dump is not complete: its last lines are missing",
                    hint="make it again, or copy it again",
                )

    def _survey(self) -> DeclaredTable:
        """Find the table and the place in the log."""
        declared: DeclaredTable | None = None
        has_data = False
        marks = _marks(self._wanted[1])
        for part, database, between in self._parts():
            self._look_at(between, part.start if part is not None else 0)
            has_data = has_data or any(mark in between for mark in marks)
            if part is None or (database is not None and database != self._wanted[0]):
                continue
            text = self._data[part.start : part.end] if part.kind == "table" else b""
            if part.kind == "table" and (found := self._declared(text, database)) is not None:
                declared, has_data = found, False
                self.create_table = text.decode("utf-8")
            elif part.kind == "insert" and not has_data and declared is not None:
                has_data = self._is_of_table(part, database)
        if declared is None:
            there = ", ".join(list(self._others)[:_MOST_NAMED])
            raise MissingTableError(
                f"{self._path}: the dump has no table {'.'.join(self._wanted)}",
                f"the dump {self._path}",
                self.origin,
                hint=f"it has {there}" if there else "is it the output of mysqldump?",
            )
        if not has_data:
            raise SourceError(
                f"{self._path}: the dump contains only the definition of {'.'.join(self._wanted)}, not its rows",
                hint="make it without --no-data",
            )
        return declared

    def _parts(self) -> Iterator[tuple[DumpPart | None, str | None, bytes]]:
        """Yield the tables and INSERTs, the current database, and the text before each since the last;
        at the end None with the rest. It leaves out the bodies of routines.
        """
        database: str | None = None
        end, is_routine = 0, False
        for part in dump_parts(self._data, self._path):
            if part.kind == "delimiter":
                is_routine = self._data[part.start : part.end].split()[1] != b";"
            elif part.kind not in ("table", "insert"):
                named = named_database(part.kind, self._data[part.start : part.end])
                database = named or database
            elif not is_routine:
                yield part, database, self._data[end : min(part.start, end + _MOST_BETWEEN)]
                end = part.end
        yield None, None, self._data[end : end + _MOST_BETWEEN]

    def _look_at(self, text: bytes, end: int) -> None:
        self.origin = origin_in_dump(text, self.origin)
        if (names := _NAMES.search(text)) is not None and self._charset is None:
            self._charset = names[1].decode("ascii", "replace").lower()
        self._in_utc = self._in_utc or _IN_UTC.search(text) is not None
        if _PARTIAL.search(text):
            raise self._error(
                "the dump contains only some of the rows: it was made with --where", end
            )

    def _declared(self, text: bytes, database: str | None) -> DeclaredTable | None:
        wanted = self._wanted[1]
        if len(self._others) >= _MOST_NAMED and wanted.isalnum() and wanted.encode() not in text:
            return None
        try:
            found = parse_create_table(text.decode("utf-8"), database, {}, 0)
        except (UnicodeDecodeError, UnreadableTableError) as error:
            if wanted.encode() in text[:512]:
                raise SourceError(f"{self._path}: cannot read CREATE TABLE: {error}") from None
            return None
        if found is None:
            return None
        self._others[f"{found.database or '?'}.{found.table}"] = None
        if not self._is_wanted(found.database, found.table):
            return None
        return replace(found, database=self._wanted[0])

    def _is_wanted(self, database: str | None, table: str) -> bool:
        return table == self._wanted[1] and database in (None, self._wanted[0])

    def _is_of_table(self, part: DumpPart, database: str | None) -> bool:
        """Whether an INSERT is one of the table."""
        head = insert_head(self._data[part.start : min(part.end, part.start + _HEAD_BYTES)])
        return head is not None and self._is_wanted(head.database or database, head.table)

    def _inserts(self) -> Iterator[tuple[int, int]]:
        """Where the INSERTs into the table are."""
        for part, database, _ in self._parts():
            if part is not None and part.kind == "insert" and self._is_of_table(part, database):
                yield part.start, part.end
