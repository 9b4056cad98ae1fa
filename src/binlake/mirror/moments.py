"""All tables of a lake as of one moment of the server: the rounds that the lake records, and names for them.

Tables commit one after the other, so their newest snapshots can be of different moments. A round has the snapshots, at
one position of the log, of all tables that the mirror followed then. It has no tables that were quarantined, gone or
removed, or whose first copy had not ended; it has a lake table of shards only if the mirror followed all of them, except those
that users had removed.

The snapshots expire like others. In Iceberg, those of a round with a name do not: each has a tag of that name. In
Delta, the control table alone has the name: a commit to a table that the mirror writes would be a conflict for the
mirror. So a name does not keep files from VACUUM there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from binlake.errors import OptionError, SourceError
from binlake.format.sql_names import TableName, quoted_name
from binlake.mirror.control import NAMESPACE, ROUNDS, Control
from binlake.mirror.followed.table_record import is_duplicate, sources, stored_tables
from binlake.mirror.iceberg.jvm import IcebergTable
from binlake.mirror.lake_state import lake_location
from binlake.mirror.lakes import open_lake
from binlake.mirror.selection import LakeNamespaces
from binlake.mirror.sessions import CATALOG, mirror_session
from binlake.mirror.tables.formats import LakeTables
from binlake.values.table_names import full_name_of, table_name
from binlake.values.times import utc_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# `before-…` are the mirror's own tags; Spark reads digits alone as the id of a snapshot
_NAME = re.compile(r"(?!before-)(?![0-9]+\Z)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

_Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Moment:
    """A position in the server's log, and the snapshot that each lake table (`NAMESPACE.NAME`) had there.

    A namespace that contains a period is in backticks. Tables that the mirror did not follow then have no snapshot; see
    `absent_tables`. `commit_time` (ISO 8601, UTC): of the last transaction before the position.
    """

    round: int
    names: tuple[str, ...]
    commit_time: str
    log_file: str
    log_pos: int
    gtid_set: str
    snapshots: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON has them."""
        return asdict(self)


def check_moment_name(name: str) -> None:
    """Raise OptionError for a text that cannot be the name of a moment."""
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{name!r} cannot be the name of a moment",
            name="name",
            hint="use up to 100 letters, digits, '_', '-' and '.', and not digits alone; names that begin with before- are reserved for the mirror",
        )


def history(
    lake: _Path, *, newest: int = 20, spark: SparkSession | None = None, catalog: str = CATALOG
) -> list[Moment]:
    """Return the newest rounds of a lake and all that have names, the newest first. Raises SourceError."""
    return _Rounds.of(lake, spark, catalog).newest(newest)


def name_moment(
    lake: _Path,
    name: str,
    number: int | None = None,
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
) -> Moment:
    """Give a round, by default the newest, a name.

    In Iceberg, each table of the round gets a tag of that name, and its snapshots do not expire until `drop_moment`.
    Called again after it was interrupted, it completes the tags; lake tables that have been dropped since get none. In Delta, the name does not keep files from VACUUM.
    `absent_tables` returns the tables that the round does not have. Raises OptionError for a name that cannot be
    used, SourceError if a snapshot of the round has expired.
    """
    check_moment_name(name)
    rounds = _Rounds.of(lake, spark, catalog)
    known = rounds.control.moments.get(name)
    if known is not None and number not in (None, known):
        raise OptionError(
            f"{name} is the name of round {known}",
            name="name",
            hint=f"choose another name, or remove this one: binlake mirror untag LAKE {name}",
        )
    moment = rounds.still_there(rounds.at(known if known is not None else number))
    rounds.check_snapshots(moment)
    if known is None:
        rounds.check_no_tag(moment, name)
    rounds.control.name_moment(name, moment.round)
    for full_name, table in rounds.with_tags(moment):
        table.tag_at(name, moment.snapshots[full_name])
    return rounds.at(moment.round)


def drop_moment(
    lake: _Path, name: str, *, spark: SparkSession | None = None, catalog: str = CATALOG
) -> None:
    """Remove the name of a round and the tags of its tables. Raises OptionError for an unknown name."""
    rounds = _Rounds.of(lake, spark, catalog)
    moment = rounds.still_there(rounds.named(name))
    for _, table in rounds.with_tags(moment):
        table.drop_tag(name)
    rounds.control.forget_moment(name)


