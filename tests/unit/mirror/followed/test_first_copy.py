"""The position of the log at which a copy ends: the mirror copies a table again if it was altered before.

One module, although it is long: all tests make copies of one table with the same stand-ins for server, log and lake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import (
    BinlogError,
    ConnectionLostError,
    ServerError,
    SourceError,
    UnsupportedError,
)
from binlake.follow.offsets import StreamOffset
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed import first_copy
from binlake.mirror.followed.chunk_task import ChunkTask
from binlake.mirror.followed.first_copy import FirstCopy, LogLagsError
from binlake.mirror.followed.former_tables import FormerTables
from binlake.mirror.followed.in_lake import MirroredTables
from binlake.mirror.followed.log_positions import LogPositions
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.table_record import former_properties, is_former, sources
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.names import HISTORY, MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.archive_lag import lags
from binlake.mirror.source.refusals import AlteredError
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.data_files import DataFileWriter, file_system
from binlake.mirror.tables.partitions import NOT_PARTITIONED
from binlake.mirror.tables.schema import iceberg_schema
from binlake.mirror.tables.versions import Version
from binlake.snapshot.chunks import SnapshotOptions, TableChunk
from binlake.snapshot.definition import definition_of
from binlake.snapshot.tables import SourceTable
from binlake.table.schema.schema_file import parse_schema
from binlake.values.position import FilePosition, Position

MADE = "CREATE TABLE shop.t (id INT PRIMARY KEY, c VARCHAR(20)) CHARSET=utf8mb4"
SCHEMA = pa.schema([("id", pa.int32()), ("c", pa.string()), ("c_before_1", pa.int32())])
SHOWN = ColumnRules()
TABLE = SourceTable(
    "shop", "t", definition_of(parse_schema(MADE.encode()).tables[0], "mysql"), ("id",)
)
FILE = {"file-path": "a.parquet", "record-count": 2, "file-size-in-bytes": 100}


class Log:
    """The log of a server; also what a copy asks of its planner. Each statement is 100 bytes long.

    `read_at` and `read_on`: the end of the server's log when rows are read, and the server, if they are others.
    `sought`: the positions that were found by reading the file from its start. `zero_dates`: those of each chunk, by column.
    """

    def __init__(self) -> None:
        self.end = 100
        self.read_at: int | None = None
        self.read_on = "1-2-3"
        self.is_archived = False
        self.sought: list[int] = []
        self.zero_dates: dict[str, int] = {}

    def read(self) -> Position:
        """The end of the server's log."""
        return Position(self.read_on, "binlog.000001", self.read_at or self.end)

    def written(self) -> Position:
        """Write a statement; return its position."""
        self.end += 100
        return Position("1-2-3", "binlog.000001", self.end - 100)

    def latest(self) -> StreamOffset:
        self.sought.append(self.end)
        return self.head()

    def head(self) -> StreamOffset:
        return StreamOffset(Position("1-2-3", "binlog.000001", self.end))

    def begins_after(self, _position: Position) -> bool:
        return False

    def at_position(self, place: FilePosition) -> StreamOffset:
        self.sought.append(place.offset)
        return StreamOffset(Position("1-2-3", place.file, place.offset))

    def advance(
        self, _start: StreamOffset, _limits: Any, until: StreamOffset | None
    ) -> StreamOffset:
        return self.head() if until is None else until

    def here(self, offset: StreamOffset) -> StreamOffset:
        return offset


