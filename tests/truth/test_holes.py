"""Holes in chains: logs that are missing, and logs that were copied while the server wrote them."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.errors import SourceError
from binlake.source.log_file import LogFile
from binlake.source.resolve import resolve
from binlake.stream.holes import closed, cut_off
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import plan_splits
from binlake.values.gtid import GtidSet
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.log_builder import PREVIOUS_GTIDS
from support.logs.table_log import Log

GOLDEN = Path(__file__).parents[1] / "golden"
DEMO = Path(__file__).parents[2] / "demo"
SERVERS = ("mysql-5.6.24", "mysql-9.7", "mariadb-10.11", "mariadb-11.8")
FOLDERS = sorted(
    {log.parent for root in (GOLDEN, DEMO) for log in root.rglob("binlog.000002")}
    - set(GOLDEN.glob("*/encrypted*"))
)
SID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
CUT = (
    "binlog.000001 is an incomplete copy: it ends without ROTATE or STOP, and binlog.000002 follows without a start"
    " of the server: the result lacks transactions"
)


def warnings(folder: Path, **options: str) -> list[str]:
    """The holes that a read of the whole chain reports, and a read in splits as well."""
    parsed = ReadOptions.parse(options)
    whole, parts = Ledger(), Ledger()
    for reader in LogReader.of_chains(resolve([str(folder)]), parsed, whole):
        for _ in reader.runs():
            pass
    for split in plan_splits([str(folder)], parsed, 1_000):
        for _ in LogReader.of_split(split, parsed, parts).runs():
            pass
    holes = [sentence for sentence in whole.warnings if "lacks transactions" in sentence]
    assert holes == [sentence for sentence in parts.warnings if "lacks transactions" in sentence]
    return holes


def cut_before_its_end(log: Path) -> None:
    """Cut off the last event, which closes the log."""
    with LogFile.open(str(log)) as opened:
        for _ in opened.windows():
            pass
        assert opened.last_event is not None
        log.write_bytes(log.read_bytes()[: opened.last_event.offset])


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}"
)
def test_whole_chains_have_no_hole(folder: Path) -> None:
    """Logs of real servers: rotated, flushed, before a restart and before a crash."""
    assert warnings(folder) == []


@pytest.mark.parametrize("server", SERVERS)
def test_a_log_without_its_end_is_an_incomplete_copy(server: str, tmp_path: Path) -> None:
    for log in sorted((GOLDEN / server / "rotation").glob("binlog.0*")):
        shutil.copy(log, tmp_path)
    cut_before_its_end(tmp_path / "binlog.000001")
    assert warnings(tmp_path) == [CUT]
    assert warnings(tmp_path, start="binlog.000002:4") == []
    assert warnings(tmp_path, since="2100-01-01") == []
    with gzip.open(tmp_path / "binlog.000001.gz", "wb") as packed:
        packed.write((tmp_path / "binlog.000001").read_bytes())
    (tmp_path / "binlog.000001").unlink()
    assert warnings(tmp_path) == [CUT]


def test_a_log_that_is_cut_inside_an_event(tmp_path: Path) -> None:
    """The log has the flag that it is in use, as copied, so its torn tail alone is no error."""
    for number in (1, 2):
        shutil.copy(GOLDEN / f"mysql-9.7/rotation/binlog.00000{number}", tmp_path)
    log = tmp_path / "binlog.000001"
    data = bytearray(log.read_bytes())
    data[4 + 17] |= 1
    log.write_bytes(data[:-10])
    assert warnings(tmp_path) == [CUT]


def test_a_log_before_a_crash_is_whole(tmp_path: Path) -> None:
    chain(tmp_path, created=1_700_000_000)
    assert warnings(tmp_path) == []


def test_a_log_from_a_pipe_is_read_once(tmp_path: Path) -> None:
    """When this check read from a pipe, too, the command waited without an end."""
    chain(tmp_path)
    pipes = [tmp_path / "pipes" / f"binlog.00000{number}" for number in (1, 2)]
    pipes[0].parent.mkdir()
    for pipe in pipes:
        os.mkfifo(pipe)
    feeders = [subprocess.Popen(["cp", tmp_path / pipe.name, pipe]) for pipe in pipes]
    command = [sys.executable, "-m", "binlake.cli.main", "rows", *map(str, pipes)]
    try:
        found = subprocess.run(command, capture_output=True, timeout=60, check=True)
    finally:
        for feeder in feeders:
            feeder.kill()
            feeder.wait()
    assert len(found.stdout.splitlines()) == 6


def test_the_end_is_known_where_an_index_selects_parts(tmp_path: Path) -> None:
    chain(tmp_path)
    assert main(["index", str(tmp_path)]) == 0
    assert warnings(tmp_path, table="shop.u") == [CUT]


def chain(folder: Path, created: int = 0, missing: bool = False) -> None:
    """Two logs, of which the first does not end with ROTATE; `created`: the start of the server before the second.

    With `missing`, the second one has the number 3, and the first one is whole.
    """
    first, second = Log(), Log(created=created)
    for key in range(1, 6):
        first.insert((key, "one", None), gno=key)
    if missing:
        first.add(4, b"\4" + bytes(7) + b"binlog.000002")
    second.insert((7, "two", None), table="u", gno=7)
    first.save(folder)
    second.save(folder, f"binlog.00000{3 if missing else 2}")


def undo(capfd: pytest.CaptureFixture[str], folder: Path, *flags: str) -> tuple[int, str, str]:
    code = main(["sql", str(folder), "--undo", *flags])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.mark.parametrize("missing", [True, False])
def test_an_undo_across_a_hole_is_refused(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, missing: bool
) -> None:
    chain(tmp_path, missing=missing)
    hole = "binlog.000002 is missing" if missing else "binlog.000001 is an incomplete copy"
    code, out, err = undo(capfd, tmp_path)
    assert (code, out) == (1, "")
    assert hole in err
    assert "the undo would lack changes" in err
    assert "choose the changes before or after it with --start, --stop or --at" in err
    assert "mysql.*" not in err
    code, out, err = undo(capfd, tmp_path, "--force")
    assert (code, out.count("DELETE")) == (0, 6)
    assert hole in err
    code, out, _ = undo(capfd, tmp_path, "--stop", "binlog.000001:9999")
    assert (code, out.count("DELETE")) == (0, 5)


@pytest.mark.parametrize("missing", [True, False])
def test_later_changes_in_a_hole_are_not_known(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, missing: bool
) -> None:
    chain(tmp_path, missing=missing)
    hole = "binlog.000002 is missing" if missing else "binlog.000001 is an incomplete copy"
    for at in (f"{SID}:2", "binlog.000001:130"):
        code, out, err = undo(capfd, tmp_path, "--at", at)
        assert (code, out.count("DELETE")) == (0, 1), err
        assert f"later changes: binlake does not know all of them, because {hole}" in err


@pytest.mark.parametrize("missing", [True, False])
def test_sql_reports_a_hole_and_continues(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, missing: bool
) -> None:
    chain(tmp_path, missing=missing)
    assert main(["sql", str(tmp_path)]) == 0
    out, err = capfd.readouterr()
    assert out.count("INSERT") == 6
    assert err.count(": the result lacks transactions") == 1


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_a_state_across_a_hole_is_refused(tmp_path: Path, missing: bool, packed: bool) -> None:
    chain(tmp_path, missing=missing)
    if packed:
        log = tmp_path / "binlog.000001"
        (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "CREATE TABLE t (id INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), day DATE) CHARSET utf8mb4;\n"
        "LOCK TABLES `t` WRITE;\n"
    )
    hole = r"binlog\.000002 is missing" if missing else r"binlog\.000001 is an incomplete copy"
    with pytest.raises(SourceError, match=f"^{hole}.*; give all logs between the two moments"):
        binlake.open(str(tmp_path)).state(
            "shop.t", "2026-01-01", str(dump), from_position="binlog.000001:4"
        )


def test_the_history_of_a_row_is_not_undone_across_a_hole(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chain(tmp_path, missing=True)
    code = main(["history", "shop.t", "--key", "id=1", str(tmp_path), "--undo", "1"])
    out, err = capfd.readouterr()
    assert (code, out) == (1, ""), err
    assert "binlog.000002 is missing" in err


class TimedLog(Log):
    """A log whose events have the time `at`."""

    at = 1_700_000_000  # in November 2023

    def add(self, type_code: int, body: bytes = b"", **options: int) -> int:
        return super().add(type_code, body, timestamp=self.at, **options)


def chain_of_times(folder: Path, missing: bool, version: str = "8.0.36") -> None:
    """Write the logs of `chain`, where the first log continues to March 2024, and the second one begins then."""
    first, second = TimedLog(version=version), TimedLog(version=version)
    for key in range(1, 6):
        first.insert((key, "one", None), gno=key)
    first.at = second.at = 1_710_000_000
    first.insert((6, "late", None), gno=6)
    if missing:
        first.add(4, b"\4" + bytes(7) + b"binlog.000002")
    second.insert((8, "two", None), gno=8)
    first.save(folder)
    second.save(folder, f"binlog.00000{3 if missing else 2}")


@pytest.mark.parametrize("missing", [True, False])
def test_a_hole_after_the_end_of_a_read_does_not_count(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, missing: bool
) -> None:
    chain_of_times(tmp_path, missing)
    assert warnings(tmp_path, until="2024-01-01") == []
    assert len(warnings(tmp_path, until="2025-01-01")) == 1
    code, out, err = undo(capfd, tmp_path, "--until", "2024-01-01")
    assert (code, out.count("DELETE")) == (0, 5), err
    code, out, err = undo(capfd, tmp_path, "--until", "2025-01-01")
    assert (code, out) == (1, "")
    assert "the undo would lack changes" in err


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("version", ["5.7.44-log", "8.0.0-dmr", "10.11.6-MariaDB-log"])
def test_a_statement_that_began_earlier_may_be_in_a_hole(
    tmp_path: Path, missing: bool, version: str
) -> None:
    """Logs without the time of commits: a change behind the hole can have a time before that of the log before it."""
    chain_of_times(tmp_path, missing, version)
    assert len(warnings(tmp_path, until="2024-01-01")) == 1


@pytest.mark.parametrize("missing", [True, False])
def test_a_state_before_a_hole(tmp_path: Path, missing: bool) -> None:
    chain_of_times(tmp_path, missing)
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "CREATE TABLE t (id INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(20), day DATE) CHARSET utf8mb4;\n"
        "LOCK TABLES `t` WRITE;\n-- Dump completed\n"
    )
    logs = binlake.open(str(tmp_path))
    found = logs.state("shop.t", "2024-01-01", str(dump), from_position="binlog.000001:4")
    assert found["id"].to_pylist() == [1, 2, 3, 4, 5]
    with pytest.raises(SourceError, match="give all logs between the two moments"):
        logs.state("shop.t", "2025-01-01", str(dump), from_position="binlog.000001:4")


def test_a_state_before_a_hole_of_a_compressed_log(tmp_path: Path) -> None:
    chain_of_times(tmp_path, missing=False)
    log = tmp_path / "binlog.000001"
    (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    assert warnings(tmp_path, until="2024-01-01") == []
    assert len(warnings(tmp_path, until="2025-01-01")) == 1


@pytest.mark.parametrize("missing", [True, False])
def test_transactions_chosen_by_gtid_may_lie_in_a_hole(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, missing: bool
) -> None:
    chain(tmp_path, missing=missing)
    hole = "binlog.000002 is missing" if missing else "binlog.000001 is an incomplete copy"
    for choice in (("--gtid", f"{SID}:2-3"), ("--at", f"{SID}:2")):
        code, out, err = undo(capfd, tmp_path, *choice)
        assert (code, out.count("DELETE")) == (0, 2 if "--gtid" in choice else 1), err
        assert hole in err
        assert ": the result may lack transactions" in err
        assert ": the result lacks" not in err


@pytest.mark.parametrize(("executed", "lost"), [("1-5", ""), ("1-7", "6-7")])
def test_gtids_show_an_incomplete_copy_before_a_start_of_the_server(
    tmp_path: Path, executed: str, lost: str
) -> None:
    first, second = Log(), Log(created=1_700_000_000)
    first.add(PREVIOUS_GTIDS, GtidSet().encode(), flags=0x80)
    for key in range(1, 6):
        first.insert((key, "one", None), gno=key)
    second.add(PREVIOUS_GTIDS, GtidSet.parse(f"{SID}:{executed}").encode(), flags=0x80)
    second.insert((8, "two", None), gno=8)
    first.save(tmp_path)
    second.save(tmp_path, "binlog.000002")
    found = (
        "binlog.000001 is an incomplete copy: it ends without ROTATE or STOP, and binlog.000002 follows transactions"
        f" that neither log contains: {SID}:{lost}: the result lacks transactions"
    )
    assert warnings(tmp_path) == ([found] if lost else [])


def test_a_read_that_begins_at_the_end_of_a_compressed_log(tmp_path: Path) -> None:
    chain(tmp_path)
    log = tmp_path / "binlog.000001"
    size = log.stat().st_size
    (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    first, following = resolve([str(tmp_path)])[0].files
    with LogFile.open(first) as opened:
        assert list(opened.windows(size)) == []
        hole = cut_off(
            opened, following, lambda: LogFile.open(following), lambda: closed(opened, size)
        )
    assert "binlog.000001 is an incomplete copy" in hole


def test_a_log_that_is_compressed_after_a_task_was_planned(tmp_path: Path) -> None:
    """The task opens it to see whether the server has started before it."""
    Log().save(tmp_path)
    following = Log(created=1_700_000_000).save(tmp_path, "binlog.000002")
    options = ReadOptions()
    split, _ = plan_splits([str(tmp_path)], options, 1 << 20)
    (tmp_path / "binlog.000002.gz").write_bytes(gzip.compress(following.read_bytes()))
    following.unlink()
    ledger = Ledger()
    assert list(LogReader.of_split(split, options, ledger).runs()) == []
    assert ledger.warnings == []
