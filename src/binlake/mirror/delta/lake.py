"""The Delta tables of a lake: `<lake>/<database>/<table>`, each a directory with its log."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlake.errors import SourceError, UnsupportedError
from binlake.mirror.control import NAMESPACE
from binlake.mirror.delta.schema import column_sql
from binlake.mirror.delta.statements import created
from binlake.mirror.delta.stored import OF_CONTROL, DeltaStored
from binlake.mirror.delta.table import DeltaTable, remove_copies
from binlake.mirror.followed.table_record import place_properties
from binlake.mirror.tables.formats import DELTA, NewTable, check_key
from binlake.mirror.tables.schema import iceberg_schema, storage_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from binlake.mirror.table_rules import PartitionField

_SETTINGS = {
    # the mirror's output must not depend on the settings of the user's session
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    # else Spark replaces ${...} in names, with settings and environment variables among other things
    "spark.sql.variable.substitute": "false",
    # else the names of columns in backticks are patterns, and backslashes in texts are letters
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # else MERGE, OPTIMIZE and copies silently leave out the rows of files that they cannot read
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # the state of the mirror is in the information about a commit, and the numbers of rows are in the statistics
    "spark.databricks.delta.commitInfo.enabled": "true",
    "spark.databricks.delta.stats.collect": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # the log of one table is small: 50 tasks for it take longer than the work
    "spark.databricks.delta.snapshotPartitions": "2",
    # VACUUM lists directories in so many tasks, 10,000 by default
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
# names of directories that are safe in all file systems and readers
_NAME = re.compile(r"[^\W_][\w $-]*")


class DeltaLake:
    """The tables in a directory: `formats.LakeTables`. Raises SourceError where the session has no Delta."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self.catalog = ""
        self._root = Path(lake).absolute()
        self._spark = spark.newSession()
        extensions = spark.conf.get("spark.sql.extensions", "") or ""
        if "DeltaSparkSessionExtension" not in extensions:
            raise SourceError(
                "this Spark session has no Delta",
                hint="start it with the jars of Delta and spark.sql.extensions="
                "io.delta.sql.DeltaSparkSessionExtension",
            )
        catalog = spark.conf.get("spark.sql.catalog.spark_catalog", "") or ""
        for name, value in {**_SETTINGS, "spark.sql.catalog.spark_catalog": catalog}.items():
            if value:
                self._spark.conf.set(name, value)

    def beside(self) -> DeltaLake:
        return DeltaLake(self._spark, str(self._root))  # settings of a session are part of a commit

    def _path(self, namespace: str, table: str) -> Path:
        for name in (namespace, table):
            if name != NAMESPACE and not _NAME.fullmatch(name):
                raise UnsupportedError(
                    f"{namespace}.{table}: {name!r} cannot be the name of a directory of a Delta lake",
                    hint="rename the table with --rename",
                )
        return self._root / namespace / table

    def sql_name(self, namespace: str, table: str) -> str:
        return self.load(namespace, table).sql_name

    def exists(self, namespace: str, table: str) -> bool:
        return any((self._path(namespace, table) / "_delta_log").glob("*.json"))

    def tables(self) -> list[tuple[str, str]]:
        logs = self._root.glob("*/*/_delta_log")
        found = sorted((log.parent.parent.name, log.parent.name) for log in logs)
        return [name for name in found if all(map(_NAME.fullmatch, name)) and self.exists(*name)]

    def load(self, namespace: str, table: str) -> DeltaStored:
        return DeltaStored(self._spark, self._path(namespace, table), f"{namespace}.{table}")

    def create(
        self,
        namespace: str,
        table: str,
        schema: Mapping[str, Any],
        properties: Mapping[str, str],
        partition: Sequence[PartitionField] = (),
    ) -> DeltaStored:
        """Create a table, replacing an existing one, whose versions and tags stay."""
        if partition:
            raise UnsupportedError(
                f"{namespace}.{table}: the mirror does not partition Delta tables"
            )
        path = self._path(namespace, table)
        own = {name: value for name, value in properties.items() if name.startswith("binlake.")}
        columns = ", ".join(column_sql(field) for field in storage_schema(dict(schema)))
        if self.exists(namespace, table):
            there = self.load(namespace, table)
            there.replace(columns, own)
            return there
        of_delta = OF_CONTROL if namespace == NAMESPACE else {}
        created(self._spark, path, f"{namespace}.{table}", columns, own, of_delta)
        return self.load(namespace, table)

    def drop(self, namespace: str, table: str) -> None:
        path = self._path(namespace, table)
        aside = self._dropped / uuid.uuid4().hex
        try:
            try:
                aside.parent.mkdir(parents=True, exist_ok=True)
                path.rename(aside)  # a kill after this leaves files that `remove_dropped` finds
                path = aside
            except OSError:  # the file system cannot rename directories
                # without its log it is not a table: a kill at this point leaves files that nothing reads
                shutil.rmtree(path / "_delta_log")
            shutil.rmtree(path)
        except OSError as error:
            raise SourceError(f"cannot remove {path}: {error}") from error

    def remove_dropped(self) -> None:
        """Remove the files of tables whose removal was interrupted. Raises SourceError."""
        if not self._dropped.exists():
            return
        try:
            shutil.rmtree(self._dropped)
        except OSError as error:
            raise SourceError(f"cannot remove {self._dropped}: {error}") from error

    @property
    def _dropped(self) -> Path:
        """The directory to which the directories of tables are moved before they are removed."""
        return self._root / NAMESPACE / "dropped"

    def open_table(
        self,
        namespace: str,
        table: str,
        key: Sequence[str] | None,
        indexes: Path,
        open_column: str | None = None,
    ) -> DeltaTable:
        """Raises UnsupportedError for a key that MERGE cannot find: an earlier version of binlake may have copied a table into the rows
        of one that had another key.
        """
        stored = self.load(namespace, table)
        check_key(stored.full_name, stored.schema, key, DELTA)
        return DeltaTable(stored, key, self._copies(namespace, table), open_column)

    def create_table(self, namespace: str, table: str, new: NewTable, indexes: Path) -> DeltaTable:
        """Make an empty table, to be written. Raises UnsupportedError for a key that MERGE cannot find."""
        check_key(f"{namespace}.{table}", new.schema, new.key, DELTA)
        place = place_properties(f"{namespace}.{table}")
        kept = {**new.properties, **place, "binlake.deletes": new.deletes}
        stored = self.create(namespace, table, iceberg_schema(new.schema), kept, new.partition)
        return DeltaTable(stored, new.key, self._copies(namespace, table), new.open_column)

    def remove_copies(self, namespace: str, table: str) -> None:
        """Remove the rows of a copy that was given up."""
        remove_copies(self._copies(namespace, table))

    def _copies(self, namespace: str, table: str) -> Path:
        """The directory in which the tasks of a copy write rows for Delta."""
        return self._root / NAMESPACE / "copies" / namespace / table
