"""How the lake has the columns of one table: most as the server's, some hashed, some as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from binlake.mirror.columns.hashing import KeyedHash
from binlake.mirror.columns.kept_as_text import server_texts
from binlake.values.plan import ColumnDefinition


@dataclass(frozen=True)
class LakeColumns:
    """By name, the hash of each `hashed` column, and the definitions of those that are text."""

    hashed: Mapping[str, KeyedHash] = field(default_factory=dict)
    texts: Mapping[str, ColumnDefinition] = field(default_factory=dict)

    def column(self, name: str, values: pa.Array) -> pa.Array:
        """The values of a column as the lake has them."""
        if name in self.texts:
            return server_texts(values, self.texts[name])
        return self.hashed[name].of(values) if name in self.hashed else values

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
