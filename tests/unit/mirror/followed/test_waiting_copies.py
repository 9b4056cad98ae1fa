"""Copies that wait because the server is busy, and tables whose copies begin again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from binlake.errors import ConnectionLostError, ServerError
from binlake.mirror.control import Control
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.lease import LakeInUseError
from binlake.mirror.source.refusals import AlteredError
from binlake.mirror.tables.change import CommitConflictError
from unit.mirror.followed.fake_lake import (
    OFFSET,
    FakeLake,
    Unreadable,
    started,
)


@pytest.fixture
def lake() -> FakeLake:
    return FakeLake()


@pytest.mark.parametrize(
    "error",
    [
        ServerError("db1: Lock wait timeout exceeded", code=1205),
        ServerError("db1 has more open transactions than", waited_s=60.0, is_passing=True),
        ServerError("db1: Disk full (/tmp/#sql_1); waiting for someone to free space", code=1021),
        ServerError("db1: The table '/tmp/#sql_1' is full", code=1114),
        ServerError("db1: Can't create a new thread (errno 11)", code=1135),
        ServerError("db1: Query execution was interrupted", code=1317),
        ServerError("db1: Can't create more than max_prepared_stmt_count statements", code=1461),
    ],
)
def test_a_table_is_copied_later_if_the_server_is_busy(
    lake: FakeLake, tmp_path: Path, error: ServerError
) -> None:
    """The next attempt leaves as much time to the rounds as this one has waited."""
    lake.copy_of("shop.good", "shop", "good")
    tables, control = started(lake, tmp_path)
    source = Unreadable(error)
    tables.source = source  # type: ignore[assignment]
    tables.add()
    assert tables.not_copied() == {"shop.bad": f"its copy waits: {error}"}
    tables.continue_copies()
    assert source.read_times == 1
    assert tables.followed.keys() == {"shop.good"}
    assert not control.quarantined


def test_copies_that_wait(lake: FakeLake, tmp_path: Path) -> None:
    for name in ("a", "b"):
        lake.copy_of(f"shop.{name}", "shop", name)
    tables, control = started(lake, tmp_path)
    assert tables.not_copied() == {}
    control.request_resync({"shop.a", "shop.c"})
    tables.unfinished |= {"shop.c", "shop.d", "shop.e"}
    tables.lagging["shop.e"] = LogLagsError("the archive reaches a.1:4")
    assert tables.not_copied() == {
        "shop.c": "its copy is not complete",
        "shop.d": "its copy is not complete",
        "shop.e": "its copy waits: the archive reaches a.1:4",
    }
    tables.forget("shop.a")
    assert tables.not_copied()["shop.a"] == "a resync was requested, and has not begun"


def test_tables_that_the_lake_does_not_have_wait_for_their_copies(
    lake: FakeLake, tmp_path: Path
) -> None:
    """Also while one of them is read, which may take hours."""
    locked = ServerError("db1: Lock wait timeout exceeded", code=1205)
    tables, _ = started(lake, tmp_path)
    names = [("shop", name) for name in ("a", "b", "c")]
    incomplete = dict.fromkeys(("shop.a", "shop.b", "shop.c"), "its copy is not complete")
    seen: list[dict[str, str]] = []

    def read(_name: tuple[str, str]) -> None:
        seen.append(tables.not_copied())
        raise locked

    tables.source = SimpleNamespace(names=lambda: names, has=names.__contains__, read=read)  # type: ignore[assignment]
    assert tables.find_new() == ["shop.a", "shop.b", "shop.c"]
    assert tables.not_copied() == incomplete
    tables.add()
    after = {**incomplete, "shop.a": f"its copy waits: {locked}"}
    assert tables.not_copied() == after
    tables.continue_copies()
    assert seen[:2] == [incomplete, after]
    assert all(known.keys() == incomplete.keys() for known in seen)


def test_a_copy_is_reported(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror then forgets that the table differed from the server."""
    made = SimpleNamespace(full_name="shop.t", shard_column="", offset=OFFSET)
    copies = SimpleNamespace(make=lambda *_of: made)
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)
    copied: list[str] = []
    tables, _ = started(lake, tmp_path, after_copy=copied.append)
    tables.source = SimpleNamespace(has=lambda _name: True, read=lambda _name: (None, ""))  # type: ignore[assignment]
    tables.copy("shop.t")
    assert copied == ["shop.t"]


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (ServerError("db1 has more open transactions than", waited_s=60.0, is_passing=True), 1),
        (ServerError("db1: Can't create more than max_prepared_stmt_count", code=1461), 1),
        (ServerError("db1: Lock wait timeout exceeded", code=1205), 3),  # a lock on one table
        (ServerError("db1: Query execution was interrupted", code=1317), 3),  # one query
    ],
)
def test_a_busy_server_is_not_asked_again_for_each_table(
    lake: FakeLake, tmp_path: Path, error: ServerError, times: int
) -> None:
    """Each attempt waits for a minute."""
    names = [("shop", name) for name in ("a", "b", "c")]
    tables, _ = started(lake, tmp_path)
    read: list[tuple[str, str]] = []

    def busy(name: tuple[str, str]) -> None:
        read.append(name)
        raise error

    tables.source = SimpleNamespace(names=lambda: names, has=names.__contains__, read=busy)  # type: ignore[assignment]
    tables.unfinished |= {"shop.a", "shop.b", "shop.c"}
    tables.continue_copies()
    assert len(read) == times
    assert tables.lagging == dict.fromkeys(("shop.a", "shop.b", "shop.c"), error)
    tables.continue_copies()
    assert len(read) == times, "before the minute is over"


