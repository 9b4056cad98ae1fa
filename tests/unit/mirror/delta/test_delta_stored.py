"""A Delta table: what stays when it is replaced, and the files of earlier versions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import SourceError
from binlake.mirror.delta import lake as lakes
from binlake.mirror.delta import stored
from binlake.mirror.delta.lake import DeltaLake
from binlake.mirror.delta.periods import hours_of
from binlake.mirror.delta.stored import DeltaStored
from binlake.mirror.delta.table import DeltaTable
from binlake.mirror.delta.upkeep import DeltaUpkeep
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.schema import iceberg_schema


def replaced(monkeypatch: pytest.MonkeyPatch, table: Path, **metadata: Any) -> dict[str, str]:
    """The properties of a table after a replacement."""
    found: dict[str, str] = {}

    def define(_spark: Any, verb: str, path: Path, columns: str, properties: Any, _: Any) -> None:
        assert (verb, path, columns) == ("REPLACE", table, "`id` INT")
        found.update(properties)

    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    monkeypatch.setattr(stored, "define", define)
    log = table / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text(json.dumps({"metaData": {"id": "x", **metadata}}))
    no_session: Any = None
    DeltaStored(no_session, table, "shop.t").replace("`id` INT", {})
    return found


def test_properties_of_users_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new = replaced(monkeypatch, tmp_path / "new")
    assert new["delta.columnMapping.mode"] == "name"
    assert new["delta.logRetentionDuration"] == "interval 720 hours"
    users = {
        "delta.logRetentionDuration": "interval 60 days",
        "delta.enableDeletionVectors": "false",
        "binlake.tags": '{"before-truncate": 3}',
    }
    longer = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    found = replaced(monkeypatch, tmp_path / "longer", configuration=longer)
    assert "delta.logRetentionDuration" not in found, "Delta refuses one that is shorter"
    others = {
        "delta.columnMapping.maxColumnId": "7",
        "delta.feature.rowTracking": "supported",
        "delta.constraints.positive": "v > 0",
        "delta.dataSkippingStatsColumns": "v",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.inCommitTimestampEnablementVersion": "3",
        "binlake.touched": "9",
        "mine": "1",
    }
    known = replaced(monkeypatch, tmp_path / "known", configuration={**users, **others})
    assert known == {**new, **users}


@pytest.mark.parametrize(("age_h", "keep_h", "retained"), [(200, 0, 168), (200, 190, 190), (100, 0, None)])  # fmt: skip
def test_old_files_of_the_control_table_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, age_h: int, keep_h: int, retained: int | None
) -> None:
    """Each round adds a file to it, and each compaction leaves files behind."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, hours in enumerate((age_h, 1)):
        actions = [{"commitInfo": {"timestamp": int((time.time() - 3600 * hours) * 1000)}}, {"metaData": {"id": "x", "configuration": {"delta.logRetentionDuration": "interval 1 day"}}}]  # fmt: skip
        lines = [json.dumps(action) for action in actions]
        (log / f"{version:020}.json").write_text("\n".join(lines))
    statements: list[str] = []

    def sql(statement: str) -> Any:
        statements.append(statement)
        return SimpleNamespace(collect=list)

    spark: Any = SimpleNamespace(sql=sql)
    table = DeltaStored(spark, tmp_path, "_binlake.rounds")
    table.expire(int((time.time() - 3600 * keep_h) * 1000), 20, 20)
    expected = [] if retained is None else [f"VACUUM delta.`{tmp_path}` RETAIN {retained} HOURS"]
    assert statements == expected


class Session:
    """A session of Spark: `statements` are those that it has run. ALTER TABLE adds a version to the log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.statements: list[str] = []
        self.conf = SimpleNamespace(set=self._set, unset=lambda _name: None)
        self._state = ""

    def _set(self, name: str, value: str) -> None:
        self._state = value if name.endswith("userMetadata") else self._state

    def sql(self, statement: str) -> Any:
        self.statements.append(statement.partition(" SET ")[2] or statement.partition(" ")[0])
        if statement.startswith("ALTER"):
            write_commit(self.log, len(list(self.log.iterdir())), 0, self._state)
        return SimpleNamespace(collect=list)


def write_commit(log: Path, version: int, age_h: float, state: str, *more: Any) -> None:
    """Add a commit with a state of the mirror, "" for one of another program."""
    info = {"timestamp": int((time.time() - 3600 * age_h) * 1000), "userMetadata": state}
    lines = [json.dumps(action) for action in ({"commitInfo": info}, *more)]
    (log / f"{version:020}.json").write_text("\n".join(lines))


OURS = '{"binlake": {"kept": {}}}'
HOURS_720 = "TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 720 hours')"
HOURS_824 = "TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 824 hours')"
ONE_DAY = (
    "TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 day',"
    " 'delta.logRetentionDuration' = 'interval 1 day')"
)


@pytest.mark.parametrize(
    ("name", "period", "keep_h", "statements"),
    [
        ("shop.t", None, 0, [HOURS_720]),
        ("shop.t", "interval 720 hours", 300, []),
        ("shop.t", "interval 720 hours", 800, [HOURS_824]),
        ("shop.t", "interval 400 hours", 300, []),
        ("shop.t", "interval 60 days", 300, []),
        ("shop.t", "interval 1 day", 300, []),
        ("shop.t", "removed files", 300, []),
        ("_binlake.rounds", None, 0, [ONE_DAY]),
        ("_binlake.rounds", "interval 7 days", 0, [ONE_DAY]),
        ("_binlake.rounds", "interval 1 day", 300, []),
        ("_binlake.rounds", "interval 30 days", 300, []),
    ],
)
def test_the_log_is_kept_as_long_as_versions_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, period: str | None, keep_h: int, statements: list[str]
) -> None:  # fmt: skip
    """Also for tables of earlier versions, but a period that a user has set stays."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    log = tmp_path / "lake" / "shop" / "t" / "_delta_log"
    log.mkdir(parents=True)
    configuration = {} if period is None else {"delta.logRetentionDuration": period}
    if period == "removed files":
        configuration = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    write_commit(log, 0, 1, OURS, {"metaData": {"id": "x", "configuration": configuration}})
    session: Any = Session(log)
    table = DeltaStored(session, log.parent, name)
    table.vacuum(keep_h * 3600)
    assert session.statements == statements


