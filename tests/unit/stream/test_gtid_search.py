"""Find a GTID and the executed set of a chain without reading other files."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest

from binlake.errors import OptionError
from binlake.source import bytes as source_bytes
from binlake.source.chain import Chain
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.gtid_search import (
    HEAD_BYTES,
    Absence,
    AnyGtid,
    LocatedTransaction,
    NotFound,
    accounted,
    executed,
    locate,
)
from binlake.values.gtid import Gtid, GtidSet, MariaGtid
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import LogBuilder

GOLDEN_WITH_GTIDS = [
    "mysql-5.6.24/gtid",
    "mysql-9.7/gtid",
    "mariadb-10.11/gtid",
    "mariadb-11.8/gtid",
]
SID = bytes(range(16))


def chain_of(*paths: Path) -> Chain:
    (chain,) = resolve([str(path) for path in paths])
    return chain


def gtid_of(text: str) -> AnyGtid:
    return Gtid.parse(text) if ":" in text else MariaGtid.parse(text)


@pytest.mark.parametrize("case", GOLDEN_WITH_GTIDS)
def test_every_transaction_of_real_logs_is_found_where_it_is(golden: Path, case: str) -> None:
    chain = chain_of(golden / case)
    (reader,) = LogReader.of_chains([chain], ReadOptions(), Ledger())
    seen = 0
    for group, _ in reader.groups():
        if group.gtid is None:
            continue
        found = locate(chain, gtid_of(group.gtid))
        assert isinstance(found, LocatedTransaction), group.gtid
        assert (found.name, found.pos, found.end_pos) == (
            group.start.file,
            group.start.offset,
            group.end.offset,
        )
        assert found.commit_us == group.commit_us
        assert found.complete
        seen += 1
    assert seen >= 8


@pytest.mark.parametrize("case", GOLDEN_WITH_GTIDS)
def test_executed_gtids_equal_previous_gtids_of_the_next_file(golden: Path, case: str) -> None:
    files = sorted((golden / case).glob("binlog.0*"))
    for count in range(1, len(files)):
        alone = chain_of(files[count])
        before = executed(chain_of(*files[:count]))
        assert executed(chain_of(*files[: count + 1])) == executed(alone)
        assert before <= executed(alone)  # type: ignore[operator]
        assert accounted(chain_of(*files[:count])) <= before  # type: ignore[operator]


def test_gaps_below_a_list_of_mariadb_are_seen_in_its_logs(golden: Path) -> None:
    chain = chain_of(golden / "mariadb-11.8/gtid")
    assert not executed(chain).gaps()
    assert str(accounted(chain).gaps()) == "4294967295-?:2-1000000006"


def test_absence_has_a_reason(golden: Path) -> None:
    files = sorted((golden / "mysql-9.7/gtid").glob("binlog.0*"))
    uuid = "78157433-e595-11f1-a5e0-02fc00000001"
    for text, paths, why in [
        (f"{uuid}:1", files[1:], Absence.BEFORE),
        (f"{uuid}:7", files, Absence.LATER),
        (f"{uuid}:blue:3", files, Absence.LATER),
        (f"{uuid}:5", [files[0], files[2]], Absence.SKIPPED),
    ]:
        answer = locate(chain_of(*paths), gtid_of(text))
        assert isinstance(answer, NotFound)
        assert answer.why is why
        assert text in answer.message


def test_a_gtid_of_the_other_flavour_is_a_mistake(golden: Path) -> None:
    with pytest.raises(OptionError, match=r"7-1-1 is a GTID of MariaDB, but .* a log of MySQL"):
        locate(chain_of(golden / "mysql-9.7/gtid"), MariaGtid(7, 1, 1))


def _chain_on_disk(folder: Path, files: int, transactions: int) -> Chain:
    """Files of whole transactions, the GTIDs running through them, each beginning as it should."""
    gno = 1
    for number in range(1, files + 1):
        log = LogBuilder()
        log.add(35, GtidSet(Gtid(SID, n) for n in range(1, gno)).encode())
        for _ in range(transactions):
            log.add(33, b"\0" + SID + gno.to_bytes(8, "little") + b"\2" + bytes(16))
            log.add(2, bytes(8) + b"\0" + bytes(4) + b"\0BEGIN")
            log.add(30, bytes(40_000))
            log.add(16, bytes(8))
            gno += 1
        (folder / f"binlog.{number:06}").write_bytes(log.bytes())
    return chain_of(folder)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many bytes of each file have been read."""
    counts: Counter[str] = Counter()
    original = source_bytes.LocalReader.read_at

    def counted(self: source_bytes.LocalReader, offset: int, size: int) -> bytes:
        data = original(self, offset, size)
        counts[Path(self.name).name] += len(data)
        return data

    monkeypatch.setattr(source_bytes.LocalReader, "read_at", counted)
    return counts


