"""The local engine: the same export without Spark. What Spark makes is in tests/spark."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import binlake
from binlake.background import running
from binlake.errors import BinlogError, ChecksumError, OptionError, SourceError
from binlake.lake.engine import Progress, Task, UnwantedError
from binlake.lake.export import Export
from binlake.lake.export_directory import Directory
from binlake.lake.local import LocalEngine
from binlake.lake.staging import Staging
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions
from support.servers.archiving import until
from unit.lake.local_tasks import Dies, Echo, Fails, Stuck, Waits, Writes

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = str(GOLDEN / "mysql-9.7" / "transactions" / "binlog.index")
GTIDS = "754f15a9-e595-11f1-9d97-02fc00000001:5"
BIG = str(Path(__file__).parents[3] / "demo" / "mysql-9.7" / "binlog.000001")
COMMAND_LINE = [sys.executable, "-m", "binlake.cli.main"]
TYPES = str(GOLDEN / "mysql-9.7" / "types-full" / "binlog.000001")
MARIADB = str(GOLDEN / "mariadb-11.8" / "transactions" / "binlog.index")


def quiet(_done: int, _all: int) -> None:
    pass


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- tasks ------------------------------------------------------------------------------------------


ON_THREADS, IN_PROCESSES = 2, 5  # workers


@pytest.mark.parametrize("workers", [ON_THREADS, IN_PROCESSES])
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    seen: list[tuple[int, int]] = []
    tasks = [Echo(n) for n in range(9)]
    results = LocalEngine(workers).run(tasks, "echo", lambda *at: seen.append(at))
    assert [int(result.split()[0]) for result in results] == list(range(9))
    is_here = str(os.getpid()) in {result.split()[1] for result in results}
    assert is_here == (workers == ON_THREADS)
    assert seen == [(done, 9) for done in range(10)]


def test_one_task_runs_in_this_process() -> None:
    assert LocalEngine(IN_PROCESSES).run([Echo(1)], "echo", quiet) == [f"1 {os.getpid()}"]


@pytest.mark.parametrize("workers", [ON_THREADS, IN_PROCESSES])
def test_the_error_is_that_of_the_first_task_that_fails(tmp_path: Path, workers: int) -> None:
    """Also when a later one fails before it, and with all that the error says."""
    flag = tmp_path / "flag"
    tasks = [Fails(0, waits_for=flag), Writes(flag), *(Fails(n) for n in range(2, 5))]
    with pytest.raises(ChecksumError, match="task 0") as raised:
        LocalEngine(workers).run(tasks, "fail", quiet)
    assert (raised.value.file, raised.value.event_pos) == ("binlog.000007", 4)


def test_a_worker_that_dies_is_an_error() -> None:
    with pytest.raises(BinlogError, match=r"ended with signal 9; use fewer workers"):
        LocalEngine(IN_PROCESSES).run([Dies() for _ in range(5)], "die", quiet)


def test_an_interrupt_ends_the_tasks_on_threads(tmp_path: Path) -> None:
    place = tmp_path / "began"

    def progress(done: int, _all: int) -> None:
        if done:
            until(place.exists)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine(ON_THREADS).run([Echo(0), Waits(place)], "wait", progress)
    assert not [name for name in running() if name.startswith("binlake-decode")]


def test_an_error_ends_the_tasks_on_threads(tmp_path: Path) -> None:
    place = tmp_path / "began"
    with pytest.raises(ChecksumError, match="task 0"):
        LocalEngine(ON_THREADS).run([Fails(0, waits_for=place), Waits(place)], "wait", quiet)


def test_an_interrupt_ends_the_workers(tmp_path: Path) -> None:
    place = tmp_path / "pid"

    def progress(done: int, _all: int) -> None:
        if done:
            raise KeyboardInterrupt

    others = [Writes(tmp_path / "other"), Echo(0), Echo(1), Echo(2)]
    with pytest.raises(KeyboardInterrupt):
        LocalEngine(IN_PROCESSES).run([Stuck(place), *others], "wait", progress)
    for path in (place, tmp_path / "other"):
        pid = path.read_text() if path.exists() else ""  # empty: it was killed before it wrote
        assert not pid or not is_alive(int(pid))


# -- exports ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [LOGS, TYPES, MARIADB])
@pytest.mark.parametrize("workers", [1, 2])
def test_tables_are_those_of_the_api(tmp_path: Path, path: str, workers: int) -> None:
    log = binlake.open(path)
    result = binlake.export(
        path, tmp_path / "lake", engine="local", workers=workers, max_partition_bytes=1 << 16
    )
    assert {f"{t.key.database}.{t.key.table}": t.rows for t in result.tables} == {
        name: sum(counts.values()) for name, counts in log.tables().items()
    }
    for table in result.tables:
        files = [tmp_path / "lake" / table.path / file.name for file in table.files]
        found = pa.concat_tables(pq.read_table(file) for file in files)
        expected = log.to_arrow(f"{table.key.database}.{table.key.table}")
        assert found.to_pylist() == expected.to_pylist()


def test_options_are_those_of_open(tmp_path: Path) -> None:
    result = binlake.export(LOGS, tmp_path / "lake", engine="local", table="golden.a", op="delete")
    assert {table.path for table in result.tables} == {"golden/a"}
    assert set(result.ledger.rows[("golden", "a")]) == {"delete"}


class GivesUp(LocalEngine):
    """Does not want what it runs."""

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        for task in tasks:
            task.give_up()
        return super().run(tasks, what, progress)


@pytest.mark.parametrize("workers", [1, ON_THREADS])
@pytest.mark.parametrize(
    "filters", [{}, {"op": "insert", "table": "no.such"}], ids=["rows", "none"]
)
def test_a_task_that_is_not_wanted_ends_and_leaves_nothing(
    tmp_path: Path, workers: int, filters: dict[str, str]
) -> None:
    """Also if no batch comes of its part, at which it could notice."""
    logs = LogInput([LOGS], ReadOptions.parse(filters))
    one = Export(logs, str(tmp_path / "lake"), max_partition_bytes=1 << 12)
    one.check()
    with pytest.raises(UnwantedError):
        one.run(GivesUp(workers), quiet)
    assert not (tmp_path / "lake").exists()


def test_damage_leaves_nothing(tmp_path: Path) -> None:
    damaged = tmp_path / "binlog.000001"
    data = bytearray((Path(LOGS).parent / "binlog.000001").read_bytes())
    data[-200] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(BinlogError, match=r"binlog\.000001.*event at \d+"):
        binlake.export(
            damaged, tmp_path / "lake", engine="local", workers=2, max_partition_bytes=1 << 12
        )
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engine": "duckdb"}, "expected one of spark, local"),
        ({"engine": "local", "workers": 0}, "at least 1"),
        ({"workers": 2}, "engine local"),
    ],
)
def test_wrong_engines_are_refused(tmp_path: Path, given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        binlake.export(LOGS, tmp_path / "lake", **given)  # type: ignore[arg-type]


# -- without PySpark, and before it -----------------------------------------------------------------

_NO_PYSPARK = """
import sys
sys.modules["pyspark"] = None  # an import of it fails
"""


def without_pyspark(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", _NO_PYSPARK + program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


COMMAND = "from binlake.cli.main import main; sys.exit(main(['export', *sys.argv[1:]]))"


def test_the_command_needs_no_pyspark(tmp_path: Path) -> None:
    given = (LOGS, tmp_path / "lake", "--engine", "local", "--workers", "2")
    done = without_pyspark(COMMAND, *given, "--max-partition-bytes", "64K")
    assert done.returncode == 0, done.stderr
    assert "proven to join" in done.stdout
    assert (tmp_path / "lake" / "_ledger.json").exists()


def test_a_program_needs_no_main_guard(tmp_path: Path) -> None:
    """Workers do not import the program that asks for them."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, binlake\n"
        "result = binlake.export(sys.argv[1], sys.argv[2], engine='local', workers=2,\n"
        "                        max_partition_bytes=1 << 16)\n"
        "print(len(result.tables))\n"
    )
    words = [sys.executable, str(program), LOGS, str(tmp_path / "lake")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


MISTAKES: list[tuple[list[str], str]] = [
    (["/nope/binlog.000001", "LAKE"], "/nope/binlog.000001 does not exist"),
    (["LOGS", "FULL"], "contains files that no export wrote"),
    (["LOGS", "FILE"], "is a file"),
    (["LOGS", "FILE/below"], "is a file"),
    (["LOGS", "mysql://ada@db1/"], "is a live server"),
    (["LOGS", "LAKE", "--start", "binlog.000009:4"], "binlog.000009"),
    (["ARCHIVE", "LAKE", "--at", "binlog.000001:300"], "set --source to one of db1, db2"),
    (["ARCHIVE", "LAKE", "--start", "binlog.000001:4"], "set --source to one of db1, db2"),
    (["ARCHIVE", "LAKE", "--gtid", GTIDS], "set --source to one of db1, db2"),
    (["ARCHIVE", "LAKE", "--source", "db3"], "there is no source 'db3'"),
    (["LOGS", "LAKE", "--schema", "/nope/schema.sql"], "/nope/schema.sql"),
    (["LOGS", "LAKE", "--keyring", "/nope/keyring"], "/nope/keyring"),
    (["LOGS", "LAKE", "--op", "upsert"], "upsert"),
    (["-", "LAKE"], "standard input"),
    (["LOGS", "LAKE", "--engine", "duckdb"], "expected one of spark, local"),
    (["LOGS", "LAKE", "--engine", "local", "--master", "local[2]"], "--engine spark"),
    (["LOGS", "LAKE", "--workers", "2"], "--engine local"),
    (["LOGS", "LAKE", "--target-file-bytes", "many"], "--target-file-bytes"),
]
COMMANDS = """
import contextlib, io, json
from binlake.cli.main import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["export", *words])
    print(json.dumps([code, err.getvalue()]))
"""


def test_a_mistake_is_reported_before_spark_starts(tmp_path: Path) -> None:
    """One process makes all mistakes: to start another one takes longer than to report one."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letters").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("db1", "db2"):
        shutil.copytree(Path(LOGS).parent, tmp_path / "archive" / name)
        (tmp_path / "archive" / name / "archive.json").write_text("{}")
    places = {
        "LOGS": LOGS,
        "ARCHIVE": str(tmp_path / "archive"),
        "LAKE": str(tmp_path / "lake"),
        "FULL": str(tmp_path / "full"),
    }
    words = [
        [places.get(word, word.replace("FILE", str(tmp_path / "file"))) for word in arguments]
        for arguments, _ in MISTAKES
    ]
    done = without_pyspark(COMMANDS, json.dumps(words))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (arguments, message), (code, text) in zip(MISTAKES, answers, strict=True):
        assert code == 2, (arguments, text)
        assert message in text, arguments
        assert "PySpark" not in text, arguments
        assert len(text.splitlines()) == 1, (arguments, text)
    assert not (tmp_path / "lake").exists()


def test_a_target_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "binlake.lake.export_directory.os.access", lambda *_: False
    )  # root may everything
    with pytest.raises(SourceError, match=r"lake: no permission to write in"):
        binlake.export(LOGS, tmp_path / "lake", engine="local")


@pytest.mark.parametrize("step", ["_move_directory", "_put_in_place", "discard"])
def test_an_interrupted_commit_keeps_the_earlier_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """No table is lost, no mixture is called a result, and the next run repairs it."""
    lake = tmp_path / "lake"
    binlake.export(TYPES, lake, engine="local", workers=1)
    before = {p.name: p.read_bytes() for p in lake.rglob("*.parquet")}
    original = getattr(Staging, step)
    calls: list[str] = []

    def interrupted(self: Staging, *arguments: object) -> None:
        calls.append(step)
        original(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Staging, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            binlake.export(LOGS, lake, engine="local", workers=1, if_exists="replace")
    assert calls == [step]
    if step == "discard":  # it had committed
        assert json.loads((lake / "_ledger.json").read_text())["export"]["inputs"] == [LOGS]
    else:
        assert {
            p.name: p.read_bytes() for p in lake.rglob("*.parquet") if p.name in before
        } == before
        assert not (lake / "_ledger.json").exists()
        with pytest.raises(
            OptionError, match=r"did not finish, \d+ tables? of it already whole; use --overwrite"
        ):
            binlake.export(LOGS, lake, engine="local", workers=1)
    binlake.export(LOGS, lake, engine="local", workers=1, if_exists="replace")
    assert not list(lake.glob("_staging*"))
    assert {p.parent.name for p in lake.rglob("*.parquet")} == {
        name.partition(".")[2] for name in binlake.open(LOGS).tables()
    }


class Refused(LocalEngine):
    """Hosts that cannot work."""

    def check_paths(self, paths: Sequence[str]) -> None:
        raise SourceError("host worker-3: the package binlake is not installed")


def test_an_export_that_a_host_refuses_leaves_no_directory(tmp_path: Path) -> None:
    """But one that was there before stays."""
    for target, stays in ((tmp_path / "a" / "lake", tmp_path), (tmp_path, tmp_path)):
        one = Export(LogInput([LOGS], ReadOptions()), str(target))
        one.check()
        with pytest.raises(SourceError, match="worker-3"):
            one.run(Refused(1), quiet)
        assert stays.exists()
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [0, 100, 3_000, 20_000], ids=str)
def test_a_full_disk_under_an_export(tmp_path: Path, limit: int) -> None:
    """One line that names the directory, exit code 1, and nothing is left. (The limit is on each file.)"""

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [*COMMAND_LINE, "export", BIG, str(tmp_path / "lake"), "--engine", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=full)
    assert done.returncode == 1
    assert f"cannot write {tmp_path}/lake: File too large" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "lake").exists()


def test_a_full_disk_keeps_the_earlier_export(tmp_path: Path) -> None:
    binlake.export(LOGS, tmp_path / "lake", engine="local", workers=1)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    command = [
        *COMMAND_LINE,
        "export",
        BIG,
        str(tmp_path / "lake"),
        "--engine",
        "local",
        "--overwrite",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=full)
    assert (done.returncode, "cannot write" in done.stderr) == (1, True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_ledger_that_cannot_be_written_keeps_the_earlier_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a commit needs room for is written before anything moves."""
    binlake.export(LOGS, tmp_path / "lake", engine="local", workers=1)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    write = Directory.write_json

    def full(directory: Directory, path: str, value: Mapping[str, Any]) -> None:
        if path.endswith("_ledger.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(directory, path, value)

    monkeypatch.setattr(Directory, "write_json", full)
    with pytest.raises(BinlogError, match=r"No space left on device; this export has no result"):
        binlake.export(LOGS, tmp_path / "lake", engine="local", workers=1, if_exists="replace")
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
