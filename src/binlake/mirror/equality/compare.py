"""Compare a table of the lake with its source, and find the rows and columns that differ.

    with exact_session(url) as source:                 # the server at one position
        found = compare(source.server, table, lake)    # the lake at the same
        found.differences

Checksums of parts of the table are compared first. The rows of the parts that differ are then read
on both sides and compared value by value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from binlake.errors import FormatError, OptionError, UnsupportedError
from binlake.mirror.columns.lake_columns import AS_DECODED, LakeColumns
from binlake.mirror.equality.pauses import with_pauses
from binlake.mirror.equality.sums import NO_PART, PartSum, RowTexts, Sample, TableParts
from binlake.mirror.equality.value_texts import MD5, SHA256, Hash
from binlake.snapshot.read_session import begin_snapshot, open_session, take_raw_text
from binlake.snapshot.table_rows import RowSelect
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.prepared import BatchLimits
from binlake.values.position import Position

_ROWS_IN_A_PART = 500
_FEWEST_PARTS, _MOST_PARTS = 16, 65_536
_ROWS_AT_ONCE = 200_000
_LIMITS = BatchLimits()


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How a table is compared: `sample` is the share of its rows (above 0, up to 1); `most_differences`
    ends the search. `parts` 0: as many as the table's size needs. Consecutive `sample_number`s choose other rows, until
    each row has had its turn. Raises OptionError.
    """

    sample: float = 1.0
    most_differences: int = 1000
    parts: int = 0
    sample_number: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.sample <= 1:
            raise OptionError("sample: expected a share above 0 and up to 1", name="sample")
        if self.most_differences < 1 or self.parts < 0:
            raise OptionError("most_differences: expected 1 or more", name="most_differences")
        if self.sample_number < 0:
            raise OptionError("sample_number: expected 0 or more", name="sample_number")


@dataclass(frozen=True, slots=True)
class LakeRows:
    """A table of the lake at one moment: its Arrow schema, and a function that reads all rows."""

    schema: pa.Schema
    scan: Callable[[], Iterable[pa.Table]]


@dataclass(frozen=True, slots=True)
class TableDifference:
    """One difference.

    `kind`: `changed` (columns of a row differ), `missing` (the lake lacks the row), `extra` (only the lake
    has it), `doubled` (the lake has it more often), `type` or `column` (of a column as a whole).
    `key`: the names and values of the key, or of all columns where there is none.
    """

    kind: str
    key: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        row = ", ".join(f"{name}={value}" for name, value in self.key)
        columns = ", ".join(self.columns)
        return " ".join(
            part for part in (self.kind, row and f"({row})", columns, self.detail) if part
        )


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The result of comparing one table.

    `source_rows` and `lake_rows` are those that were compared; `parts` how many checksums (of a sample, about that share of
    them), of which `differing_parts` differ. `is_cut`: there may be more differences than are listed.
    """

    table: str
    source_rows: int
    lake_rows: int
    parts: int
    differing_parts: int
    differences: tuple[TableDifference, ...] = ()
    is_cut: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


@dataclass(frozen=True, slots=True)
class ExactSource:
    """A server seen at one position of its log."""

    server: ServerConnection
    position: Position


@contextmanager
def exact_session(url: str) -> Iterator[ExactSource]:
    """Open a session that reads the server's transactional tables at one position. Raises ServerError."""
    with open_session(url) as server:
        position = begin_snapshot(server)
        yield ExactSource(server, position)


