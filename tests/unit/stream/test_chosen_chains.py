"""With logs of several servers, a position or a GTID selects the logs of one server, or it is refused."""

from __future__ import annotations

import gzip
import pickle
import uuid
from pathlib import Path
from typing import Any

import pytest

from binlake import open as open_log
from binlake.errors import FormatError, OptionError
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.positions.splits import plan_splits
from binlake.values.gtid import GtidSet
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.stream_log import SID, StreamLog, transactions

OTHER = uuid.UUID("aaaaaaaa-71ca-11e1-9e33-c80aa9429562")
FIRST, SECOND = str(SID), f"{SID}.2"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two histories of one server, which used the same names and GTIDs, and another server."""
    for directory, sid, logs, gno in (
        (FIRST, SID, 3, 1), (SECOND, SID, 2, 1), (str(OTHER), OTHER, 1, 5),
    ):  # fmt: skip
        folder = tmp_path / directory
        folder.mkdir()
        (folder / "archive.json").write_text("{}")
        executed = GtidSet()
        for number in range(1, logs + 1):
            log = StreamLog().previous(executed.encode())
            for _ in range(2):
                log.gtid(gno, sid=sid).query(b"BEGIN").rows().xid()
                executed.add(sid.bytes, gno)
                gno += 1
            log.write(folder, f"binlog.{number:06d}")
    return tmp_path


def meant(path: Path, **options: Any) -> list[str]:
    parsed = ReadOptions.parse(options)
    return [chain.source for chain in chosen_chains(resolve([str(path)]), parsed)]


def test_sources_are_distinguished_by_the_shortest_name(archive: Path, tmp_path: Path) -> None:
    assert meant(archive) == [FIRST, SECOND, str(OTHER)]
    for base in ("app", "web"):
        (tmp_path / "both").mkdir(exist_ok=True)
        StreamLog().plain(1).write(tmp_path / "both", f"{base}.000001")
    assert meant(tmp_path / "both") == ["app", "web"]
    for part in ("x/db", "y/db"):
        (tmp_path / part).mkdir(parents=True)
        StreamLog().plain(1).write(tmp_path / part)
    chains = resolve([str(tmp_path / "x/db"), str(tmp_path / "y/db")])
    assert [chain.source for chain in chains] == [f"{tmp_path}/{p}/db/binlog" for p in "xy"]
    [alone] = resolve([str(archive / FIRST)])
    assert alone.source == alone.files[0].source == ""
    assert alone.files[0].shown == "binlog.000001"


@pytest.mark.parametrize("name", [FIRST, f"{FIRST}/binlog", f"{FIRST}/"])
def test_source_names_the_directory(archive: Path, name: str) -> None:
    assert meant(archive, source=name) == [FIRST]
    assert meant(archive, source=name, at="binlog.000002:200") == [FIRST]
    assert meant(archive / FIRST, source=name) == [""]


def test_an_unknown_source_is_refused(archive: Path) -> None:
    with pytest.raises(OptionError, match=f"no source 'x'; there are {FIRST}, {SECOND}"):
        meant(archive, source="x")
    with pytest.raises(OptionError, match="there is binlog"):
        meant(archive / FIRST, source="x")


@pytest.mark.parametrize(
    "options",
    [
        {"at": "binlog.000001:200"},
        {"start": "binlog.000001:4"},
        {"stop": "binlog.000002:4"},
        {"start": "binlog.000001:4", "stop": "binlog.000002:4"},
        {"at": "200"},
        {"start": "200"},
        {"stop": "200"},
        {"source": "binlog", "at": "binlog.000001:200"},
    ],
)
def test_a_position_that_several_have_is_refused(archive: Path, options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=f"sources; set the option source to one of {FIRST}"):
        meant(archive, **options)


def test_a_position_that_one_has_means_that_one(archive: Path) -> None:
    assert meant(archive, at="binlog.000003:200") == [FIRST]
    assert meant(archive, start="binlog.000003:4") == [FIRST]
    assert meant(archive, start="binlog.000001:4", stop="binlog.000003:200") == [FIRST]
    said: list[str] = []
    options = ReadOptions.parse({"at": "binlog.000003:200"})
    chosen_chains(resolve([str(archive)]), options, said.append)
    assert said == [f"reading the logs of {FIRST} only: no other source has this position or GTID"]


def test_a_position_may_name_its_source(archive: Path) -> None:
    """A chain is chosen by the name that `stats` prints, or by a path."""
    for place in (f"{SECOND}/binlog.000002:200", f"{archive / SECOND}/binlog.000002:200"):
        assert meant(archive, at=place) == [SECOND]
        assert meant(archive, start=place) == [SECOND]
    with pytest.raises(
        OptionError, match="does not name one source, and the input has the logs of"
    ):
        meant(archive, at="nowhere/binlog.000002:200")


def test_a_read_does_not_start_behind_the_end_of_its_file(tmp_path: Path) -> None:
    path = StreamLog().plain(1).rotate("binlog.000002").write(tmp_path)
    StreamLog().plain(2).write(tmp_path, "binlog.000002")
    size = path.stat().st_size
    for place in (f"binlog.000001:{size + 1}", "binlog.000001:99999999999"):
        for name in ("at", "start"):
            with pytest.raises(OptionError, match=rf"{name}: binlog.000001 ends at {size}, before"):
                meant(tmp_path, **{name: place})
        assert meant(tmp_path, stop=place) == [""]
    assert meant(tmp_path, at=f"binlog.000001:{size}") == [""]
    with pytest.raises(OptionError, match=rf"start: binlog.000001 ends at {size}, before 99999"):
        meant(tmp_path, start="99999")
    # the length of the file is not that of the log
    path.write_bytes(gzip.compress(path.read_bytes() + bytes(5000)))
    assert path.stat().st_size < size
    assert meant(tmp_path, start=f"binlog.000001:{size - 1}") == [""]


def test_positions_of_two_sources_are_refused(tmp_path: Path) -> None:
    for name in ("a.000001", "b.000001"):
        StreamLog().plain(1).write(tmp_path, name)
    with pytest.raises(OptionError, match="positions in the logs of different sources"):
        meant(tmp_path, start="a.000001:4", stop="b.000001:400")
    with pytest.raises(OptionError, match=r"no file c\.000001; they are a/a\.000001, b/b"):
        meant(tmp_path, start="c.000001:4")


def test_a_gtid_means_the_source_that_holds_it(archive: Path) -> None:
    assert meant(archive, at=f"{OTHER}:5") == [str(OTHER)]
    assert meant(archive, gtid=f"{OTHER}:1-99") == [str(OTHER)]
    assert meant(archive, gtid=f"{SID}:5-6") == [FIRST]
    assert meant(archive, at=f"{SID}:6") == [FIRST]
    assert len(meant(archive, at=f"{SID}:99")) == 3
    assert len(meant(archive, gtid="0-1-1")) == 3
    for options in ({"at": f"{SID}:1"}, {"gtid": f"{SID}:4"}, {"gtid": f"{OTHER}:5,{SID}:6"}):
        with pytest.raises(OptionError, match="are in the logs of several"):
            meant(archive, **options)
    assert meant(archive, at=f"{SID}:1", source=SECOND) == [SECOND]


def test_gtids_of_mariadb(tmp_path: Path) -> None:
    """Whose numbers are shared by the servers of a domain: lists do not show which server has which number."""
    for directory, seq in (("a", 1), ("b", 1), ("c", 3)):
        log = StreamLog(version="10.11.6-MariaDB")
        for number in range(seq, seq + 2):
            log.maria(number).rows().xid()
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "archive.json").write_text("{}")
        log.write(tmp_path / directory)
    assert meant(tmp_path, at="0-1-3") == ["c"]
    for options in ({"at": "0-1-2"}, {"gtid": "0-1-2"}, {"gtid": "0-1:2-3"}):
        with pytest.raises(OptionError, match="set the option source to one of a, b"):
            meant(tmp_path, **options)


def test_a_damaged_source_may_hold_everything(archive: Path) -> None:
    (archive / SECOND / "binlog.000002").write_bytes(b"no log at all")
    with pytest.raises(OptionError, match="are in the logs of several"):
        meant(archive, at=f"{SID}:6")


def test_every_reader_reads_the_source_that_is_meant(archive: Path) -> None:
    options: dict[str, Any] = {"at": f"{SECOND}/binlog.000002:200"}
    wanted = [f"{SID}:3"]
    assert [t.gtid for t in transactions(archive, **options)] == wanted
    assert [t.gtid for t in open_log(archive, **options).transactions()] == wanted
    log = open_log(archive, **options)
    assert sum(log.stats()["total"][op] for op in ("inserts", "updates", "deletes")) == 1
    assert log.stats()["total"]["transactions"] == 1
    assert SECOND in log.ledger.warnings[0]
    parsed = ReadOptions.parse(options)
    [split] = plan_splits([str(archive)], parsed, 1 << 20)
    # a directory that comes between planning and reading changes nothing
    (archive / "00000000-0000-0000-0000-000000000000").mkdir()
    (archive / "00000000-0000-0000-0000-000000000000" / "archive.json").write_text("{}")
    StreamLog().plain(77).write(archive / "00000000-0000-0000-0000-000000000000")
    task = LogReader.of_split(pickle.loads(pickle.dumps(split)), parsed, Ledger())
    assert [t.gtid for t in task.transactions()] == wanted
    assert [file.name for file in split.chain_files().values()] == [
        "binlog.000001",
        "binlog.000002",
    ]
    assert split.log.source == SECOND


def test_files_of_several_sources_are_counted_and_named_apart(archive: Path) -> None:
    log = open_log(archive)
    assert sum(1 for _ in log.transactions()) == 12
    assert set(log.ledger.files) == {
        *(f"{FIRST}/binlog.00000{n}" for n in (1, 2, 3)),
        *(f"{SECOND}/binlog.00000{n}" for n in (1, 2)),
        f"{OTHER}/binlog.000001",
    }
    path = archive / SECOND / "binlog.000002"
    path.write_bytes(path.read_bytes()[:-30] + bytes(30))
    with pytest.raises(FormatError) as caught:
        list(open_log(archive).transactions())
    assert caught.value.file == f"{SECOND}/binlog.000002"
    skipping = open_log(archive, on_error="skip")
    list(skipping.transactions())
    assert skipping.ledger.skipped[0].file == f"{SECOND}/binlog.000002"
