"""A stream of Spark from a server that attacks it: an error without secrets, and no invented row."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from binlake.errors import ConnectionLostError
from binlake.source.replica.packets import event_packet, framed
from support.logs.log_builder import (
    ARTIFICIAL,
    QUERY,
    ROTATE,
    TABLE_MAP,
    XID,
    LogBuilder,
    event,
    query_body,
)
from support.logs.table_log import INSERT, image, rows_body, table_map
from support.servers.fake_server import Conversation, fake_server
from support.servers.fake_source import EOF, NAME, Stream, source, whole
from support.spark.stream_query import Checkpoint, Query42

PASSWORD = "not-for-everybody"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x85\u202e"
SECONDS = 300  # a deadline only


def log_of(table: str, rows: int = 3) -> LogBuilder:
    made = LogBuilder()
    made.add(QUERY, query_body(b"BEGIN"))
    made.add(TABLE_MAP, table_map(table))
    made.add(INSERT, rows_body(*(image((n, "x", None)) for n in range(rows))))
    made.add(XID, struct.pack("<Q", 7))
    return made


LOG = log_of("t")
ENDS = [*LOG.offsets[1:], len(LOG.data)]
EVENTS = [bytes(LOG.data[a:b]) for a, b in zip(LOG.offsets, ENDS, strict=True)]


def announced(name: str, position: int = 4) -> bytes:
    body = struct.pack("<Q", position) + name.encode()
    return event(ROTATE, body, 0, flags=ARTIFICIAL, log_pos=0, timestamp=0)


def packets(*events: bytes) -> bytes:
    return b"".join(event_packet(raw, n + 1) for n, raw in enumerate(events))


def saying(attack: bytes) -> Stream:
    def say(conversation: Conversation, _packets: bytes) -> None:
        conversation.sock.sendall(attack + b"".join(framed(EOF)))

    return say


def endlessly(piece: bytes) -> Stream:
    def say(conversation: Conversation, _packets: bytes) -> None:
        while True:  # until the client goes
            conversation.sock.sendall(piece)

    return say


def with_length(raw: bytes, length: int) -> bytes:
    return raw[:9] + struct.pack("<I", length) + raw[13:]


ATTACKS: dict[str, Stream] = {
    "packets without an end": endlessly(b"\xff\xff\xff\1" + b"\0" * (1 << 20)),
    "a bad checksum": saying(packets(announced(NAME), EVENTS[0], EVENTS[1][:-1] + b"\0", *EVENTS[2:])),
    "a length of 4 GB": saying(packets(announced(NAME), EVENTS[0], with_length(EVENTS[1], 0xFFFFFFFF))),
    "a longer length": saying(packets(announced(NAME), EVENTS[0], with_length(EVENTS[1], 1000))),
    "noise": saying(bytes(range(256)) * 64),
    "a directory": saying(packets(announced("../../../../tmp/evil.000001"), *EVENTS)),
    "an error of 1 MB with escapes": saying(
        b"".join(framed(b"\xff\xd4\x04#HY000" + ESCAPES.encode() + b"A" * 1_000_000))
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINLAKE_PASSWORD", PASSWORD)


def silent_to(command: str) -> Callable[[Conversation], None]:
    """A server that does what it should, until it receives a command: it never answers that."""

    def talk(conversation: Conversation) -> None:
        hear = conversation.hear

        def hear_or_wait() -> bytes:
            heard = hear()
            while heard[1:].decode("latin-1").startswith(command):
                heard = hear()  # fails once the client has gone
            return heard

        conversation.hear = hear_or_wait  # type: ignore[method-assign]
        honest(conversation)

    honest = source(LOG, [whole] * 99, [])
    return talk


def waiting(conversation: Conversation, _packets: bytes = b"") -> None:
    conversation.hear()  # until the client goes


SILENCES: dict[str, Callable[[Conversation], None]] = {
    "to a login": waiting,
    "to a query": silent_to("SHOW MASTER STATUS"),
    "to a request for a log": source(LOG, [waiting] * 99, []),
}


SILENT = "(nothing arrived for 2 seconds|the server took too long)"


def url_of(port: int) -> str:
    patience = "read-timeout=2&connect-timeout=2"
    return f"mysql://ada@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none&{patience}"


def stream(spark: Any, port: int, folder: Path) -> Any:
    frame = (
        spark.readStream.format("binlog")
        .option("server", url_of(port))
        .option("starting_offsets", "earliest")
        .load()
    )
    write = frame.writeStream.format("parquet").option("path", str(folder / "sink"))
    write = write.option("checkpointLocation", str(folder / "checkpoint"))
    return write.trigger(availableNow=True).start()


def test_an_honest_server_is_read(spark: Any, tmp_path: Path) -> None:
    with fake_server(source(LOG, [whole] * 99, [])) as (port, _):
        query = stream(spark, port, tmp_path)
        assert query.awaitTermination(SECONDS)
    assert spark.read.parquet(str(tmp_path / "sink")).count() == 3


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_the_stream_with_an_error(
    spark: Any, tmp_path: Path, attack: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with fake_server(source(LOG, [ATTACKS[attack]] * 99, [])) as (port, _):
        query = stream(spark, port, tmp_path)
        with pytest.raises(StreamingQueryException) as raised:
            assert query.awaitTermination(SECONDS)
    said = str(raised.value)
    printed = capfd.readouterr()
    for text in (said, printed.out, printed.err):
        assert PASSWORD not in text
        assert "\x1b" not in text
    assert "binlake.errors." in said
    assert len(said) < 30_000
    assert not list((tmp_path / "sink").glob("*.parquet"))


@pytest.mark.parametrize("silence", SILENCES)
def test_a_server_that_is_silent_ends_the_stream(spark: Any, tmp_path: Path, silence: str) -> None:
    with fake_server(SILENCES[silence]) as (port, _):
        query = stream(spark, port, tmp_path)
        with pytest.raises(StreamingQueryException) as raised:
            assert query.awaitTermination(SECONDS)
    first_line = str(raised.value).partition("\n")[0]
    assert re.search(rf"ConnectionLostError: 127.0.0.1:{port}: {SILENT}", first_line)
    assert re.search("start the query again to continue|gives up after 6 failures", first_line)


@pytest.mark.parametrize("silence", SILENCES)
def test_the_first_failure_is_a_line_on_stderr(
    silence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The calls are those of Spark's process for planning."""
    with fake_server(SILENCES[silence]) as (port, _):
        run = Query42(Checkpoint(), server=url_of(port), starting_offsets="earliest")
        run.reader.patience_s = 1.0
        with pytest.raises(ConnectionLostError, match=SILENT):
            run.initial()
    [line] = capsys.readouterr().err.splitlines()
    assert re.match(rf"binlake: 127.0.0.1:{port}: {SILENT}[;:] trying again", line)


