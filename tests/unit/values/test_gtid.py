from __future__ import annotations

import random

import pytest

from binlake.errors import BinlogError, FormatError, MalformedError, TruncatedError
from binlake.values.gtid import (
    Gtid,
    GtidSet,
    MariaGtid,
    MariaGtidIntervals,
    MariaGtidSet,
    parse_gtid_set,
)
from binlake.values.gtid_filter import parse_gtid_filter

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
SID = bytes.fromhex(A.replace("-", ""))


@pytest.mark.parametrize(
    ("text", "server_text"),
    [
        ("", ""),
        (f"{A}:1", f"{A}:1"),
        (f"{A}:1-5:7", f"{A}:1-5:7"),
        (f"{A}:7:1-3:4-5", f"{A}:1-5:7"),  # what touches is joined
        (f" {A.upper()}:1 - 5 ,\n{B}:2", f"{A}:1-5,{B}:2"),
        (f"{B}:2,{A}:1", f"{A}:1,{B}:2"),
        (f"{A}:1-5:tag:7:9-10", f"{A}:1-5:tag:7:9-10"),
        (f"{A}:tag:7,{A}:1", f"{A}:1:tag:7"),
        (f"{A.replace('-', '')}:3", f"{A}:3"),
    ],
)
def test_parse_prints_as_the_server(text: str, server_text: str) -> None:
    assert str(GtidSet.parse(text)) == server_text


@pytest.mark.parametrize(
    "text",
    [
        "x",
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:5-3",
        f"{A}:1-",
        f"{A}:{2**63 - 1}",
        f"{A}:9tag:1",
        "1-1:1",
        f"{A}:tag",
        f"{A}:1:tag",
        f"{A}:tag:other:1",
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        GtidSet.parse(text)


def test_set_operations_agree_with_sets_of_numbers() -> None:
    rng = random.Random(5)
    for _ in range(300):
        numbers = [{rng.randrange(1, 40) for _ in range(rng.randrange(25))} for _ in range(2)]
        left, right = (GtidSet(Gtid(SID, n) for n in group) for group in numbers)
        for made, wanted in [
            (left | right, numbers[0] | numbers[1]),
            (left & right, numbers[0] & numbers[1]),
            (left - right, numbers[0] - numbers[1]),
        ]:
            assert {n for n in range(45) if made.contains(SID, n)} == wanted
            assert made.count() == len(wanted)
            assert GtidSet.parse(str(made)) == made
            assert GtidSet.decode(made.encode()) == made
        assert (left <= right) == (numbers[0] <= numbers[1])


def test_add_changes_only_this_set() -> None:
    first = GtidSet.parse(f"{A}:1-3")
    second = first.copy()
    second.add(SID, 4)
    second.add(SID, 1, "tag")
    assert (str(first), str(second)) == (f"{A}:1-3", f"{A}:1-4:tag:1")


def test_gaps() -> None:
    gaps = GtidSet.parse(f"{A}:2-3:6:9,{B}:1-4").gaps()
    assert str(gaps) == f"{A}:4-5:7-8"


def test_binary_form() -> None:
    # PREVIOUS_GTIDS of a MySQL 5.7 server: one source, gno 1 to 4
    plain = bytes.fromhex(
        "0100000000000000" + SID.hex() + "010000000000000001000000000000000500000000000000"
    )
    assert str(GtidSet.decode(plain)) == f"{A}:1-4"
    assert GtidSet.parse(f"{A}:1-4").encode() == plain
    # the tagged format: header bytes 0 and 7 say 1, a tag's length is doubled
    tagged = GtidSet.parse(f"{A}:1-4:t_1:7").encode()
    assert tagged[:8].hex() == "0102000000000001"
    assert tagged[8:25].hex() == SID.hex() + "00"
    assert tagged[49:69].hex() == SID.hex() + "06" + b"t_1".hex()
    assert str(GtidSet.decode(tagged + b"trailing")) == f"{A}:1-4:t_1:7"
    assert GtidSet.decode(bytes(8)) == GtidSet()


def test_every_cut_of_the_binary_form_is_an_error() -> None:
    whole = GtidSet.parse(f"{A}:1-4:9:tag:7,{B}:1").encode()
    for size in range(len(whole)):
        with pytest.raises(TruncatedError):
            GtidSet.decode(whole[:size])


def test_bytes_that_are_no_set() -> None:
    rng = random.Random(6)
    whole = GtidSet.parse(f"{A}:1-4:9:tag:7,{B}:1").encode()
    for _ in range(3000):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            GtidSet.decode(data)
        except FormatError as error:
            assert error.field is not None
    claimed = (1 << 40).to_bytes(8, "little") + bytes(16) + (1 << 60).to_bytes(8, "little")
    with pytest.raises(BinlogError):
        GtidSet.decode(claimed)
    with pytest.raises(MalformedError):  # the interval ends before it starts
        GtidSet.decode(
            bytes([1])
            + bytes(7)
            + SID
            + bytes([1])
            + bytes(7)
            + bytes([5])
            + bytes(7)
            + bytes([5])
            + bytes(7)
        )


def test_gtid() -> None:
    assert Gtid.parse(f"{A}:5") == Gtid(SID, 5)
    assert str(Gtid.parse(f"{A.upper()}:Tag:5")) == f"{A}:tag:5"
    for text in (A, f"{A}:0", f"{A}:1-2", f"{A}:a:b:1", f"{A}::1", "0-1-5"):
        with pytest.raises(ValueError):
            Gtid.parse(text)


def test_maria_gtid() -> None:
    assert MariaGtid.parse(" 0-1-5 ") == MariaGtid(0, 1, 5)
    for text in ("0-1", "0-1-x", f"{2**32}-1-1", f"0-1-{2**64}", f"{A}:1"):
        with pytest.raises(ValueError):
            MariaGtid.parse(text)


def test_maria_state() -> None:
    state = MariaGtidSet.parse("0-1-5,0-2-7,1-1-9")
    assert state.position() == {0: MariaGtid(0, 2, 7), 1: MariaGtid(1, 1, 9)}
    state.add(MariaGtid(0, 1, 8))
    assert state.position()[0] == MariaGtid(0, 1, 8)
    assert str(state) == "0-2-7,1-1-9,0-1-8"
    assert state.last(0, 2) == 7
    assert state.last(5, 5) is None
    assert state == MariaGtidSet.parse("0-1-8,0-2-7,1-1-9")
    assert str(MariaGtidSet.parse("")) == ""


def test_filter_holds_both_flavours() -> None:
    chosen = parse_gtid_filter(f"{A}:1-3:tag:7, 0-1-5, 2-1:10-12:20")
    assert chosen.contains_mysql(SID, "", 3)
    assert chosen.contains_mysql(SID, "tag", 7)
    assert not chosen.contains_mysql(SID, "tag", 3)
    assert chosen.contains_mariadb(0, 1, 5)
    assert not chosen.contains_mariadb(0, 1, 4)
    assert chosen.contains_mariadb(2, 1, 11)
    assert not chosen.contains_mariadb(2, 1, 13)
    assert chosen.contains_text(f"{A}:tag:7")
    assert not chosen.contains_text("2-1-13")


@pytest.mark.parametrize("text", ["", " , ", "0-1", A, f"{A}:x:", "0-1:5-3"])
def test_filter_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        parse_gtid_filter(text)


# -- sets of MariaDB -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0-1-5", "0-1:1-5"),  # the server means everything up to it
        ("0-1-5,0-1-3", "0-1:1-5"),
        ("0-1:7:1-3:4", "0-1:1-4:7"),
        (" 1-1-2 ,\n0-2:9", "0-2:9,1-1:1-2"),
    ],
)
def test_mariadb_sets_are_written_as_ranges(text: str, written: str) -> None:
    gtids = parse_gtid_set(text)
    assert isinstance(gtids, MariaGtidIntervals)
    assert str(gtids) == written
    assert parse_gtid_set(written) == gtids
    assert parse_gtid_filter(written).contains_mariadb(*next(iter(_members(gtids))))


