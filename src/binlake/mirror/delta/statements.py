"""Statements of Delta in Spark: those that make a table, their settings, and their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from binlake.errors import SourceError, UnsupportedError
from binlake.format.sql_names import quoted_name
from binlake.mirror.delta.log import user_metadata
from binlake.mirror.tables.active_session import active_session
from binlake.mirror.tables.change import CommitConflictError

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

CONF = "spark.databricks.delta."
SHORTER_LOG = "delta.logRetentionDuration"
# The mirror's own state is in the log, too: a mirror that was stopped for so long continues after checkpoints of other programs.
LOG_HOURS = 30 * 24
#: The properties of each table.
OF_TABLES = {
    SHORTER_LOG: f"interval {LOG_HOURS} hours",
    # DROP COLUMN and RENAME COLUMN need it
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableTypeWidening": "true",
    "delta.checkpointPolicy": "classic",
    # else Delta refuses a DATETIME column that a later statement adds
    "delta.feature.timestampNtz": "supported",
}
#: The parts of the record of the source's table that are also properties of Delta.
IDENTITY = ("binlake.table", "binlake.lake-table", "binlake.deletes")
_CONFLICTS = (
    "ConcurrentModification",
    "ConcurrentWrite",
    "ConcurrentTransaction",
    "ConcurrentAppend",
    "ConcurrentDelete",
    "MetadataChanged",
    "ProtocolChanged",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
)


#: Properties and constraints that a user has given a table, which the mirror cannot follow.
_REFUSALS = (
    "DELTA_CANNOT_MODIFY_APPEND_ONLY",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
)


@contextmanager
def in_one_line(where: str) -> Iterator[None]:
    """Raise Java's exceptions as BinlakeErrors: UnsupportedError if Delta refuses the statement itself, for this table only."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        java = getattr(error, "java_exception", None)
        first = str(java if java is not None else error).strip().partition("\n")[0]
        if any(name in first for name in _CONFLICTS):
            raise CommitConflictError(
                f"{where}: another writer has committed to the table: {first}"
            ) from None
        is_statement = isinstance(error, AnalysisException) or any(
            name in str(error) for name in _REFUSALS
        )
        raise (UnsupportedError if is_statement else SourceError)(
            f"{where}: Delta refuses: {first}"
        ) from None


def created(
    spark: SparkSession,
    path: Path,
    full_name: str,
    columns: str,
    kept: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    """Make an empty table with columns as in SQL where there is none, with these properties of Delta beside those that all
    tables have. Raises SourceError, UnsupportedError, CommitConflictError.
    """
    with in_one_line(full_name), active_session(spark):
        # not CREATE TABLE, which refuses a directory in which a killed removal has left files
        define(spark, "CREATE OR REPLACE", path, columns, {**OF_TABLES, **properties}, kept)


def define(
    spark: SparkSession,
    verb: str,
    path: Path,
    columns: str,
    properties: Mapping[str, str],
    kept: Mapping[str, str],
) -> None:
    """Run CREATE or REPLACE TABLE; `kept`: the record of the source's table. The part of it that identifies the table goes into its
    properties, too: Delta's log cleanup removes the commits of a table that the mirror does not follow.
    """
    stated = {**properties, **{n: kept[n] for n in IDENTITY if n in kept}}
    listed = ", ".join(f"{sql_text(n)} = {sql_text(v)}" for n, v in stated.items())
    name = f"delta.{quoted_name(str(path))}"
    sql = f"{verb} TABLE {name} ({columns}) USING delta TBLPROPERTIES ({listed})"
    state = {f"{CONF}commitInfo.userMetadata": user_metadata({"kept": dict(kept)})}
    with with_settings(spark, state):
        spark.sql(sql)


def parquet_reader(spark: SparkSession) -> DataFrameReader:
    """A reader of Parquet files, in whose paths brackets and braces are no patterns."""
    return spark.read.option("__globPaths__", "false")


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session settings for a while."""
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def sql_text(value: str) -> str:
    """A text in SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
