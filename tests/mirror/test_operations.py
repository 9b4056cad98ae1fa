"""A mirror that runs: what it shows of itself, comparisons on a schedule, and a failover to a replica."""

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

from binlake.errors import OptionError, PositionLostError, SourceError
from binlake.mirror import pause, status
from binlake.mirror.apply.decode import decode_range
from binlake.mirror.commits import commit_range
from binlake.mirror.equality.compare import exact_session
from binlake.mirror.lake_state import index_directory, lock
from binlake.mirror.loop import Mirror
from binlake.mirror.reporting.metrics import prometheus_text
from binlake.mirror.reporting.pulse import Beats, last_beat
from binlake.mirror.reporting.report import MirrorStatus
from dev.servers import Server, running
from dev.servers.ports import ReservedPort
from mirror.killed_mirror import Kill, killed
from support.servers.archiving import until
from support.servers.flaky_proxy import FlakyProxy
from support.servers.live import tcp_url, trusting, url_of
from support.spark.mirrored import (
    Lake,
    current_position,
    iceberg_jar,
    quarantined,
    recorded_position,
    states,
)
from support.spark.spark_processes import environment

pytestmark = [pytest.mark.server, pytest.mark.lakes]

SERVERS = ["mysql-9.7", "mariadb-11.8"]
GTID = {
    "mysql": ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
    "mariadb": ["--log-slave-updates", "--gtid-strict-mode=ON"],
}
FOLLOW = {
    "mysql": "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='repl', SOURCE_PASSWORD='secret',"
    " SOURCE_PORT={}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
    "mariadb": "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='repl', MASTER_PASSWORD='secret',"
    " MASTER_PORT={}, MASTER_USE_GTID=slave_pos, MASTER_SSL_VERIFY_SERVER_CERT=0",
}


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


