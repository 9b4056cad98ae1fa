"""Tables that the server drops while their copy waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import PositionLostError, ServerError
from binlake.follow.logs import DirectoryLogs
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import Control
from binlake.mirror.ddl.schema_changes import SchemaChanges
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.table_record import begun_properties, pending_properties
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.names import MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.report import mirror_status
from binlake.values.position import Position
from support.logs.stream_log import SID, StreamLog
from unit.mirror.followed.fake_lake import OFFSET, FakeLake, Stored, started

ABSENT = ServerError("db1: Table 'shop.t' doesn't exist", code=1146)
LATER = StreamOffset(Position("1-2-3", "binlog.000001", 900, gtid_set=""))


class Source:
    """A server with the table `shop.t`, until it is dropped."""

    has_table = wants_table = True

    def has(self, _name: object) -> bool:
        return self.has_table and self.wants_table

    def wants(self, *_name: str) -> bool:
        return self.wants_table

    def names(self) -> list[tuple[str, str]]:
        return [("shop", "t")] if self.has(()) else []

    def read(self, _name: object) -> tuple[None, str]:
        return None, ""

    def refusal(self, _name: object) -> ServerError:
        return ABSENT


@pytest.fixture
def lake() -> FakeLake:
    lake = FakeLake()
    lake.copy_of("shop.t", "shop", "t")
    return lake


def followed(
    lake: FakeLake, folder: Path, monkeypatch: pytest.MonkeyPatch, copy: Callable[[], object]
) -> tuple[FollowedTables, Control, Source]:
    """The followed table `shop.t`, which has made progress; `copy` makes a copy of it."""
    copies = SimpleNamespace(
        make=lambda *_of: copy(),
        give_up=lambda _name: None,
        begin_anew=lambda _name: None,
        remove_state=lambda _name: None,
    )
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)
    tables, control = started(lake, folder)
    source = Source()
    tables.source = source  # type: ignore[assignment]
    tables.followed["shop.t"].offset = LATER
    return tables, control, source


def continued(tables: FollowedTables) -> None:
    """Continue the copies, as the loop of a mirror does."""
    tables.begin_round()
    tables.continue_copies()


@pytest.mark.parametrize("is_requested", [False, True])
def test_a_table_that_is_dropped_while_its_copy_gives_way(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_requested: bool
) -> None:
    """The copy is due to a statement, or a user has requested it. The log is searched from the place of the table on."""
    tables, control, source = followed(lake, tmp_path, monkeypatch, lambda: None)
    places: list[StreamOffset] = []

    def departs(table: Followed) -> bool:
        places.append(table.offset)
        tables.leave(table.full_name, "dropped at GTID 1")
        return True

    tables.apply_departure = departs
    if is_requested:
        control.request_resync({"shop.t"})
        tables.copy_again("shop.t")
    else:
        tables.copy("shop.t")
    continued(tables)
    assert tables.unfinished == {"shop.t"}
    source.has_table = False
    continued(tables)
    assert places == [LATER]
    assert control.gone["shop.t"].reason == "dropped at GTID 1"
    assert not control.quarantined
    assert not tables.unfinished


@pytest.mark.parametrize("wants", [True, False])
def test_a_table_that_is_dropped_before_its_first_copy_is_complete(
    lake: FakeLake, tmp_path: Path, wants: bool
) -> None:
    """Its lake table is begun, and would always be shown as one that is being copied."""
    begun = {"binlake.table": "shop.ghost", "binlake.deletes": "vectors", "binlake.partition": ""}
    lake.stored["shop", "ghost"] = Stored(("shop", "ghost"), begun)
    lake.stored["shop", "t"].properties["binlake.deletes"] = "vectors"
    tables, control = started(lake, tmp_path)
    tables.source = source = Source()  # type: ignore[assignment]
    source.has_table, source.wants_table = False, wants
    tables.unfinished.add("shop.ghost")
    tables.continue_copies()
    assert not tables.unfinished
    assert not control.quarantined
    assert ("shop.ghost" in control.gone) == wants
    [ghost] = [t for t in mirror_status(lake).tables if t.table == "shop.ghost"]  # type: ignore[arg-type]
    if wants:
        assert ghost.state == "gone"
        assert ghost.reason.startswith("dropped or renamed before its first copy was complete")


def test_a_table_that_is_dropped_before_a_copy_continues_after_a_restart(
    lake: FakeLake, tmp_path: Path
) -> None:
    lake.stored["shop", "t"].properties |= pending_properties(["c"])
    tables, control = started(lake, tmp_path)
    assert tables.unfinished == {"shop.t"}
    tables.source = source = Source()  # type: ignore[assignment]
    source.has_table = False
    places: list[StreamOffset] = []
    tables.apply_departure = lambda table: not places.append(table.offset)  # type: ignore[func-returns-value]
    continued(tables)
    assert places == [OFFSET]
    assert not control.quarantined


def test_a_table_whose_statement_is_purged_while_its_copy_gives_way(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tables are followed all the same."""
    tables, control, source = followed(lake, tmp_path, monkeypatch, lambda: None)

    def lost(_table: Followed) -> bool:
        raise PositionLostError("binlog.000001 was purged")

    tables.apply_departure = lost
    tables.copy("shop.t")
    source.has_table = False
    continued(tables)
    assert "cannot find the reason: binlog.000001" in control.quarantined["shop.t"].reason


