"""Splits give what reading the whole gives, wherever they are cut, and prove that they join."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from binlake.errors import BinlogError, IncompleteError, SourceError
from binlake.source.resolve import resolve
from binlake.source.resync import first_sync_before
from binlake.stream.log_reader import LogReader
from binlake.stream.positions import splits as borders
from binlake.stream.positions.splits import Split, pack, plan_splits
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.mutations import every_or_some, frames
from support.logs.stream_log import SID, StreamLog, without_zeros
from support.logs.stream_splits import cut, facts

EVERY_BYTE_UP_TO = 500
SOME_CUTS = 100
RANDOM_CUTS = 12


def mixed(version: str = "8.0.36") -> StreamLog:
    log = StreamLog(version=version)
    log.plain(1).xa_prepared(2, b"a").plain(3).xa_prepared(4, b"b").gtid(5).query(b"DROP TABLE x")
    log.xa_decided(6, b"b", b"ROLLBACK").plain(7).xa_decided(8, b"a").xa_prepared(9, b"c")
    return log.gtid(10).query(b"BEGIN").rows().query(b"ROLLBACK").plain(11).gtid(12).query(b"BEGIN")


def old_mixed() -> StreamLog:
    log = StreamLog(version="5.5.40", alg=None)
    for _ in range(3):
        log.query(b"BEGIN").rows().xid().query(b"CREATE TABLE x (a INT)")
        log.query(b"BEGIN").query(b"INSERT INTO t VALUES (1)").query(b"COMMIT")
    return log


def whole(path: Path | str, options: ReadOptions) -> tuple[list[tuple[object, ...]], Ledger]:
    ledger = Ledger()
    [reader] = LogReader.of_chains(resolve([str(path)]), options, ledger)
    return facts(reader), ledger


def check(path: Path | str, cuts: Iterable[int], options: ReadOptions) -> None:
    expected, expected_ledger = whole(path, options)
    [one] = plan_splits([str(path)], options, 1 << 40)
    for at in cuts:
        ledger, found = Ledger(), []
        for part in cut(one, at):
            found += facts(LogReader.of_split(part, options, ledger))
        if options.uncommitted:  # those that stay prepared come at the end of their split
            found.sort(key=str)
            expected.sort(key=str)
        assert found == expected, f"cut at {at}"
        assert ledger.join_problems() == [], f"cut at {at}"
        for name in ("transactions", "unshown"):
            assert without_zeros(getattr(ledger, name)) == without_zeros(
                getattr(expected_ledger, name)
            ), f"cut at {at}"


@pytest.mark.fuzz
@pytest.mark.parametrize("uncommitted", [False, True])
@pytest.mark.parametrize("make", [mixed, old_mixed, lambda: mixed("5.7.30-log")])
def test_a_log_cut_at_every_byte(make, uncommitted: bool, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = make().write(tmp_path)
    cuts = every_or_some(
        range(1, path.stat().st_size), SOME_CUTS, [at for at, _, _ in frames(path.read_bytes())]
    )
    check(path, cuts, ReadOptions(uncommitted=uncommitted))


def logs_of(corpus: Path) -> list[Path]:
    generated = sorted((corpus / "generated").glob("*/*/binlog.0*[0-9]"))
    public = [p for p in sorted((corpus / "public").rglob("*")) if p.is_file()]
    return [p for p in generated + public if p.suffix not in (".csv", ".txt", ".gz")]


def test_the_corpus_cut_at_every_or_at_random_bytes(corpus: Path) -> None:
    checked = 0
    for path in logs_of(corpus):
        options = ReadOptions(uncommitted=True)
        try:
            whole(path, options)
        except BinlogError:
            continue  # what is broken, or not readable yet, is tested as such
        size = path.stat().st_size
        pick = random.Random(7)
        small = size <= EVERY_BYTE_UP_TO
        cuts = range(1, size) if small else [pick.randrange(1, size) for _ in range(RANDOM_CUTS)]
        check(path, cuts, options)
        checked += 1
    assert checked > 90


def test_many_splits_of_a_chain(tmp_path: Path) -> None:
    mixed().rotate("binlog.000002").write(tmp_path)
    StreamLog().xa_decided(13, b"c").plain(14).write(tmp_path, "binlog.000002")
    expected, _ = whole(tmp_path, ReadOptions())
    assert expected[-2][4] == f"{SID}:13"
    for split_bytes in (1, 50, 333, 1_000, 1 << 30):
        ledger, found = Ledger(), []
        for split in plan_splits([str(tmp_path)], ReadOptions(), split_bytes):
            carried: Split = pickle.loads(pickle.dumps(split))
            found += facts(LogReader.of_split(carried, ReadOptions(), ledger))
        assert found == expected
        assert ledger.join_problems() == []


def test_every_reader_reports_missing_files_once(tmp_path: Path) -> None:
    mixed().rotate("binlog.000002").write(tmp_path)
    for number in (2, 5, 9):
        mixed().write(tmp_path, f"binlog.{number:06d}")
    said = [
        f"binlog.00000{gap} missing before binlog.00000{after}: the result lacks transactions"
        for gap, after in (("3 to binlog.000004 are", 5), ("6 to binlog.000008 are", 9))
    ]
    ledger = Ledger()
    for reader in LogReader.of_chains(resolve([str(tmp_path)]), ReadOptions(), ledger):
        list(reader.runs())
    assert ledger.warnings == said
    ledger = Ledger()
    for split in plan_splits([str(tmp_path)], ReadOptions(), 300):
        list(LogReader.of_split(split, ReadOptions(), ledger).runs())
    assert ledger.warnings == said
    # what is before the first file that is read was not asked for
    after = ReadOptions.parse({"start": "binlog.000005:4"})
    splits = plan_splits([str(tmp_path)], after, 1 << 30)
    assert [split.gap for split in splits] == ["", said[1].partition(":")[0]]


@pytest.mark.parametrize(("removed", "added"), [(2, None), (5, None), (None, 1)])
def test_logs_that_are_removed_or_added_after_the_plan(
    tmp_path: Path, removed: int | None, added: int | None
) -> None:
    """Ordinals then mean other files: the file before the gap was not found, or was another one."""
    for number in (2, 3, 5):
        mixed().write(tmp_path, f"binlog.{number:06d}")
    options = ReadOptions.parse({"until": "2100-01-01"})
    *_, last = plan_splits([str(tmp_path)], options, 1 << 30)
    if removed is not None:
        (tmp_path / f"binlog.{removed:06d}").unlink()
    if added is not None:
        mixed().write(tmp_path, f"binlog.{added:06d}")
    changed = r"logs up to .*binlog\.000005 have been removed or added"
    with pytest.raises(SourceError, match=changed):
        last.chain_files()
    gone = r"binlog\.000005 does not exist"
    with pytest.raises(SourceError, match=gone if removed == 5 else changed):
        list(LogReader.of_split(last, options, Ledger()).runs())


def test_a_split_can_be_read_twice(tmp_path: Path) -> None:
    [split] = plan_splits([str(mixed().write(tmp_path))], ReadOptions(), 1 << 30)
    reader = LogReader.of_split(split, ReadOptions(), Ledger())
    assert facts(reader) == facts(reader)


def test_planning_records_sizes_and_excludes_filtered_logs(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        mixed().write(tmp_path, f"binlog.{number:06d}")
    options = ReadOptions.parse({"start": "binlog.000002:4", "stop": "binlog.000003:4"})
    splits = plan_splits([str(tmp_path)], options, 300)
    assert {split.log.name for split in splits} == {"binlog.000002"}
    size = (tmp_path / "binlog.000002").stat().st_size
    assert splits[0].start == 4
    assert splits[-1].end is None
    assert sum(split.bytes for split in splits) == size - 4
    assert all(a.end == b.start for a, b in pairwise(splits))


def test_a_growing_file_is_read_as_it_was_when_planned(tmp_path: Path) -> None:
    log = StreamLog(flags=1).plain(1)
    path = log.write(tmp_path)
    splits = plan_splits([str(path)], ReadOptions(), 1 << 30)
    log.plain(2).write(tmp_path)
    ledger = Ledger()
    found = [f for split in splits for f in facts(LogReader.of_split(split, ReadOptions(), ledger))]
    assert [f[4] for f in found] == [f"{SID}:1"]


def test_compressed_files_are_one_split(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "binlog.000001.gz"
    path.write_bytes(gzip.compress(mixed().bytes()))
    [split] = plan_splits([str(path)], ReadOptions(), 10)
    ledger = Ledger()
    found = facts(LogReader.of_split(split, ReadOptions(), ledger))
    assert found == whole(mixed().write(tmp_path), ReadOptions())[0]
    assert ledger.join_problems() == []


def test_small_files_are_packed(tmp_path: Path) -> None:
    for number in range(1, 8):
        StreamLog().plain(1).write(tmp_path, f"binlog.{number:06d}")
    splits = plan_splits([str(tmp_path)], ReadOptions(), 1 << 20)
    packed = pack(splits, partition_bytes=1_000, file_bytes=100)
    assert [split for part in packed for split in part] == splits
    assert len(packed) == 4
    assert max(len(part) for part in packed) == 2


def _misled(monkeypatch: pytest.MonkeyPatch, border: int) -> None:
    """The search for a transaction's start from byte 5 on answers `border`."""
    monkeypatch.setattr(
        borders,
        "first_sync_before",
        lambda log, at, *to: border if at == 5 else first_sync_before(log, at, *to),
    )


