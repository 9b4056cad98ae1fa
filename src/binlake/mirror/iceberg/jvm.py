"""Iceberg's Java API, behind a Java class of binlake.

A call from Python to Java takes as long as the work for a thousand files, so each call transfers many, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from binlake.errors import SourceError, UnsupportedError
from binlake.format.sql_names import quoted_name
from binlake.mirror.iceberg.compaction import RewriteTask, gathered
from binlake.mirror.iceberg.live_rows import deleted_counts
from binlake.mirror.table_rules import PartitionField
from binlake.mirror.tables.active_session import active_session
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.compaction_policy import CompactionPolicy, FileState, due_groups
from binlake.mirror.tables.damage import DamagedFileError, MissingFileError
from binlake.mirror.tables.data_files import FILE_PREFIX, DataFileWriter
from binlake.mirror.tables.live_batches import live_batches
from binlake.mirror.tables.partitions import UNPARTITIONED, Partition
from binlake.mirror.tables.schema import conformed, storage_schema
from binlake.spark.java_class import java_instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """A catalog of Iceberg, as the settings of a Spark session name it; `lake.IcebergLake` is a `formats.LakeTables`.

    Raises SourceError where the session has no Iceberg, or no such catalog.
    """

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        jvm: Any = spark._jvm
        self._helper = _compiled(spark)
        with _in_one_line(f"catalog {catalog}"), active_session(spark):
            spark_catalog = jvm.org.apache.iceberg.spark.Spark3Util
            self._catalog = spark_catalog.loadIcebergCatalog(spark._jsparkSession, catalog)
        self.catalog = catalog

    @property
    def directory(self) -> str | None:
        """The directory, or URI, of a Hadoop catalog; None of another catalog."""
        found: str | None = self._helper.directory(self._catalog)
        return found

    def exists(self, namespace: str, table: str) -> bool:
        with _in_one_line(f"{namespace}.{table}"):
            return bool(self._helper.exists(self._catalog, namespace, table))

    def sql_name(self, namespace: str, table: str) -> str:
        return quoted_name(self.catalog, namespace, table)

    def tables(self) -> list[tuple[str, str]]:
        with _in_one_line(f"catalog {self.catalog}"):
            return [(space, name) for space, name in json.loads(self._helper.tables(self._catalog))]

    def load(self, namespace: str, table: str) -> IcebergTable:
        """A table that exists. Raises SourceError; MissingFileError or DamagedFileError because of its metadata file."""
        with _in_one_line(f"{namespace}.{table}"):
            return IcebergTable(
                self._helper, self._helper.load(self._catalog, namespace, table), namespace, table
            )

    def create(
        self,
        namespace: str,
        table: str,
        schema: Mapping[str, Any],
        properties: Mapping[str, str],
        partition: Sequence[PartitionField] = (),
    ) -> IcebergTable:
        """Create a table, or replace an existing one; `schema` as Iceberg's JSON. Raises SourceError, and
        UnsupportedError if Iceberg refuses the schema.

        The snapshots of a table that was there stay until they expire, and under their tags.
        """
        request = {
            "namespace": namespace,
            "table": table,
            "schema": schema,
            "properties": dict(properties),
            "partition": [asdict(one) for one in partition],
        }
        is_there = self.exists(namespace, table)
        with _in_one_line(f"{namespace}.{table}"), _of_one_table(f"{namespace}.{table}"):
            make = self._helper.replace if is_there else self._helper.create
            made = make(self._catalog, json.dumps(request))
            return IcebergTable(self._helper, made, namespace, table)

    def drop(self, namespace: str, table: str) -> None:
        with _in_one_line(f"{namespace}.{table}"):
            self._helper.drop(self._catalog, namespace, table)


class IcebergTable:
    """One table: a `formats.StoredTable`. Raises SourceError if Iceberg refuses a request, CommitConflictError, MissingFileError
    if a file of its metadata is missing, and DamagedFileError if one is damaged.
    """

    def __init__(self, helper: Any, table: Any, namespace: str, name: str) -> None:
        self._helper = helper
        self._table = table
        self.full_name = f"{namespace}.{name}"

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Raise Java's exceptions as BinlogErrors."""
        try:
            with _in_one_line(self.full_name):
                yield
        except SourceError as error:
            if _NO_TABLE in error.message:
                raise MissingFileError(f"{self.full_name}: the catalog has no such table") from None
            # Java's exceptions for damaged files are many, and are those of a store that fails, too
            if type(error) is SourceError and (file := self._damaged_file()):
                raise DamagedFileError(f"{file} is damaged: {error.message}") from None
            raise

    def _damaged_file(self) -> str | None:
        """The file of the current snapshot's metadata that is damaged; None if there is none, or if the store fails."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            found: str | None = self._helper.damaged(self._table)
        except (Py4JError, PySparkException):
            return None
        return found

    def refresh(self) -> None:
        with self._asked():
            self._helper.refresh(self._table)

    def describe(self) -> dict[str, Any]:
        """location, uuid, schema, spec (of its partitions), properties; with a snapshot: snapshot, summary, parent."""
        with self._asked():
            found: dict[str, Any] = json.loads(self._helper.describe(self._table))
            return found

    def files(self) -> dict[str, Any]:
        """`data`: path, rows, bytes and ids of deletes of each file; `deletes`: by id, as JSON."""
        with self._asked():
            found: dict[str, Any] = json.loads(self._helper.files(self._table))
            return found

    def file_states(self) -> list[FileState]:
        found = self.files()
        deleted = deleted_counts(found)
        return [
            FileState(
                entry["path"],
                entry["rows"],
                deleted[entry["path"]],
                entry["bytes"],
                Partition.of(entry["file"]),
            )
            for entry in found["data"]
        ]

    def append(self, rows: pa.Table, properties: Mapping[str, str]) -> None:
        known = self.describe()
        schema = storage_schema(known["schema"])
        writer = DataFileWriter(schema, self.data_path(FILE_PREFIX))
        added = list(writer.write([conformed(rows, schema)]))
        request = {"from": known.get("snapshot", -1), "add": added, "properties": dict(properties)}
        self.commit(request)

    def compact(self, policy: CompactionPolicy) -> None:
        entries = {entry["path"]: entry for entry in self.files()["data"]}
        states = [FileState(path, e["rows"], 0, e["bytes"]) for path, e in entries.items()]
        groups = due_groups(states, policy)
        if not groups:
            return
        schema = storage_schema(self.describe()["schema"]).serialize().to_pybytes()
        prefix = self.data_path(FILE_PREFIX)
        nothing = BitMap().serialize()
        tasks = [RewriteTask([(f.path, nothing) for f in of], schema, prefix) for of in groups]
        removed = [entries[file.path]["file"] for of in groups for file in of]
        self._replace_files(removed, [json.loads(task.run()) for task in tasks])

    def keep_rows(self, wanted: pc.Expression) -> None:
        """Remove the other rows, keeping the summary. The table becomes one file."""
        data = self.files()["data"]
        schema = storage_schema(self.describe()["schema"])
        kept = (
            rows.filter(wanted)
            for entry in data
            for rows, _ in live_batches(entry["path"], BitMap(), schema, schema.names)
        )
        writer = DataFileWriter(schema, self.data_path(FILE_PREFIX))
        added = writer.write_one(gathered(kept), UNPARTITIONED)
        self._replace_files([entry["file"] for entry in data], [] if added is None else [added])

    def _replace_files(
        self, removed: Sequence[Mapping[str, Any]], added: Sequence[Mapping[str, Any]]
    ) -> None:
        """Commit data files in the place of others, keeping the summary."""
        known = self.describe()
        summary = known.get("summary", {})
        self.rewrite(
            {
                "from": known["snapshot"],
                "removed": list(removed),
                "add": list(added),
                "properties": {n: v for n, v in summary.items() if n.startswith("binlake.")},
            }
        )
        self.refresh()

    def history(self) -> list[dict[str, Any]]:
        with self._asked():
            found: list[dict[str, Any]] = json.loads(self._helper.history(self._table))
            return found

    def has_version(self, version: int, until_us: int) -> bool:
        # the ids of snapshots are random, so no other table has this one
        return any(kept["snapshot"] == version for kept in self.history())

    def data_path(self, name: str) -> str:
        """The path of a new data file of this name."""
        with self._asked():
            return str(self._helper.data(self._table, name))

    def commit(self, request: Mapping[str, Any]) -> int:
        """Commit a request as `Lake.java` takes it; returns the snapshot's id.

        Raises UnsupportedError if Iceberg refuses the change of the schema.
        """
        refused = _of_one_table(self.full_name) if request.get("schema") else nullcontext()
        with self._asked(), refused:
            return int(self._helper.commit(self._table, json.dumps(request)))

    def rewrite(self, request: Mapping[str, Any]) -> int:
        """Put files in the place of others with the same rows, as `Lake.java` takes it."""
        with self._asked():
            return int(self._helper.rewrite(self._table, json.dumps(request)))

    def remove_orphans(self, prefix: str, older_than_ms: int) -> int:
        """Remove files whose names begin with `prefix`, and manifests, that no snapshot knows.

        Only those that were last changed before a time. Returns how many. Raises SourceError if another table has files in the
        directory: it may be the former table of this name, which a user has renamed.
        """
        with self._asked():
            removed = int(self._helper.removeOrphans(self._table, prefix, older_than_ms))
        if removed < 0:
            raise SourceError(
                f"{self.full_name}: its directory also contains the metadata of another table",
                hint="a renamed table keeps its files there: drop it, or move it to another directory. If no other table has"
                " these files, remove the *.metadata.json files that this table does not name",
            )
        return removed

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table, without a snapshot."""
        with self._asked():
            self._helper.set(self._table, json.dumps(dict(properties)))

    def replace_properties(
        self, expected: Mapping[str, str | None], properties: Mapping[str, str]
    ) -> None:
        request = {"expected": dict(expected), "set": dict(properties)}
        with self._asked():
            self._helper.replaceProperties(self._table, json.dumps(request))

    def tag(self, name: str, _properties: Mapping[str, str] | None = None) -> None:
        with self._asked():
            self._helper.tag(self._table, name)

    def tag_at(self, name: str, snapshot: int) -> None:
        """Give one snapshot a name, unless there is one of that name."""
        with self._asked():
            self._helper.tagAt(self._table, name, snapshot)

    def tags(self) -> list[str]:
        """The names of all tags."""
        with self._asked():
            found: list[str] = json.loads(self._helper.tags(self._table))
            return found

    def refs(self) -> list[str]:
        with self._asked():
            found: list[str] = json.loads(self._helper.refs(self._table))
            return found

    def drop_tag(self, name: str) -> None:
        """Remove a tag; its snapshot expires like others."""
        with self._asked():
            self._helper.dropTag(self._table, name)

    def expire(
        self, older_than_ms: int, keep: int, most: int, kept: str = "", least: int = 1
    ) -> None:
        with self._asked():
            self._helper.expire(self._table, older_than_ms, keep, most, kept, least)