def test_a_table_that_always_has_to_wait_does_not_keep_others_from_being_copied(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server needs a temporary file for this table, and the disk is too small for it, but not for the others."""
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    names = [("shop", name) for name in ("a", "b", "c")]
    copies = SimpleNamespace(
        make=lambda table, *_of: SimpleNamespace(
            full_name=table, shard_column="", offset=OFFSET, shards={}, lake=None
        )
    )
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)

    def answer(name: tuple[str, str]) -> tuple[str, str]:
        if name[1] == "a":
            raise ServerError("db1: The table '/tmp/#sql_1' is full", code=1114)
        return ".".join(name), ""

    tables, _ = started(lake, tmp_path)
    tables.source = SimpleNamespace(names=lambda: names, has=names.__contains__, read=answer)  # type: ignore[assignment]
    tables.unfinished |= {"shop.a", "shop.b", "shop.c"}
    tables.continue_copies()
    assert tables.lagging.keys() == {"shop.a", "shop.b", "shop.c"}
    clock[0] += 61
    tables.continue_copies()
    assert tables.followed.keys() == {"shop.b", "shop.c"}
    assert tables.lagging.keys() == {"shop.a"}


def test_the_lease_is_kept_during_a_copy(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table without a key is one read, which may take hours."""
    steps: list[str] = []

    @contextmanager
    def kept() -> Iterator[None]:
        steps.append("begin")
        yield
        steps.append("end")

    made = SimpleNamespace(full_name="shop.t", shard_column="")

    def make(*_of: object) -> object:
        steps.append("read")
        return made

    copies = SimpleNamespace(make=make)
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)
    tables, _ = started(lake, tmp_path, kept=kept)
    tables.source = SimpleNamespace(has=lambda _name: True, read=lambda _name: (None, ""))  # type: ignore[assignment]
    tables.copy("shop.t")
    assert steps == ["begin", "read", "end"]