def compare(
    server: ServerConnection,
    table: SourceTable,
    lake: LakeRows,
    *,
    expected: pa.Schema | None = None,
    options: VerifyOptions | None = None,
    columns: LakeColumns = AS_DECODED,
    pause: Callable[[], None] = lambda: None,
) -> TableComparison:
    """Compare a table with its copy in the lake. The server's transaction determines the moment.

    `expected` is the schema that the lake should have, the source's own by default. With hashed `columns`
    all rows of the server are read, since it does not know the hash's key. `pause` is called every few seconds while the
    server computes or sends its rows. Raises ServerError, UnsupportedError for a table without consistent reads, and the
    errors of `pause` and of reading the lake.
    """
    options = options or VerifyOptions()
    take_raw_text(server)  # the definition of the table may have been read in this session
    if not table.is_transactional:
        raise UnsupportedError(
            f"{table.full_name}: binlake cannot read a table of engine {table.engine} at one position of the log",
            hint="only tables of transactional engines (InnoDB) can be verified",
        )
    differences = list(_column_differences(expected or table.arrow_schema, lake.schema))
    digest = SHA256 if server.flavour == "mysql" and server.version >= (8, 0) else MD5
    fields = tuple(_common(expected or table.arrow_schema, lake.schema))
    parts = _parts(table, digest, fields, options)
    if any(name not in {f.name for f in parts.fields} for name in table.key) or not parts.fields:
        return TableComparison(table.full_name, 0, 0, 0, 0, tuple(differences))
    source = _SourceRows(server, parts, columns, pause)
    there, here = source.sums(), parts.of_rows(lake.scan())
    differing = sorted(n for n in there.keys() | here.keys() if there.get(n) != here.get(n))
    search = _Search(source, lake, parts, options.most_differences - len(differences))
    groups = [differing] if parts.may_misplace else _groups(differing, there, here)
    for numbers in groups:
        if not numbers:
            break
        search.look_at(numbers)
        if search.is_full:
            break
    return TableComparison(
        table.full_name,
        sum(part.rows for part in there.values()),
        sum(part.rows for part in here.values()),
        max(1, round(parts.count * options.sample)),
        len(differing),
        (*differences, *search.found),
        search.is_full,
    )


def _column_differences(expected: pa.Schema, lake: pa.Schema) -> Iterator[TableDifference]:
    for wanted in expected:
        at = lake.get_field_index(wanted.name)
        if at < 0:
            yield TableDifference(
                "column", columns=(wanted.name,), detail="the lake does not have it"
            )
        elif not _same_type(lake.field(at).type, wanted.type):
            detail = f"{lake.field(at).type} in the lake, should be {wanted.type}"
            yield TableDifference("type", columns=(wanted.name,), detail=detail)
    for name in lake.names:
        if expected.get_field_index(name) < 0:
            yield TableDifference("column", columns=(name,), detail="the source does not have it")


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are equal; the metadata of list items, such as field ids, does not count."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _same_type(one.value_type, other.value_type)
    return bool(one == other)


def _common(expected: pa.Schema, lake: pa.Schema) -> Iterator[pa.Field]:
    """The columns that both sides have in one type."""
    for wanted in expected:
        at = lake.get_field_index(wanted.name)
        if at >= 0 and _same_type(lake.field(at).type, wanted.type):
            yield lake.field(at)