@pytest.mark.parametrize("name", SERVERS)
def test_failover_to_a_replica(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Tables that had come to different places of the old server continue with the new one, by GTID."""
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        first.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        first.execute("CREATE DATABASE two")
        for table in ("a", "b"):
            first.execute(f"CREATE TABLE two.{table} (id INT PRIMARY KEY, v INT)")
            first.execute(f"INSERT INTO two.{table} VALUES (1, 1), (2, 2), (3, 3)", "FLUSH BINARY LOGS")  # fmt: skip
        lake = Lake(iceberg_spark, tmp_path, first, tables=("two.*",))
        lake.catch_up()
        for table in ("a", "b"):
            first.execute(f"UPDATE two.{table} SET v = 10 WHERE id = 1")
        assert killed(lake, Kill("commit", 1, after=True)) == -signal.SIGKILL
        first.execute("UPDATE two.a SET v = 11 WHERE id = 1", "DELETE FROM two.b WHERE id = 3")
        until(lambda: _gtids(second) == _gtids(first))
        second.execute("STOP REPLICA")
        first.stop()
        second.execute("INSERT INTO two.a VALUES (4, 4)", "UPDATE two.b SET v = v + 1")
        second.execute("ALTER TABLE two.a ADD COLUMN more INT NULL")
        second.execute("UPDATE two.a SET more = 1 WHERE id = 2")
        lake.server = second
        lake.catch_up()
        assert quarantined(lake) == {}
        assert recorded_position(lake, "two.a") == current_position(second)
        assert lake.equals_source("two.*") == ["two.a", "two.b"]
        assert not any("copied again" in note for note in lake.notes)


@pytest.mark.parametrize("name", SERVERS)
def test_failover_behind_one_name_in_a_round(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual address moves to the replica after the range was planned, and before it is read: the mirror goes on."""
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        first.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        first.execute("CREATE USER reader@'%'", "GRANT ALL ON *.* TO reader@'%'")
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        first.execute("CREATE DATABASE moved", "CREATE TABLE moved.t (id INT PRIMARY KEY, v INT)")
        first.execute("INSERT INTO moved.t VALUES (1, 1), (2, 2)")
        proxy = FlakyProxy(first.port)
        lake = Lake(iceberg_spark, tmp_path, first, tables=("moved.*",))
        query = f"{trusting(tmp_path, first, second)}&option-file=none".lstrip("&?")
        lake.url = f"mysql://reader@127.0.0.1:{proxy.port}/?{query}"
        mirror = lake.mirror()
        try:
            mirror.run(once=True)
            first.execute("UPDATE moved.t SET v = 3 WHERE id = 1")
            until(lambda: _gtids(second) == _gtids(first))
            second.execute("STOP REPLICA", "FLUSH BINARY LOGS", "INSERT INTO moved.t VALUES (4, 4)")
            moved: list[int] = []

            def read(*of: Any, **options: Any) -> Any:
                if not moved:
                    moved.append(first.port)
                    proxy.target = second.port
                    proxy.cut()
                return decode_range(*of, **options)

            monkeypatch.setattr("binlake.mirror.apply.decode_tables.decode_range", read)
            mirror.reach()
            mirror.reach()
        finally:
            mirror.close()
            proxy.close()
        assert moved
        lake.server = second
        assert quarantined(lake) == {}
        assert lake.equals_source("moved.t") == ["moved.t"]
        assert not any("copied again" in note for note in lake.notes)


#: Statements that make a server begin where another one was, as the restore of a backup does: its logs do not have what came before.
BEGIN_AT = {
    "mysql": ("RESET BINARY LOGS AND GTIDS", "SET GLOBAL gtid_purged = '{}'"),
    "mariadb": ("RESET MASTER", "SET GLOBAL gtid_slave_pos = '{}'"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_failover_to_a_server_that_was_set_up_from_a_backup(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its logs begin at the backup. A mirror that has the changes before it continues, and one that lacks some of them ends with an
    error; the way back is possible, too.
    """
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        schema = ("CREATE DATABASE one", "CREATE TABLE one.t (id INT PRIMARY KEY, v INT)")
        user = ("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        first.execute(*user)
        first.execute(*schema, "INSERT INTO one.t VALUES (1, 1), (2, 2), (3, 3)")
        early = Lake(iceberg_spark, tmp_path / "early", first, tables=("one.*",))
        early.catch_up()
        first.execute("UPDATE one.t SET v = 10 WHERE id = 1", "FLUSH BINARY LOGS")
        second.execute(*user)
        second.execute(*schema, "INSERT INTO one.t VALUES (1, 10), (2, 2), (3, 3)")
        second.execute(*(text.format(_gtids(first)) for text in BEGIN_AT[flavour]))
        first.execute("UPDATE one.t SET v = 20 WHERE id = 2")
        late = Lake(iceberg_spark, tmp_path / "late", first, tables=("one.*",))
        late.catch_up()
        first.execute("UPDATE one.t SET v = 30 WHERE id = 3", "DELETE FROM one.t WHERE id = 1")
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        until(lambda: _gtids(second) == _gtids(first))
        second.execute("STOP REPLICA")
        second.execute("INSERT INTO one.t VALUES (4, 4)")
        before = early.table("one.t").sort_by("id")
        for lake in (early, late):
            lake.server = second
        with pytest.raises(PositionLostError, match=r"purged|its logs do not have"):
            early.catch_up()
        assert early.table("one.t").sort_by("id") == before
        late.catch_up()
        assert quarantined(late) == {}
        assert late.equals_source("one.*") == ["one.t"]
        assert not any("copied again" in note for note in late.notes)
        if flavour == "mysql":  # MariaDB's position does not say what came before the backup
            back = Lake(iceberg_spark, tmp_path / "back", second, tables=("one.*",))
            back.catch_up()
            first.execute(FOLLOW[flavour].format(second.port), "START REPLICA")
            until(lambda: _gtids(second) == _gtids(first))
            first.execute("STOP REPLICA", "INSERT INTO one.t VALUES (5, 5)")
            back.server = first
            back.catch_up()
            assert quarantined(back) == {}
            assert back.equals_source("one.*") == ["one.t"]
            assert not any("copied again" in note for note in back.notes)


@pytest.mark.parametrize("name", SERVERS)
def test_statements_after_a_failover(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The first range of the new server's log has statements that change tables, and all tables are at one place."""
    flavour = name.partition("-")[0]
    options = [*GTID[flavour], "--binlog-row-metadata=FULL"]
    with (
        running(provisioned(name), [*options, "--server-id=1"]) as first,
        running(provisioned(name), [*options, "--server-id=2"]) as second,
    ):
        first.execute("CREATE USER repl@'%' IDENTIFIED BY 'secret'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")  # fmt: skip
        second.execute(FOLLOW[flavour].format(first.port), "START REPLICA")
        first.execute("CREATE DATABASE one", "CREATE TABLE one.t (id INT PRIMARY KEY, v INT)")
        first.execute("INSERT INTO one.t VALUES (1, 1), (2, 2), (3, 3)")
        lake = Lake(iceberg_spark, tmp_path, first, tables=("one.*",))
        lake.catch_up()
        first.execute("UPDATE one.t SET v = 10 WHERE id = 1")
        lake.catch_up()
        until(lambda: _gtids(second) == _gtids(first))
        second.execute("STOP REPLICA")
        first.stop()
        second.execute("TRUNCATE TABLE one.t", "INSERT INTO one.t VALUES (4, 4)")
        second.execute("ALTER TABLE one.t ADD COLUMN more INT NULL")
        second.execute("CREATE TABLE one.u (id INT PRIMARY KEY)", "INSERT INTO one.u VALUES (1)")
        second.execute("INSERT INTO one.t VALUES (5, 5, 5)")
        lake.server = second
        lake.catch_up()
        assert quarantined(lake) == {}
        assert lake.equals_source("one.*") == ["one.t", "one.u"]
        assert not any("copied again" in note for note in lake.notes)


@pytest.mark.parametrize("name", SERVERS)
def test_a_first_host_that_does_not_answer(
    name: str, provisioned: Any, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Copies, rounds and comparisons use the next host of the URL."""
    with running(provisioned(name)) as server:
        nothing = ReservedPort()
        server.execute("CREATE DATABASE hosts", "CREATE TABLE hosts.t (id INT PRIMARY KEY, v INT)")
        server.execute("INSERT INTO hosts.t VALUES (1, 1), (2, 2)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("hosts.*",))
        lake.url = f"{server.flavour}://root@127.0.0.1:{nothing.number}/,{url_of(server)}"
        lake.catch_up()
        server.execute("UPDATE hosts.t SET v = 7", "CREATE TABLE hosts.u (id INT PRIMARY KEY)")
        server.execute("INSERT INTO hosts.u VALUES (3)")
        lake.catch_up()
        assert quarantined(lake) == {}
        assert states(lake) == {"hosts.t": "equal", "hosts.u": "equal"}
        nothing.release()


def _gtids(server: Server) -> str:
    name = "GLOBAL.gtid_executed" if server.flavour == "mysql" else "GLOBAL.gtid_current_pos"
    return (server.rows(f"SELECT @@{name}")[0][0] or "").replace("\n", "")
