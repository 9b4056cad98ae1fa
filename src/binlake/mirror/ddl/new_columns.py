"""The value of a new column in the rows that a lake table already has.

Iceberg keeps it as the initial default of the column: readers return it for the rows of data files that lack the
column. Tables of format v2, Delta tables and tables whose rows are versions or belong to several shards have no such value.
"""

from __future__ import annotations

import pyarrow as pa

from binlake.errors import UnsupportedError
from binlake.mirror.columns.names import caseless
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.table import Followed
from binlake.mirror.modes.names import MIRROR, SOFT_DELETES
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.plan import TableTypes
from binlake.table.schema.declared import DeclaredColumn
from binlake.table.schema.new_columns import constant_of, value_of


def existing_value(
    ddl: DdlStatement,
    column: DeclaredColumn,
    types: TableTypes,
    table: Followed,
    rules: ColumnRules,
) -> pa.Scalar | None:
    """Return the value of a column that a statement adds, in the existing rows of the lake table; None: NULL.

    Raises UnsupportedError if the statement does not determine it, or if the lake table cannot have it.
    """
    if not table.mode.holds_rows:
        return None
    constant = constant_of(ddl, column)
    if constant is None:
        return None
    [kind] = [one for one in types.columns if caseless(one.column.name) == column.lower_name]
    if (why := _why_without_default(table, kind.arrow_type)) is not None:
        raise UnsupportedError(
            f"column {column.name} is added with values in the existing rows: {why}"
        )
    values = pa.array([value_of(kind, column, constant)], kind.arrow_type)
    return rules.in_lake(*table.id, types).column(column.name, values)[0]


def _why_without_default(table: Followed, kind: pa.DataType) -> str | None:
    """Return why a new column of a lake table can only be NULL in the existing rows."""
    if table.mode.name not in (MIRROR, SOFT_DELETES):
        return "earlier versions of the rows did not have them"
    if table.shard_column:
        return "the lake table also has the rows of other shards"
    if not table.lake.has_initial_defaults:
        return "only Iceberg tables with --deletes vectors can have them without a rewrite"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        # 0.12 compares the text of the default with a date: a condition on the column misses these rows
        return "PyIceberg finds no rows by the default of a DATE or DATETIME column"
    return None
