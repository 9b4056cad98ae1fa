"""Compare a table of the lake with its source, and find the rows and columns that differ.

    with exact_session(url) as source:                 # the server at one position
        found = compare(source.server, table, lake)    # the lake at the same
        found.differences

Checksums of parts of the table are compared first. The rows of the parts that differ are then read
on both sides and compared value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from binlake.errors import OptionError, UnsupportedError
from binlake.mirror.columns.lake_columns import AS_DECODED, LakeColumns
from binlake.mirror.equality.search import LakeRows, Search, TableDifference
from binlake.mirror.equality.source_rows import SourceRows
from binlake.mirror.equality.sums import Sample, TableParts
from binlake.mirror.equality.value_texts import MD5, SHA256, Hash
from binlake.snapshot.read_session import begin_snapshot, open_session, take_raw_text
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.connection import ServerConnection
from binlake.values.position import Position

__all__ = [
    "ExactSource",
    "LakeRows",
    "TableComparison",
    "TableDifference",
    "VerifyOptions",
    "compare",
    "exact_session",
]

_ROWS_IN_A_PART = 500
_FEWEST_PARTS, _MOST_PARTS = 16, 65_536


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How a table is compared: `sample` is the share of its rows (above 0, up to 1); `most_differences`
    ends the search, which has about `most_values` values in memory. `parts` 0: as many as the table's size needs. Consecutive `sample_number`s choose other rows, until
    each row has had its turn. Raises OptionError.
    """

    sample: float = 1.0
    most_differences: int = 1000
    parts: int = 0
    sample_number: int = 0
    most_values: int = 2_000_000

    def __post_init__(self) -> None:
        if not 0 < self.sample <= 1:
            raise OptionError("sample: expected a share above 0 and up to 1", name="sample")
        if self.most_differences < 1 or self.parts < 0:
            raise OptionError("most_differences: expected 1 or more", name="most_differences")
        if self.sample_number < 0:
            raise OptionError("sample_number: expected 0 or more", name="sample_number")


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
    has_key = {*table.key} <= {field.name for field in fields}
    if not has_key and not differences:  # the options leave out a column of a key that came later
        table, has_key = replace(table, key=()), True
    parts = _parts(table, digest, fields, options)
    if not has_key or not parts.fields:
        return TableComparison(table.full_name, 0, 0, 0, 0, tuple(differences))
    source = SourceRows(server, parts, columns, pause)
    there, here = source.sums(), parts.of_rows(lake.scan())
    most = options.most_differences - len(differences)
    search = Search(source, lake, parts, most, options.most_values)
    differing = search.look(there, here)
    return TableComparison(
        table.full_name,
        sum(part.rows for part in there.values()),
        sum(part.rows for part in here.values()),
        max(1, round(parts.count * options.sample)),
        differing,
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