def test_a_table_that_is_requested_again_and_again_in_one_run(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only copies that statements have made useless count."""
    made = SimpleNamespace(full_name="shop.t", shard_column="", offset=OFFSET)
    copies = SimpleNamespace(
        make=lambda *_of: made,
        give_up=lambda _name: None,
        begin_anew=lambda _name: None,
        remove_state=lambda _name: None,
    )
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)
    tables, _ = started(lake, tmp_path)
    names = [("shop", "t")]
    tables.source = SimpleNamespace(  # type: ignore[assignment]
        names=lambda: names, has=names.__contains__, read=lambda _name: (None, "")
    )
    tables.limit()
    for _ in range(6):
        tables.copy_again("shop.t")
        tables.continue_copies()
        assert tables.followed.keys() == {"shop.t"}
    tables.note_left()
    for _ in range(4):
        tables.copy("shop.t")
    with pytest.raises(AlteredError, match=r"shop\.t: each of 4 copies"):
        tables.note_left()


CONFLICT = CommitConflictError("shop.t: another writer has committed to the table")


def with_copies(
    lake: FakeLake, folder: Path, monkeypatch: pytest.MonkeyPatch, results: list[object]
) -> tuple[FollowedTables, Control, list[str]]:
    """Tables of which `shop.t` is copied with these results in turn, and the names whose copies were given up."""
    given_up: list[str] = []

    def make(*_of: object) -> object:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    copies = SimpleNamespace(make=make, give_up=given_up.append, remove_state=given_up.append)
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)
    lake.copy_of("shop.good", "shop", "good")
    tables, control = started(lake, folder)
    tables.source = SimpleNamespace(has=lambda _name: True, read=lambda _name: (None, ""))  # type: ignore[assignment]
    return tables, control, given_up


@pytest.mark.parametrize("gives_way", [False, True])
def test_another_program_that_keeps_writing_to_a_table_during_its_copy(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives_way: bool
) -> None:
    """The other tables are followed. A copy that gives way to their rounds is continued by another call."""
    calls = [CONFLICT, None, CONFLICT, None] if gives_way else [CONFLICT, CONFLICT]
    tables, control, given_up = with_copies(lake, tmp_path, monkeypatch, [*calls, CONFLICT])
    tables.unfinished.add("shop.t")
    while tables.unfinished:
        tables.continue_copies()
    assert tables.followed.keys() == {"shop.good"}
    assert given_up == ["shop.t"] * 3
    assert control.quarantined["shop.t"].reason == (
        f"another program keeps writing to its lake table during its copy ({CONFLICT}); "
        "`binlake mirror resync` copies the table again"
    )


def test_another_program_that_writes_to_a_table_during_some_of_its_copies(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(full_name="shop.t", shard_column="", offset=OFFSET)
    once = [CONFLICT, CONFLICT, made]
    tables, control, _ = with_copies(lake, tmp_path, monkeypatch, [*once, *once])
    for _ in range(2):
        tables.copy("shop.t")
        assert tables.followed.keys() == {"shop.good", "shop.t"}
    assert not control.quarantined


def test_another_mirror_takes_over_the_lake_during_a_copy(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commits are those of another writer, too, but this mirror must end."""
    tables, control, _ = with_copies(lake, tmp_path, monkeypatch, [CONFLICT] * 3)

    def taken_over(_control: Control) -> None:
        raise LakeInUseError("another process has taken over")

    control.check_owner = taken_over
    with pytest.raises(LakeInUseError):
        tables.copy("shop.t")
    assert not control.quarantined


def test_a_query_that_takes_the_server_longer_than_binlake_waits(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tables are followed."""
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    error = ConnectionLostError("db1: the server has sent no row for 600 seconds")
    names = [("shop", name) for name in ("bad", "good")]
    read: list[str] = []
    made = SimpleNamespace(full_name="shop.good", shard_column="", offset=OFFSET)
    copies = SimpleNamespace(make=lambda *_of: made)
    monkeypatch.setattr("binlake.mirror.followed.tables.FirstCopy", lambda *_of: copies)

    def answer(name: tuple[str, str]) -> tuple[None, str]:
        read.append(name[1])
        if name[1] == "bad":
            clock[0] += 600.0
            raise error
        return None, ""

    tables, control = started(lake, tmp_path)
    tables.source = SimpleNamespace(names=lambda: names, has=names.__contains__, read=answer)  # type: ignore[assignment]
    tables.unfinished |= {"shop.bad", "shop.good"}
    tables.continue_copies()
    assert read.count("bad") == 1
    assert tables.lagging == {"shop.bad": error}
    tables.continue_copies()
    assert tables.followed.keys() == {"shop.good"}
    assert not control.quarantined
