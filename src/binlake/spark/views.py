"""The schemas of the views that do not depend on a table, by name."""

from __future__ import annotations

import pyarrow as pa

from binlake.spark.options import SourceOptions
from binlake.table.row_json import change_schema

__all__ = ["view_schema"]


def view_schema(options: SourceOptions) -> pa.Schema:
    """The Arrow schema of a view of any table's changes, events, transactions or statements."""
    return change_schema(options.read)
