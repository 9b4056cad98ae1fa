"""A mirror that runs: what it shows of itself, and comparisons on a schedule."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from binlake.errors import OptionError, SourceError
from binlake.mirror import pause, status
from binlake.mirror.commits import commit_range
from binlake.mirror.equality.compare import exact_session
from binlake.mirror.lake_state import index_directory, lock
from binlake.mirror.loop import Mirror
from binlake.mirror.reporting.metrics import prometheus_text
from binlake.mirror.reporting.pulse import Beats, last_beat
from binlake.mirror.reporting.report import MirrorStatus
from dev.servers import running
from support.servers.archiving import until
from support.servers.live import tcp_url, url_of
from support.spark.mirrored import (
    Lake,
    iceberg_jar,
)
from support.spark.spark_processes import environment

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SERVERS = ["mysql-9.7", "mariadb-11.8"]


@contextmanager
def running_mirror(lake: Lake) -> Iterator[Callable[[], MirrorStatus | None]]:
    """A mirror in a thread; yields what it has shown last."""
    seen: list[MirrorStatus] = []
    mirror = lake.mirror(show=seen.append, beats=Beats(every_s=0.2, shown_every_s=0.2))
    thread = threading.Thread(target=lambda: mirror.run(once=False, interval_s=0.05))
    thread.start()
    try:
        yield lambda: seen[-1] if seen else None
    finally:
        mirror.stop()
        thread.join(300)
        mirror.close()


@pytest.mark.parametrize("name", SERVERS)
def test_status_and_metrics_of_a_running_mirror(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    with running(provisioned(name)) as server:
        server.execute("CREATE DATABASE ops", "CREATE TABLE ops.t (id INT PRIMARY KEY, v INT)")
        server.execute("INSERT INTO ops.t VALUES (1, 1), (2, 2)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("ops.*",), verify_every_s=1)
        with running_mirror(lake) as shown:
            until(lambda: _is(shown(), lambda s: bool(s.tables) and s.tables[0].rows == 2))
            server.execute(
                "INSERT INTO ops.t VALUES (3, 3), (4, 4)", "DELETE FROM ops.t WHERE id = 2"
            )
            until(lambda: _is(shown(), lambda s: s.tables[0].rows == 3))
            until(lambda: _is(shown(), lambda s: bool(s.verified_at) and s.behind_bytes == 0))
            found = shown()
            assert found is not None
            assert found.different == ()
            assert found.lag_seconds is not None
            assert (found.changes_per_second or 0) > 0
            assert found.tables[0].index_bytes > 0
            # the log does not have this change
            with server.session("ops") as session:
                session.execute("SET SESSION sql_log_bin = 0", "UPDATE t SET v = 9 WHERE id = 3")
            until(lambda: _is(shown(), lambda s: s.different == ("ops.t",)))
            # an idle source is fresh: the mirror continues to check the log, and makes no commit
            rounds, checked = found.round, found.checked_at
            until(lambda: _is(shown(), lambda s: s.checked_at > checked))
        after = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        assert (after.different, after.behind_bytes, after.round) == (("ops.t",), 0, rounds)
        assert any("ops.t differs from the server" in note for note in lake.notes)
        text = prometheus_text(after)
        assert re.search(
            r'^binlake_mirror_table_rows\{source="[^"]+",table="ops\.t"\} 3\.0$', text, re.M
        )
        assert re.search(r'^binlake_mirror_tables_different\{source="[^"]+"\} 1\.0$', text, re.M)
        server.execute("INSERT INTO ops.t VALUES (5, 5)")
        assert lake.catch_up().quarantined == {}
        _check_a_password_that_tasks_do_not_know(lake, monkeypatch)


def test_a_comparison_on_a_schedule_of_a_server_that_commits_all_the_time(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE busy", "CREATE TABLE busy.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")  # fmt: skip
        lake = Lake(iceberg_spark, tmp_path, server, tables=("busy.*",), verify_every_s=1)
        over = threading.Event()

        def write() -> None:
            with server.session("busy") as session:
                while not over.wait(0.002):
                    session.execute("INSERT INTO t (v) VALUES (1)")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            with running_mirror(lake) as shown:
                until(lambda: _is(shown(), lambda s: bool(s.verified_at)))
                # also where the status is not shown again for a long time, and the lake never has everything
                beat = last_beat(index_directory(str(tmp_path), None))
                assert beat is not None
                assert time.time() - beat.fresh_s < 60
        finally:
            over.set()
            writer.join()
        after = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        assert (after.different, after.not_compared) == ((), {})


def test_a_missing_data_file_does_not_end_comparisons(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE lost")
        for table in ("good", "bad"):
            server.execute(f"CREATE TABLE lost.{table} (id INT PRIMARY KEY)")
            server.execute(f"INSERT INTO lost.{table} VALUES (1), (2)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("lost.*",), verify_every_s=1)
        lake.catch_up()
        [file] = tmp_path.glob("lost/bad/data/*.parquet")
        file.unlink()
        with running_mirror(lake) as shown:
            until(lambda: _is(shown(), lambda s: bool(s.not_compared)))
            found = shown()
            assert found is not None
            assert found.not_compared.keys() == {"lost.bad"}
            reason = found.not_compared["lost.bad"]
            assert reason.startswith("a file of its lake table is missing or damaged: ")
            assert file.name in reason
            server.execute("INSERT INTO lost.good VALUES (3)")
            until(lambda: _is(shown(), lambda s: {t.table: t.rows for t in s.tables}["lost.good"] == 3))  # fmt: skip


@pytest.mark.parametrize("accepted", ["refuse", "reindex"])
def test_a_comparison_on_a_schedule_reads_what_another_program_has_written(
    accepted: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The table has no changes on the server, so no commit of the mirror would notice it."""
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE idle", "CREATE TABLE idle.t (id INT PRIMARY KEY)")
        server.execute("INSERT INTO idle.t VALUES (1), (2)")
        lake = Lake(
            iceberg_spark,
            tmp_path,
            server,
            tables=("idle.*",),
            verify_every_s=1,
            on_other_writer=accepted,
        )
        with running_mirror(lake) as shown:
            until(lambda: _is(shown(), lambda s: bool(s.verified_at)))
            assert _is(shown(), lambda s: not s.different and not s.quarantined)
            lake.spark.sql(f"DELETE FROM {lake.catalog}.idle.t WHERE id = 1")
            if accepted == "reindex":
                until(lambda: _is(shown(), lambda s: s.different == ("idle.t",)))
            else:
                until(lambda: _is(shown(), lambda s: s.quarantined == ["idle.t"]))
    assert any(
        (f"{name}: another program has written" if accepted == "refuse" else f"{name} differs")
        in note
        for name in ("idle.t",)
        for note in lake.notes
    )


