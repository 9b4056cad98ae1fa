"""Streams in Spark: growth, restarts from the checkpoint in every state, kills, limits, what is lost.

What a stream yields is compared with what `binlake rows` reads of the finished log.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import StreamingQueryException

from binlake.source.log_file import LogFile
from binlake.spark import stream_metrics
from dev.servers.ports import ReservedPort
from support.oracles.reading import row_lines
from support.servers.archiving import until
from support.spark.spark_processes import environment

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = sorted((GOLDEN / "mysql-9.7" / "rotation").glob("binlog.0*"))[:3]
TRANSACTIONS = sorted((GOLDEN / "mysql-9.7" / "transactions").glob("binlog.0*"))
ADMITS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)

SECONDS = 300  # a deadline only

Key = tuple[str, int, int]


class Streamed:
    """A folder with a log that grows, a parquet sink, a checkpoint."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.log, self.sink, self.checkpoint = (
            folder / name for name in ("log", "sink", "checkpoint")
        )
        self.log.mkdir()

    def start(self, trigger: dict[str, Any], **options: Any) -> Any:
        frame = self.spark.readStream.format("binlog").options(**options)
        frame = frame.load(str(self.log))
        write = frame.writeStream.format("parquet").option("path", str(self.sink))
        write = write.option("checkpointLocation", str(self.checkpoint))
        return write.trigger(**trigger).start()

    def run(self, **options: Any) -> list[dict[str, Any]]:
        """Everything that is there now; the progress of each batch."""
        query = self.start({"availableNow": True}, **options)
        assert query.awaitTermination(SECONDS)
        return list(query.recentProgress)

    def keys(self) -> list[Key]:
        return sorted(sink_keys(self.sink))

    def uncommit(self) -> None:
        """Leave what a process leaves that is killed after a batch and before its commit."""
        commits = sorted(
            (p for p in (self.checkpoint / "commits").iterdir() if p.name.isdigit()),
            key=lambda p: int(p.name),
        )
        commits[-1].unlink()
        commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)


def sink_keys(sink: Path) -> Iterator[Key]:
    """(file, pos, row) of what the sink's own log says is in it."""
    import json

    names = set()
    for entry in (sink / "_spark_metadata").iterdir():
        if entry.name.partition(".")[0].isdigit():
            lines = entry.read_text().splitlines()[1:]
            names |= {json.loads(line)["path"].rpartition("/")[2] for line in lines}
    for name in names:
        for row in pq.read_table(sink / name, columns=["file", "pos", "row"]).to_pylist():
            yield row["file"], row["pos"], row["row"]


def expected(*paths: Path) -> list[Key]:
    return sorted((r["file"], r["pos"], r["row"]) for r in row_lines(*paths))


def pieces(path: Path, chance: random.Random) -> list[bytes]:
    """A log in a few pieces, which end anywhere."""
    data = path.read_bytes()
    ends = sorted(chance.sample(range(1, len(data)), 2))
    return [data[: ends[0]], data[ends[0] : ends[1]], data[ends[1] :]]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def streamed(spark: Any, tmp_path: Path) -> Streamed:
    return Streamed(spark, tmp_path)