class Lake:
    """A lake table whose column `c` got another type: `c_before_1` has the earlier values."""

    full_name = "shop.t"
    schema = SCHEMA
    partitioning = NOT_PARTITIONED
    snapshot = 1

    def __init__(self) -> None:
        self.properties: dict[str, str] = {"binlake.kept-columns": '["c_before_1"]'}
        self.summary: dict[str, str] = {}
        self.others: dict[tuple[str, str], dict[str, str]] = {}
        self.tags: dict[tuple[str, str], list[str]] = {}
        self.tagged: list[str] = []

    @property
    def stored(self) -> Any:
        known = {
            "uuid": "of the table",
            "snapshot": self.snapshot,
            "properties": self.properties,
            "summary": {"total-records": "2"},
        }
        return SimpleNamespace(
            describe=lambda: known,
            set_properties=self.properties.update,
            tag=self.tagged.append,
        )

    def lineage(self) -> Iterator[Version]:
        yield Version(self.snapshot, self.summary)

    def data_prefix(self) -> str:
        return "data-"

    def replace(
        self, _files: Any, _properties: Any, table_properties: Mapping[str, str], only: Any
    ) -> None:
        assert only is None, "the table has no shards"
        self.properties |= table_properties

    def tables(self) -> list[tuple[str, str]]:
        return [*self.others]

    def exists(self, *name: str) -> bool:
        return name in self.others

    def load(self, *name: str) -> Any:
        uuid = "of the table" if name == ("Shop", "T") else "of another"
        properties = self.others[name]  # type: ignore[index]
        known = {"uuid": uuid, "properties": properties, "schema": iceberg_schema(SCHEMA)}
        return SimpleNamespace(
            describe=lambda: known,
            tags=lambda: self.tags.get(name, []),  # type: ignore[arg-type]
            set_properties=properties.update,
        )

    def drop(self, *name: str) -> None:
        del self.others[name]  # type: ignore[arg-type]


class Kept:
    """The part of the control table that copies need: moments, and former lake tables."""

    def __init__(self) -> None:
        self.moments: dict[str, int] = {}
        self.former_lake_tables: dict[str, list[tuple[str, str]]] = {}

    def keep_former(self, name: str, lake_table: tuple[str, str]) -> None:
        self.former_lake_tables.setdefault(name, []).append(lake_table)


def copied(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    log: Log,
    read_again: Callable[[], tuple[SourceTable, str]],
    adding: Callable[[], object],
) -> Followed | None:
    """Copy a table. `read_again` answers whether it was altered; `adding` runs while earlier values are added."""
    copy = copy_of(monkeypatch, folder, log, adding, chunks=1)
    return copy.make(TABLE, MADE, 1, read_again)


def copy_of(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    log: Log,
    adding: Callable[[], object],
    *,
    chunks: int,
    rules: ColumnRules = SHOWN,
    before: Sequence[str] = (),
) -> FirstCopy:
    """Copies that give way after every two chunks. `before`: the columns that the table had at its last copy."""
    lake: Any = Lake()

    def read(tasks: Sequence[Any], *_of: Any) -> list[str]:
        position, end = log.head().position.to_json(), log.read().to_json()
        return [json.dumps({"number": t.chunk.number, "files": [FILE], "position": position, "end": end, "rows": 2, "bytes": 9, "zero_dates": log.zero_dates}) for t in tasks]  # fmt: skip

    def with_earlier_values(files: list[Any], *_of: Any) -> list[Any]:
        adding()
        return files

    def divided(*_of: Any) -> list[TableChunk]:
        return [TableChunk(TABLE, SnapshotOptions(), n, None, None) for n in range(chunks)]

    monkeypatch.setattr(first_copy, "chunks_of", divided)
    monkeypatch.setattr(first_copy, "files_with_kept_values", with_earlier_values)
    targets = SimpleNamespace(
        name=lambda table: (table.schema, table.name),
        open=lambda _table: lake,
        mode=lambda _table: mode_named(MIRROR),
        shard_column=lambda _table: "",
        treated=lambda _table: {},
        columns_before=lambda _table: before,
    )
    mirrored = MirroredTables(lake, {"old", "shop_backup", "unrecorded"})
    control: Any = Kept()
    host: Any = SimpleNamespace(
        copied_url=lambda: "mysql://server",
        has_archive=log.is_archived,
        is_reached=lambda end, position: not lags(end, position),
    )
    stand_ins: dict[str, Any] = {
        "lake": lake,
        "host": host,
        "engine": SimpleNamespace(cores=1, run=read),
        "planner": log,
        "targets": targets,
    }
    return FirstCopy(
        **stand_ins,
        options=MirrorOptions(),
        rules=rules,
        indexes=folder,
        note=lambda _text: None,
        watch=lambda _progress: None,
        is_interrupted=lambda: False,
        gives_way=lambda: True,
        shards_in=lambda _name: {},
        former=FormerTables(
            lake, control, MirrorOptions(), ColumnRules(), mirrored, lambda _: None
        ),
        places=LogPositions(log, host),  # type: ignore[arg-type]
    )