def test_a_commit_of_another_program_stays_the_newest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A commit of the mirror after theirs would hide that another program writes to the table."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    log = tmp_path / "_delta_log"
    log.mkdir()
    write_commit(log, 0, 1, OURS, {"metaData": {"id": "x"}})
    session: Any = Session(log)
    table = DeltaStored(session, tmp_path, "shop.t")
    write_commit(log, 1, 0, "")
    table.vacuum(0)
    assert session.statements == []


def test_the_record_is_newer_than_properties(tmp_path: Path) -> None:
    """A user has moved the directory of a table, and the mirror has copied into it. The log cleanup removes the record."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    config = {"binlake.table": "shop.t", "binlake.lake-table": "shop.old", "binlake.touched": "1"}
    record = {"binlake.table": "shop.t", "binlake.lake-table": "shop.new", "binlake.touched": "0"}
    no_session: Any = None
    metadata = {"metaData": {"id": "x", "configuration": config, "schemaString": '{"fields": []}'}}
    write_commit(log, 0, 1, json.dumps({"binlake": {"kept": record}}), metadata)
    found = DeltaStored(no_session, tmp_path, "shop.new").describe()["properties"]
    assert found == {**record, "binlake.touched": "1"}
    write_commit(log, 0, 1, "", metadata)
    assert DeltaStored(no_session, tmp_path, "shop.new").describe()["properties"] == config


def test_a_commit_beside_properties_that_a_user_sets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Delta refuses a command if the properties have changed since it began: the command is repeated."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    log = tmp_path / "_delta_log"
    log.mkdir()
    write_commit(log, 0, 1, OURS, {"metaData": {"id": "x"}})
    session: Any = Session(log)
    table = DeltaStored(session, tmp_path, "shop.t")
    of_user = ["SET TBLPROPERTIES", "WRITE"]
    tries: list[int] = []

    def act() -> None:
        tries.append(table.log.version)
        if len(tries) % 2:
            info = {"operation": of_user[len(tries) // 2], "timestamp": 1}
            lines = [json.dumps({"commitInfo": info}), json.dumps({"metaData": {"id": "x"}})]
            (log / f"{table.log.version + 1:020}.json").write_text("\n".join(lines))
            raise CommitConflictError("shop.t: MetadataChangedException")
        session.sql("ALTER TABLE t SET x")

    table.commit(act, {"kept": {"a": "b"}})
    assert tries == [0, 1]
    assert (table.log.version, table.log.state["kept"]) == (2, {"a": "b"})
    with pytest.raises(CommitConflictError):
        table.commit(act, {"kept": {}})
    assert tries == [0, 1, 2], "after a change of rows, the round is computed again"


def test_the_state_of_the_mirror_does_not_leave_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A table without changes, to which another program commits each day, and the mirror accepts that."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    log = tmp_path / "lake" / "shop" / "t" / "_delta_log"
    log.mkdir(parents=True)
    period = {"delta.logRetentionDuration": "interval 192 hours"}
    state = OURS.replace("{}", '{"binlake.table": "shop.t"}')
    write_commit(log, 0, 1, state, {"metaData": {"id": "x", "configuration": period}})
    write_commit(log, 1, 0, "")
    session: Any = Session(log)
    DeltaStored(session, log.parent, "shop.t").vacuum(0)
    assert session.statements == ["TBLPROPERTIES ('binlake.touched' = '2')"]
    (log / f"{0:020}.json").write_text(json.dumps({"metaData": {"id": "x"}}))
    found = DeltaStored(session, log.parent, "shop.t")
    assert found.log.state is not None
    assert found.log.state["kept"] == {"binlake.table": "shop.t"}


def test_old_files_are_removed_if_the_log_no_longer_has_the_first_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The log of the control table is of a day: its oldest commit is never as old as the files that nothing needs."""
    monkeypatch.setattr(stored, "active_session", lambda _spark: nullcontext())
    log = tmp_path / "_delta_log"
    log.mkdir()
    period = [("delta.logRetentionDuration", "interval 1 day")]
    metadata = {"id": "x", "configuration": period}
    kind = pa.struct([("id", pa.string()), ("configuration", pa.map_(pa.string(), pa.string()))])
    actions = {"metaData": pa.array([metadata], kind), "add": pa.array([None], pa.struct([("path", pa.string())]))}  # fmt: skip
    pq.write_table(pa.table(actions), log / f"{900:020}.checkpoint.parquet")
    write_commit(log, 900, 20, OURS)
    session: Any = Session(log)
    DeltaStored(session, tmp_path, "_binlake.rounds").vacuum(0)
    assert session.statements == ["TBLPROPERTIES ('binlake.touched' = '901')", "VACUUM"]