def test_a_comparison_on_a_schedule_reports_the_tables_that_it_leaves_out(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE part", "CREATE TABLE part.keyless (v INT) ENGINE=MyISAM")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("part.*",), verify_every_s=1)
        with running_mirror(lake) as shown:
            # also while it follows no table: otherwise no alert would fire
            until(lambda: _is(shown(), lambda s: s.quarantined == ["part.keyless"]))
            server.execute("CREATE TABLE part.t (id INT PRIMARY KEY)")
            until(lambda: _is(shown(), lambda s: bool(s.not_compared)))
        after = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        assert after.not_compared == after.to_json()["not_compared"]
        [(name, reason)] = after.not_compared.items()
        assert (name, after.different) == ("part.keyless", ())
        assert "needs a primary key" in reason
        assert f"{name} was not compared with the server: {reason}" in lake.notes
    done = subprocess.run(
        [sys.executable, "-m", "binlake_program", "mirror", "status", str(tmp_path),
         "--master", "local[1]", "--iceberg-jar", str(iceberg_jar())],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert ": all compared tables equal\n" in done.stdout
    assert f"    not compared: part.keyless: {reason}\n" in done.stdout


def _check_a_password_that_tasks_do_not_know(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.server.execute(
        "CREATE USER late@'127.0.0.1' IDENTIFIED BY 'geheim'",
        "GRANT ALL ON *.* TO late@'127.0.0.1'",
    )
    url = tcp_url(lake.server, "late")
    before = lake.table("ops.t").num_rows
    lake.server.execute("INSERT INTO ops.t VALUES (6, 6)")
    monkeypatch.setenv("BINLAKE_PASSWORD", "geheim")  # the session has started
    mirror = Mirror(lake.spark, url, str(lake.folder), lake.options, catalog=lake.catalog)
    try:
        with pytest.raises(OptionError, match=r"Spark's tasks cannot log in .*'late'") as refused:
            mirror.run(once=True)
    finally:
        mirror.close()
    assert "geheim" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert lake.table("ops.t").num_rows == before


def _is(found: MirrorStatus | None, condition: Callable[[MirrorStatus], bool]) -> bool:
    return found is not None and condition(found)


def test_a_commit_that_fails_before_a_scheduled_comparison_ends_the_mirror(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is unknown: another round might apply its changes again."""
    commits = 0

    def commit(*of: Any) -> int:
        nonlocal commits
        commits += 1
        if commits == 1:
            raise SourceError("ops.t: Iceberg refuses: CommitStateUnknownException")
        mirror.stop()
        return commit_range(*of)

    def session(url: str) -> Any:
        server.execute("INSERT INTO ops.t VALUES (1, 1)")
        monkeypatch.setattr("binlake.mirror.rounds.commit_range", commit)
        return exact_session(url)

    monkeypatch.setattr("binlake.mirror.verification.exact_session", session)
    with running(provisioned("mysql-9.7")) as server:
        server.execute("CREATE DATABASE ops", "CREATE TABLE ops.t (id INT PRIMARY KEY, v INT)")
        mirror = Lake(iceberg_spark, tmp_path, server, tables=("ops.*",), verify_every_s=1).mirror()
        try:
            with pytest.raises(SourceError, match="CommitStateUnknownException"):
                mirror.run(once=False, interval_s=0.1)
        finally:
            mirror.close()


def test_the_command_is_scraped_and_ends_in_order(provisioned: Any, tmp_path: Path) -> None:
    more = ["--master", "local[1]", "--iceberg-jar", str(iceberg_jar())]
    command = [sys.executable, "-m", "binlake_program", "mirror"]
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE ops", "CREATE TABLE ops.t (id INT PRIMARY KEY, v INT)")
        server.execute("INSERT INTO ops.t VALUES (1, 1), (2, 2)")
        process = subprocess.Popen(
            [*command, url_of(server), str(tmp_path), "--table", "ops.*", "--metrics-port", "0", *more],
            stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        assert process.stderr is not None
        address = process.stderr.readline().split()[1]

        def scraped() -> str:
            with urlopen(address, timeout=60) as answer:
                return str(answer.read().decode())

        until(lambda: 'table="ops.t"} 2.0' in scraped(), 300)
        with urlopen(address.replace("/metrics", "/readyz"), timeout=60) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert "everything before" in said
        assert "Traceback" not in said
    done = subprocess.run(
        [*command, "status", str(tmp_path), "--prometheus", *more],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^binlake_mirror_behind_bytes\{.*\} 0\.0$", done.stdout, re.MULTILINE)


_FOLLOW = """
import sys
from binlake.mirror import mirror
from binlake.mirror.sessions import mirror_session

url, lake, jar = sys.argv[1:]
spark = mirror_session(lake, master="local[1]", iceberg_jar=jar)
notes = lambda text: print(text, flush=True)
ended = mirror(url, lake, ["follow.*"], once=False, spark=spark, metrics_port=0, interval_s=0.1, note=notes)
[table] = ended.tables
print(table.rows)
"""


def test_python_follows_the_log_until_a_signal(provisioned: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FOLLOW]
    with running(provisioned("mysql-9.7")) as server:
        server.execute("CREATE DATABASE follow", "CREATE TABLE follow.t (id INT PRIMARY KEY)")
        server.execute("INSERT INTO follow.t VALUES (1)")
        for rows, end in ((2, signal.SIGINT), (3, signal.SIGTERM)):  # the second call continues
            process = subprocess.Popen(
                [*command, url_of(server), str(tmp_path), str(iceberg_jar())],
                stdout=subprocess.PIPE, text=True, env=environment(),
            )  # fmt: skip
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("metrics: ")
            until(lambda: _has_rows(address, rows - 1), 300)  # noqa: B023 - called here only
            server.execute(f"INSERT INTO follow.t VALUES ({rows})")
            until(lambda: _has_rows(address, rows), 300)  # noqa: B023
            process.send_signal(end)
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 0, said
            assert said.split()[-1] == str(rows)


def _has_rows(address: str, count: int) -> bool:
    """Whether the metrics show so many rows of the table."""
    with urlopen(address, timeout=60) as answer:
        line = rf'binlake_mirror_table_rows\{{source="[^"]*",table="follow\.t"\}} {count}\.0'
        return re.search(line, answer.read().decode()) is not None


def test_once_reports_that_the_mirror_is_paused(
    provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE ops", "CREATE TABLE ops.t (id INT PRIMARY KEY, v INT)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("ops.*",))
        lake.catch_up()
        pause(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
        server.execute("INSERT INTO ops.t VALUES (1, 1)")
        done = subprocess.run(
            [sys.executable, "-m", "binlake_program", "mirror", url_of(server), str(tmp_path), "--once",
             "--table", "ops.*", "--master", "local[1]", "--iceberg-jar", str(iceberg_jar())],
            capture_output=True, text=True, check=False, env=environment(),
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"the mirror is paused, so the lake may lack changes; continue: binlake mirror resume {tmp_path}" in done.stderr  # fmt: skip
    assert "everything before" not in done.stderr
    assert lake.table("ops.t").num_rows == 0


def test_exit_codes_that_a_service_distinguishes(provisioned: Any, tmp_path: Path) -> None:
    """A later start can succeed after 1; 2 would be a mistake of the user, and 3 needs one to act."""
    more = ["--master", "local[1]", "--iceberg-jar", str(iceberg_jar()), "--once"]
    with running(provisioned("mariadb-11.8")) as server:
        server.execute("CREATE DATABASE ops", "CREATE TABLE ops.t (id INT PRIMARY KEY, v INT)")
        words = ["mirror", url_of(server), str(tmp_path), "--table", "ops.*", *more]

        def run() -> tuple[int, str]:
            command = [sys.executable, "-m", "binlake_program", *words]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment()
            )
            return done.returncode, done.stderr

        assert run()[0] == 0
        with lock(index_directory(str(tmp_path), None), str(tmp_path)):
            code, said = run()
        assert (code, "another process" in said) == (1, True), said
        server.execute("INSERT INTO ops.t VALUES (1, 1)", "FLUSH BINARY LOGS")
        server.settle()
        server.purge_before(server.position()[0])
        for _ in range(2):
            code, said = run()
            assert (code, "binlake mirror resync" in said) == (3, True), said