def test_a_copy_that_gives_way_seeks_its_position_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read from the start of its file for that: up to 1 GB for each part of a copy."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    log = Log()
    copy = copy_of(monkeypatch, tmp_path, log, lambda: None, chunks=4)
    for _ in range(3):
        assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
        log.written()
    made = copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE))
    assert made is not None
    assert made.offset.position.offset == 100
    assert log.sought == [100]


def test_a_copy_that_is_stopped_at_its_end_makes_no_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag is a commit in Delta: after the next start, the copy would begin again."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    targets: Any = copy.targets
    targets.mode = lambda _table: mode_named(HISTORY)
    is_stopped: list[bool] = []

    def read_again() -> tuple[SourceTable, str]:
        is_stopped.append(True)
        return TABLE, MADE

    lake = targets.open(TABLE)
    assert replace(copy, is_interrupted=lambda: bool(is_stopped)).make(TABLE, MADE, 1, read_again) is None  # fmt: skip
    assert (is_stopped, lake.tagged) == ([True], [])
    assert copy.make(TABLE, MADE, 1, read_again) is not None
    assert lake.tagged == ["before-copy-snapshot-1"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_another_program_commits_while_a_copy_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    """The chunks that were read are of no use. The caller counts it: the copy would begin again each time."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=2)
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
    if is_restarted:
        copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=2)
    copy.targets.open(TABLE).snapshot = 2  # type: ignore[misc]
    with pytest.raises(CommitConflictError, match=r"shop\.t: .* since its copy began"):
        copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE))
    copy.give_up("shop.t")
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None


def test_a_copy_that_gives_way_looks_for_its_files_only_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands in a store, and a copy gives way every 20 seconds."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    looked_for: list[str] = []

    def found(path: str) -> Any:
        looked_for.append(path)
        return file_system(path)

    monkeypatch.setattr("binlake.mirror.followed.copy_state.file_system", found)
    log = Log()
    copy = copy_of(monkeypatch, tmp_path, log, lambda: None, chunks=6)
    for _ in range(3):
        assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
    assert looked_for == []
    again = copy_of(monkeypatch, tmp_path, log, lambda: None, chunks=6)
    for _ in range(2):
        assert again.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
    assert looked_for == [str(data)] * 3
    assert again.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
    assert not again.states


def test_a_copy_reports_dates_that_became_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.zero_dates = {"made": 2, "born": 1}
    notes: list[str] = []
    counts: list[Mapping[str, int]] = []
    copy = copy_of(monkeypatch, tmp_path, log, lambda: None, chunks=2)
    assert replace(
        copy, gives_way=lambda: False, note=notes.append, count_zero_dates=counts.append
    ).make(TABLE, MADE, 1, lambda: (TABLE, MADE))
    assert counts == [{"shop.t.born": 2, "shop.t.made": 4}]
    assert notes[-3:] == [
        "shop.t: 4 rows copied",
        "shop.t.born: 2 zero or partial dates read as null",
        "shop.t.made: 4 zero or partial dates read as null",
    ]


def test_a_copy_waits_for_a_log_that_lags_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are ahead of the log; they are not read again when the log has reached them."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    log = Log()
    log.read_at, log.is_archived = 300, True
    for end in (100, 299):
        log.end = end
        with pytest.raises(
            LogLagsError, match=rf"reaches binlog\.000001:{end}, .* at binlog\.000001:300"
        ):
            copied(monkeypatch, tmp_path, log, lambda: (TABLE, MADE), lambda: None)
    log.end, log.read_at = 300, 9999
    made = copied(monkeypatch, tmp_path, log, lambda: (TABLE, MADE), lambda: None)
    assert made is not None
    assert made.offset.position.offset == 100
    assert made.snapshot_until.position.offset == 300


def test_the_log_was_reset_before_a_copy_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.read_at = 300
    with pytest.raises(ServerError, match=r"the log was reset: it ends at binlog\.000001:100"):
        copied(monkeypatch, tmp_path, log, lambda: (TABLE, MADE), lambda: None)
    log.read_at = None
    assert copied(monkeypatch, tmp_path, log, lambda: (TABLE, MADE), lambda: None) is not None


def test_rows_of_another_server_than_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    log.read_on = "4-5-6"
    with pytest.raises(
        ServerError, match="read from server 4-5-6, but the log is from server 1-2-3"
    ):
        copied(monkeypatch, tmp_path, log, lambda: (TABLE, MADE), lambda: None)
    log.read_on = "1-2-3"
    assert copied(monkeypatch, tmp_path, log, lambda: (TABLE, MADE), lambda: None) is not None


def test_a_table_altered_while_earlier_values_are_added_is_not_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy cannot contain the effects of a statement that is later than its last row."""
    log = Log()
    altered: list[Position] = []

    def read_again() -> tuple[SourceTable, str]:
        """The table was altered and altered back before the server answers."""
        altered.append(log.written())
        return TABLE, MADE

    made = copied(monkeypatch, tmp_path, log, read_again, lambda: altered.append(log.written()))
    assert made is not None
    assert [made.was_copied_after(place) for place in altered] == [True, False]
    assert made.offset.position.offset == 100


def test_a_table_altered_while_its_rows_are_read_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[str] = []
    with pytest.raises(ServerError, match=r"shop\.t was altered while it was copied"):
        copied(
            monkeypatch,
            tmp_path,
            Log(),
            lambda: (TABLE, MADE + " "),
            lambda: added.append("values"),
        )
    assert added == []


@pytest.mark.parametrize(
    "now",
    [replace(TABLE, key=("id", "c")), replace(TABLE, key=()), replace(TABLE, engine="myisam")],
)
def test_a_table_whose_key_or_engine_is_another_after_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: SourceTable
) -> None:
    """The recorded definition has no unique keys."""
    with pytest.raises(AlteredError, match=r"shop\.t was altered while it was copied"):
        copied(monkeypatch, tmp_path, Log(), lambda: (now, MADE), lambda: None)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_table_that_ends_the_process_again_and_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """A row that does not fit into the memory of a task would end each start of the mirror, before other tables are followed."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=3)
    engine: Any = copy.engine
    read = engine.run

    def die(*_of: Any) -> None:
        if is_killed:
            [counted] = tmp_path.glob("*.attempts")
            counted.with_suffix(".kept").write_bytes(counted.read_bytes())
        raise BinlogError("Spark failed: Python worker exited unexpectedly", hint="no memory")

    engine.run = die
    for _ in range(3):
        with pytest.raises(BinlogError, match=r"shop\.t, chunk 1 of 3: Spark failed"):
            copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE))
        for kept in tmp_path.glob("*.kept"):  # nothing has run since
            kept.rename(kept.with_suffix(".attempts"))
    why = "the process was killed" if is_killed else "Spark failed: Python worker exited"
    with pytest.raises(UnsupportedError, match=rf"shop\.t: 3 attempts in a row .*: .*{why}"):
        copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE))

    engine.run = read  # a resync, with more memory
    while copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None:
        pass
    assert [*tmp_path.glob("*.attempts")] == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (pa.ArrowInvalid("a value\nand more"), r"shop\.t: rows .* cannot be written: a value$"),
        (pa.ArrowCapacityError("too long"), r"shop\.t: .*too long.*set a smaller .* chunk_rows"),
    ],
)
def test_rows_that_cannot_be_written_are_of_that_table_only(
    monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    """Spark's error of the task would end the mirror three times, and blame its memory."""

    def fail(*_of: Any) -> None:
        raise error

    chunk: Any = SimpleNamespace(table=TABLE, number=0, read=lambda _url: nullcontext([]))
    schema = pa.schema([]).serialize().to_pybytes()
    task = ChunkTask(
        chunk, "mysql://server", schema, "data-", ColumnRules(), MIRROR, NOT_PARTITIONED, ""
    )
    monkeypatch.setattr(DataFileWriter, "write", fail)
    with pytest.raises(UnsupportedError, match=why):
        task.run()


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLostError("db1: the connection was lost"),
        SourceError("cannot write data: No space left on device"),
        KeyboardInterrupt(),
    ],
)
def test_an_error_that_says_nothing_about_the_table_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=3)
    engine: Any = copy.engine

    def fail(*_of: Any) -> None:
        raise error

    engine.run = fail
    for _ in range(5):
        with pytest.raises(type(error)):
            copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE))