def absent_tables(
    lake: _Path,
    moment: Moment | str | int | None = None,
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
) -> list[str]:
    """Return the tables (`NAMESPACE.NAME`) of the mirror that cannot be read as of a round: a result of `history`, a name, a
    round's number, or the newest round.

    The mirror did not follow them at that time: they were quarantined, gone or removed, their first copy had not
    ended, or they came later. Or their lake tables, which `snapshots` of the round contains, have been dropped since.
    Raises OptionError for an unknown name.
    """
    rounds = _Rounds.of(lake, spark, catalog)
    return rounds.absent(moment if isinstance(moment, Moment) else rounds.of_moment(moment))


def tables_at(
    lake: _Path,
    moment: str | int | None = None,
    *,
    spark: SparkSession,
    catalog: str = CATALOG,
) -> dict[str, DataFrame]:
    """Return the lake tables (by `NAMESPACE.NAME`) as of one moment: a name, a round's number, or the newest round.

    These are the tables that the mirror followed then, without those that were quarantined, gone, removed, or not
    yet copied, and without lake tables that have been dropped since: see `absent_tables`. Raises OptionError for an unknown name, SourceError if a snapshot has expired.
    """
    rounds = _Rounds.of(lake, spark, catalog)
    found = rounds.still_there(rounds.of_moment(moment))
    rounds.check_snapshots(found)
    return {
        full_name: spark.sql(
            f"SELECT * FROM {rounds.lake.sql_name(*table_name(full_name))} VERSION AS OF {snapshot}"
        )
        for full_name, snapshot in found.snapshots.items()
    }


def views_at(
    lake: _Path,
    moment: str | int | None = None,
    *,
    spark: SparkSession,
    catalog: str = CATALOG,
) -> dict[str, str]:
    """Make a temporary view of each table that `tables_at` returns; return its name, `NAMESPACE_NAME`.

    Raises as `tables_at`, and OptionError where two tables would have one view.
    """
    frames = tables_at(lake, moment, spark=spark, catalog=catalog)
    views = {full_name: "_".join(table_name(full_name)) for full_name in frames}
    if len({view.lower() for view in views.values()}) < len(views):
        raise OptionError("two tables would have the same view: use tables_at", name="lake")
    for full_name, view in views.items():
        frames[full_name].createOrReplaceTempView(quoted_name(view))
    return views