def _compiled(spark: SparkSession) -> Any:
    """The instance of the Java class. Raises SourceError."""
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(
            "org.apache.iceberg.Table"
        )
    except Exception as error:
        raise SourceError(
            "this Spark session has no Iceberg",
            hint="give its jar: --iceberg-jar, or spark.jars.packages="
            "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0; spark-submit accepts it as --jars or --packages",
        ) from error
    return java_instance(spark, __package__, "Lake")


#: How the messages of `Lake.java` begin for a table that is not as its request expects it.
_NOT_AS_EXPECTED = "binlake: "
# not every ValidationException: a missing metadata file is one, too
_CONFLICTS = (
    "CommitFailedException",
    f"ValidationException: {_NOT_AS_EXPECTED}",
    # some REST catalogs report it as a bad request: another process has added a snapshot to some branch
    "Cannot add snapshot with sequence number",
)
#: Iceberg's exception for a file of metadata that the store does not have; errors of the store have other names.
_MISSING = "org.apache.iceberg.exceptions.NotFoundException"
#: Its exception for a table that a catalog does not have. (The Hadoop catalog has it also while its store fails.)
_NO_TABLE = "org.apache.iceberg.exceptions.NoSuchTableException"
#: The exception of `Lake.java` for a metadata file that is damaged.
_DAMAGED = "java.io.StreamCorruptedException"
_REFUSALS = ("ValidationException", "IllegalArgumentException")
# Iceberg accepts no commit that is more than a minute older than the newest one.
_CLOCK = "Invalid update timestamp"
_HINTS = {
    _CLOCK: "the clock of this machine, or of another one that wrote to the lake, was ahead: set it right, and wait until it is later than"
    " the newest commit",
    "java.lang.OutOfMemoryError": "the heap of Spark's JVM is too small for the metadata of all tables: --conf spark.driver.memory=8g, or"
    " fewer snapshots (--keep-snapshots, --max-snapshots)",
}