def test_a_lake_table_of_a_former_name_that_a_user_has_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of tables, the list of them may be minutes old."""
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    record = {"binlake.table": "shop.t", "binlake.create-table": MADE, "binlake.lake-table": "old.t"}  # fmt: skip
    lake.others = {("old", "t"): record}
    assert copy.former.mirrored.by_name() == {"shop.t": [("old", "t")]}
    del lake.others["old", "t"]
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None


def test_only_the_lake_table_of_a_former_name_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a lake table, such as a backup of its directory, has the same record."""
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    record = {"binlake.table": "shop.t", "binlake.create-table": MADE}
    lake.others = {
        ("old", "t"): record | {"binlake.lake-table": "old.t"},
        ("shop_backup", "t"): record | {"binlake.lake-table": "shop.t"},
        ("unrecorded", "t"): record,
    }
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
    assert [*lake.others] == [("shop_backup", "t"), ("unrecorded", "t")]
    assert lake.properties["binlake.lake-table"] == "shop.t"


def test_a_lake_table_that_the_catalog_lists_in_another_case_is_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the table that was copied."""
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    record = {"binlake.table": "shop.t", "binlake.create-table": MADE}
    lake.others = {("Shop", "T"): record | {"binlake.lake-table": "shop.t"}}
    mirrored = MirroredTables(lake, {"Shop"})
    copy = replace(copy, former=replace(copy.former, mirrored=mirrored))
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
    assert [*lake.others] == [("Shop", "T")]


RENAMED = {"binlake.table": "shop.t", "binlake.create-table": MADE, "binlake.lake-table": "old.t"}


@pytest.mark.parametrize(
    ("tags", "mode", "table_format", "moments", "why"),
    [
        (["end-of-2026", "x"], "mirror", "iceberg", {}, "tags: end-of-2026, x"),
        ([], "history", "iceberg", {}, "rows that the server no longer has"),
        ([], "soft deletes", "iceberg", {}, "rows that the server no longer has"),
        ([], "append", "delta", {}, "rows that the server no longer has"),
        ([], "mirror", "delta", {"end-of-2026": 7}, "the rows of moments that have names"),
        ([], "mirror", "delta", {}, ""),
        ([], "mirror", "iceberg", {"end-of-2026": 7}, ""),
    ],
)
def test_a_former_lake_table_with_more_than_the_rows_of_now_is_not_dropped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tags: list[str],
    mode: str,
    table_format: str,
    moments: dict[str, int],
    why: str,
) -> None:
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    control: Any = copy.former.control
    lake.others = {("old", "t"): {**RENAMED, "binlake.mode": mode}}
    lake.tags["old", "t"], control.moments = tags, moments
    notes: list[str] = []
    options = MirrorOptions(format=table_format)
    copy = replace(copy, former=replace(copy.former, note=notes.append, options=options))
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
    if not why:
        assert lake.others == {}
        assert notes == ["shop.t: the lake table is now shop.t"]
        return
    [stays] = notes[1:]
    assert stays.startswith(f"shop.t: old.t stays, because it has {why}")
    assert control.former_lake_tables == {"shop.t": [("old", "t")]}
    copy.former.mirrored.forget()
    assert copy.former.mirrored.by_name() == {}, "the mirror does not follow it any more"
    assert copy.make(TABLE, MADE, 2, lambda: (TABLE, MADE)) is not None
    assert [*lake.others] == [("old", "t")]


def test_a_table_that_is_copied_into_its_former_lake_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    lake.properties |= former_properties("old.t")
    lake.others = {("old", "t"): dict(RENAMED)}
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
    assert not is_former(lake.properties)
    assert lake.others == {}


@pytest.mark.parametrize("tags", [[], ["end-of-2026"]])
def test_a_former_lake_table_with_values_that_are_hidden_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tags: list[str]
) -> None:
    """It must not stay, but a tag promises that its snapshot does: then nothing is copied."""
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    lake.others = {("old", "t"): {**RENAMED, "binlake.mode": "history"}}
    lake.tags["old", "t"] = tags
    rules = MirrorOptions(exclude_columns=("shop.t.c",)).column_rules
    copy = replace(copy, former=replace(copy.former, rules=rules))
    if not tags:
        assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
        assert lake.others == {}
        return
    why = (
        r"shop\.t: its former lake table old\.t has to be dropped, because column c is now left out"
    )
    with pytest.raises(UnsupportedError, match=why):
        copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE))
    assert "binlake.lake-table" not in lake.properties
    assert [*lake.others] == [("old", "t")]


def test_a_former_lake_table_with_other_shards_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tags and its columns are those of the other shards, too."""
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1)
    lake: Any = copy.lake
    shards = {f"binlake.shard {name} binlake.create-table": MADE for name in ("shop.t", "shop.u")}
    lake.others = {("old", "t"): {"binlake.lake-table": "old.t", **shards}}
    lake.tags["old", "t"] = ["end-of-2026"]
    rules = MirrorOptions(exclude_columns=("shop.t.c",)).column_rules
    copy = replace(copy, former=replace(copy.former, rules=rules))
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is not None
    assert sources(lake.others["old", "t"]).keys() == {"shop.u"}
    control: Any = copy.former.control
    assert control.former_lake_tables == {"shop.t": [("old", "t")]}


