"""Values and events that cannot be decoded: what comes out before, and what is skipped."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import BinlogError, MalformedError, OptionError, UnsupportedError
from binlake.table.row_json import json_lines
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.decoded_rows import ADA, BOB, json_rows, typed_rows
from support.logs.log_builder import TABLE_MAP
from support.logs.table_log import (
    DELETE,
    INSERT,
    UPDATE,
    Log,
    Row,
    day,
    decode,
    image,
    rows_body,
    table_map,
)


def test_zero_dates_follow_the_policy(tmp_path: Path) -> None:
    log = Log()
    log.insert(ADA, BOB, (3, "c", day(2026, 0, 0)))
    path = log.save(tmp_path)
    ledger = Ledger()
    assert [row["day"] for row in typed_rows(path, ledger)] == [date(2026, 11, 21), None, None]
    assert ledger.zero_dates == {"shop.t.day": 2}
    as_text = [row["day"] for row in typed_rows(path, zero_date="text")]
    assert as_text == ["2026-11-21", "0000-00-00", "2026-00-00"]
    with pytest.raises(UnsupportedError, match=r"shop\.t\.day.*zero_date=null"):
        typed_rows(path, zero_date="error")


def test_a_zero_date_error_contains_the_position(tmp_path: Path) -> None:
    log = Log()
    log.insert(ADA, (4, "d", None))
    after: Row = (1, "x", day(9999, 12, 31))
    log.commit(
        (TABLE_MAP, table_map()),
        (UPDATE, rows_body(image(ADA), image(after), bitmaps=(7, 7))),
    )
    good = log.save(tmp_path)
    rows = typed_rows(good, zero_date="error", before=True)
    assert rows == typed_rows(good, before=True)
    assert [row["day"] for row in rows] == [date(2026, 11, 21), None, date(9999, 12, 31)]
    log.insert(ADA, (3, "c", day(2026, 0, 1)))
    seen: list[dict[str, Any]] = []
    with pytest.raises(UnsupportedError, match="2026-00-01 is a zero or partial date") as caught:
        _collect(log.save(tmp_path), seen, Target.TYPED, zero_date="error", before=True)
    assert caught.value.event_pos == log.offsets[-2]
    assert [row["id"] for row in seen] == [1, 4, 1]  # not the half transaction


def test_invalid_text_names_the_place(tmp_path: Path) -> None:
    log = Log()
    log.insert(ADA)
    log.insert(BOB, (3, "caf\udce9", None))
    path = log.save(tmp_path)
    with pytest.raises(MalformedError) as caught:
        json_rows(path)
    assert caught.value.file == "binlog.000001"
    assert caught.value.event_pos == log.offsets[9]
    for part in ("shop.t.name", "0x636166e9", "utf8mb4", "invalid=hex"):
        assert part in str(caught.value)
    assert json_rows(path, invalid="hex")[2]["after"]["name"] == "_utf8mb4 0x636166e9"


def _collect(
    path: Path,
    into: list[dict[str, Any]],
    target: Target = Target.TEXT,
    ledger: Ledger | None = None,
    **given: Any,
) -> None:
    """Adds the row changes as they are given out."""
    options = ReadOptions.parse(given)
    for changes in decode(path, target, ledger, **given):
        if target is Target.TEXT:
            text = bytes(json_lines(changes, options))
            into.extend(json.loads(line) for line in text.splitlines())
        else:
            for found in changes.table_batches(options):
                found.batch.validate(full=True)
                into.extend(found.batch.to_pylist())


def _broken(kind: str) -> tuple[Log, list[int]]:
    """Six rows in two tables, then a transaction that breaks in its third event, then others.

    The offsets: of the broken transaction, of its broken event, of the one after it.
    """
    log = Log()
    log.insert(ADA, BOB, gno=1)
    log.insert((3, "other", None), table="u", gno=2)
    log.commit(
        (TABLE_MAP, table_map()), (DELETE, rows_body(image(ADA))),
        (TABLE_MAP, table_map()),
        (UPDATE, rows_body(image(BOB, 1), image((2, "b" * 9, None), 2), bitmaps=(1, 2))),
        gno=3,
    )  # fmt: skip
    log.insert((4, "last", ADA[2]), gno=4)
    bad = {
        "cut value": (INSERT, rows_body(image(ADA), image((5, "ok", None)), image(ADA)[:-1])),
        "cut image": (UPDATE, rows_body(image(ADA), b"\0\1", bitmaps=(7, 7))),
        "text": (INSERT, rows_body(image(ADA), image((5, "caf\udce9", None)))),
        "no table map": (INSERT, rows_body(image(ADA), table_id=99)),
        "unsupported": (39, rows_body(image(ADA), image(ADA), bitmaps=(7, 7))),
    }[kind]
    start = log.commit(
        (TABLE_MAP, table_map("u", 8)), (INSERT, rows_body(image((8, "half", None)), table_id=8)),
        (TABLE_MAP, table_map()), bad,
        gno=5,
    )  # fmt: skip
    event = log.offsets[-2]
    following = log.insert((6, "after", None), gno=6)
    return log, [start, event, following]


_KINDS = ["cut value", "cut image", "text", "no table map", "unsupported"]


_IDS_BEFORE = [1, 2, 3, 1, 2, 4]


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("kind", _KINDS)
def test_rows_before_an_error_are_delivered_first(
    tmp_path: Path, kind: str, target: Target
) -> None:
    log, (_, event, _) = _broken(kind)
    path = log.save(tmp_path)
    seen: list[dict[str, Any]] = []
    ledger = Ledger()
    with pytest.raises(BinlogError) as caught:
        _collect(path, seen, target, ledger, before=True)
    assert (caught.value.file, caught.value.event_pos) == ("binlog.000001", event)
    if target is not Target.TEXT:
        assert sorted(row["id"] for row in seen) == sorted(_IDS_BEFORE)
    else:
        assert [(row["before"] or row["after"])["id"] for row in seen] == _IDS_BEFORE
    assert sum(sum(counts.values()) for counts in ledger.rows.values()) == 6
    # what came out is what comes out of the log without the rest
    whole = Log()
    whole.data[:] = log.data[: _broken(kind)[1][0]]
    expected: list[dict[str, Any]] = []
    _collect(whole.save(tmp_path), expected, target, before=True)
    assert seen == expected


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_transaction_is_skipped_whole_or_not_at_all(
    tmp_path: Path, kind: str, target: Target, batch_bytes: int
) -> None:
    log, (start, _, following) = _broken(kind)
    seen: list[dict[str, Any]] = []
    ledger = Ledger()
    path = log.save(tmp_path)
    _collect(path, seen, target, ledger, on_error="skip", batch_bytes=batch_bytes)
    names = [
        row["name"] if target is not Target.TEXT else (row["after"] or {}).get("name")
        for row in seen
    ]
    assert "after" in names
    assert "half" not in names
    assert len(seen) == 7
    (lost,) = ledger.skipped
    assert (lost.start, lost.end) == (start, following)


def test_damage_is_skipped_by_transaction(tmp_path: Path) -> None:
    log = Log()
    log.insert(ADA, gno=1)
    bad = log.commit((TABLE_MAP, table_map()), (INSERT, rows_body(image(ADA)[:-1])), gno=2)
    after_bad = log.insert(BOB, gno=3)
    path = log.save(tmp_path)
    with pytest.raises(BinlogError) as caught:
        json_rows(path)
    assert caught.value.file == "binlog.000001"
    assert caught.value.event_pos == log.offsets[9]
    ledger = Ledger()
    lines = json_rows(path, ledger, on_error="skip")
    assert [line["after"]["id"] for line in lines] == [1, 2]
    (lost,) = ledger.skipped
    assert (lost.file, lost.start, lost.end) == ("binlog.000001", bad, after_bad)
    assert ledger.rows == {("shop", "t"): {"insert": 2}}


def test_a_wrong_assumed_character_set_is_a_wrong_option(tmp_path: Path) -> None:
    log = Log()
    bare = table_map().partition(bytes([1, 1, 0x80]))[0]
    log.commit((TABLE_MAP, bare), (INSERT, rows_body(image(ADA))))
    with pytest.raises(OptionError, match="klingon"):
        json_rows(log.save(tmp_path), assume_charset="klingon")
