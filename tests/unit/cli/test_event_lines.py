"""The compiled lines of `inspect` are those that the typed events make."""

from __future__ import annotations

import io
import json
import string
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.cli.inspect.event_json import EventJsonWriter, json_of
from binlake.cli.inspect.event_lines import EventLineWriter, line_of
from binlake.cli.inspect.event_writer import EventWriter
from binlake.format.event_types import EVENT_TYPES
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from conftest import ROOT
from support.logs.log_builder import LogBuilder, event

GOLDEN = ROOT / "tests" / "golden"
#: A format description with the post-header lengths that servers list.
FORMAT_BODY = (
    struct.pack("<H50sIB", 4, b"9.7.0", 0, 19)
    + bytes(
        EVENT_TYPES[code].post_header_length if code in EVENT_TYPES else 0 for code in range(1, 43)
    )
    + b"\1"
)
PLAIN = string.ascii_letters + string.digits + " \t\n.,()`'\"\\%;"


def readers(path: Path) -> list[LogReader]:
    return list(LogReader.of_chains(resolve([str(path)]), ReadOptions(), Ledger()))


def typed(path: Path) -> list[str]:
    return [line_of(event) for reader in readers(path) for event in reader.events()]


def typed_json(path: Path) -> list[str]:
    return [json_of(event) for reader in readers(path) for event in reader.events()]


def written(
    path: Path, limit: int | None = None, kind: type[EventWriter] = EventLineWriter
) -> tuple[list[str], EventWriter]:
    target = io.BytesIO()
    writer = kind(target, "utf-8", "strict", limit)
    for reader in readers(path):
        for piece in reader.pieces():
            writer.write(piece)
    return target.getvalue().decode().split("\n")[:-1], writer


def query(sql: bytes, database: bytes, collation: int | None) -> bytes:
    status = b"\0" + bytes(4) + b"\1" + bytes(8) + b"\6\3std"
    if collation is not None:
        status += b"\4" + struct.pack("<3H", collation, collation, 8)
    head = struct.pack("<IIBHH", 7, 0, len(database), 0, len(status))
    return head + status + database + b"\0" + sql


def test_a_limit_ends_the_lines() -> None:
    path = GOLDEN / "mysql-9.7" / "gtid" / "binlog.000001"
    expected = typed(path)
    lines, writer = written(path)
    assert writer.shown == len(expected) > 3
    assert lines == expected
    assert written(path, 3)[0] == expected[:3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


@given(
    st.lists(
        st.tuples(
            st.one_of(st.text(PLAIN, max_size=130), st.text(max_size=40)),
            st.one_of(
                st.just(""),
                st.text(string.ascii_lowercase, min_size=1, max_size=40),
                st.text(max_size=4),
            ),
            st.sampled_from([None, 8, 33, 45, 63, 255, 13, 28, 309, 65535]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_statements_of_every_kind(
    folder: Path, statements: list[tuple[str, str, int | None]]
) -> None:
    log = LogBuilder()
    log.data = bytearray(b"\xfebin" + event(15, FORMAT_BODY, 4))
    for sql, database, collation in statements:
        name = database.replace("\0", "").encode("utf-8", "replace")[:60]
        log.add(2, query(sql.encode("utf-8", "replace"), name, collation))
        log.add(29, bytes([len(sql) & 255]) + sql.encode("utf-8", "replace"))
    path = folder / "binlog.000001"
    path.write_bytes(log.bytes())
    assert written(path)[0] == typed(path)
    assert written(path, kind=EventJsonWriter)[0] == typed_json(path)


def test_a_bad_checksum_is_reported_and_counted(folder: Path) -> None:
    log = LogBuilder()
    for number in range(3):
        log.add(16, struct.pack("<Q", number))
    raw = bytearray(log.bytes())
    raw[-1] ^= 1
    path = folder / "binlog.000002"
    path.write_bytes(raw)
    lines, writer = written(path)
    assert lines == typed(path)
    assert writer.bad == 1
    assert [line.endswith("BAD CHECKSUM") for line in lines] == [False, False, False, True]
    objects, writer = written(path, kind=EventJsonWriter)
    assert objects == typed_json(path)
    assert [json.loads(line)["checksum"] for line in objects] == ["ok", "ok", "ok", "bad"]
    assert writer.bad == 1


def test_json_of_events_inside_a_payload_has_the_place_of_the_payload() -> None:
    """And their ordinals, also where the kernel stops and goes on."""
    path = GOLDEN / "mysql-9.7" / "types-compressed" / "binlog.000001"
    lines = [json.loads(line) for line in written(path, kind=EventJsonWriter)[0]]
    payload = next(line for line in lines if line["type"] == "TRANSACTION_PAYLOAD_EVENT")
    inside = [line for line in lines if line["inner"] is not None and line["pos"] == payload["pos"]]
    assert [line["inner"] for line in inside] == list(range(len(inside)))
    assert len(inside) > 3
    assert {line["end_pos"] for line in inside} == {payload["end_pos"]}
    assert {line["checksum"] for line in inside} == {"none"}


def test_json_is_left_to_typed_events_where_the_output_is_not_utf8() -> None:
    path = GOLDEN / "mysql-9.7" / "gtid" / "binlog.000001"
    target = io.BytesIO()
    writer = EventJsonWriter(target, "latin-1", "strict", None)
    for reader in readers(path):
        for piece in reader.pieces():
            writer.write(piece)
    assert target.getvalue().decode("latin-1").split("\n")[:-1] == typed_json(path)