@pytest.mark.parametrize(
    ("period", "hours"),
    [
        ("interval 30 days", 720),
        ("interval 1 week 2 days", 216),
        ("INTERVAL 90 minutes", 2),
        ("interval 1 day", 24),
        ("", 0),
        ("a month", 0),
    ],
)
def test_periods_of_delta(period: str, hours: int) -> None:
    assert hours_of(period) == hours


def test_the_search_for_old_files_includes_the_control_table() -> None:
    notes: list[str] = []
    done: list[str] = []

    def expire() -> None:
        done.append("expire")
        raise SourceError("_binlake.rounds: Delta refuses: no space left")

    control: Any = SimpleNamespace(
        expire=expire, orphans_removed=lambda: done.append("recorded"), to_resync=(), gone={}, quarantined={}, removed=(),
        lake=SimpleNamespace(remove_dropped=lambda: done.append("dropped tables")),
    )  # fmt: skip
    upkeep = DeltaUpkeep(control, MirrorOptions.of({"format": "delta"}), Path(), notes.append)
    upkeep.remove_orphans({})
    assert done == ["dropped tables", "expire", "recorded"]
    assert notes == [
        "_binlake.rounds: old files were not removed: _binlake.rounds: Delta refuses: no space left"
    ]


def test_the_lease_is_kept_during_statements_of_delta(tmp_path: Path) -> None:
    """OPTIMIZE and VACUUM of a large table take longer than the lease holds."""
    is_kept: list[bool] = []
    done: list[tuple[str, bool]] = []

    @contextmanager
    def kept() -> Iterator[None]:
        is_kept.append(True)
        yield
        is_kept.clear()

    def record(what: str) -> None:
        done.append((what, bool(is_kept)))

    class Table(DeltaTable):
        snapshot = 1
        full_name = "shop.t"

        def __init__(self) -> None:
            self.stored = SimpleNamespace(file_states=list)  # type: ignore[assignment]

        def optimize(self, file_bytes: int, properties: Any) -> None:
            record("OPTIMIZE")

        def vacuum(self, keep_s: int, properties: Any) -> None:
            record("VACUUM")

        def remove_copies(self) -> None: ...

    control: Any = SimpleNamespace(
        to_resync=(), orphans_are_due=lambda _every_s: True, orphans_removed=lambda: None,
        expire=lambda: record("VACUUM of the control table"),
        round=1, drop_rounds=lambda _before_ms: None, compact=lambda _policy: None, gone={}, quarantined={}, removed=(),
        lake=SimpleNamespace(remove_dropped=lambda: record("dropped tables")),
    )  # fmt: skip
    options = MirrorOptions.of({"format": "delta"})
    upkeep = DeltaUpkeep(control, options, Path(), lambda _note: None, kept)
    table: Any = SimpleNamespace(
        full_name="shop.t", lake=Table(), offset=None, position_properties=lambda *_: {}
    )
    upkeep.want(table)
    upkeep.work({"shop.t": table})
    assert done == [
        ("OPTIMIZE", True),
        ("VACUUM", True),
        ("dropped tables", True),
        ("VACUUM of the control table", True),
    ]


def test_the_log_of_the_control_table_is_kept_for_a_day(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It gets a commit for each round."""
    made: dict[str, Any] = {}

    def created(_spark: Any, path: Path, name: str, _columns: str, _kept: Any, more: Any) -> None:
        made[name] = dict(more)
        (path / "_delta_log").mkdir(parents=True)
        (path / "_delta_log" / f"{0:020}.json").write_text(json.dumps({"metaData": {"id": "x"}}))

    monkeypatch.setattr(lakes, "created", created)
    conf = SimpleNamespace(
        get=lambda *_: "io.delta.sql.DeltaSparkSessionExtension", set=lambda *_: None
    )
    spark: Any = SimpleNamespace(conf=conf, newSession=lambda: spark)
    lake = DeltaLake(spark, str(tmp_path)).beside()
    schema = iceberg_schema(pa.schema([("id", pa.int32())]))
    for namespace in ("_binlake", "shop"):
        lake.create(namespace, "rounds", schema, {})
    assert made == {
        "_binlake.rounds": {
            "delta.deletedFileRetentionDuration": "interval 1 day",
            "delta.logRetentionDuration": "interval 1 day",
        },
        "shop.rounds": {},
    }
