"""Sets of GTIDs against Python's own sets; text and bytes of any set read back as the set."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import BinlogError
from binlake.values.gtid import Gtid, GtidSet, MariaGtid, MariaGtidIntervals, MariaGtidSet
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.intervals import common, inside, intervals, unite

SIDS = (bytes(16), bytes(range(16)))
numbers = st.sets(st.integers(1, 30))
mysql_gtids = st.sets(
    st.builds(Gtid, st.sampled_from(SIDS), st.integers(1, 25), st.sampled_from(["", "a", "_z9"])),
    max_size=40,
)
streams = st.sampled_from([0, 1, (1 << 32) - 1])
maria_gtids = st.sets(st.builds(MariaGtid, streams, streams, st.integers(1, 25)), max_size=40)


def maria_set(gtids: set[MariaGtid]) -> MariaGtidIntervals:
    made = MariaGtidIntervals()
    for gtid in gtids:
        made.add_interval(gtid.domain_id, gtid.server_id, gtid.seq_no, gtid.seq_no + 1)
    return made


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10)), max_size=12))
def test_intervals_are_the_numbers_in_them(added: list[tuple[int, int]]) -> None:
    bounds: list[int] = []
    expected: set[int] = set()
    for start, size in added:
        unite(bounds, start, start + size)
        expected |= set(range(start, start + size))
    assert {n for n in range(70) if inside(bounds, n)} == expected
    assert {n for start, end in intervals(bounds) for n in range(start, end)} == expected
    assert bounds == sorted(set(bounds))  # whole intervals: none touches the next


@given(numbers, st.integers(1, 30), st.integers(1, 10))
def test_the_common_part_with_an_interval(held: set[int], start: int, size: int) -> None:
    bounds: list[int] = []
    for number in held:
        unite(bounds, number, number + 1)
    part = common(bounds, start, start + size)
    expected = held & set(range(start, start + size))
    assert {n for first, end in intervals(part) for n in range(first, end)} == expected
    in_set = GtidSet(Gtid(SIDS[0], number) for number in held)
    assert in_set.in_interval(SIDS[0], "", start, start + size) == GtidSet(
        Gtid(SIDS[0], number) for number in expected
    )
    assert not in_set.in_interval(SIDS[1], "", start, start + size)


@given(mysql_gtids, mysql_gtids)
@settings(max_examples=200)
def test_sets_of_mysql(left: set[Gtid], right: set[Gtid]) -> None:
    one, other = GtidSet(left), GtidSet(right)
    assert one | other == GtidSet(left | right)
    assert one - other == GtidSet(left - right)
    assert one & other == GtidSet(left & right)
    assert (one <= other) == (left <= right)
    assert one.count() == len(left)
    assert GtidSet.parse(str(one)) == one
    assert GtidSet.decode(one.encode()) == one
    chosen = parse_gtid_filter(str(one)) if left else None
    for gtid in left | right:
        assert (gtid in one) == (gtid in left)
        if chosen is not None:
            assert chosen.contains_mysql(gtid.sid, gtid.tag, gtid.gno) == (gtid in left)
            assert chosen.contains_text(str(gtid)) == (gtid in left)


@given(maria_gtids, maria_gtids)
@settings(max_examples=200)
def test_sets_of_mariadb(left: set[MariaGtid], right: set[MariaGtid]) -> None:
    one, other = maria_set(left), maria_set(right)
    assert one | other == maria_set(left | right)
    assert one - other == maria_set(left - right)
    assert one & other == maria_set(left & right)
    assert (one <= other) == (left <= right)
    assert MariaGtidIntervals.parse(str(one)) == one
    chosen = parse_gtid_filter(str(one)) if left else None
    for gtid in left | right:
        assert (gtid in one) == (gtid in left)
        if chosen is not None:
            assert chosen.contains_text(str(gtid)) == (gtid in left)


@given(maria_gtids)
def test_a_position_of_mariadb_is_everything_up_to_it(gtids: set[MariaGtid]) -> None:
    last = {(g.domain_id, g.server_id): g for g in sorted(gtids, key=lambda g: g.seq_no)}
    reached = MariaGtidSet(last.values())
    assert MariaGtidSet.parse(str(reached)) == reached
    assert maria_set(gtids) <= MariaGtidIntervals.up_to(reached)


@given(st.builds(Gtid, st.binary(min_size=16, max_size=16), st.integers(1, (1 << 63) - 2), st.sampled_from(["", "t" * 32])))  # fmt: skip
def test_one_gtid(gtid: Gtid) -> None:
    assert Gtid.parse(str(gtid)) == gtid


@given(st.binary(max_size=80))
@settings(max_examples=400)
def test_any_bytes_are_a_set_or_an_error(raw: bytes) -> None:
    try:
        found = GtidSet.decode(raw)
    except BinlogError:
        return
    assert GtidSet.decode(found.encode()) == found


@given(st.text("0123456789abcdef-:, _", max_size=60))
@settings(max_examples=400)
def test_any_text_is_a_set_or_a_value_error(text: str) -> None:
    for parse in (GtidSet.parse, MariaGtidIntervals.parse, MariaGtidSet.parse, parse_gtid_filter):
        try:
            parse(text)
        except ValueError:
            continue


def test_parse_errors_contain_the_invalid_part() -> None:
    with pytest.raises(ValueError, match="not a UUID"):
        GtidSet.parse("1-2-3:5")
