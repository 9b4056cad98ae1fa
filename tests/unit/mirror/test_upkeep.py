"""The work between the rounds: one table in which it fails does not stop the others, and a stopped mirror begins none.

One module, although it is long: all tests use the same stand-ins for lake tables and the control table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import BinlogError, OptionError, SourceError
from binlake.mirror import upkeep
from binlake.mirror.control import Control as LakeControl
from binlake.mirror.delta.table import DeltaTable
from binlake.mirror.delta.upkeep import DeltaUpkeep
from binlake.mirror.followed.copy_state import CopyState, state_path
from binlake.mirror.followed.set_aside import lake_tables_set_aside
from binlake.mirror.followed.table import Followed
from binlake.mirror.iceberg.cleaning import Cleaning
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.iceberg.table_files import TableFiles
from binlake.mirror.lake_state import lock
from binlake.mirror.loop import Mirror
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.mirror.tables.compaction_policy import FileState
from binlake.mirror.tables.damage import MissingFileError
from binlake.mirror.upkeep import TableUpkeep, Upkeep
from unit.mirror.followed.fake_lake import OFFSET, FakeLake
from unit.mirror.followed.fake_lake import Stored as FakeStored


class Stored:
    """The snapshots of a table, whose old files may be missing."""

    def __init__(self, error: SourceError | None) -> None:
        self.error = error
        self.expired = 0
        self.searched = 0

    def expire(self, *_of: Any) -> None:
        self.expired += 1
        if self.error is not None:
            raise self.error

    def remove_orphans(self, *_of: Any) -> int:
        self.searched += 1
        if self.error is not None:
            raise self.error
        return 0


class Files(TableFiles):
    """Small data files."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__({"data": [], "deletes": {}})
        self.paths = paths

    def states(self) -> list[FileState]:
        return [FileState(path, 10, 0, 1000) for path in self.paths]


class LakeTable(MirrorTable):
    """A lake table with sixteen small files, which a compaction makes one."""

    def __init__(self, name: str, error: SourceError | None = None) -> None:
        self.name = self.full_name = name
        self.of: Stored = Stored(error)
        self.stored: Any = self.of
        self.files = Files([f"{name}{number}" for number in range(16)])
        self.compacted = self.snapshot = 0

    def rewrite_of(self, _group: Any) -> Any:
        return SimpleNamespace(task=lambda: None, done=lambda answer: SimpleNamespace(file=answer))

    def has_other_commits(self) -> bool:
        return False

    def reload(self) -> None:
        if self.of.error is not None:
            raise self.of.error

    def commit_rewrites(self, _rewrites: Any, _properties: Any) -> int:
        LakeTable.reload(self)
        self.compacted += 1
        self.snapshot = self.compacted
        self.files = Files([self.name])
        return 16


class Control:
    """The control table of a lake; it counts the searches for files of killed runs. `error` is that of removing old rounds."""

    round = 1
    to_resync: frozenset[str] = frozenset()
    gone: Mapping[str, Any] = {}
    quarantined: Mapping[str, Any] = {}
    removed: tuple[str, ...] = ()
    paused = False
    lake: Any = SimpleNamespace(remove_dropped=lambda: None)

    def __init__(self, error: BinlogError | None = None) -> None:
        self.searches = self.cleaned = self.compacted = 0
        self.error = error

    def expire(self) -> None: ...
    def refresh(self) -> None: ...

    def drop_rounds(self, _before_ms: int) -> None:
        self.cleaned += 1
        if self.error is not None:
            raise self.error

    def compact(self, _policy: Any) -> None:
        self.compacted += 1

    def orphans_are_due(self, _every_s: float) -> bool:
        return True

    def orphans_removed(self) -> None:
        self.searches += 1


def upkeep_of(control: Control, note: Callable[[str], None], **options: Any) -> Upkeep:
    engine: Any = SimpleNamespace(run=lambda tasks, *_of: ["{}"] * len(tasks))
    of: Any = control
    return Upkeep(engine, of, MirrorOptions.of(options), Path(), note)


def upkeep_of_delta(control: Control, note: Callable[[str], None], **options: Any) -> DeltaUpkeep:
    of: Any = control
    return DeltaUpkeep(of, MirrorOptions.of({**options, "format": "delta"}), Path(), note)