def test_the_lag_example_of_the_page(
    streamed: Streamed, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of docs/streaming.md, as it stands there."""
    page = (GOLDEN.parents[1] / "docs" / "streaming.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page.partition("## Lag")[2], re.DOTALL)
    (example,) = [code for code in examples if "endOffset" in code]
    append(streamed.log / LOGS[0].name, LOGS[0].read_bytes())
    query = streamed.start({"availableNow": True})
    assert query.awaitTermination(SECONDS)
    exec(compile(example, "streaming.md", "exec"), {"query": query})  # noqa: S102 - our own page
    assert re.search(r"\d+:\d\d:\d\d", capsys.readouterr().out)


def test_metrics_of_a_query(streamed: Streamed) -> None:
    """While it runs, while it has nothing to do, and when it has ended."""
    for path in LOGS:
        shutil.copy(path, streamed.log)
    reserved = ReservedPort()
    metrics = stream_metrics(streamed.spark, reserved.number)

    def asked() -> dict[str, float]:
        url = f"http://127.0.0.1:{reserved.number}/metrics"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name.partition("{")[0]: float(value) for name, value in samples}

    query = streamed.start({"processingTime": "0 seconds"})
    until(lambda: asked().get("binlake_stream_lag_seconds") == 0, SECONDS)  # Spark says: idle
    found = asked()
    assert found["binlake_stream_rows_total"] == len(streamed.keys()) > 0
    assert found["binlake_stream_active"] == 1
    query.stop()
    until(lambda: asked()["binlake_stream_active"] == 0, SECONDS)
    assert asked()["binlake_stream_failed"] == 0
    metrics.close()
    reserved.release()


def test_a_log_that_grows(streamed: Streamed) -> None:
    chance = random.Random(5)
    first, *later = [(path.name, data) for path in LOGS[:2] for data in pieces(path, chance)]
    append(streamed.log / first[0], first[1])
    query = streamed.start({"processingTime": "0 seconds"}, max_partition_bytes="3000")
    try:
        for name, data in later:
            append(streamed.log / name, data)
            query.processAllAvailable()
    finally:
        query.stop()
    assert streamed.keys() == expected(*LOGS[:2])


def test_rows_come_in_commit_order(spark: Any, tmp_path: Path) -> None:
    for path in TRANSACTIONS:
        shutil.copy(path, tmp_path)
    seen: list[Any] = []
    frame = spark.readStream.format("binlog").options(
        table="golden.a", max_transactions_per_batch="7"
    )
    query = (
        frame.load(str(tmp_path))
        .writeStream.foreachBatch(lambda batch, _: seen.extend(batch.select("_seq").collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    places = [(r._seq.file, r._seq.pos, r._seq.row) for r in seen]
    assert places == sorted(set(places))
    assert len(places) > 5


def test_restarts_in_every_state(streamed: Streamed) -> None:
    shutil.copy(LOGS[0], streamed.log)
    half = LOGS[1].read_bytes()
    (streamed.log / LOGS[1].name).write_bytes(half[: len(half) // 2])
    streamed.run()
    streamed.uncommit()  # the first batch again
    for path in LOGS[1:]:
        shutil.copy(path, streamed.log)
        streamed.run(max_partition_bytes="2000")
        streamed.uncommit()
    streamed.run()
    streamed.run()
    assert streamed.keys() == expected(*LOGS)


def test_limits_that_change_on_a_restart(streamed: Streamed) -> None:
    for path in TRANSACTIONS:
        shutil.copy(path, streamed.log)
    for limit in ("9", "25", None):
        options = {} if limit is None else {"max_rows_per_batch": limit}
        query = streamed.start({"processingTime": "0 seconds"}, **options)
        try:
            if limit is None:
                query.processAllAvailable()
            else:
                _wait(lambda query=query: len(query.recentProgress) > 2)
                sizes = [p["numInputRows"] for p in query.recentProgress]
                biggest = max(_transaction_sizes(*TRANSACTIONS))
                assert all(size <= max(int(limit), biggest) for size in sizes)
        finally:
            query.stop()
    assert streamed.keys() == expected(*TRANSACTIONS)


def _transaction_sizes(*paths: Path) -> list[int]:
    sizes: dict[str, int] = {}
    for row in row_lines(*paths):
        sizes[row["gtid"]] = sizes.get(row["gtid"], 0) + 1
    return list(sizes.values())


def _wait(done: Any, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_available_now_in_limited_batches(streamed: Streamed) -> None:
    """Newer Sparks run several batches, 4.1 runs one, of the limit."""
    for path in TRANSACTIONS:
        shutil.copy(path, streamed.log)
    limit = {"max_transactions_per_batch": "5"}
    progress = streamed.run(**limit)
    again = sum(batch["numInputRows"] for batch in streamed.run(**limit))
    if ADMITS:
        assert len(progress) > 3
        assert not again
        assert streamed.keys() == expected(*TRANSACTIONS)
        assert "binlog.0" in progress[0]["sources"][0]["latestOffset"]
    else:
        assert sum(batch["numInputRows"] for batch in progress)
        assert again
        streamed.run()
        assert streamed.keys() == expected(*TRANSACTIONS)


def test_starting_latest(streamed: Streamed) -> None:
    shutil.copy(LOGS[0], streamed.log)
    streamed.run(starting_offsets="latest")
    shutil.copy(LOGS[1], streamed.log)
    streamed.run(starting_offsets="latest")
    assert streamed.keys() == expected(LOGS[1])


def test_a_purged_log_is_reported_in_a_few_lines(streamed: Streamed) -> None:
    with LogFile.open(str(LOGS[0])) as log:
        [end, *_] = [w.block.end(len(w) // 2) for w in log.windows(verify=False)]
    (streamed.log / LOGS[0].name).write_bytes(LOGS[0].read_bytes()[:end])
    streamed.run()
    (streamed.log / LOGS[0].name).unlink()
    shutil.copy(LOGS[-1], streamed.log)
    with pytest.raises(StreamingQueryException) as caught:
        streamed.run()
    told, *_ = str(caught.value).splitlines()
    assert f"PositionLostError: the stream had reached {LOGS[0].name}" in told
    assert "Traceback" not in str(caught.value)


def test_a_column_that_is_new(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    log = tmp_path / "log"
    log.mkdir()
    shutil.copy(TRANSACTIONS[0], log)
    frame = spark.readStream.format("binlog").option("table", "golden.a")
    narrow = frame.load(str(log)).drop("v")
    query = (
        narrow.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS)
    wrong = frame.schema("id date").load(str(log))
    query = (
        wrong.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "other"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(PySparkException, match="does not fit date32"):
        query.awaitTermination(SECONDS)


KILLED = """
import sys
from binlake.spark import session
spark = session(master="local[2]", config={"spark.ui.enabled": "false", "spark.log.level": "OFF",
                                           "spark.sql.shuffle.partitions": "1"})
log, sink, checkpoint, limit = sys.argv[1:]
frame = spark.readStream.format("binlog").option("max_transactions_per_batch", limit).load(log)
query = (frame.writeStream.format("parquet").option("path", sink)
         .option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start())
print("running", flush=True)
query.awaitTermination()
"""


def test_kill_9_in_the_middle(streamed: Streamed, tmp_path: Path) -> None:
    """The driver, its JVM and all workers at once, whatever they are doing."""
    chance = random.Random(9)
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    grown = iter([(p.name, data) for p in TRANSACTIONS for data in pieces(p, chance)])
    append(streamed.log / TRANSACTIONS[0].name, next(grown)[1])
    for limit in ("3", "11"):
        command = [sys.executable, str(script), str(streamed.log), str(streamed.sink)]
        running = subprocess.Popen(
            [*command, str(streamed.checkpoint), limit],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(),
            start_new_session=True, text=True,
        )  # fmt: skip
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "running\n"
            name, data = next(grown)
            planned = len(_offsets(streamed.checkpoint))
            append(streamed.log / name, data)
            _wait(lambda n=planned: len(_offsets(streamed.checkpoint)) > n)
            time.sleep(chance.random() / 2)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(SECONDS)
            assert running.stdout is not None
            running.stdout.close()
    for name, data in grown:
        append(streamed.log / name, data)
    streamed.run()
    streamed.run()
    assert streamed.keys() == expected(*TRANSACTIONS)


def _offsets(checkpoint: Path) -> list[str]:
    folder = checkpoint / "offsets"
    return [p.name for p in folder.iterdir() if p.name.isdigit()] if folder.exists() else []