def _members(gtids: MariaGtidIntervals) -> list[MariaGtid]:
    return [
        MariaGtid(d, s, n)
        for d in range(2)
        for s in range(3)
        for n in range(12)
        if MariaGtid(d, s, n) in gtids
    ]


def test_mariadb_set_operations_agree_with_sets_of_numbers() -> None:
    rng = random.Random(7)
    for _ in range(200):
        sets, numbers = [], []
        for _ in range(2):
            chosen = {
                MariaGtid(rng.randrange(2), rng.randrange(1, 3), rng.randrange(1, 12))
                for _ in range(rng.randrange(15))
            }
            made = MariaGtidIntervals()
            for gtid in chosen:
                made.add_interval(*gtid, gtid.seq_no + 1)
            sets.append(made)
            numbers.append(chosen)
        for made, wanted in [
            (sets[0] | sets[1], numbers[0] | numbers[1]),
            (sets[0] & sets[1], numbers[0] & numbers[1]),
            (sets[0] - sets[1], numbers[0] - numbers[1]),
        ]:
            assert set(_members(made)) == wanted
            assert made.count() == len(wanted)
            assert MariaGtidIntervals.parse(str(made)) == made
        assert (sets[0] <= sets[1]) == (numbers[0] <= numbers[1])


def test_servers_of_a_domain_share_its_numbers() -> None:
    gaps = parse_gtid_set("0-1:1-3,0-2:4-5:9,7-1:2:4").gaps()
    assert str(gaps) == "0-?:6-8,7-?:3"
    assert gaps.count() == 4


def test_the_flavour_follows_from_the_text() -> None:
    assert isinstance(parse_gtid_set(f"{A}:1-3:tag:4"), GtidSet)
    assert not parse_gtid_set("")
    # a UUID can begin like a MariaDB GTID
    assert isinstance(parse_gtid_set("12345678-1234-1234-1234-123456789012:1"), GtidSet)
    for text in (f"{A}:1,0-1-5", "x", "0-1", "0-1:", "0-1-5:3"):
        with pytest.raises(ValueError):
            parse_gtid_set(text)