@pytest.mark.parametrize("gno", [1, 77, 160, 320])
def test_other_files_are_not_read(tmp_path: Path, bytes_read: Counter[str], gno: int) -> None:
    chain = _chain_on_disk(tmp_path, files=16, transactions=20)
    size = (tmp_path / "binlog.000001").stat().st_size
    found = locate(chain, Gtid(SID, gno))
    assert isinstance(found, LocatedTransaction)
    assert found.name == f"binlog.{(gno - 1) // 20 + 1:06}"
    others = {name: count for name, count in bytes_read.items() if name != found.name}
    assert len(others) <= 5  # bisection
    assert all(count <= HEAD_BYTES + 1024 for count in others.values())
    assert bytes_read[found.name] <= size + 2 * HEAD_BYTES


def test_executed_gtids_come_from_the_last_file(tmp_path: Path, bytes_read: Counter[str]) -> None:
    chain = _chain_on_disk(tmp_path, files=4, transactions=3)
    assert str(executed(chain)).endswith(":1-12")
    assert set(bytes_read) == {"binlog.000004"}


def test_files_that_do_not_tell_are_read(tmp_path: Path) -> None:
    chain = _chain_on_disk(tmp_path, files=3, transactions=2)
    log = LogBuilder()  # no PREVIOUS_GTIDS
    log.add(33, b"\0" + SID + (9).to_bytes(8, "little"))
    log.add(2, bytes(8) + b"\0" + bytes(4) + b"\0BEGIN")
    log.add(16, bytes(8))
    (tmp_path / "binlog.000004").write_bytes(log.bytes())
    chain = chain_of(tmp_path)
    for gno, name in [(1, "binlog.000001"), (6, "binlog.000003"), (9, "binlog.000004")]:
        found = locate(chain, Gtid(SID, gno))
        assert isinstance(found, LocatedTransaction)
        assert found.name == name
    assert str(executed(chain)).endswith(":1-6:9")


def test_a_cut_transaction_is_not_executed(tmp_path: Path) -> None:
    _chain_on_disk(tmp_path, files=1, transactions=2)
    path = tmp_path / "binlog.000001"
    path.write_bytes(path.read_bytes()[: -(19 + 8 + 4)])  # without the last XID
    data = path.read_bytes()
    path.write_bytes(data[: 17 + 4] + bytes([data[21] | 1]) + data[22:])  # still in use
    chain = chain_of(tmp_path)
    assert str(executed(chain)).endswith(":1")
    found = [locate(chain, Gtid(SID, gno)) for gno in (1, 2)]
    assert [isinstance(f, LocatedTransaction) and f.complete for f in found] == [True, False]


def test_compressed_files_are_files_too(golden: Path, tmp_path: Path) -> None:
    for path in sorted((golden / "mysql-9.7/gtid").glob("binlog.0*")):
        shutil.copy(path, tmp_path)
    packed = tmp_path / "binlog.000002"
    (tmp_path / "binlog.000002.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    found = locate(chain_of(tmp_path), gtid_of("78157433-e595-11f1-a5e0-02fc00000001:blue:2"))
    assert isinstance(found, LocatedTransaction)
    assert (found.name, found.pos) == ("binlog.000002", 1171)


def test_logs_without_gtids_have_none(golden: Path) -> None:
    chain = chain_of(golden / "mysql-5.6.24/transactions/binlog.index")
    assert not executed(chain)
    answer = locate(chain, Gtid(SID, 1))
    assert isinstance(answer, NotFound)