def followed(*tables: LakeTable) -> dict[str, Any]:
    return {
        lake.name: SimpleNamespace(
            full_name=lake.name,
            lake=lake,
            offset=OFFSET,
            shards={},
            set_back="",
            lake_offset=None,
            shard_column="",
            position_properties=lambda *_of: {},
        )
        for lake in tables
    }


def test_a_table_whose_snapshots_cannot_expire_does_not_stop_the_mirror(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is reported once, and tried again after ten minutes; the search for orphans counts."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bad = LakeTable("shop.bad", SourceError("shop.bad: a manifest is missing"))
    good = LakeTable("shop.good")
    notes: list[str] = []
    control = Control()
    upkeep = upkeep_of(control, notes.append, compact="off")
    tables = followed(bad, good)
    upkeep.work(tables)
    assert notes == [
        "shop.bad: old snapshots were not removed: shop.bad: a manifest is missing",
        "shop.bad: files of killed runs were not removed: shop.bad: a manifest is missing",
    ]
    assert (bad.of.expired, good.of.expired, good.of.searched, control.searches) == (1, 1, 1, 1)
    now += 61
    upkeep.work(tables)
    assert (bad.of.expired, good.of.expired) == (1, 2)
    now += 600
    upkeep.work(tables)
    assert (bad.of.expired, good.of.expired) == (2, 3)
    assert len(notes) == 2, "the failure is known"


def test_a_request_at_the_same_moment_does_not_stop_the_mirror(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some catalogs refuse the commit of the control table then: it is repeated after a minute."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    notes: list[str] = []
    control = Control(CommitConflictError("Cannot add snapshot with sequence number 7"))
    upkeep = upkeep_of(control, notes.append, compact="off")
    upkeep.work({})
    assert (control.cleaned, control.searches, notes) == (1, 1, [])
    now += 61
    upkeep.work({})
    assert control.cleaned == 2


@pytest.mark.parametrize("made", [upkeep_of, upkeep_of_delta])
def test_a_missing_file_of_old_rounds_does_not_stop_the_mirror(
    made: Callable[..., TableUpkeep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the small files of the newest rounds become one."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    notes: list[str] = []
    control = Control(MissingFileError("/lake/_binlake/rounds/data/1.parquet is missing"))
    upkeep = made(control, notes.append, compact="off")
    for minutes, cleaned in ((0, 1), (1, 1), (11, 2)):
        now = 1000.0 + 61 * minutes
        upkeep.work({})
        assert (control.cleaned, control.compacted) == (cleaned, cleaned)
    assert notes == [
        "_binlake.rounds: old rounds were not removed: /lake/_binlake/rounds/data/1.parquet is missing"
    ]
    control.error = None
    for minutes in (22, 23):
        now = 1000.0 + 61 * minutes
        upkeep.work({})
    assert control.cleaned == 4
    control.error = MissingFileError("another file is missing")
    now += 61
    upkeep.work({})
    assert len(notes) == 2, "it is another failure"


def keep() -> None:
    """The lease needs no renewal."""


def test_a_table_that_cannot_be_loaded_after_a_compaction_does_not_stop_the_mirror() -> None:
    bad = LakeTable("shop.bad", MissingFileError("shop.bad: a manifest is missing"))
    good = LakeTable("shop.good")
    notes: list[str] = []
    upkeep_of(Control(), notes.append).finish(followed(bad, good), keep)
    assert notes[0] == "shop.bad was not compacted: shop.bad: a manifest is missing"
    assert notes[1].startswith("shop.good: 16 data files compacted")
    assert (bad.compacted, good.compacted) == (0, 1)


class WrittenByTwo(LakeTable):
    """The commit of a compaction fails because of the store. `head` is the newest snapshot then; the mirror has seen the first one."""

    def __init__(self, head: dict[str, Any]) -> None:
        super().__init__("shop.t", SourceError("the store does not answer"))
        self.snapshot = 1
        self.reloads = 0
        self.stored = SimpleNamespace(refresh=lambda: None, describe=lambda: head)

    has_other_commits = MirrorTable.has_other_commits

    def reload(self) -> None:
        self.reloads += 1


@pytest.mark.parametrize(
    ("head", "is_own"),
    [
        ({"snapshot": 1, "summary": {"binlake.offset": "{}"}}, True),
        ({"snapshot": 2, "parent": 1, "summary": {"binlake.offset": "{}"}}, True),
        ({"snapshot": 2, "parent": 1, "summary": {"spark.app.id": "x"}}, False),
        ({"snapshot": 3, "parent": 2, "summary": {"binlake.offset": "{}"}}, False),
        ({"snapshot": 7, "summary": {"binlake.offset": "{}"}}, False),  # a user has gone back
        ({}, False),
    ],
)
def test_a_compaction_that_fails_does_not_accept_the_commit_of_another_program(
    head: dict[str, Any], is_own: bool
) -> None:
    """The next commit of the mirror is refused then, and quarantines the table, unless the user wants the rows of others."""
    for option, accepted in (("refuse", is_own), ("reindex", True)):
        table = WrittenByTwo(head)
        upkeep_of(Control(), lambda _note: None, on_other_writer=option).finish(
            followed(table), keep
        )
        assert table.reloads == accepted, option


def test_runs_with_once_expire_the_snapshots_of_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run begins with one part of the work, which takes a second."""
    clock = Clock(monkeypatch)
    tables = slow_tables(clock, 10, expiry_s=0.3, search_s=0)
    upkeep = upkeep_of(Control(), lambda _sentence: None, compact="off")
    upkeep.work(followed(*tables))
    assert sum(table.of.expired for table in tables) < len(tables)
    upkeep.finish(followed(*tables), keep)
    assert [table.of.expired for table in tables] == [1] * len(tables)


def test_a_stop_ends_compaction_between_two_tables() -> None:
    tables = [LakeTable(f"shop.t{number}") for number in range(3)]
    upkeep = upkeep_of(Control(), lambda _sentence: None)
    upkeep.finish(followed(*tables), keep, lambda: any(table.compacted for table in tables))
    assert [table.compacted for table in tables] == [1, 0, 0]
    upkeep.finish(followed(*tables), keep)
    assert [table.compacted for table in tables] == [1, 1, 1]


class Clock:
    """The time, which work on a table takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


class SlowStored(Stored):
    """A table whose expiry and whose search for orphans take long."""

    def __init__(self, clock: Clock, expiry_s: float, search_s: float) -> None:
        super().__init__(None)
        self.clock = clock
        self.expiry_s = expiry_s
        self.search_s = search_s

    def expire(self, *of: Any) -> None:
        self.clock.now += self.expiry_s
        super().expire(*of)

    def remove_orphans(self, *of: Any) -> int:
        self.clock.now += self.search_s
        return super().remove_orphans(*of)


def slow_tables(clock: Clock, count: int, *, expiry_s: float, search_s: float) -> list[LakeTable]:
    tables = [LakeTable(f"shop.t{number}") for number in range(count)]
    for table in tables:
        table.stored = table.of = SlowStored(clock, expiry_s, search_s)
    return tables


def test_there_are_rounds_while_the_snapshots_of_many_tables_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With thousands of tables in a store, this takes more than an hour."""
    clock = Clock(monkeypatch)
    tables = slow_tables(clock, 10, expiry_s=0.5, search_s=0)
    control = Control()
    upkeep = upkeep_of(control, lambda _sentence: None, compact="off")
    done: list[int] = []
    for _ in range(5):
        upkeep.work(followed(*tables), is_behind=True)
        done.append(sum(table.of.expired for table in tables))
        clock.now += 1  # a round
    assert done == [2, 4, 6, 8, 10]
    upkeep.work(followed(*tables))
    clock.now += 60
    assert {table.of.expired for table in tables} == {1}, "the next time is a minute later"
    upkeep.work(followed(*tables))
    assert sum(table.of.expired for table in tables) == 12
    assert control.cleaned == 2, "the control table does not wait for the others"


def test_there_are_rounds_while_orphans_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time, and a mirror that is behind does not search at all."""
    clock = Clock(monkeypatch)
    tables = slow_tables(clock, 4, expiry_s=0, search_s=5)
    control = Control()
    upkeep = upkeep_of(control, lambda _sentence: None, compact="off")
    there = followed(*tables)
    for _ in range(100):
        upkeep.work(there, is_behind=True)
        clock.now += 1
    assert not any(table.of.searched for table in tables)
    took: list[float] = []
    for _ in range(3):
        began = clock.now
        upkeep.work(there)
        took.append(clock.now - began)
        upkeep.work(there)
        assert clock.now == began + 5, "it rests"
        clock.now += 15
    assert (took, control.searches) == ([5, 5, 5], 0)
    [last] = [table for table in tables if not table.of.searched]
    del there[last.name]  # it is dropped
    upkeep.work(there)
    assert (last.of.searched, control.searches) == (0, 1)


class SlowDeltaTable(DeltaTable):
    """A Delta table whose VACUUM takes five seconds."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = self.full_name = name
        self.clock = clock
        self.vacuums = 0

    def remove_copies(self) -> None: ...

    def vacuum(self, *_of: Any) -> None:
        self.clock.now += 5
        self.vacuums += 1


def test_there_are_rounds_while_delta_tables_are_vacuumed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    tables: Any = [SlowDeltaTable(f"shop.t{number}", clock) for number in range(3)]
    control = Control()
    upkeep = upkeep_of_delta(control, lambda _sentence: None, compact="off")
    there = followed(*tables)
    vacuums: list[int] = []
    for is_behind in (True, False, False):
        upkeep.work(there, is_behind=is_behind)
        vacuums.append(sum(table.vacuums for table in tables))
        clock.now += 15
    assert (vacuums, control.searches) == ([0, 1, 2], 0)
    upkeep.finish(there, keep)
    assert [table.vacuums for table in tables] == [1, 1, 1]
    assert control.searches == 1


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_run_that_ends_completes_the_search_for_orphans(
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """A mirror that is started every hour with --once would search the same few tables each time."""
    clock = Clock(monkeypatch)
    tables = slow_tables(clock, 4, expiry_s=0, search_s=5)
    control = Control()
    upkeep = upkeep_of(control, lambda _sentence: None, compact="off")
    upkeep.work(followed(*tables))
    upkeep.finish(followed(*tables), keep, lambda: is_stopped)
    assert sum(table.of.searched for table in tables) == (1 if is_stopped else 4)
    assert control.searches == (0 if is_stopped else 1)


def test_files_of_a_table_that_is_copied_again_are_no_orphans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy may have begun since the search for orphans has."""
    lake: Any = FakeLake()
    control = LakeControl(lake, "mysql://db1/", MirrorOptions())
    searched: list[str] = []
    clock = Clock(monkeypatch)

    def search(stored: FakeStored, *_of: Any) -> int:
        searched.append(stored.full_name)
        clock.now += 5
        return 0

    monkeypatch.setattr(FakeStored, "remove_orphans", search)
    for name in ("a", "b", "c"):
        lake.copy_of(f"shop.{name}", "shop", name)
        control.quarantine(f"shop.{name}", "its key has changed")
    cleaning = Cleaning(control, MirrorOptions(), tmp_path, lambda _sentence: None, nullcontext)
    monkeypatch.setattr(control, "expire", lambda: None)
    monkeypatch.setattr(control, "compact", lambda _policy: None)
    cleaning.work({}, None, is_behind=False)
    assert searched == ["shop.a"]
    control.request_resync({"shop.b"})
    clock.now += 15
    cleaning.work({}, None, is_behind=False)
    assert searched == ["shop.a", "shop.c"]


def test_the_search_for_files_to_compact_takes_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 50,000 data files, that takes a second, each time."""
    clock = Clock(monkeypatch)
    looks: list[str] = []

    class ManyFiles(Files):
        def states(self) -> list[FileState]:
            looks.append(self.paths[0])
            clock.now += 1
            return [FileState(path, 10**6, 0, 10**9) for path in self.paths]

    large, asked = LakeTable("shop.large"), LakeTable("shop.asked")
    large.files = ManyFiles(["large"])
    upkeep = upkeep_of(Control(), lambda _sentence: None)
    for commit in range(40):
        large.snapshot = commit
        upkeep.work(followed(large))
        clock.now += 1
    assert len(looks) in range(3, 5), "a tenth of the time"
    looks.clear()
    large.snapshot = 40
    upkeep.want(followed(asked)[asked.name])
    upkeep.work(followed(large, asked))
    upkeep.finish(followed(large, asked), keep)
    assert asked.compacted == 1, "a request does not wait"
    assert len(looks) == 1, "nor does the end of a run"


def test_new_files_of_a_running_compaction_are_no_orphans() -> None:
    """No snapshot knows them yet, and they may be old: the clock of the store can differ, and a compaction can be slow."""
    is_over = threading.Event()
    engine: Any = SimpleNamespace(run=lambda tasks, *_of: is_over.wait(60) and ["{}"] * len(tasks))
    control: Any = Control()
    upkeep = Upkeep(engine, control, MirrorOptions(), Path(), lambda _sentence: None)
    busy, other = LakeTable("shop.busy"), LakeTable("shop.other")
    tables = followed(busy, other)
    upkeep.work(tables)
    assert (busy.of.searched, other.of.searched, control.searches) == (0, 1, 1)
    is_over.set()
    upkeep.finish(tables, keep)
    upkeep.remove_orphans(tables)
    assert (busy.compacted, busy.of.searched) == (1, 1)


def test_files_of_copies_that_were_given_up_are_orphans(tmp_path: Path) -> None:
    """The copy of a table that is gone, removed or quarantined is not continued, until it is requested."""
    lake: Any = FakeLake()
    control = LakeControl(lake, "mysql://db1/", MirrorOptions())
    for name in ("followed", "waiting", "gone", "made_again", "removed", "bad", "again", "backup"):
        lake.copy_of(f"shop.{name}", "shop", name)
    lake.stored["shop", "theirs"] = FakeStored(("shop", "theirs"), {})
    lake.stored["shop", "backup"].properties["binlake.former-of"] = "shop.backup"
    for name in ("gone", "made_again", "backup"):
        control.leave(f"shop.{name}", "dropped")
    # its copy has begun, and `gone` has it until that is complete
    CopyState(state_path(tmp_path, "shop.made_again"), "").begin([])
    control.remove_tables({"shop.removed"}, {"shop.removed"})
    control.quarantine("shop.bad", "its key has changed")
    control.quarantine("shop.again", "its key has changed")
    control.request_resync({"shop.again"})
    found = lake_tables_set_aside(control, MirrorOptions(), tmp_path, {"shop.followed"})
    assert sorted(".".join(name) for name, _ in found) == ["shop.bad", "shop.gone", "shop.removed"]


@pytest.mark.parametrize("seconds", [0, 3599])
def test_files_are_no_orphans_for_an_hour(seconds: int) -> None:
    with pytest.raises(OptionError, match="orphans_s"):
        MirrorOptions(orphans_s=seconds)


class Compactions:
    """Records the tables that are to be compacted."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.wanted: list[str] = []

    def want(self, table: Followed) -> None:
        self.wanted.append(table.full_name)

    def finish(self, _tables: Any, _keep: Any) -> None: ...
    def remove_orphans(self, _tables: Any) -> None: ...
    def close(self) -> None: ...


def compacted(
    lake: FakeLake, folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str
) -> tuple[list[str], list[str], str]:
    """The tables that `binlake mirror compact` compacts, its notes, and its error."""
    made, notes, why = Compactions(), list[str](), ""
    monkeypatch.setattr(upkeep, "upkeep_of", lambda *_of: made)
    of: Any = lake
    try:
        upkeep.compact_tables(of, SimpleNamespace(), folder, names, notes.append)  # type: ignore[arg-type]
    except BinlogError as error:
        why = error.message
    return made.wanted, notes, why


def test_tables_that_the_mirror_does_not_follow_are_not_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have another owner by now; a damaged table does not stop the others."""
    lake: Any = FakeLake()
    control = LakeControl(lake, "mysql://db1/", MirrorOptions())
    for name in ("damaged", "gone", "good", "removed", "theirs"):
        lake.copy_of(f"shop.{name}", "shop", name)
    control.leave("shop.gone", "dropped")
    control.remove_tables({"shop.removed"}, {"shop.removed"})
    for name in ("gone", "removed", "theirs"):
        lake.stored["shop", name].summary = {}  # another program has written to it
    lake.stored["shop", "damaged"].error = MissingFileError("/lake/shop/damaged/1.parquet")
    wanted, notes, why = compacted(lake, tmp_path, monkeypatch)
    assert wanted == ["shop.good"]
    assert why == "not compacted: shop.damaged, shop.theirs"
    assert notes[0] == "shop.damaged was not compacted: /lake/shop/damaged/1.parquet"
    assert notes[1].startswith("shop.theirs was not compacted: shop.theirs: another program has")
    for name in ("gone", "removed"):
        found = compacted(lake, tmp_path, monkeypatch, "shop.good", f"shop.{name}")
        assert found[2].startswith(f"the mirror has no table shop.{name}, or it is")


def test_patterns_choose_the_tables_to_compact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands verify and resync accept them, too. A text in the place of the list had each of its characters as a table."""
    lake: Any = FakeLake()
    LakeControl(lake, "mysql://db1/", MirrorOptions())
    for name in ("a", "b", "other"):
        lake.copy_of(f"shop.{name}", "shop", name)
    assert compacted(lake, tmp_path, monkeypatch, "shop.?")[0] == ["shop.a", "shop.b"]
    assert compacted(lake, tmp_path, monkeypatch, "shop.o*", "shop.a")[0] == ["shop.a", "shop.other"]  # fmt: skip
    assert (
        compacted(lake, tmp_path, monkeypatch, "shp.*")[2] == "shp.* matches no table of the mirror"
    )
    of: Any = lake
    with pytest.raises(OptionError, match=r"expected patterns of table names, not 'shop\.a'"):
        upkeep.compact_tables(of, SimpleNamespace(), tmp_path, "shop.a", lambda _: None)  # type: ignore[arg-type]


def test_tables_that_are_to_be_copied_again_are_not_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that was interrupted would begin again: the lake table would have another snapshot."""
    lake: Any = FakeLake()
    control = LakeControl(lake, "mysql://db1/", MirrorOptions())
    for name in ("again", "good", "pending"):
        lake.copy_of(f"shop.{name}", "shop", name)
    control.request_resync({"shop.again"})
    lake.stored["shop", "pending"].properties["binlake.pending-columns"] = '[""]'
    wanted, notes, why = compacted(lake, tmp_path, monkeypatch)
    assert (wanted, why) == (["shop.good"], "")
    assert notes == [
        f"shop.{name} is not compacted: it is to be copied again" for name in ("again", "pending")
    ]


@pytest.mark.parametrize("is_paused", [False, True])
def test_compact_reports_when_the_running_mirror_compacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    lake: Any = FakeLake()
    control = LakeControl(lake, "mysql://db1/", MirrorOptions())
    lake.copy_of("shop.t", "shop", "t")
    if is_paused:
        control.pause()
    with lock(tmp_path, "/lake"):
        wanted, [note], _ = compacted(lake, tmp_path, monkeypatch)
    when = "after `binlake mirror resume`, because it is paused" if is_paused else "after its next round"  # fmt: skip
    assert note == f"another process mirrors into the lake: it compacts the tables {when}"
    assert wanted == []
    control.refresh()
    assert control.to_compact == {"shop.t"}


class Ended(Mirror):
    """A mirror after `run`, with one table that needs compaction."""

    def __init__(self, lake: LakeTable) -> None:
        lease = SimpleNamespace(keep=keep)
        stand_ins: Any = (Control(), SimpleNamespace(followed=followed(lake)), lease)
        self._control, self._tables, self._lease = stand_ins
        self._upkeep = upkeep_of(stand_ins[0], lambda _sentence: None)
        self._stop = threading.Event()
        self.compared: list[Mirror] = []
        self.beats: list[Any] = []
        verification: Any = SimpleNamespace(work=self.compared.append)
        pulse: Any = SimpleNamespace(
            busy=lambda: None, beat_now=lambda *place: self.beats.append(place)
        )
        self._verification, self._pulse = verification, pulse
        recorder: Any = SimpleNamespace(record=lambda: None)  # there is no round to record
        self._recorder = recorder

    def pause(self) -> None:
        """Set the state that a request of another process leaves."""
        paused: Any = SimpleNamespace(paused=True, refresh=lambda: None)
        self._control = paused


@pytest.mark.parametrize(
    ("end", "compacted"), [(lambda _: None, 1), (Ended.stop, 0), (Ended.pause, 0)]
)
def test_a_mirror_that_was_stopped_or_paused_compacts_nothing(
    end: Callable[[Ended], None], compacted: int
) -> None:
    """Nor does it compare tables. Otherwise, a run that ends makes the comparison that is due, and writes its result."""
    lake = LakeTable("shop.t")
    mirror = Ended(lake)
    end(mirror)
    mirror.tidy()
    assert lake.compacted == compacted
    assert (len(mirror.compared), len(mirror.beats)) == (compacted, compacted)