def test_a_copy_that_is_given_up_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file contains keys as the server has them, and the lake their hashes."""
    data = tmp_path / "a.parquet"
    data.touch()
    monkeypatch.setitem(FILE, "file-path", str(data))
    rules = ColumnRules(hash=("shop.t.id",))
    notes: list[str] = []
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=4)
    copy = replace(copy, rules=rules, note=notes.append)
    for _ in range(2):
        assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
    assert len(list(tmp_path.glob("*.copy.jsonl"))) == 1
    copy.give_up("shop.t")
    assert not list(tmp_path.glob("*.copy.jsonl"))
    assert copy.make(TABLE, MADE, 1, lambda: (TABLE, MADE)) is None
    assert notes == ["shop.t: copying about 0 rows in 4 chunks"] * 2


def altered(columns: str) -> tuple[SourceTable, str]:
    """The table and its CREATE TABLE with other columns."""
    made = f"CREATE TABLE shop.t (id INT PRIMARY KEY, {columns}) CHARSET=utf8mb4"
    definition = definition_of(parse_schema(made.encode()).tables[0], "mysql")
    return replace(TABLE, definition=definition), made


HIDDEN = ColumnRules(exclude=("shop.t.secret*",))
REVEALED = "no longer has column secret, which was left out, and has a new column open, which should be shown"


@pytest.mark.parametrize(("columns", "is_refused"), [
    ("open INT", True), ("open INT, Secret INT", False), ("secret2 INT", False), ("v INT", False),
])  # fmt: skip
def test_a_hidden_column_is_renamed_while_the_table_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, is_refused: bool
) -> None:
    """The mirror may never read the ALTER, or only after the copy."""
    first, later = altered("secret INT, v INT"), altered(columns)
    copy = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=4, rules=HIDDEN)
    assert copy.make(*first, 1, lambda: first) is None
    restarted = copy_of(monkeypatch, tmp_path, Log(), lambda: None, chunks=1, rules=HIDDEN)
    if not is_refused:
        assert restarted.make(*later, 1, lambda: later) is not None
        return
    for one in (copy, restarted):
        with pytest.raises(UnsupportedError, match=REVEALED):
            one.make(*later, 1, lambda: later)
    restarted.begin_anew("shop.t")
    assert restarted.make(*later, 1, lambda: later) is not None


def test_a_hidden_column_was_renamed_since_the_last_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another statement may be the reason for the copy. A resync that a user has requested may show the column."""
    later = altered("open INT, v INT")
    copy = copy_of(
        monkeypatch, tmp_path, Log(), lambda: None, chunks=1, rules=HIDDEN, before=["id", "secret"]
    )
    with pytest.raises(UnsupportedError, match=REVEALED):
        copy.make(*later, 1, lambda: later)
    copy.begin_anew("shop.t")
    copy.remove_state("shop.t")  # another program has committed: the copy begins again
    assert copy.make(*later, 1, lambda: later) is not None
    with pytest.raises(UnsupportedError, match=REVEALED):
        copy.make(*later, 1, lambda: later)


def test_a_requested_copy_that_shows_a_hidden_column_continues_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = altered("open INT, v INT")

    def started(chunks: int) -> FirstCopy:
        return copy_of(
            monkeypatch,
            tmp_path,
            Log(),
            lambda: None,
            chunks=chunks,
            rules=HIDDEN,
            before=["id", "secret"],
        )

    copy = started(4)
    copy.begin_anew("shop.t")
    assert copy.make(*later, 1, lambda: later) is None
    again = altered("open INT, v INT, w INT")  # so that the chunks are read again
    assert started(1).make(*again, 1, lambda: again) is not None