WATCHED = """
import os, urllib.request
from binlake.spark import session
honest, hostile, folder = sys.argv[1:]
os.mkdir(f"{folder}/events")
spark = session(master="local[1]", config={
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": f"file://{folder}/events", "spark.eventLog.compress": "false",
})
def stream(url, name):
    rows = spark.readStream.format("binlog").option("server", url).option("starting_offsets", "earliest").load()
    write = rows.writeStream.format("parquet").option("path", f"{folder}/{name}")
    write = write.option("checkpointLocation", f"{folder}/checkpoint-{name}").trigger(availableNow=True)
    return write.queryName(name).start()
query = stream(honest, "honest")
query.awaitTermination()
failure = ""
try:
    stream(hostile, "hostile").awaitTermination()
except Exception as error:
    failure = str(error)
rows = spark.read.format("binlog").option("server", honest).option("ledger_path", f"{folder}/ledger").load()
texts = [failure, rows._jdf.queryExecution().toString(), str(query.lastProgress), str(query.status)]
count = rows.count()
for page in ("jobs/", "stages/", "environment/", "executors/", "SQL/", "StreamingQuery/", "api/v1/applications"):
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}") as answer_of_ui:
        texts.append(answer_of_ui.read().decode())
spark.stop()
answer({"rows": count, "failure": failure, "texts": texts})
"""


def test_nothing_that_spark_writes_or_shows_has_the_password(
    run_script: Any, tmp_path: Path
) -> None:
    """Its UI, plans, event log, checkpoints, ledgers, and the messages of a failure."""
    with (
        fake_server(source(LOG, [whole] * 99, [])) as (honest, _),
        fake_server(source(LOG, [ATTACKS["noise"]] * 99, [])) as (hostile, _),
    ):
        found = run_script(WATCHED, url_of(honest), url_of(hostile), str(tmp_path))
    assert found["rows"] == 3
    assert "binlake.errors." in found["failure"]
    assert [text for text in found["texts"] if PASSWORD in text] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"events", "ledger", "checkpoint-honest", "honest"} <= {
        path.relative_to(tmp_path).parts[0] for path in files
    }
    contents = {path: path.read_bytes() for path in files}
    assert [path for path in files if PASSWORD.encode() in contents[path]] == []
    seen = f"ada@127.0.0.1:{honest}"  # what Spark shows of an option
    assert any(seen.encode() in content for content in contents.values())
