"""Which tables of a lake a mirror follows when it starts.

One module, although it is long: all tests start from the lake that it defines.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import (
    AuthError,
    ConnectionLostError,
    OptionError,
    PositionLostError,
    SchemaError,
    ServerError,
    SourceError,
)
from binlake.follow.offsets import StreamOffset
from binlake.mirror.control import Control, position_properties
from binlake.mirror.followed import in_lake
from binlake.mirror.followed.cascades import quarantine_cascades
from binlake.mirror.followed.in_lake import MirroredTables
from binlake.mirror.followed.table_record import mirrored_tables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.report import mirror_status
from binlake.mirror.source.refusals import AlteredError
from binlake.mirror.tables.damage import MissingFileError
from binlake.values.position import Position
from unit.mirror.followed.fake_lake import (
    OFFSET,
    FakeLake,
    Stored,
    Unreadable,
    of_server,
    started,
)


@pytest.fixture
def lake() -> FakeLake:
    return FakeLake()


def test_tables_whose_names_have_periods_and_backticks_are_followed(
    lake: FakeLake, tmp_path: Path
) -> None:
    lake.copy_of("shop.t", "shop", "t")
    lake.copy_of("a.b.c", "a", "b.c")
    lake.copy_of("`x.t", "`x", "t")
    tables, control = started(lake, tmp_path)
    assert tables.followed.keys() == {"shop.t", "a.b.c", "`x.t"}
    assert not control.quarantined


def test_the_tables_of_the_lake_are_loaded_once_for_all_missing_tables(
    lake: FakeLake, tmp_path: Path
) -> None:
    names = {f"shop.t{number}" for number in range(20)}
    for name in names:
        lake.copy_of(name, *name.split("."))
    tables, control = started(lake, tmp_path)
    control.request_resync(names)
    tables.source = SimpleNamespace(  # type: ignore[assignment]
        has=lambda _name: False, wants=lambda *_name: True, refusal=lambda _name: ABSENT
    )
    tables.begin_round()
    lake.loaded.clear()
    for name in names:
        tables.forget(name)
        tables.copy(name)
    assert control.gone.keys() == names
    assert len(lake.loaded) == len(names)
    tables.begin_round()
    tables.copy("shop.t0")
    assert len(lake.loaded) == 2 * len(names)


@pytest.mark.parametrize(("load_s", "pause_s"), [(0.05, 0), (20.0, 200)])
def test_loading_the_tables_of_a_lake_takes_a_small_part_of_the_time(
    lake: FakeLake, monkeypatch: pytest.MonkeyPatch, load_s: float, pause_s: int
) -> None:
    """Each copy needs the list, and thousands of tables in a store are loaded in half a minute."""
    now, loads = 1000.0, 0

    def load(*_: Any) -> dict[str, Any]:
        nonlocal now, loads
        now += load_s
        loads += 1
        return {}

    monkeypatch.setattr(in_lake, "mirrored_tables", load)
    monkeypatch.setattr(in_lake, "time", SimpleNamespace(monotonic=lambda: now))
    tables = MirroredTables(lake, {"shop"})  # type: ignore[arg-type]
    tables.copied("shop.a", ("shop", "a"))
    until = now + pause_s
    while now < until:
        tables.begin_round()
        assert tables.by_name() == {"shop.a": [("shop", "a")]}
        now += 20
    assert loads == 1
    tables.begin_round()
    assert tables.by_name() == {}
    tables.forget()
    tables.by_name()
    assert loads == 3


def test_a_copy_of_a_lake_table_under_another_name_is_not_the_mirrors(
    lake: FakeLake, tmp_path: Path
) -> None:
    """Its record is that of the lake table, and its name may come first."""
    lake.copy_of("shop.t", "backup", "t")
    lake.copy_of("shop.t", "shop", "t")
    for stored in lake.stored.values():
        stored.properties["binlake.lake-table"] = "shop.t"
        stored.properties["binlake.deletes"] = "vectors"
    tables, _ = started(lake, tmp_path)
    followed: Any = tables.followed["shop.t"].lake
    assert followed is lake.stored["shop", "t"]
    assert tables.namespaces == {"shop"}
    assert [one.lake_table for one in mirror_status(lake).tables] == ["shop.t"]  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [("shop", "stale"), ("stale", "shop")])
def test_a_lake_table_of_an_earlier_version_beside_that_of_the_mirror(
    lake: FakeLake, tmp_path: Path, names: tuple[str, str]
) -> None:
    """Earlier versions recorded no name, and a copy under a new name left their table in the lake."""
    for name in names:
        lake.copy_of("shop.t", name, "t")
        lake.stored[name, "t"].properties["binlake.deletes"] = "vectors"
    lake.stored["shop", "t"].properties["binlake.lake-table"] = "shop.t"
    tables, _ = started(lake, tmp_path)
    followed: Any = tables.followed["shop.t"].lake
    assert followed is lake.stored["shop", "t"]
    assert mirrored_tables(lake) == {"shop.t": [("shop", "t")]}  # type: ignore[arg-type]
    assert [one.lake_table for one in mirror_status(lake).tables] == ["shop.t"]  # type: ignore[arg-type]


def test_a_lake_table_that_the_catalog_lists_in_lower_case(lake: FakeLake, tmp_path: Path) -> None:
    """It is no copy of a user, which would be left out without a word, and copied again at each start."""
    lake.copy_of("Shop.T", "Shop", "T")
    stored = lake.stored["shop", "t"] = lake.stored.pop(("Shop", "T"))
    stored.properties |= {"binlake.deletes": "vectors", "binlake.lake-table": "Shop.T"}
    stored.full_name = "shop.t"
    with pytest.raises(OptionError, match=r"the lake table is shop\.t, but should be Shop\.T"):
        started(lake, tmp_path)
    assert [one.table for one in mirror_status(lake).tables] == ["Shop.T"]  # type: ignore[arg-type]


def test_a_table_that_the_upkeep_quarantines_is_not_followed_any_more(
    lake: FakeLake, tmp_path: Path
) -> None:
    """The upkeep of Delta tables knows the control table only."""
    for name in ("bad", "good"):
        lake.copy_of(f"shop.{name}", "shop", name)
    notes: list[str] = []
    tables, control = started(lake, tmp_path, note=notes.append)
    control.quarantine("shop.bad", "another program has written to the table")
    tables.begin_round()
    assert tables.followed.keys() == {"shop.good"}
    assert notes == ["shop.bad is quarantined: another program has written to the table"]
    tables.begin_round()
    assert len(notes) == 1


def test_new_tables_are_not_forgotten_if_the_log_is_replaced_meanwhile(
    lake: FakeLake, tmp_path: Path
) -> None:
    """The round that has found them continues after another look at the log, behind the CREATE TABLE."""
    tables, _ = started(lake, tmp_path)

    def lost(full_name: str) -> None:
        raise PositionLostError(
            "transactions are not in the logs of the new server", is_passing=True
        )

    tables.copy = lost  # type: ignore[method-assign]
    with pytest.raises(PositionLostError):
        tables.copy_new(["shop.a", "shop.b"])
    assert tables.unfinished == {"shop.a", "shop.b"}


def test_a_table_that_is_removed_and_added_between_two_looks_is_copied(
    lake: FakeLake, tmp_path: Path
) -> None:
    """It was quarantined before; the patterns are the same as before."""
    control = Control(lake, "mysql://db1/", MirrorOptions())  # type: ignore[arg-type]
    control.add_tables({"shop.t"}, set())
    tables, control = started(lake, tmp_path, control)
    looks: list[str] = []

    def look() -> list[str]:
        looks.append("at the tables of the server")
        return []

    tables.find_new = look  # type: ignore[method-assign]
    control.quarantine("shop.t", "a value of it cannot be read")
    tables.begin_round()
    assert not looks
    control.remove_tables({"shop.t"}, {"shop.t"})
    control.add_tables({"shop.t"}, set())
    tables.begin_round()
    tables.begin_round()
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("uuid", "file", "snapshot", "is_later"),
    [
        ("1-2-3", "binlog.000002", 1, True),
        ("4-5-6", "mysql-bin.000001", 1, True),  # a failover: its logs have other numbers
        ("4-5-6", "mysql-bin.000001", 2, False),  # of other rows
    ],
)
def test_a_table_without_changes_is_where_the_round_ended(
    lake: FakeLake, tmp_path: Path, uuid: str, file: str, snapshot: int, is_later: bool
) -> None:
    lake.copy_of("shop.t", "shop", "t")
    lake.stored["shop", "t"].summary = position_properties(
        StreamOffset(Position("1-2-3", "binlog.000001", 900, gtid_set="")), 1
    )
    options = MirrorOptions()
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    end = StreamOffset(Position(uuid, file, 500, gtid_set=""))
    control.record(end, {"shop.t": snapshot})
    tables, _ = started(lake, tmp_path, control)
    found = tables.followed["shop.t"].offset.position
    assert (found == end.position) == is_later


@pytest.mark.parametrize(
    ("own", "recorded", "is_later"),
    [
        (1, 1, True),
        (1, 2, True),
        (1, 3, True),
        (2, 1, False),  # the mirror has committed after the round
        (1, 7, False),  # the table was rolled back since
    ],
)
def test_a_table_without_changes_that_another_program_has_compacted(
    lake: FakeLake, tmp_path: Path, own: int, recorded: int, is_later: bool
) -> None:
    """Its current snapshot is 3, a compaction; 7 is not an ancestor."""
    lake.copy_of("shop.t", "shop", "t")
    table = lake.stored["shop", "t"]
    at_own = StreamOffset(Position("1-2-3", "binlog.000001", 900, gtid_set=""))
    mine = position_properties(at_own, 1)
    table.snapshot, table.summary = 3, {}
    table.snapshots = [
        {"snapshot": 1, "summary": position_properties(OFFSET, 1)},
        {"snapshot": 7, "parent": 2, "summary": mine},
        {"snapshot": 2, "parent": 1, "summary": {}},
        {"snapshot": 3, "parent": 2, "summary": {}},
    ]
    next(one for one in table.snapshots if one["snapshot"] == own)["summary"] = mine
    control = Control(lake, "mysql://db1/", MirrorOptions(on_other_writer="reindex"))  # type: ignore[arg-type]
    end = StreamOffset(Position("1-2-3", "binlog.000002", 500, gtid_set=""))
    control.record(end, {"shop.t": recorded})
    tables, _ = started(lake, tmp_path, control)
    assert tables.followed["shop.t"].offset.position == (end if is_later else at_own).position


def test_tables_of_others_in_a_shared_catalog(lake: FakeLake, tmp_path: Path) -> None:
    """One that cannot be read ends nothing; later only namespaces with tables of the mirror are read."""
    lake.copy_of("shop.t", "shop", "t")
    for name in ("theirs", "hidden"):
        lake.stored["finance", name] = Stored(("finance", name), {})
    lake.refused.add(("finance", "hidden"))
    said: list[str] = []
    tables, _ = started(lake, tmp_path, note=said.append)
    assert tables.followed.keys() == {"shop.t"}
    assert len(said) == 1
    assert said[0].startswith("tables of the catalog are left out because they cannot be read: 1,")
    assert "finance.hidden" in said[0]

    lake.loaded.clear()
    mirror_status(lake, None, tables.namespaces)  # type: ignore[arg-type]
    assert set(lake.loaded) == {("_binlake", "rounds"), ("shop", "t")}
    mirror_status(lake)  # type: ignore[arg-type]
    assert ("finance", "theirs") in lake.loaded


def test_a_table_of_the_mirror_that_cannot_be_read(lake: FakeLake, tmp_path: Path) -> None:
    """The mirror would copy it again."""
    lake.copy_of("shop.t", "shop", "t")
    control = Control(lake, "mysql://db1/", MirrorOptions())  # type: ignore[arg-type]
    lake.stored["_binlake", "rounds"].summary["binlake.tables"] = '{"shop.t": 1}'
    control.refresh()
    lake.refused.add(("shop", "t"))
    with pytest.raises(SourceError, match=r"shop\.t: .*Forbidden"):
        started(lake, tmp_path, control)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (None, "shop.bad has no position in a log"),
        (FileNotFoundError("/lake/shop/bad/data/1.parquet"), "missing or damaged: /lake/shop/bad"),
        (MissingFileError("/lake/shop/bad/metadata/1.avro"), "missing or damaged: /lake/shop/bad"),
        (SchemaError("shop.bad has no column id, which its key needs"), "no column id"),
    ],
)
def test_a_lake_table_that_cannot_be_opened_does_not_stop_the_others(
    lake: FakeLake, tmp_path: Path, error: Exception | None, shown: str
) -> None:
    for name in ("bad", "good"):
        lake.copy_of(f"shop.{name}", "shop", name)
    lake.stored["shop", "bad"].error = error
    if error is None:
        lake.stored["shop", "bad"].summary = {}
    options = MirrorOptions(on_other_writer="reindex")
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    tables, control = started(lake, tmp_path, control)
    assert tables.followed.keys() == {"shop.good"}
    assert shown in control.quarantined["shop.bad"].reason


def test_a_damaged_lake_table_that_is_to_be_copied_again_is_left_to_the_copy(
    lake: FakeLake, tmp_path: Path
) -> None:
    for name in ("bad", "good"):
        lake.copy_of(f"shop.{name}", "shop", name)
    lake.stored["shop", "bad"].error = MissingFileError("/lake/shop/bad/metadata/1.avro")
    control = Control(lake, "mysql://db1/", MirrorOptions())  # type: ignore[arg-type]
    control.request_resync({"shop.bad"})
    tables, control = started(lake, tmp_path, control)
    assert tables.followed.keys() == {"shop.good"}
    assert not control.quarantined


def test_a_table_of_the_mirror_whose_metadata_is_missing_is_quarantined(
    lake: FakeLake, tmp_path: Path
) -> None:
    for name in ("bad", "good"):
        lake.copy_of(f"shop.{name}", "shop", name)
    control = Control(lake, "mysql://db1/", MirrorOptions())  # type: ignore[arg-type]
    snapshots = '{"shop.bad": 1, "shop.good": 1}'
    lake.stored["_binlake", "rounds"].summary["binlake.tables"] = snapshots
    control.refresh()
    lake.missing.add(("shop", "bad"))
    tables, control = started(lake, tmp_path, control)
    assert tables.followed.keys() == {"shop.good"}
    assert "missing or damaged: shop.bad: Iceberg" in control.quarantined["shop.bad"].reason


ABSENT = ServerError("db1: Table 'shop.t' doesn't exist", code=1146)
DENIED = ServerError("db1: SELECT command denied to user 'repl'", code=1142)


@pytest.mark.parametrize(
    ("refusal", "is_followed", "departs", "reason"),
    [
        (DENIED, True, True, "the server does not list the table: db1: SELECT command denied"),
        (DENIED, False, True, "the server does not list the table: db1: SELECT command denied"),
        (ABSENT, True, True, ""),
        (ABSENT, True, False, "its log does not contain the reason"),
        (ABSENT, False, True, ""),
    ],
)
def test_a_table_that_the_server_does_not_list_when_it_should_be_copied_again(
    lake: FakeLake,
    tmp_path: Path,
    refusal: ServerError,
    is_followed: bool,
    departs: bool,
    reason: str,
) -> None:
    """`departs`: the log has a statement that drops it. A user without privileges on a table does not see it."""
    lake.copy_of("shop.t", "shop", "t")
    tables, control = started(lake, tmp_path)
    tables.source = SimpleNamespace(  # type: ignore[assignment]
        has=lambda _name: False, wants=lambda *_name: True, refusal=lambda _name: refusal
    )
    tables.apply_departure = lambda _table: departs
    if not is_followed:
        control.request_resync({"shop.t"})
        tables.forget("shop.t")
    tables.copy("shop.t")
    assert reason in getattr(control.quarantined.get("shop.t"), "reason", "")
    assert bool(control.quarantined) == bool(reason)
    # without a position there is no statement to look for
    assert bool(control.gone) == (refusal is ABSENT and not is_followed)


BUSY = ServerError("db1 commits without a pause of a few milliseconds", waited_s=60.0)


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (ServerError("db1: SELECT command denied", code=1142), 1),
        (ServerError("db1: Table 'shop.bad' doesn't exist in engine", code=1932), 1),
        (BUSY, 1),
        (ServerError("db1: Unknown column 'c' in 'SELECT'", code=1054), 10),
        (AlteredError("shop.bad was altered while it was copied"), 10),
    ],
)
def test_a_table_that_the_server_cannot_read_does_not_stop_the_others(
    lake: FakeLake, tmp_path: Path, error: ServerError, tries: int
) -> None:
    lake.copy_of("shop.good", "shop", "good")
    notes: list[str] = []
    tables, control = started(lake, tmp_path, note=notes.append)
    source = Unreadable(error)
    tables.source = source  # type: ignore[assignment]
    tables.add()
    assert source.read_times == tries
    assert tables.followed.keys() == {"shop.good"}
    assert control.quarantined["shop.bad"].reason == (
        f"{error}; `binlake mirror resync` copies the table again"
    )
    tables.add()
    assert source.read_times == tries, "until it is copied again"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLostError("db1: the connection was lost"),
        AuthError("db1: Access denied", code=1045),
        PositionLostError("shop.bad: binlog.000001 was purged"),
        ServerError("db1: Access denied; you need the PROCESS privilege", code=1227),
        ServerError("db1 writes no binary log"),
    ],
)
def test_an_error_of_the_server_is_no_reason_for_a_quarantine(
    lake: FakeLake, tmp_path: Path, error: ServerError
) -> None:
    tables, control = started(lake, tmp_path)
    tables.source = Unreadable(error)  # type: ignore[assignment]
    with pytest.raises(type(error), match=r"shop\.bad|db1"):
        tables.add()
    assert not control.quarantined


def test_a_store_that_cannot_be_read_is_no_reason_for_a_quarantine(
    lake: FakeLake, tmp_path: Path
) -> None:
    lake.copy_of("shop.t", "shop", "t")
    lake.stored["shop", "t"].error = SourceError("shop.t: 503 Slow Down")
    with pytest.raises(SourceError, match="503"):
        started(lake, tmp_path)
    assert not Control(lake, "mysql://db1/", MirrorOptions()).quarantined  # type: ignore[arg-type]


def test_patterns_that_match_no_table_are_noted(lake: FakeLake, tmp_path: Path) -> None:
    options = MirrorOptions.of(
        {"tables": ("shop.*", "crm.*"), "exclude_tables": ("shop.secert",), "append_tables": ("shop.lgo",)}
    )  # fmt: skip
    said: list[str] = []
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    tables, _ = started(lake, tmp_path, control, said.append)
    of_server(tables, "shop.orders", "shop.secret", "shop.log")
    tables.check_selection()
    tables.note_unmatched()
    assert said == [
        "--table crm.* matches no table of the server",
        "--exclude-table shop.secert matches no table of the server; did you mean shop.secret or shop.orders?",
        "--append shop.lgo matches no table of the server; did you mean shop.log or shop.orders?",
    ]


def test_a_mirror_without_tables_is_noted_once(lake: FakeLake, tmp_path: Path) -> None:
    options = MirrorOptions.of({"tables": ("shp.*", "crm.*")})
    said: list[str] = []
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    tables, _ = started(lake, tmp_path, control, said.append)
    of_server(tables, "shop.orders")
    with pytest.raises(OptionError, match=r"the server has no table that matches shp\.\*, crm\.\*"):
        tables.check_selection()
    tables.note_unmatched()
    assert len(said) == 1
    assert "did you mean shop.*" in said[0]
    assert said[0].endswith("the mirror waits for such a table")


def test_a_table_that_the_server_dropped_is_no_misspelled_one(
    lake: FakeLake, tmp_path: Path
) -> None:
    options = MirrorOptions.of({"tables": ("shop.orders",)})
    said: list[str] = []
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    control.leave("shop.orders", "dropped at binlog.000001:4")
    tables, _ = started(lake, tmp_path, control, said.append)
    of_server(tables)
    tables.check_selection()
    tables.note_unmatched()
    assert said == []


def test_names_in_the_lake_are_checked_before_the_first_copy_and_when_the_options_change(
    lake: FakeLake, tmp_path: Path
) -> None:
    """Later, a table that the server has got since is no reason to stop."""
    options = MirrorOptions.of({"rename_tables": ("crm.*=shop.{table}",)})
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    tables, _ = started(lake, tmp_path, control)
    of_server(tables, "shop.orders", "crm.orders")
    with pytest.raises(OptionError, match=r"shop\.orders and crm\.orders would both be shop\.o"):
        tables.check_options()

    lake.copy_of("shop.orders", "shop", "orders")
    tables, _ = started(lake, tmp_path, control)
    of_server(tables, "shop.orders", "crm.orders")
    tables.check_options()
    control.configure("mysql://db1/", MirrorOptions())
    with pytest.raises(OptionError, match="would both be"):
        tables.check_options()
    control.quarantine("crm.orders", "its lake table belongs to shop.orders")
    tables.check_options()


def test_a_pattern_in_upper_case_is_refused_at_each_start(lake: FakeLake, tmp_path: Path) -> None:
    """The server has all names in lower case. Without the error, the next start would copy shop.secret."""
    lake.copy_of("shop.orders", "shop", "orders")
    options = MirrorOptions.of({"exclude_tables": ("Shop.Secret",)})
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    tables, _ = started(lake, tmp_path, control)
    of_server(tables, "shop.orders", "shop.secret")
    tables.source.has_lower_case_names = lambda: True  # type: ignore[method-assign]
    with pytest.raises(OptionError, match=r"exclude_tables: 'Shop\.Secret' matches no table"):
        tables.check_options()
    tables.source.has_lower_case_names = lambda: False  # type: ignore[method-assign]
    tables.check_options()


@pytest.mark.parametrize("hashed", [(), ("shop.*.id",)])
@pytest.mark.parametrize("how", ["quarantined", "removed", "gone"])
def test_keys_of_a_copy_that_does_not_continue(
    lake: FakeLake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hashed: tuple[str, ...],
    how: str,
) -> None:
    """The state of a copy contains keys as the server has them. A resync must read all rows again: the log may lack changes of them."""
    monkeypatch.setenv("BINLAKE_HASH_KEY", "0123456789abcdef")
    options = MirrorOptions.of({"hash_columns": hashed})
    control = Control(lake, "mysql://db1/", options)  # type: ignore[arg-type]
    tables, _ = started(lake, tmp_path, control)
    states = {name: tmp_path / f"{sha256(name.encode()).hexdigest()[:32]}.copy.jsonl" for name in ("shop.t", "shop.u")}  # fmt: skip
    for state in states.values():
        state.write_text('{"chunks": ["ada@example.org"]}')
    leave = {
        "quarantined": lambda: tables.quarantine("shop.t", "its columns differ"),
        "removed": lambda: tables.unselect("shop.t"),
        "gone": lambda: tables.leave("shop.t", "dropped"),
    }
    leave[how]()
    assert not states["shop.t"].exists()
    assert states["shop.u"].exists()


@pytest.mark.parametrize("accepts", [False, True])
def test_a_server_that_no_longer_logs_the_rows_that_foreign_keys_change(
    lake: FakeLake, tmp_path: Path, accepts: bool
) -> None:
    """It was started with innodb_native_foreign_keys=ON, or it is an older one, after a failover."""
    key = "CONSTRAINT `{}` FOREIGN KEY (`id`) REFERENCES `p` (`id`){}"
    keys = {"child": key.format("c", " ON DELETE CASCADE"), "other": key.format("o", ""), "p": ""}
    for name, one in keys.items():
        lake.copy_of(f"shop.{name}", "shop", name)
        columns = f"`id` int NOT NULL, PRIMARY KEY (`id`){', ' if one else ''}{one}"
        lake.stored["shop", name].properties["binlake.create-table"] = (
            f"CREATE TABLE `shop`.`{name}` ({columns});"
        )
    tables, control = started(lake, tmp_path)
    asked: list[bool] = []

    def accepts_cascades() -> bool:
        asked.append(accepts)
        return accepts

    tables.source = SimpleNamespace(accepts_cascades=accepts_cascades)  # type: ignore[assignment]
    for _ in range(2):
        quarantine_cascades(tables)
    assert tables.followed.keys() == {f"shop.{name}" for name in keys if accepts or name != "child"}
    assert asked == [accepts] * (1 + accepts), "the server is asked only if there are such keys"
    if not accepts:
        assert control.quarantined.keys() == {"shop.child"}
        reason = control.quarantined["shop.child"].reason
        assert "does not log the rows that foreign key c changes (CASCADE)" in reason


def test_most_tables_that_are_gone_are_forgotten_with_their_lake_tables(
    lake: FakeLake, tmp_path: Path
) -> None:
    """A server may make a table each day, and each commit of the control table writes their list."""
    for name in ("kept", "renamed", "t"):
        lake.copy_of(f"shop.{name}", "shop", name)
    lake.stored["attic", "renamed"] = lake.stored.pop(("shop", "renamed"))  # by an earlier --rename
    lake.create(
        "shop", "empty", None, {"binlake.table": "shop.empty"}
    )  # of a copy that did not end
    _, control = started(lake, tmp_path)
    here = {"shop.kept", "shop.renamed", "shop.empty"}
    for name in (*sorted(here), *(f"shop.day_{number}" for number in range(107))):
        control.leave(name, "dropped at binlog.000001:4")
    lake.refused.add(("shop", "t"))
    started(lake, tmp_path, control)
    assert len(control.gone) == 110, "a lake table that cannot be read may be one of them"
    lake.refused.clear()
    tables, control = started(lake, tmp_path, control)
    assert control.gone.keys() - here <= {f"shop.day_{number}" for number in range(107)}
    assert here <= control.gone.keys()
    assert len(control.gone.keys() - here) in (98, 99, 100)
    assert tables.followed.keys() == {"shop.t"}