@pytest.mark.parametrize("gives_way", [False, True])
def test_a_table_that_is_dropped_after_its_copy_has_replaced_the_lake_table(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives_way: bool
) -> None:
    """The lake table has other columns, and no rows and no position in the log."""

    def replaced() -> None:
        lake.stored["shop", "t"].properties = begun_properties("shop.t", "", ())
        lake.stored["shop", "t"].summary = {}
        if not gives_way:
            source.has_table = False
            raise ABSENT

    tables, control, source = followed(lake, tmp_path, monkeypatch, replaced)
    tables.copy("shop.t")
    source.has_table = False
    continued(tables)
    assert not control.quarantined
    assert control.gone["shop.t"].reason == (
        "dropped or renamed before its new copy was complete; its lake table is empty"
    )
    assert control.was_dropped("shop.t")


@pytest.mark.parametrize("gives_way", [False, True])
def test_a_dropped_table_whose_metadata_is_damaged_does_not_stop_the_mirror(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives_way: bool
) -> None:
    tables, control, source = followed(lake, tmp_path, monkeypatch, lambda: None)
    if gives_way:
        tables.copy("shop.t")
    source.has_table = False
    lake.missing.add(("shop", "t"))
    tables.copy("shop.t")
    assert control.quarantined.keys() == {"shop.t"}


def test_a_statement_that_the_archive_does_not_have_yet(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, control, source = followed(lake, tmp_path, monkeypatch, lambda: None)
    behind = LogLagsError("the archive reaches a.1:4")
    now, searches = 1000.0, 0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def lags(_table: Followed) -> bool:
        nonlocal now, searches
        now, searches = now + 5, searches + 1
        raise behind

    source.has_table = False
    tables.apply_departure = lags
    tables.copy("shop.t")
    continued(tables)
    assert tables.lagging == {"shop.t": behind}
    continued(tables)
    assert (tables.lagging, searches) == ({"shop.t": behind}, 1), (
        "other tables have their rounds first"
    )
    now += 50
    places: list[StreamOffset] = []
    tables.apply_departure = lambda table: not places.append(table.offset)  # type: ignore[func-returns-value]
    continued(tables)
    assert places == [LATER]
    assert not control.quarantined


@pytest.mark.parametrize("waits", [False, True], ids=["followed", "its copy waits"])
def test_a_table_that_a_user_has_just_removed_is_not_quarantined(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    tables, control, source = followed(lake, tmp_path, monkeypatch, lambda: None)
    if waits:
        tables.copy("shop.t")
        assert "shop.t" in tables.unfinished
    source.wants_table = False
    tables.apply_departure = lambda _table: pytest.fail("its statements do not matter any more")
    if waits:
        continued(tables)
    else:
        tables.copy("shop.t")
    assert not tables.followed
    assert not tables.unfinished
    assert not control.quarantined


def test_the_log_of_an_archive_is_searched_up_to_the_end_of_the_servers_log(tmp_path: Path) -> None:
    """The server has dropped the table when it no longer lists it, and the archive gets the statement later."""
    log = StreamLog().plain(1)
    start, before = len(log.bytes()), log.write(tmp_path)
    end = len(log.gtid(2).query(b"DROP TABLE t").bytes())
    options = MirrorOptions()
    read = options.read_options()
    planner = StreamPlanner(DirectoryLogs([str(tmp_path)], read), read)
    left: dict[str, str] = {}
    searched: list[bool] = []
    tables: Any = SimpleNamespace(
        source=SimpleNamespace(
            end_beyond_archive=lambda: Position("", before.name, end),
            is_reached=lambda log, position: log.offset >= position.offset,
        ),
        leave=left.__setitem__,
    )
    changes = SchemaChanges(
        options,
        ColumnRules(),
        SimpleNamespace(round=1),  # type: ignore[arg-type]
        tables,
        lambda _note: None,
        planner,
        lambda: searched.append(True),
    )
    table: Any = SimpleNamespace(
        id=("shop", "t"),
        full_name="shop.t",
        offset=StreamOffset(Position("", before.name, start, f"{SID}:1")),
        shard_column="",
        set_back="",
        mode=mode_named(MIRROR),
        tag_before=lambda *_of: None,
    )
    with pytest.raises(LogLagsError, match=f"{before.name}:{start}, but not yet {before.name}:{end}"):  # fmt: skip
        changes.apply_departure(table)
    log.write(tmp_path)
    assert changes.apply_departure(table)
    assert left["shop.t"].startswith(f"dropped at GTID {SID}:2")
    assert searched == [True]
