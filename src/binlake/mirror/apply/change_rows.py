"""The row changes of one table as Arrow rows that travel between tasks and the driver.

A row has the columns of the changed row after the change (for a delete, before it). It also has
these columns, under names that no column of a server has:

- `OP`: insert, update or delete, as a number (`table.batches.OPERATIONS`),
- `ABSENT`: names of the columns whose values are not known because the images lack them, null if all are known,
- the requested facts, each under `fact` of the name of a metadata column,
- `BEFORE` + name: for each key column its value before an update, else null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.mirror.apply.insert_defaults import InsertDefaults
from binlake.mirror.columns.lake_columns import AS_DECODED, LakeColumns
from binlake.source.arrays import scalar
from binlake.table.batches import OPERATIONS, TableChanges
from binlake.table.images import has_column
from binlake.table.metadata import NAMES
from binlake.values.plan import NameSource, TableDefinition

#: Begins the name of each of these columns.
SPECIAL = "\0"
OP = f"{SPECIAL}op"
ABSENT = f"{SPECIAL}absent"
#: The hash of the key after a change, in two numbers; only in files of shares (`apply.shares`).
HASH = (f"{SPECIAL}hash high", f"{SPECIAL}hash low")
_FACT = f"{SPECIAL}fact "
BEFORE = f"{SPECIAL}before "
_ANOTHER_DEFINITION = "the log does not contain a change of the definition; `binlake mirror resync` copies the table again"
_HIDDEN = re.compile(r"DB_ROW_HASH_\d+")
_DELETE = OPERATIONS.index("delete")


def is_special(name: str) -> bool:
    """Whether a column is binlake's own, not the server's."""
    return name.startswith(SPECIAL)


def is_hidden(name: str) -> bool:
    """Return whether MariaDB logs a column but does not show it: the hash of a long unique value."""
    return _HIDDEN.fullmatch(name) is not None


def fact(name: str) -> str:
    """The name of the column that contains a fact."""
    return f"{_FACT}{name}"


def change_rows(
    changes: TableChanges,
    key: Sequence[str],
    lake: LakeColumns = AS_DECODED,
    facts: Mapping[str, pa.Array] = MappingProxyType({}),
    defaults: InsertDefaults | None = None,
) -> pa.RecordBatch:
    """The changes of one definition of a table with this key. Inserts have the `defaults` of the columns that they do not name.

    Raises UnsupportedError.
    """
    types = changes.types
    values, absent = changes.after.columns, changes.after.absent().cast(NAMES)
    _refuse_uncomputed(changes, absent)
    if defaults is not None and absent.null_count < changes.count:
        values, absent = defaults.completed(changes, absent)
    columns = lake.columns(dict(zip(types.names, values, strict=True)))
    columns[OP] = changes.facts.op
    columns[ABSENT] = absent
    columns.update({fact(known): values for known, values in facts.items()})
    before: Mapping[str, pa.Array] = {}
    if changes.before is not None:
        images = dict(zip(types.names, changes.before.columns, strict=True))
        before = lake.columns({name: images[name] for name in key if name in images})
    for part in key:
        if part not in columns:
            raise UnsupportedError(_why_without(types.definition, part), hint=_ANOTHER_DEFINITION)
        old = before.get(part)
        columns[BEFORE + part] = pa.nulls(changes.count, columns[part].type) if old is None else old
    if key and changes.before is not None:
        _refuse_without_key(changes, key)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _why_without(definition: TableDefinition, part: str) -> str:
    """Return why the changes of a table have no column of its key."""
    name = definition.full_name
    if definition.name_source == NameSource.NONE:
        return (
            f"{name}: the columns in the log and in the lake differ: the log contains {len(definition.columns)} columns without names,"
            " and they do not fit the definition that the mirror has"
        )
    return f"{name}: the columns in the log and in the lake differ: the log has no column {part} of the table's key"


def _refuse_without_key(changes: TableChanges, key: Sequence[str]) -> None:
    """Refuse a before-image without the key: it does not identify the updated row."""
    assert changes.before is not None
    types = changes.types
    ordinals = [types.ordinals[types.names.index(part)] for part in key]
    for bitmap in changes.before.patterns:
        if not all(has_column(bitmap, ordinal) for ordinal in ordinals):
            raise UnsupportedError(
                f"{types.definition.full_name}: before-images lack columns of the key "
                f"({', '.join(key)})",
                hint="set binlog_row_image=FULL on the server, then run `binlake mirror resync`",
            )


def _refuse_uncomputed(changes: TableChanges, absent: pa.Array) -> None:
    """Refuse a row that lacks a generated column of MariaDB: the value may have changed.

    The server leaves virtual columns out of after-images, and as of 11.8.9 generated columns of both
    kinds out of both images of updates and deletes. MySQL logs the values that change.
    """
    definition = changes.types.definition
    names = (column.name for column in definition.columns if column.generated)
    generated = [
        name for name in names if not is_hidden(name)
    ]  # the lake does not have these columns
    if definition.flavour != "mariadb" or not generated:
        return
    written = absent.filter(pc.not_equal(changes.facts.op, scalar(_DELETE)))
    lacking = set(pc.unique(written.flatten()).to_pylist())
    for column in generated:
        if column in lacking:
            raise UnsupportedError(
                f"{definition.full_name}: the log lacks values of the generated column {column}",
                hint=f"leave it out with --exclude-column '{definition.full_name}.{column}', then run `binlake mirror resync`",
            )