@contextmanager
def _in_one_line(where: str) -> Iterator[None]:
    """Raise Java's exceptions as BinlakeErrors."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        java = getattr(error, "java_exception", None)
        said = str(java if java is not None else error)
        first = said.partition("\n")[0]
        if any(name in first for name in _CONFLICTS):
            raise CommitConflictError(
                f"{where}: another writer has committed to the table: {first}"
            ) from None
        if _DAMAGED in first:
            raise DamagedFileError(
                f"{where}: its metadata is damaged: {first.partition(': ')[2]}"
            ) from None
        kind = MissingFileError if _MISSING in first else SourceError
        hint = next((hint for text, hint in _HINTS.items() if text in first), None)
        raise kind(f"{where}: Iceberg refuses: {first}", hint=hint) from None


@contextmanager
def _of_one_table(where: str) -> Iterator[None]:
    """Raise UnsupportedError if Iceberg refuses a definition: that concerns no other table."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import IllegalArgumentException, PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        first = str(getattr(error, "java_exception", error)).strip().partition("\n")[0]
        kind, _, why = first.partition(": ")
        if why.startswith(_NOT_AS_EXPECTED) or _CLOCK in first:
            raise
        if isinstance(error, IllegalArgumentException) or kind.endswith(_REFUSALS):
            shown = why if kind.endswith("Exception") else first
            raise UnsupportedError(f"{where}: Iceberg refuses its definition: {shown}") from None
        raise
