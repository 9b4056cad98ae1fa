from __future__ import annotations

from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError
from binlake.values.gtid import Gtid, MariaGtid
from binlake.values.option_spec import OptionSpec
from binlake.values.option_texts import (
    calendar_text,
    parse_at,
    parse_bytes,
    parse_calendar_us,
    parse_file_position,
    parse_time_us,
)
from binlake.values.options import READ_OPTIONS, ReadOptions
from binlake.values.position import FilePosition
from dev.docs.option_forms import FORMS

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
DAY_US = 86_400_000_000
NOVEMBER_21 = 20_778 * DAY_US  # 2026-11-21 in days since 1970


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-01", 0),
        ("2026-11-21", NOVEMBER_21),
        ("2026-11-21 14:00", NOVEMBER_21 + 14 * 3_600_000_000),
        ("2026-11-21T14:00:05.25Z", NOVEMBER_21 + 50_405_250_000),
        ("2026-11-21 01:30:00+02:00", NOVEMBER_21 - 1_800_000_000),
        ("2026-11-21 01:30:00 -0200", NOVEMBER_21 + 12_600_000_000),
        ("@1.5", 1_500_000),
        ("1969-12-31 23:59:59.999999", -1),
    ],
)
def test_times(text: str, us: int) -> None:
    assert parse_time_us(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-13-01",
        "2026-01-32",
        "25:00",
        "-1y",
        "2026-11-21 25:00",
        "@-1",
        "٢٠٢٦-11-21",
    ],
)
def test_times_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time_us(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64k", 65536), ("1 MB", 1 << 20), ("1GiB", 1 << 30), ("2T", 2 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1.5M", "1PB"])
def test_sizes_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bytes(text)


def test_file_positions() -> None:
    assert parse_file_position("/var/lib/binlog.000012:4") == FilePosition("binlog.000012", 4)
    assert parse_file_position("120") == FilePosition("", 120)
    assert str(FilePosition("b.1", 4)) == "b.1:4"
    for text in ("", "binlog.000012", "b:x", "b:-1", "b:²"):
        with pytest.raises(ValueError):
            parse_file_position(text)


