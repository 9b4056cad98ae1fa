"""A Delta table in a directory: the contents of its log, and commits by Delta's own commands.

Each commit of the mirror has the mirror's state in its `userMetadata`: the position in the source
(`summary`), the record of the source's table (`kept`), and the remaining steps of a statement
(`pending`). So data
and position are one commit. The state also names the object that made the commit (`writer`), so that the commits of
another mirror are noticed. Each commit has a transaction identifier: of two mirrors that commit at the same
time, Delta ignores the second, without an error.

Delta begins an ALTER at the newest version, whatever version this process has read. Changes of properties and appends
of the processes of one lake therefore wait for each other, by a lock on a file.

One class, although it is long: each of its commits has to be noticed, or excluded, by the others.
"""

from __future__ import annotations

import fcntl
import json
import re
import time
import uuid
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import SourceError
from binlake.format.sql_names import quoted_name
from binlake.mirror.control import NAMESPACE
from binlake.mirror.delta.damaged_files import damage_of
from binlake.mirror.delta.live_rows import live_rows
from binlake.mirror.delta.log import Commit, DeltaLog, user_metadata
from binlake.mirror.delta.periods import HOUR_S, hours_of, readable_hours
from binlake.mirror.delta.schema import arrow_schema, spark_schema
from binlake.mirror.delta.statements import (
    CONF,
    IDENTITY,
    LOG_HOURS,
    OF_TABLES,
    SHORTER_LOG,
    define,
    in_one_line,
    parquet_reader,
    sql_text,
    with_settings,
)
from binlake.mirror.tables.active_session import active_session
from binlake.mirror.tables.change import CommitConflictError, CommittedBesideError
from binlake.mirror.tables.compaction_policy import CompactionPolicy, FileState, due_groups
from binlake.mirror.tables.schema import conformed, iceberg_schema
from binlake.mirror.tables.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Delta does not let a log be shorter than this
_REMOVED_FILES = "delta.deletedFileRetentionDuration"
#: The control table has a commit for each round, and its earlier versions are never read. Delta's own period is 30 days.
OF_CONTROL = {_REMOVED_FILES: "interval 1 day", SHORTER_LOG: "interval 1 day"}
_OF_EARLIER_CONTROL = "interval 7 days"
_OWN_PERIOD = re.compile(r"interval (\d+) hours")
# The log is kept for one more day than its versions can be read.
_MORE_HOURS = 24
#: Beginnings of properties that belong to the earlier columns and rows, or that Delta sets itself.
_OF_CONTENTS = (
    "delta.columnMapping.maxColumnId",
    "delta.constraints.",
    "delta.dataSkippingStatsColumns",
    "delta.feature.",
    "delta.inCommitTimestampEnablement",
    "delta.rowTracking.materialized",
)
_WRITER = "writer"
_TOUCHED = "binlake.touched"
_TAGS = "binlake.tags"
_TRIES = 5
_LOCK = "delta.lock"


