"""How the lake has the columns of one table: most as the server's, some hashed, some as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from binlake.mirror.columns.hashing import NOTHING_HASHED, HashedColumns
from binlake.mirror.columns.kept_as_text import server_texts
from binlake.values.plan import ColumnDefinition


@dataclass(frozen=True)
class LakeColumns:
    """`hashed` columns, and by name the definitions of those that are text."""

    hashed: HashedColumns = NOTHING_HASHED
    texts: Mapping[str, ColumnDefinition] = field(default_factory=dict)

    def column(self, name: str, values: pa.Array) -> pa.Array:
        """The values of a column as the lake has them."""
        if name in self.texts:
            return server_texts(values, self.texts[name])
        return self.hashed.column(name, values)

    def columns(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The values of several columns as the lake has them."""
        return {name: self.column(name, values) for name, values in columns.items()}

    def rows(self, rows: pa.RecordBatch) -> pa.Table:
        """Rows as the lake has them."""
        if not (self.hashed or self.texts):
            return pa.Table.from_batches([rows])
        return pa.table(self.columns(dict(zip(rows.schema.names, rows.columns, strict=True))))


#: Of a table without such columns.
AS_DECODED = LakeColumns()