def test_at_takes_positions_and_gtids() -> None:
    assert parse_at("b.1:4") == FilePosition("b.1", 4)
    assert parse_at("4") == FilePosition("", 4)
    assert parse_at(f"{UUID}:5") == Gtid(bytes.fromhex(UUID.replace("-", "")), 5)
    assert parse_at("0-1-5") == MariaGtid(0, 1, 5)
    with pytest.raises(ValueError):
        parse_at("nonsense")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"table": "a.b,c.*"}, {"table": ("a.b", "c.*")}),
        ({"table": ["a.b", "c.d,e.f"]}, {"table": ("a.b", "c.d", "e.f")}),
        ({"op": "insert, delete"}, {"op": ("insert", "delete")}),
        ({"server_id": 7}, {"server_id": (7,)}),
        ({"server_id": ["1", 2]}, {"server_id": (1, 2)}),
        ({"since": "1970-01-02"}, {"since": DAY_US}),
        ({"since": datetime(1970, 1, 2)}, {"since": DAY_US}),
        (
            {"since": datetime(1970, 1, 2, tzinfo=timezone(timedelta(hours=1)))},
            {"since": DAY_US - 3_600_000_000},
        ),
        ({"since": datetime(1970, 1, 2, tzinfo=UTC)}, {"since": DAY_US}),
        ({"since": date(1970, 1, 2)}, {"since": DAY_US}),
        ({"verify_checksum": "no"}, {"verify_checksum": False}),
        ({"nested": True}, {"nested": True}),
        ({"start": FilePosition("b.1", 4)}, {"start": FilePosition("b.1", 4)}),
        ({"schema": Path("/x/y.sql")}, {"schema": "/x/y.sql"}),
        ({"gtid": f"{UUID}:1-5, 0-1-7"}, {"gtid": f"{UUID}:1-5,0-1-7"}),
        ({"at": "dir/b.1:99"}, {"at": "dir/b.1:99"}),
        ({"batch_bytes": "1MB"}, {"batch_bytes": 1 << 20}),
        ({"batch_bytes": 5}, {"batch_bytes": 5}),
        ({"metadata_prefix": ""}, {"metadata_prefix": ""}),
        ({"table": None, "since": None}, {}),
    ],
)
def test_parse(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert ReadOptions.parse(given) == ReadOptions(**wanted)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"tables": "a.b"}, "tables"),
        ({"table": "orders"}, "table"),
        ({"table": "a.b,"}, "table"),
        ({"op": "upsert"}, "op"),
        ({"since": "tomorrow"}, "since"),
        ({"since": 5}, "since"),
        ({"server_id": "x"}, "server_id"),
        ({"server_id": -1}, "server_id"),
        ({"server_id": True}, "server_id"),
        ({"verify_checksum": 1}, "verify_checksum"),
        ({"batch_bytes": 0}, "batch_bytes"),
        ({"gtid": "nonsense"}, "gtid"),
        ({"exclude_gtid": ""}, "exclude_gtid"),
        ({"at": "b.1"}, "at"),
        ({"columns": "a,,b"}, "columns"),
        ({"zero_date": "zero"}, "zero_date"),
        ({"since": "2026-01-02", "until": "2026-01-02"}, "until"),
        ({"start": "b.1:9", "stop": "b.1:9"}, "stop"),
        ({"at": "b.1:9", "since": "2026-01-02"}, "since"),
        ({"at": "0-1-5", "gtid": "0-1-5"}, "gtid"),
    ],
)
def test_parse_refuses(given: dict[str, Any], name: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReadOptions.parse(given)
    assert caught.value.name == name
    assert name in str(caught.value)


def test_start_and_stop_of_different_files_are_not_compared() -> None:
    ReadOptions.parse({"start": "b.1:900", "stop": "b.2:4"})
    ReadOptions.parse({"start": "900", "stop": "4"})  # of the first, and of the last file


def test_every_default_satisfies_its_own_parser() -> None:
    for spec in READ_OPTIONS:
        if spec.choices and spec.default:
            assert spec.default in spec.choices
    assert {field.name for field in fields(ReadOptions)} == {spec.name for spec in READ_OPTIONS}


#: Options that another one must come with.
_NEEDED = {"whole_transaction": {"where": "id = 1"}}


@pytest.mark.parametrize("spec", READ_OPTIONS, ids=lambda spec: spec.name)
def test_every_example_of_a_form_is_a_value_of_its_options(spec: OptionSpec) -> None:
    if not spec.choices:
        for example in FORMS[spec.metavar].examples:
            ReadOptions.parse({**_NEEDED.get(spec.name, {}), spec.name: example})


@pytest.mark.parametrize("zone", ["+24:00", "-99:00", "+0260"])
def test_an_offset_that_no_zone_has_is_refused(zone: str) -> None:
    with pytest.raises(OptionError, match="not the offset of a zone"):
        ReadOptions.parse({"since": f"2026-11-21 10:00{zone}"})


@pytest.mark.parametrize(
    ("text", "calendar"),
    [
        ("now", "2026-03-01 09:30:15"),
        ("-90s", "2026-03-01 09:28:45"),
        ("-1h", "2026-03-01 08:30:15"),
        ("-2d", "2026-02-27 09:30:15"),
        ("-1w", "2026-02-22 09:30:15"),
        ("today", "2026-03-01"),
        ("Yesterday", "2026-02-28"),
        ("14:03", "2026-03-01 14:03"),
        ("8:05:06.25", "2026-03-01 08:05:06.25"),
        ("14:03+02:00", "2026-03-01 12:03"),
        ("yesterday 14:03Z", "2026-02-28 14:03"),
    ],
)
def test_relative_times(text: str, calendar: str) -> None:
    now = datetime(2026, 3, 1, 9, 30, 15, tzinfo=UTC)
    assert parse_time_us(text, now) == parse_calendar_us(calendar)
    with pytest.raises(ValueError, match="expected a time"):
        parse_calendar_us(text)


def test_the_wrong_order_of_two_times_shows_both() -> None:
    with pytest.raises(OptionError) as raised:
        ReadOptions.parse({"since": "2026-01-02 03:04:05.5", "until": "@1700000000"})
    assert str(raised.value) == (
        "option until (2023-11-14 22:13:20Z) is not after option since (2026-01-02 03:04:05.500000Z)"
    )


@pytest.mark.parametrize("time_us", [0, 1_700_000_000_000_001, 90_000_000_000_000_000])
def test_a_time_as_text_is_the_time_again(time_us: int) -> None:
    assert parse_calendar_us(calendar_text(time_us)) == time_us
