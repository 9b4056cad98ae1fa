"""Rows of transactions that come in pieces: out of payloads, over several relay logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import UnsupportedError
from binlake.table.row_json import json_lines
from binlake.values.options import ReadOptions
from support.logs.log_builder import QUERY, RELAY, TABLE_MAP, XID, query_body
from support.logs.stream_log import StreamLog, inner_event
from support.logs.table_log import INSERT, Row, decode, image, rows_body, table_map

ADA: Row = (1, "Ada", None)
PARTIAL_UPDATE = 39


def _lines(path: Path, into: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    lines = [] if into is None else into
    for changes in decode(path):
        text = bytes(json_lines(changes, ReadOptions()))
        lines.extend(json.loads(line) for line in text.splitlines())
    return lines


def test_an_error_in_a_payload_is_at_the_payload(tmp_path: Path) -> None:
    log = StreamLog()
    inner = inner_event(QUERY, query_body(b"BEGIN")) + inner_event(TABLE_MAP, table_map())
    good = inner + inner_event(INSERT, rows_body(image(ADA))) + inner_event(XID, bytes(8))
    update = rows_body(image(ADA), image(ADA), bitmaps=(7, 7))
    bad = inner + inner_event(INSERT, rows_body(image(ADA), flags=0))
    bad += inner_event(PARTIAL_UPDATE, update)
    path = (
        log.gtid(1)
        .payload(good)
        .gtid(2)
        .payload(good)
        .gtid(3)
        .payload(bad + inner_event(XID, bytes(8)))
    )
    seen: list[dict[str, Any]] = []
    with pytest.raises(UnsupportedError) as caught:
        _lines(path.write(tmp_path), seen)
    assert caught.value.event_pos == log.offsets[-1]
    assert caught.value.event_type == "PARTIAL_UPDATE_ROWS_EVENT"
    assert [line["gtid"].rpartition(":")[2] for line in seen] == ["1", "2"]


def _relay(folder: Path, number: int) -> StreamLog:
    log = StreamLog(version="8.0.36", flags=RELAY)
    log.rotate("source.000007", flags=0x20)
    log.add_format("8.0.36", 1, log_pos=0)
    return log


def test_a_statement_continues_in_the_next_relay_log(tmp_path: Path) -> None:
    """A replica may rotate between the map of a table and the rows that refer to it."""
    first = _relay(tmp_path, 1).gtid(5).query(b"BEGIN")
    first.add(TABLE_MAP, table_map())
    first.add(INSERT, rows_body(image(ADA), flags=0))
    first.rotate("relay.000002", RELAY).write(tmp_path, "relay.000001")
    second = _relay(tmp_path, 2)
    rows_at = second.add(INSERT, rows_body(image((2, "Bob", None))))
    second.xid().write(tmp_path, "relay.000002")
    one, two = _lines(tmp_path)
    assert one["gtid"] == two["gtid"]
    assert (two["file"], two["pos"], two["after"]["name"]) == ("relay.000002", rows_at, "Bob")