@pytest.mark.parametrize("version", ["8.0.36", "5.5.40"])
def test_a_split_that_tears_a_transaction_is_an_error_of_its_task(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = StreamLog(version=version)
    first = log.offsets[-1]
    if version.startswith("8"):
        log.plain(1).gtid(2).query(b"BEGIN").rows().rows().xid().plain(3)
    else:
        log.query(b"BEGIN").rows().xid().query(b"BEGIN").rows().rows().xid()
        log.query(b"BEGIN").rows().xid()
    path = log.write(tmp_path)
    [one] = plan_splits([str(path)], ReadOptions(), 1 << 40)
    left, _ = cut(one, 5)
    starts = {
        t.start.offset for t in LogReader.of_split(one, ReadOptions(), Ledger()).transactions()
    }
    for offset in log.offsets:
        if offset <= first:
            continue
        for border in (offset, offset + 7):
            _misled(monkeypatch, border)
            readings: list[Callable[[LogReader], Iterator[object]]] = [
                LogReader.transactions,
                LogReader.runs,
                LogReader.groups,
            ]
            if border != offset:
                readings.append(LogReader.events)
            for read in readings:
                reader = LogReader.of_split(left, ReadOptions(), Ledger())
                if border in starts:
                    list(read(reader))
                    continue
                with pytest.raises(IncompleteError, match=f"ends at byte {border}"):
                    list(read(reader))
            monkeypatch.undo()


def test_a_transaction_cut_off_at_a_split_border_is_left_out(tmp_path: Path) -> None:
    log = StreamLog().plain(1).gtid(2).query(b"BEGIN").rows()
    border = len(log.data)
    path = log.plain(3).write(tmp_path)
    check(path, [border, border - 1, border + 1], ReadOptions(uncommitted=True))
