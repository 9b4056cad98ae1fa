"""Streams from an object store and exports to it: their requests, stores that fail, runs that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

import binlake
from binlake.errors import SourceError
from support.oracles.reading import row_lines
from support.servers.store_proxy import Refusal, StoreProxy, StoreRequest
from support.spark.spark_processes import environment
from support.spark.stream_query import Checkpoint, Query41, Query42

pytestmark = pytest.mark.server

LOG = Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions" / "binlog.000001"
LOGS = 20
FOLDER = "s3://archive/logs"
BUSY = Refusal(503, "SlowDown", "Please reduce your request rate.")
EXPIRED = Refusal(400, "ExpiredToken", "The provided token has expired.")
SECRET = "geheim-1234"


def put(number: int, data: bytes) -> None:
    from pyarrow import fs

    files, _ = fs.FileSystem.from_uri("s3://archive/")
    with files.open_output_stream(f"archive/logs/binlog.{number:06d}", compression=None) as out:
        out.write(data)


@pytest.fixture(scope="module")
def store() -> Iterator[StoreProxy]:
    """A store with small logs, and the proxy that requests go through."""
    from dev.servers.object_store import OBJECT_STORE, object_store
    from dev.servers.packages import home

    if not (home() / "roots" / OBJECT_STORE).exists() and os.environ.get("BINLAKE_REQUIRE") != "1":
        pytest.skip("no object store is provisioned: python -m dev.servers provision s3")
    with object_store("archive") as variables, pytest.MonkeyPatch.context() as patch:
        proxy = StoreProxy(int(variables["AWS_ENDPOINT_URL"].rpartition(":")[2]))
        variables |= {"AWS_ENDPOINT_URL": proxy.address, "AWS_SECRET_ACCESS_KEY": SECRET}
        for name, value in variables.items():
            patch.setenv(name, value)
        for number in range(1, LOGS + 1):
            put(number, LOG.read_bytes())
        yield proxy
        proxy.close()


@pytest.fixture
def proxy(store: StoreProxy) -> Iterator[StoreProxy]:
    """The proxy, without what other tests have asked and made it do."""
    store.requests.clear()
    yield store
    store.refuse, store.delay_s, store.together = None, 0.0, 0


def per_log(proxy: StoreProxy) -> Counter[tuple[str, str]]:
    """How often each log was asked for, by method; forgets what it has counted."""
    seen = Counter(
        (one.name, one.method) for one in proxy.requests if one.name.startswith("binlog.")
    )
    proxy.requests.clear()
    return seen


def once(*methods: str) -> Counter[tuple[str, str]]:
    numbers = range(1, LOGS + 1)
    return Counter((f"binlog.{number:06d}", method) for number in numbers for method in methods)


def test_a_small_log_is_opened_once_to_plan_and_once_to_read(proxy: StoreProxy) -> None:
    run = Query42(Checkpoint(), path=FOLDER)
    run.start()
    assert run.plan()
    [end] = run.checkpoint.ends
    run._partitions(run.initial(), end)
    assert per_log(proxy) == once("HEAD", "GET")
    run._run(0)
    assert per_log(proxy) == once("HEAD", "GET")  # by the task alone
    assert len(run.checkpoint.all_rows) == LOGS * len(list(row_lines(LOG)))
    assert not run.plan()
    assert per_log(proxy) == Counter()


def test_a_stream_of_one_table_opens_each_log_also_to_find_its_columns(proxy: StoreProxy) -> None:
    """Spark asks for the columns in a process of its own. Small logs need no index."""
    run = Query42(Checkpoint(), path=FOLDER, table="golden.a")
    assert per_log(proxy) == once("HEAD", "GET")
    run.start()
    assert run.plan()
    run._partitions(run.initial(), run.checkpoint.ends[0])
    assert per_log(proxy) == once("HEAD", "GET")
    run._run(0)
    assert per_log(proxy) == once("HEAD", "GET")
    expected = binlake.open(str(LOG)).to_arrow("golden.a").num_rows
    assert len(run.checkpoint.all_rows) == LOGS * expected > 0


def test_a_slow_store_is_asked_about_many_logs_at_the_same_time(proxy: StoreProxy) -> None:
    run = Query42(Checkpoint(), path=FOLDER)
    run.start()
    assert run.plan()
    [end] = run.checkpoint.ends
    proxy.delay_s, proxy.together, proxy.most_at_once = 2.0, 12, 0
    run._partitions(run.initial(), end)
    assert proxy.most_at_once >= 12  # of 16 threads
    proxy.together, proxy.most_at_once = 8, 0
    run._run(0)
    assert proxy.most_at_once >= 8  # by the tasks, of which each reads some of the logs
    assert len(run.checkpoint.all_rows) == LOGS * len(list(row_lines(LOG)))


def test_the_search_for_columns_opens_many_logs_at_the_same_time(proxy: StoreProxy) -> None:
    proxy.delay_s, proxy.together, proxy.most_at_once = 2.0, 12, 0
    Query42(Checkpoint(), path=FOLDER, table="golden.a")
    assert proxy.most_at_once >= 12  # of 16 threads
    assert per_log(proxy) == once("HEAD", "GET")


def test_the_search_for_columns_opens_no_log_that_it_does_not_read(proxy: StoreProxy) -> None:
    a_log_and_a_byte = LOG.stat().st_size + 1
    Query42(Checkpoint(), path=FOLDER, table="golden.a", schema_scan_bytes=a_log_and_a_byte)
    newest = [f"binlog.{number:06d}" for number in (LOGS - 1, LOGS)]
    assert per_log(proxy) == Counter(
        (name, method) for name in newest for method in ("HEAD", "GET")
    )


@pytest.mark.parametrize("query", [Query41, Query42])
def test_limits_open_no_log_again(proxy: StoreProxy, query: type[Query41]) -> None:
    run = query(Checkpoint(), path=FOLDER, max_transactions_per_batch=50)
    run.start()
    batches = 0
    planned: Counter[tuple[str, str]] = Counter()
    while run.plan():
        ends = run.checkpoint.ends
        run._partitions(ends[-2] if batches else run.initial(), ends[-1])
        planned += per_log(proxy)
        run._run(batches)
        batches += 1
        per_log(proxy)
    assert batches > 2
    assert planned == once("HEAD", "GET")
    assert len(run.checkpoint.all_rows) == LOGS * len(list(row_lines(LOG)))


def test_a_log_that_grows_is_read_again(proxy: StoreProxy) -> None:
    run = Query42(Checkpoint(), path=FOLDER)
    run.start()
    run.drain()
    before = len(run.checkpoint.all_rows)
    try:
        put(LOGS + 1, LOG.read_bytes()[:2000])
        run.drain()
        put(LOGS + 1, LOG.read_bytes())
        run.drain()
        assert len(run.checkpoint.all_rows) == before + len(list(row_lines(LOG)))
    finally:
        from pyarrow import fs

        files, _ = fs.FileSystem.from_uri("s3://archive/")
        files.delete_file(f"archive/logs/binlog.{LOGS + 1:06d}")


def test_a_store_that_refuses_every_first_request(proxy: StoreProxy) -> None:
    refused: set[StoreRequest] = set()

    def first(request: StoreRequest) -> Refusal | None:
        if request in refused or request.name > "binlog.000003":
            return None
        refused.add(request)
        return BUSY

    proxy.refuse = first
    run = Query42(Checkpoint(), path=FOLDER)
    run.start()
    run.drain()
    assert len(refused) > 3
    assert len(run.checkpoint.all_rows) == LOGS * len(list(row_lines(LOG)))


@pytest.mark.parametrize(
    ("refusal", "advice"), [(BUSY, "try again later"), (EXPIRED, "have not expired")]
)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_store_that_refuses_in_the_middle(
    proxy: StoreProxy, refusal: Refusal, advice: str, method: str
) -> None:
    """The batch fails with advice and without secrets, and is read when the store answers again."""
    run = Query42(Checkpoint(), path=FOLDER)
    run.start()
    assert run.plan()
    proxy.refuse = lambda one: (
        refusal if one.name == "binlog.000007" and one.method == method else None
    )
    with pytest.raises(SourceError, match=advice) as caught:
        run._run(0)
    assert "binlog.000007" in str(caught.value)
    assert SECRET not in str(caught.value)
    proxy.refuse = None
    again = Query42(run.checkpoint, path=FOLDER)
    again.start()
    assert len(run.checkpoint.all_rows) == LOGS * len(list(row_lines(LOG)))


EXPORT = """
import binlake, sys
binlake.export(sys.argv[1], sys.argv[2], engine="local", workers=1, if_exists=sys.argv[3])
"""


def exporting(target: str, if_exists: str = "error") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", EXPORT, str(LOG), target, if_exists]
    return subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code of an export, and what it said."""
    _, said = process.communicate()
    return process.returncode, said.decode()