class DeltaStored:
    """One table: a `formats.StoredTable`. `spark` is a session of the mirror's own.

    Raises SourceError, UnsupportedError, CommitConflictError; MissingFileError or DamagedFileError because of a file of the
    table.
    """

    def __init__(self, spark: SparkSession, path: Path, full_name: str) -> None:
        self.spark = spark
        self._path = path
        self.full_name = full_name
        self.log = DeltaLog(path)
        self._writer = uuid.uuid4().hex[:16]
        # the newest version whose commits are the mirror's own or those that it has accepted
        self._accepted = -1
        # how another program has set the table back to rows from before the mirror's newest commit; "": it has not
        self.set_back = ""
        self.refresh()

    @property
    def sql_name(self) -> str:
        """The table in SQL."""
        return f"delta.{quoted_name(str(self._path))}"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with field ids."""
        return arrow_schema(self.log.metadata["schemaString"])

    def refresh(self) -> None:
        """Reload the table, and accept the commits of other programs."""
        self.log.update()
        self.set_back = self._set_back() or self.set_back
        self._accept()

    def _set_back(self) -> str:
        """How a RESTORE that is not accepted yet has removed changes that the mirror had committed; "": none has."""
        last = self._accepted if self._accepted >= 0 else self.log.version
        commits = self.log.commits
        own = [c.version for c in commits if c.state is not None and c.version <= last]
        if not own:
            return ""
        shown = self.log.version
        for commit in reversed(commits):  # a later RESTORE may have undone an earlier one
            if own[-1] < commit.version <= shown and commit.restored is not None:
                shown = commit.restored
        if shown >= own[-1]:
            return ""
        where = f"version {shown}" if shown >= 0 else "an earlier version"
        return f"{self.full_name}: another program has set the table back to {where}; the mirror had committed version {own[-1]}"

    def has_other_commits(self) -> bool:
        """Whether other programs or other mirrors have changed the table since the version that was last accepted."""
        return bool(self._look())

    def _accept(self) -> None:
        """Take the commits that have been read for accepted ones, whose states are not needed any more."""
        self._accepted = self.log.version
        self.log.forget(self._accepted)

    def _look(self) -> list[Commit]:
        """Read the new commits; return the changes of other programs and other mirrors. If there are none, the version is accepted."""
        self.log.update()
        new = [c for c in self.log.commits if c.version > self._accepted]
        foreign = [c for c in new if c.is_change and not self._is_own(c)]
        if not foreign:
            self._accept()
        return foreign

    def _is_own(self, commit: Commit) -> bool:
        return commit.state is not None and commit.state.get(_WRITER) == self._writer

    def describe(self) -> dict[str, Any]:
        """uuid, schema, properties; of the newest version: snapshot, committed_ms, summary with its totals."""
        kept = self.log.state.get("kept", {})
        config = dict(self.log.metadata.get("configuration") or {})
        newer = {name: kept[name] for name in IDENTITY if name in kept}
        head = self.log.head
        own = {} if head is None or head.state is None else head.state
        found = {
            "uuid": self.log.metadata["id"],
            "schema": iceberg_schema(self.schema),
            "properties": {**kept, **config, **newer},
            "snapshot": self.log.version,
            "summary": {**self._totals(), **own.get("summary", {})},
        }
        if head is not None:
            found["committed_ms"] = head.committed_ms
        return found

    def _totals(self) -> dict[str, str]:
        states = self.file_states()
        return {
            "total-records": str(sum(file.rows for file in states)),
            "total-position-deletes": str(sum(file.deleted for file in states)),
            "total-data-files": str(len(states)),
            "total-files-size": str(sum(file.bytes for file in states)),
        }

    def lineage(self) -> Iterator[Version]:
        """The versions whose commits the log still has, newest first."""
        for commit in self.log.lineage():
            summary = (commit.state or {}).get("summary", {})
            yield Version(commit.version, summary, commit.is_change)

    def has_version(self, version: int, until_us: int) -> bool:
        return self.log.has(version, until_us)

    def file_states(self) -> list[FileState]:
        return [
            FileState(
                path,
                int(json.loads(file.get("stats") or "{}").get("numRecords", 0)),
                int((file.get("deletionVector") or {}).get("cardinality", 0)),
                int(file["size"]),
            )
            for path, file in self.log.files.items()
        ]

    # -- commits -----------------------------------------------------------------------------------

    def commit(
        self, act: Callable[[], object], state: Mapping[str, Any], needed: Container[str] = ()
    ) -> None:
        """Run a command of Delta on the version that was read, and commit it with the mirror's state.

        `needed`: the data files that the command reads, as in `in_session`.

        A command that finds nothing to do leaves a version without data, for the state. Raises CommitConflictError
        where another program has committed, CommittedBesideError if the command has been committed nevertheless.
        After both, each further commit is a conflict until `refresh` accepts the other program's.
        """
        for attempt in range(_TRIES):
            if foreign := self._look():
                raise self._conflict(foreign)
            try:
                self._commit(act, state, needed)
                self.set_back = ""  # a copy has replaced the rows: the mirror commits nothing else to such a table
                return
            except CommittedBesideError:
                raise
            except CommitConflictError:
                # Delta also refuses a command after another program has set properties
                if attempt == _TRIES - 1 or self._look():
                    raise

    def _commit(
        self, act: Callable[[], object], state: Mapping[str, Any], needed: Container[str]
    ) -> None:
        before = self._accepted

        def is_committed() -> bool:
            return any(self._is_own(c) for c in self.log.commits if c.version > before)

        with self.in_session(needed), self._state(state, before):
            act()
        foreign = self._look()
        if not (foreign or is_committed()):
            at = self._accepted
            with self.in_session(), self._state(state, at):
                self._set({_TOUCHED: str(at + 1)})
            foreign = self._look()
        if foreign:
            raise self._conflict(
                foreign, CommittedBesideError if is_committed() else CommitConflictError
            )

    def _conflict(
        self,
        commits: list[Commit],
        kind: type[CommitConflictError] = CommitConflictError,
    ) -> CommitConflictError:
        return kind(
            f"{self.full_name}: another writer has committed to the table: version "
            f"{commits[-1].version if commits else self.log.version}"
        )

    def replace(self, columns: str, kept: Mapping[str, str]) -> None:
        """Replace the table with an empty one. Its versions and tags stay. `columns`: SQL.

        The properties that users have set for Delta stay, too.
        """
        known: Mapping[str, str] = self.log.metadata.get("configuration") or {}
        properties = {**OF_TABLES, **{n: v for n, v in known.items() if _stays(n)}}
        if _REMOVED_FILES in known and SHORTER_LOG not in known:
            del properties[SHORTER_LOG]
        with self.in_session():
            # for a directory, CREATE OR REPLACE TABLE refuses other columns than those that are there
            define(self.spark, "REPLACE", self._path, columns, properties, kept)
        self.refresh()
        self.set_back = ""

    def set_properties(
        self, properties: Mapping[str, str], state: Mapping[str, Any] | None = None
    ) -> None:
        """Set properties of the table; the mirror's state stays as it is if `state` is None."""
        with self._alone():
            self._set_with_state(properties, state)

    def replace_properties(
        self, expected: Mapping[str, str | None], properties: Mapping[str, str]
    ) -> None:
        with self._alone():
            self.refresh()
            known = self.describe()["properties"]
            if any(known.get(name) != value for name, value in expected.items()):
                raise self._conflict(self.log.commits)
            self._set_with_state(properties)

    def _set_with_state(
        self, properties: Mapping[str, str], state: Mapping[str, Any] | None = None
    ) -> None:
        self.log.update()
        with self.in_session(), self._state(state or self.log.state, self.log.version):
            self._set(properties)
        self._look()

    def _set(self, properties: Mapping[str, str]) -> None:
        listed = ", ".join(f"{sql_text(n)} = {sql_text(v)}" for n, v in properties.items())
        self.spark.sql(f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ({listed})")

    def append(self, rows: pa.Table, properties: Mapping[str, str]) -> None:
        """Commit more rows; another program may set properties meanwhile."""
        frame = self.frame(conformed(rows, self.schema))
        for attempt in range(_TRIES):
            with self._alone():
                self.refresh()
                state = {**self.log.state, "summary": dict(properties)}
                try:
                    with self.in_session(), self._state(state, self.log.version):
                        self.write(frame, "append")
                    break
                except CommitConflictError:
                    if attempt == _TRIES - 1:
                        raise
        self.refresh()

    def keep_rows(self, wanted: pc.Expression) -> None:
        """Remove the other rows of a table whose rows are only appended, keeping the summary. It reads all rows."""
        with self._alone():
            self.refresh()
            schema = self.schema
            parts = [rows.filter(wanted) for rows in live_rows(self.log, schema, schema.names)]
            kept = pa.concat_tables(parts) if parts else schema.empty_table()
            frame = self.frame(conformed(kept, schema))
            with self.in_session(), self._state(self.log.state, self.log.version):
                self.write(frame, "overwrite")
        self.refresh()

    def frame(self, rows: pa.Table) -> DataFrame:
        """Rows of a stored schema as a frame of Spark."""
        with active_session(self.spark):
            return self.spark.createDataFrame(rows, schema=spark_schema(rows.schema))

    def write(self, frame: DataFrame, mode: str) -> None:
        """Write a frame as `mode` of Spark's writer says; for a commit."""
        frame.write.format("delta").mode(mode).save(str(self._path))

    def tag(self, name: str, properties: Mapping[str, str] | None = None) -> None:
        """Record the version of a name in a property; VACUUM may still remove its files. With `properties`, raises
        CommitConflictError if another program has committed: a commit with the mirror's state would hide that.
        """
        if properties is not None and (foreign := self._look()):
            raise self._conflict(foreign)
        known: dict[str, int] = json.loads(self.describe()["properties"].get(_TAGS, "{}"))
        if name not in known:
            tags = {**known, name: self.log.version}
            state = None if properties is None else {**self.log.state, "summary": dict(properties)}
            self.set_properties({_TAGS: json.dumps(tags, sort_keys=True)}, state)

    def tags(self) -> list[str]:
        return []

    def refs(self) -> list[str]:
        return []

    # -- upkeep ------------------------------------------------------------------------------------

    def optimize(self, file_bytes: int, state: Mapping[str, Any]) -> None:
        """Have Delta rewrite small files, and files with many deleted rows. `state`: that of the commit."""
        self.spark.conf.set(f"{CONF}optimize.maxFileSize", str(file_bytes))
        self.spark.conf.set(f"{CONF}optimize.minFileSize", str(file_bytes))
        sql = f"OPTIMIZE {self.sql_name}"
        self.commit(lambda: self.spark.sql(sql).collect(), state, self.log.files)

    def compact(self, policy: CompactionPolicy) -> None:
        with self._alone():
            self.refresh()
            if due_groups(self.file_states(), policy):
                self.optimize(policy.file_bytes, self.log.state)

    def expire(
        self, older_than_ms: int, _keep: int, _most: int, _kept: str = "", _least: int = 1
    ) -> None:
        """Remove files as `vacuum` does, whatever the number of versions: Delta expires the log itself, by a property."""
        self.vacuum(max(0, int(time.time() - older_than_ms / 1000)))

    def vacuum(self, keep_s: int, state: Mapping[str, Any] | None = None) -> None:
        """Remove files that no version of the last 168 hours, of the last `keep_s` seconds, or of the time that a user has set, uses.

        `state`: that of the commits which this makes; None: the newest one.
        """
        hours = readable_hours(keep_s)
        self._shorten_log(hours, state)
        # a user may want to read versions for longer
        hours = max(
            hours, hours_of((self.log.metadata.get("configuration") or {}).get(_REMOVED_FILES, ""))
        )
        oldest = next(self.log.history(), None)
        since_ms = (time.time() - hours * HOUR_S) * 1000
        if oldest is not None and oldest.version == 0 and oldest.committed_ms > since_ms:
            return  # there has been no version so old; without version 0, the log no longer shows all
        with self.in_session():
            self.spark.sql(f"VACUUM {self.sql_name} RETAIN {hours} HOURS").collect()
        self._look()

    def _shorten_log(self, hours: int, state: Mapping[str, Any] | None) -> None:
        """Have Delta keep the commits of all versions that can be read, and remove those of the control table after a day, unless
        a user has set for how long it keeps them. `state` as in `vacuum`.
        """
        self.log.update()
        if self.log.version != self._accepted:
            return  # a commit with the mirror's state would hide those of other programs
        config = self.log.metadata.get("configuration") or {}
        known = config.get(SHORTER_LOG)
        own = None if known is None else _OWN_PERIOD.fullmatch(known)
        if self.full_name.startswith(f"{NAMESPACE}."):
            if known in (None, _OF_EARLIER_CONTROL):
                self.set_properties(OF_CONTROL)
        elif (known is None and _REMOVED_FILES not in config) or (
            own is not None and int(own[1]) < hours + _MORE_HOURS
        ):
            kept_hours = max(LOG_HOURS, hours + _MORE_HOURS)
            self.set_properties({SHORTER_LOG: f"interval {kept_hours} hours"}, state)
        head, kept_hours = self.log.head, hours_of(config.get(SHORTER_LOG, "")) or LOG_HOURS
        old_ms = (time.time() - kept_hours * HOUR_S / 3) * 1000
        if (
            head is not None
            and self.log.state
            and (head.state is None or head.committed_ms < old_ms)
        ):
            # of a table without changes, Delta would some day remove the newest commit with the mirror's state, at the latest when
            # another program commits
            self.set_properties({_TOUCHED: str(self.log.version + 1)}, state)

    def _state(self, state: Mapping[str, Any], before: int) -> AbstractContextManager[None]:
        settings = {
            f"{CONF}commitInfo.userMetadata": user_metadata({**state, _WRITER: self._writer}),
            f"{CONF}write.txnAppId": "binlake",
            f"{CONF}write.txnVersion": str(before + 1),
        }
        return with_settings(self.spark, settings)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process of binlake change properties or add rows to tables of the lake. Raises SourceError."""
        folder = self._path.parent.parent / NAMESPACE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / _LOCK).open("ab")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise SourceError(f"cannot lock {folder / _LOCK}: {error.strerror}") from error
        with file:
            yield

    @contextmanager
    def in_session(self, needed: Container[str] = ()) -> Iterator[None]:
        """Run commands of Delta in the mirror's own session. `needed`: the data files that they read, by their names in the log.

        Raises as all methods, and MissingFileError or DamagedFileError if a command fails because of a file of the table.
        """
        try:
            with in_one_line(self.full_name), active_session(self.spark):
                yield
        except SourceError as error:
            if type(error) is SourceError and (
                found := damage_of(self._path, error.message, self._read, needed)
            ):
                raise found from error
            raise

    def _read(self, file: Path) -> None:
        """Have Spark read all of a data file."""
        with in_one_line(self.full_name), active_session(self.spark):
            frame = parquet_reader(self.spark).parquet(str(file))
            frame.write.format("noop").mode("overwrite").save()


def _stays(name: str) -> bool:
    """Whether a property of a table stays when the table is replaced."""
    return name == _TAGS or (name.startswith("delta.") and not name.startswith(_OF_CONTENTS))