class _Rounds:
    """The rounds of a lake. Raises SourceError."""

    def __init__(self, spark: SparkSession, lake: LakeTables) -> None:
        self.lake = lake
        self.control = Control(lake)
        self._options, self._former = self.control.options, self.control.former_lake_tables
        self._recorded_us: dict[int, int] = {}
        self._spark = spark

    @classmethod
    def of(cls, lake: _Path, spark: SparkSession | None, catalog: str) -> _Rounds:
        place = lake_location(lake)
        session = spark or mirror_session(place, catalog=catalog)
        return cls(session, open_lake(session, catalog, place))

    def newest(self, count: int) -> list[Moment]:
        """The newest rounds, and all that have names."""
        named = sorted(set(self.control.moments.values()))
        first = self.control.round - count
        wanted = f"round > {first}" + (
            f" OR round IN ({', '.join(map(str, named))})" if named else ""
        )
        return self._read(wanted)

    def at(self, number: int | None) -> Moment:
        """One round."""
        found = self._read(f"round = {self.control.round if number is None else number}")
        if not found:
            raise SourceError(
                "the lake has no round yet"
                if number is None
                else f"the lake has no round {number}",
                hint="binlake mirror history LAKE lists the rounds",
            )
        return found[0]

    def of_moment(self, moment: str | int | None) -> Moment:
        """The round of a name or a number, or the newest one. Raises OptionError for an unknown name."""
        return self.named(moment) if isinstance(moment, str) else self.at(moment)

    def named(self, name: str) -> Moment:
        """The round that has a name. Raises OptionError."""
        number = self.control.moments.get(name)
        if number is None:
            known = ", ".join(sorted(self.control.moments)) or "none"
            raise OptionError(f"no moment is named {name}; names: {known}", name="moment")
        return self.at(number)

    def still_there(self, moment: Moment) -> Moment:
        """The round without the lake tables that have been dropped since. A user drops those of tables that are gone."""
        found = {
            full_name: snapshot
            for full_name, snapshot in moment.snapshots.items()
            if self.lake.exists(*table_name(full_name))
        }
        return replace(moment, snapshots=found)

    def check_snapshots(self, moment: Moment) -> None:
        """Raise SourceError if a snapshot of a round has expired, or if its table has been created again since."""
        for full_name, snapshot in moment.snapshots.items():
            table = self.lake.load(*table_name(full_name))
            if table.has_version(snapshot, self._recorded_us[moment.round]):
                continue
            is_iceberg = isinstance(table, IcebergTable)
            more = " and more of them (--max-snapshots)" if is_iceberg else ""
            again = "" if is_iceberg else ", or the lake table was created again after the round"
            raise SourceError(
                f"round {moment.round}: its snapshot of {full_name} has expired{again}",
                hint=f"choose a newer round, or keep snapshots for longer (--keep-snapshots){more}",
            )

    def with_tags(self, moment: Moment) -> Iterator[tuple[str, IcebergTable]]:
        """The tables of a round, all of them in the lake, that can have tags: with their names; none in Delta."""
        for full_name in moment.snapshots:
            table = self.lake.load(*table_name(full_name))
            if isinstance(table, IcebergTable):
                yield full_name, table

    def absent(self, moment: Moment) -> list[str]:
        """The tables of the mirror that cannot be read as of a round. In a shared catalog, only namespaces are read that its tables can
        be in.
        """
        control = self.control
        known = {*control.quarantined, *control.gone, *control.to_resync, *control.snapshots}
        lake_names = {self._lake_table(source, moment.round) for source in known}
        absent = {full_name_of(*name) for name in lake_names}
        there = set(moment.snapshots)
        namespaces = LakeNamespaces(
            self._options,
            (*control.added, *control.removed),
            (*(name[0] for name in lake_names), *(table_name(name)[0] for name in there)),
        )
        for name, _, lake_table in stored_tables(self.lake, namespaces, but=absent | there):
            properties = lake_table["properties"]
            if "binlake.deletes" not in properties or is_duplicate(properties, name):
                continue
            then = {self._lake_table(source, moment.round) for source in sources(properties)}
            if not then or not {full_name_of(*one) for one in then} <= there:
                absent.add(full_name_of(*name))
        dropped = there - self.still_there(moment).snapshots.keys()
        return sorted((absent - there) | dropped)

    def check_no_tag(self, moment: Moment, name: str) -> None:
        """Raise OptionError if a table has a tag or a branch of this name."""
        for full_name, table in self.with_tags(moment):
            if name in table.refs():
                raise OptionError(
                    f"{full_name} has a tag or branch {name} that the mirror did not create",
                    name="name",
                    hint="choose another name",
                )

    def _lake_table(self, source: str, number: int) -> TableName:
        """The lake table that a table of the server had in a round."""
        for lake_table, last in self._former.get(source, ()):
            if number <= last:
                return lake_table
        return self._options.lake_name(*table_name(source))

    def _read(self, condition: str) -> list[Moment]:
        rows = self._spark.sql(
            f"SELECT round, unix_micros(committed_at) AS recorded_us, unix_micros(commit_time) AS commit_us, log_file, log_pos,"
            f" gtid_set, tables FROM {self.lake.sql_name(NAMESPACE, ROUNDS)} WHERE {condition} ORDER BY round DESC"
        ).collect()
        names: dict[int, list[str]] = {}
        for name, number in sorted(self.control.moments.items()):
            names.setdefault(number, []).append(name)
        self._recorded_us |= {row["round"]: row["recorded_us"] for row in rows}
        return [
            Moment(
                row["round"],
                tuple(names.get(row["round"], ())),
                "" if row["commit_us"] is None else utc_time(row["commit_us"] / 1e6),
                row["log_file"],
                row["log_pos"],
                row["gtid_set"],
                {
                    full_name_of(*self._lake_table(source, row["round"])): snapshot
                    for source, snapshot in sorted(json.loads(row["tables"]).items())
                },
            )
            for row in rows
        ]