def _parts(
    table: SourceTable, digest: Hash, fields: tuple[pa.Field, ...], options: VerifyOptions
) -> TableParts:
    count = options.parts or min(max(table.rows // _ROWS_IN_A_PART, _FEWEST_PARTS), _MOST_PARTS)
    return TableParts(
        table, digest, fields, count, Sample.of(options.sample, options.sample_number)
    )


def _groups(
    differing: Sequence[int], there: dict[int, PartSum], here: dict[int, PartSum]
) -> Iterator[list[int]]:
    """Parts that are searched together: as many as fit into memory."""
    nothing = PartSum(0, 0)
    group: list[int] = []
    size = 0
    for number in differing:
        rows = there.get(number, nothing).rows + here.get(number, nothing).rows
        if group and size + rows > _ROWS_AT_ONCE:
            yield group
            group, size = [], 0
        group.append(number)
        size += rows
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _SourceRows:
    """The server's rows as the lake should have them."""

    server: ServerConnection
    parts: TableParts
    columns: LakeColumns
    pause: Callable[[], None]

    def sums(self) -> dict[int, PartSum]:
        """The checksums of all parts that are compared."""
        if self.columns.hashed:
            return self.parts.of_rows(self._read(""))
        # one statement, which may take hours
        return with_pauses(lambda: self.parts.of_server(self.server), self.server, self.pause)

    def of_parts(self, numbers: Sequence[int]) -> Iterator[pa.Table]:
        """Read the rows of some parts. With hashed columns, read all rows: the server does not know the part of a row."""
        return self._read("" if self.columns.hashed else self.parts.condition(numbers))

    def wanted(self, numbers: Sequence[int]) -> Container[int]:
        """Return the parts whose rows count. Without hashed columns, all count, because the server has chosen the rows."""
        return frozenset(numbers) if self.columns.hashed else range(NO_PART, self.parts.count)

    def _read(self, condition: str) -> Iterator[pa.Table]:
        select = RowSelect(self.parts.table, _LIMITS)
        wanted = pa.schema([pa.field(f.name, f.type) for f in self.parts.fields])
        for batch in select.batches_to_the_end(self.server, condition):
            self.pause()
            try:
                rows = self.columns.rows(batch).select(wanted.names).cast(wanted)
            except (
                pa.ArrowInvalid
            ) as error:  # of the lake's files, it would mean that one is damaged
                raise FormatError(
                    f"{self.parts.table.full_name}: a value of the server does not fit its column in the lake: {error}"
                ) from None
            yield rows


@dataclass(slots=True)
class _Search:
    """Compares the rows of parts; `found` has at most `most` differences."""

    source: _SourceRows
    lake: LakeRows
    parts: TableParts
    most: int
    found: list[TableDifference] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Return whether the limit on differences is reached."""
        return len(self.found) >= self.most

    def look_at(self, numbers: Sequence[int]) -> None:
        """Compare all rows of some parts."""
        wanted = frozenset(numbers)
        source = self._by_key(self.source.of_parts(numbers), self.source.wanted(numbers))
        lake = self._by_key(self.lake.scan(), wanted)
        for key in dict.fromkeys(
            (*source, *lake)
        ):  # in the order in which the server sends its rows
            for difference in self._of_key(source.get(key, []), lake.get(key, [])):
                if self.is_full:
                    return
                self.found.append(difference)

    def _by_key(
        self, tables: Iterable[pa.Table], wanted: Container[int]
    ) -> dict[bytes, list[_Row]]:
        """The rows of some parts, by their keys."""
        found: dict[bytes, list[_Row]] = defaultdict(list)
        names = self.parts.table.key or tuple(f.name for f in self.parts.fields)
        for table in tables:
            texts = RowTexts.of(table, self.parts)
            for at, number in enumerate(texts.numbers):
                if number not in wanted:
                    continue
                shown = tuple((name, str(table.column(name)[at].as_py())) for name in names)
                values = tuple(column[at] for column in texts.columns)
                found[texts.keys[at]].append(_Row(shown, values))
        return found

    def _of_key(self, source: list[_Row], lake: list[_Row]) -> Iterator[TableDifference]:
        """The differences among the rows of one key."""
        if len(source) == len(lake) == 1:
            pairs = zip(self.parts.fields, source[0].values, lake[0].values, strict=True)
            columns = tuple(f.name for f, one, other in pairs if one != other)
            if columns:
                yield TableDifference("changed", source[0].key, columns)
            return
        there, here = Counter(row.values for row in source), Counter(row.values for row in lake)
        shown = (source or lake)[0].key
        for _ in range((there - here).total()):
            yield TableDifference("missing", shown)
        kind = "doubled" if source else "extra"
        for _ in range((here - there).total()):
            yield TableDifference(kind, shown)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: its key as text, and the texts of its values."""

    key: tuple[tuple[str, str], ...]
    values: tuple[str | None, ...]