def content(target: str) -> tuple[dict[str, int], set[str]]:
    """The rows of each table by the ledger, whose files must be there, and all other Parquet files."""
    from pyarrow import fs
    from pyarrow import parquet as pq

    files, root = fs.FileSystem.from_uri(target)
    there = {
        info.path.removeprefix(f"{root}/"): info
        for info in files.get_file_info(fs.FileSelector(root, recursive=True))
        if info.path.endswith(".parquet")
    }
    with files.open_input_stream(f"{root}/_ledger.json") as stream:
        ledger = json.loads(stream.read())
    rows = {}
    for table, facts in ledger["tables"].items():
        paths = [f"{table}/{file['name']}" for file in facts["files"]]
        rows[table] = sum(
            pq.read_metadata(f"{root}/{path}", filesystem=files).num_rows for path in paths
        )
        for path in paths:
            del there[path]
    return rows, set(there)


def test_an_export_moves_each_file_once(proxy: StoreProxy) -> None:
    assert ended(exporting("s3://archive/moved")) == (0, "")
    rows, other = content("s3://archive/moved")
    assert sum(rows.values()) == len(list(row_lines(LOG)))
    assert not other
    puts = [one.target.partition("?")[0] for one in proxy.requests if one.method == "PUT"]
    files = [put for put in puts if put.endswith(".parquet") and "/_staging-" not in put]
    assert len(files) == len(set(files)) == len(rows)
    assert not any("/tables/" in put for put in puts)


@pytest.mark.parametrize("stage", ["upload", "move", "ledger"])
def test_an_export_that_is_killed_during_an_upload(proxy: StoreProxy, stage: str) -> None:
    """It leaves no ledger; the next run replaces it, and nothing of it is left."""
    target = f"s3://archive/killed-{stage}"
    started: list[subprocess.Popen[bytes]] = []

    def kill(request: StoreRequest) -> None:
        path = request.target.partition("?")[0]
        staged = "/_staging-" in path
        at = {
            "upload": staged and path.endswith(".parquet"),
            "move": not staged and path.endswith(".parquet"),
            "ledger": path.endswith(f"killed-{stage}/_ledger.json"),
        }
        if started and request.method == "PUT" and at[stage]:
            started.pop().kill()

    proxy.refuse = kill
    run = exporting(target)
    started.append(run)
    assert ended(run)[0] == -9
    proxy.refuse = None
    code, said = ended(exporting(target))
    assert code == 1
    assert "did not finish" in said
    assert ended(exporting(target, "replace")) == (0, "")
    rows, other = content(target)
    assert sum(rows.values()) == len(list(row_lines(LOG)))
    assert not other
