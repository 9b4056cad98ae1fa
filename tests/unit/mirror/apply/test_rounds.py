"""A round and the range of the log that it has read."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.follow.offsets import StreamOffset
from binlake.mirror.apply.decode import Decoded
from binlake.mirror.options import MirrorOptions
from binlake.mirror.rounds import Rounds
from binlake.stream.positions.boundary import UNLIMITED, Limits
from binlake.values.position import Position

START = 1000


def offset(place: int, number: int = 1) -> StreamOffset:
    return StreamOffset(Position("uuid", f"binlog.{number:06}", place))


def is_near_end(end: StreamOffset, *others: StreamOffset, is_cut: bool = False) -> bool:
    """Whether a range from `START` to `end` counts as one near the end of the log; `others` are positions of more tables."""
    planner: Any = SimpleNamespace(advance=lambda *_: end, is_cut=is_cut)
    places = [offset(START), *others]
    followed = {
        f"shop.t{number}": SimpleNamespace(offset=place, is_being_completed=False, is_unfinished=False,
                                     may_be_ahead=False, full_name=f"shop.t{number}", id=("shop", f"t{number}"))
        for number, place in enumerate(places)
    }  # fmt: skip
    tables: Any = SimpleNamespace(
        followed=followed, follows=lambda _table: True, quarantine_all=dict
    )
    unused: Any = SimpleNamespace()
    decoder: Any = SimpleNamespace(decode_until_change=lambda *_: Decoded())
    schema_changes: Any = SimpleNamespace(first=lambda *_: None)
    net_writer: Any = SimpleNamespace(write=lambda *_: {})
    options = MirrorOptions()
    rounds = Rounds(
        planner, decoder, net_writer, tables, schema_changes, unused, options, lambda _note: None, lambda _rows: None
    )  # fmt: skip
    rounds.make(None)
    return rounds.is_near_end


def test_a_range_near_the_end_of_the_log() -> None:
    """A server that commits all the time has such ranges only, and `--verify-every` must not wait for an empty one."""
    assert is_near_end(offset(START + 1000))
    assert is_near_end(offset(START + 1000, number=2))
    assert not is_near_end(offset(START + 1000), is_cut=True), (
        "much may be left, for example compressed transactions"
    )
    assert not is_near_end(offset(START + 1000), offset(START + 2000)), "it reaches other tables"


def test_changes_of_which_the_lake_has_a_part_are_read_to_their_end() -> None:
    """In a smaller range, a change may need a row that the part has removed already. Other tables, and smaller options, do not count."""
    asked: list[Any] = []

    def advance(start: StreamOffset, limits: Any, target: StreamOffset | None) -> StreamOffset:
        asked.append((limits, target))
        return start

    part = SimpleNamespace(
        offset=offset(START),
        is_being_completed=False,
        is_unfinished=True,
        part_until=offset(START + 900),
    )
    other = SimpleNamespace(offset=offset(START + 500))
    tables: Any = SimpleNamespace(followed={"shop.t": part, "shop.u": other})
    unused: Any = SimpleNamespace()
    rounds = Rounds(
        SimpleNamespace(advance=advance), unused, unused, tables, unused, unused, MirrorOptions(), lambda _: None, lambda _: None  # type: ignore[arg-type]
    )  # fmt: skip
    rounds.make(offset(START + 2000))
    part.is_unfinished = False
    rounds.make(offset(START + 2000))
    limits = Limits.of_memory(MirrorOptions().round_bytes)
    assert asked == [(UNLIMITED, offset(START + 900)), (limits, offset(START + 500))]


@pytest.mark.parametrize("has_transactions", [False, True])
def test_a_statement_that_was_rolled_back_fails_a_table_without_transactions(
    has_transactions: bool,
) -> None:
    table = SimpleNamespace(
        offset=offset(START),
        is_being_completed=False,
        is_unfinished=False,
        may_be_ahead=False,
        id=("shop", "T"),
        full_name="shop.T",
    )
    quarantined: dict[str, str] = {}
    tables: Any = SimpleNamespace(
        followed={"shop.T": table},
        follows=lambda _table: True,
        quarantine_all=quarantined.update,
        source=SimpleNamespace(has_transactions=lambda _name: has_transactions),
    )
    unused: Any = SimpleNamespace()
    found = Decoded(undone={("shop", "t"): "rolled back", ("shop", "other"): "rolled back"})
    decoder: Any = SimpleNamespace(decode_until_change=lambda *_: found)
    rounds = Rounds(
        SimpleNamespace(advance=lambda *_: offset(START + 9), is_cut=False),  # type: ignore[arg-type]
        decoder,
        SimpleNamespace(write=lambda *_: {}),  # type: ignore[arg-type]
        tables,
        SimpleNamespace(first=lambda *_: None),  # type: ignore[arg-type]
        unused,
        MirrorOptions(),
        lambda _note: None,
        lambda _rows: None,
    )
    assert rounds.make(None)
    assert quarantined == ({} if has_transactions else {"shop.T": "rolled back"})


def test_dates_that_became_null_are_counted_in_each_round_and_reported_once() -> None:
    table = SimpleNamespace(
        offset=offset(START),
        is_being_completed=False,
        is_unfinished=False,
        may_be_ahead=False,
        id=("shop", "t"),
        full_name="shop.t",
    )
    tables: Any = SimpleNamespace(
        followed={"shop.t": table}, follows=lambda _table: True, quarantine_all=dict
    )
    unused: Any = SimpleNamespace()
    found = [
        Decoded(zero_dates={("shop", "t"): Counter(counts)})
        for counts in ({"born": 2}, {"born": 1, "made": 1}, {})
    ]
    decoder: Any = SimpleNamespace(decode_until_change=lambda *_: found.pop(0))
    notes: list[str] = []
    counted: list[Any] = []
    rounds = Rounds(
        SimpleNamespace(advance=lambda start, *_: offset(start.position.offset + 9), is_cut=False),  # type: ignore[arg-type]
        decoder,
        SimpleNamespace(write=lambda *_: {}),  # type: ignore[arg-type]
        tables,
        SimpleNamespace(first=lambda *_: None),  # type: ignore[arg-type]
        unused,
        MirrorOptions(),
        notes.append,
        lambda _rows: None,
        counted.append,
    )
    for _ in range(3):
        assert rounds.make(None)
    assert counted == [{"shop.t.born": 2}, {"shop.t.born": 1, "shop.t.made": 1}]
    status = "`binlake mirror status` counts further ones"
    assert notes == [
        f"shop.t.born: 2 zero or partial dates read as null; {status}",
        f"shop.t.made: 1 zero or partial date read as null; {status}",
    ]
