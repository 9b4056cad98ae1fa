"""Whether the tables of a lake equal those of their source, at one position of its log.

The source is read in one consistent snapshot, whose position is known. The mirror applies the log up to
exactly there, and then both sides show the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from binlake.errors import BinlogError, SourceError
from binlake.mirror.control import place_key
from binlake.mirror.equality.compare import (
    Comparison,
    ExactSource,
    LakeRows,
    TableDifference,
    VerifyOptions,
    compare,
    exact_session,
)
from binlake.mirror.iceberg.schema import iceberg_schema, storage_schema
from binlake.mirror.source.tables import read_tables

if TYPE_CHECKING:
    from binlake.mirror.followed import Followed
    from binlake.mirror.loop import Mirror

__all__ = ["TableVerification", "Verification", "compare_tables", "verify_tables"]


@dataclass(frozen=True, slots=True)
class TableVerification:
    """One table. `state`: equal, different, or not compared, for `reason`.

    `parts` checksums were compared, of which `differing_parts` differ. `is_cut`: there may be more
    differences than those listed.
    """

    table: str
    state: str
    reason: str = ""
    source_rows: int = 0
    lake_rows: int = 0
    parts: int = 0
    differing_parts: int = 0
    differences: tuple[TableDifference, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """All tables of a mirror against their source at `log_file`:`log_pos`, before which everything is applied."""

    log_file: str
    log_pos: int
    gtid_set: str
    tables: tuple[TableVerification, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every table was compared and equals its source."""
        return all(table.state == "equal" for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the result as values that the json module can write."""
        return asdict(self)


def verify_tables(
    mirror: Mirror,
    names: Sequence[str] = (),
    options: VerifyOptions | None = None,
    progress: Callable[[str], None] = lambda _table: None,
) -> Verification:
    """Bring a mirror up to date, and compare its tables with the source.

    `names` (`database.table`): all tables without. `progress` takes the name of each table before it is
    compared. Raises SourceError for a table that the mirror does not have, and what `Mirror.run` and
    `exact_session` raise.
    """
    mirror.run(once=True)
    return compare_tables(mirror, names, options, progress)


def compare_tables(
    mirror: Mirror,
    names: Sequence[str] = (),
    options: VerifyOptions | None = None,
    progress: Callable[[str], None] = lambda _table: None,
) -> Verification:
    """The same, of a mirror that is running: its rounds wait meanwhile."""
    with exact_session(mirror.url) as source:
        mirror.reach(source.position)
        left_alone = mirror.quarantined
        known = {*mirror.tables, *left_alone}
        left_alone |= {name: why for name, why in mirror.gone.items() if name in names}
        if unknown := sorted(set(names) - known - left_alone.keys()):
            raise SourceError(
                f"the mirror has no table {', '.join(unknown)}",
                hint="`binlake mirror status` lists its tables",
            )
        found = []
        for name in sorted(names or known):
            if name in left_alone:
                found.append(TableVerification(name, "not compared", left_alone[name]))
                continue
            progress(name)
            found.append(_verified(source, mirror.tables[name], mirror, options))
    position = source.position
    return Verification(position.file, position.offset, position.gtid_set, tuple(found))


def _verified(
    source: ExactSource, followed: Followed, mirror: Mirror, options: VerifyOptions | None
) -> TableVerification:
    name = followed.full_name
    if place_key(followed.offset.position) > place_key(source.position):
        reason = "the table was copied after the position at which the source is read"
        return TableVerification(name, "not compared", reason)
    try:
        [table] = [
            one
            for one in read_tables(source.server, [name], mirror.options.read_options())
            if one.full_name == name
        ]
        there = followed.lake.schema
        shown = pa.schema([there.field(name) for name in followed.columns])
        lake = LakeRows(shown, followed.present)
        rules = mirror.options.column_rules
        schema = rules.lake_schema(table.schema, table.name, table.arrow_schema)
        expected = storage_schema(iceberg_schema(schema))
        hashed = rules.hashed(table.schema, table.name, schema.names)
        found = compare(
            source.server, table, lake, expected=expected, options=options, hashed=hashed
        )
    except BinlogError as error:
        return TableVerification(name, "not compared", str(error))
    return _described(name, found)


def _described(name: str, found: Comparison) -> TableVerification:
    return TableVerification(
        name,
        "equal" if found.is_equal else "different",
        source_rows=found.source_rows,
        lake_rows=found.lake_rows,
        parts=found.parts,
        differing_parts=found.differing_parts,
        differences=found.differences,
        is_cut=found.is_cut,
    )
