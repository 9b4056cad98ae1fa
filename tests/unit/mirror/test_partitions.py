"""Partition values as Iceberg's specification computes them, and the text of partition specs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import OptionError, UnsupportedError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.table_rules import parse_partition
from binlake.mirror.tables.partitions import Partitioning, check_partition
from binlake.mirror.tables.schema import iceberg_schema, storage_schema

# so many buckets show all bits of a hash
MOST = (1 << 31) - 1


def values(kind: pa.DataType, given: list[Any], transform: str) -> list[Any]:
    schema = storage_schema(iceberg_schema(pa.schema([("v", kind), ("at", pa.int64())])))
    rows = pa.table([pa.array(given, kind), pa.array(range(len(given)))], schema=schema)
    spec = {"spec-id": 3, "fields": [{"source-id": 1, "transform": transform}]}
    found: dict[int, Any] = {}
    for partition, of in Partitioning.of(spec, schema).split(rows):
        assert partition.json["spec-id"] == 3
        [value] = partition.json["partition"]
        found.update(dict.fromkeys(of["at"].to_pylist(), value))
        assert of["v"].to_pylist() == [given[at] for at in of["at"].to_pylist()]
    return [found[at] for at in range(len(given))]


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        (pa.int32(), 34, 2017239379),
        (pa.int64(), 34, 2017239379),
        (pa.decimal128(9, 2), Decimal("14.20"), -500754589),
        (pa.date32(), date(2017, 11, 16), -653330422),
        (pa.timestamp("us"), datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        (pa.timestamp("us", "UTC"), datetime(2017, 11, 16, 22, 31, 8, 1, UTC), -1207196810),
        (pa.string(), "iceberg", 1210000089),
        (pa.binary(), bytes([0, 1, 2, 3]), -188683207),
    ],
)
def test_buckets_are_those_of_the_specification(kind: pa.DataType, value: Any, hashed: int) -> None:
    expected = (hashed & MOST) % MOST
    assert values(kind, [value, None, value], f"bucket[{MOST}]") == [expected, None, expected]


@pytest.mark.parametrize(
    ("kind", "transform", "given", "expected"),
    [
        (pa.int32(), "truncate[10]", [1, -1, 0, None], [0, -10, 0, None]),
        (pa.int64(), "truncate[10]", [19, -11], [10, -20]),
        # results of Iceberg's own transform, whose arithmetic wraps around
        (pa.int32(), "truncate[10]", [-(2**31), -(2**31) + 8], [2147483646, -2147483640]),
        (pa.int32(), "truncate[1500000000]", [-(2**31), 1073741900], [1294967296, 1294967296]),
        (pa.int64(), "truncate[7]", [-(2**63), -(2**63) + 3], [9223372036854775802, -9223372036854775807]),
        (pa.decimal128(9, 2), "truncate[50]", [Decimal("10.65"), Decimal("-0.01"), None], ["10.50", "-0.50", None]),
        (pa.string(), "truncate[3]", ["iceberg", "é", "", None, "日本語の"], ["ice", "é", "", None, "日本語"]),
        (pa.binary(), "truncate[2]", [b"\x01\xab\xff", b""], ["01AB", ""]),
        (pa.date32(), "year", [date(1969, 12, 31), date(1970, 1, 1), None], [-1, 0, None]),
        (pa.date32(), "month", [date(1969, 12, 31), date(1970, 2, 1)], [-1, 1]),
        (pa.timestamp("us"), "month", [datetime(2017, 12, 1, 10, 0)], [575]),
        (pa.timestamp("us"), "day", [datetime(1969, 12, 31, 23, 59, 59, 999999), None], ["1969-12-31", None]),
        (pa.timestamp("us", "UTC"), "hour", [datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(1970, 1, 1, 1, tzinfo=UTC)], [-1, 1]),
        (pa.timestamp("us"), "identity", [datetime(2017, 11, 16, 1, 2, 3, 500000), datetime(2017, 11, 16)], ["2017-11-16T01:02:03.5", "2017-11-16T00:00:00"]),
        (pa.decimal128(9, 7), "identity", [Decimal("0E-7")], ["0.0000000"]),
        (pa.bool_(), "identity", [True, False, None], [True, False, None]),
    ],
)  # fmt: skip
def test_values_are_those_of_the_specification(
    kind: pa.DataType, transform: str, given: list[Any], expected: list[Any]
) -> None:
    assert values(kind, given, transform) == expected


def test_a_decimal_whose_partition_does_not_fit_into_its_type_is_refused() -> None:
    kind = pa.decimal128(4, 2)
    assert values(kind, [Decimal("-99.90"), Decimal("99.99")], "truncate[10]") == [
        "-99.90",
        "99.90",
    ]
    with pytest.raises(
        UnsupportedError, match=r"of -99\.99 by truncate\(10\) is -100\.00, .*field v"
    ):
        values(kind, [Decimal("-99.99")], "truncate[10]")


def test_rows_of_several_fields_are_divided() -> None:
    schema = storage_schema(iceberg_schema(pa.schema([("a", pa.int32()), ("b", pa.string())])))
    rows = pa.table({"a": [1, 2, 1, None], "b": ["x", "x", "x", None]}).cast(schema)
    fields = [{"source-id": 1, "transform": "identity"}, {"source-id": 2, "transform": "identity"}]
    found = Partitioning.of({"spec-id": 0, "fields": fields}, schema).split(rows)
    assert {json.dumps(p.json["partition"]): of["a"].to_pylist() for p, of in found} == {
        '[1, "x"]': [1, 1],
        '[2, "x"]': [2],
        "[null, null]": [None],
    }


def test_specs_are_written_like_those_of_spark() -> None:
    fields = parse_partition("days(created), bucket(16, id),region , TRUNCATE(4,`a b`)")
    assert ", ".join(map(str, fields)) == (
        "day(created), bucket(16, id), identity(region), truncate(4, a b)"
    )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("shop.orders", "expected DATABASE.TABLE=VALUE"),
        ("orders=id", r"\*\.orders is in any database"),
        ("shop.orders=weeks(id)", "expected COLUMN"),
        ("shop.orders=bucket(id)", r"expected bucket\(N, COLUMN\)"),
        ("shop.orders=days(2, id)", r"expected days\(COLUMN\)"),
        ("shop.orders=id, identity(id)", "a field occurs twice"),
        ("shop.orders=bucket(0, id)", r"expected bucket\(N, COLUMN\)"),
    ],
)
def test_wrong_specs_are_refused(rule: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        MirrorOptions(partition_tables=(rule,))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("shop.*=lake.{name}", "the placeholders of a name"),
        ("shop.*=orders", r"expected NAMESPACE\.NAME"),
        ("shop.*=a.b.c", r"expected NAMESPACE\.NAME"),
        ("shop.*=_binlake.x", "belongs to the mirror"),
    ],
)
def test_wrong_names_are_refused(rule: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        MirrorOptions(rename_tables=(rule,))


def test_the_first_rule_that_matches_counts() -> None:
    options = MirrorOptions(
        rename_tables=("a.x=n.first", "a.*=n.{database}_{table}"),
        partition_tables=("a.x=id", "a.*=days(at)"),
    )
    assert options.lake_name("a", "x") == ("n", "first")
    assert options.lake_name("a", "y") == ("n", "a_y")
    assert options.lake_name("b", "y") == ("b", "y")
    assert [
        str(f) for name in "xyz" for f in options.partition("a" if name < "z" else "b", name)
    ] == [
        "identity(id)",
        "day(at)",
    ]


def test_columns_that_cannot_divide_a_table_are_refused() -> None:
    schema = pa.schema([("id", pa.int32()), ("f", pa.float64())])
    advice = "has no column at; correct --partition, then run `binlake mirror resync`$"
    with pytest.raises(UnsupportedError, match=advice):
        check_partition("s.t", parse_partition("days(at)"), schema)
    for spec in ("days(id)", "f", "bucket(4, f)", "hours(f)"):
        with pytest.raises(UnsupportedError, match="in the lake"):
            check_partition("s.t", parse_partition(spec), schema)


@pytest.mark.parametrize(
    ("source", "transform", "message"),
    [
        (1, "identity", "field p is identity of a column of type double"),
        (2, "truncate[4]", r"field p is truncate\[4\] of a column of type date32"),
        (4, "identity", "field p is identity of a nested column"),
        (2, "void", "does not write partitions by void"),
    ],
)
def test_fields_that_a_user_has_added_are_refused_unless_the_mirror_writes_them(
    source: int, transform: str, message: str
) -> None:
    """Iceberg allows all of them. A value that it cannot read would end the mirror at each start."""
    kinds = {"f": pa.float64(), "d": pa.date32(), "s": pa.struct([("file", pa.string())])}
    schema = storage_schema(iceberg_schema(pa.schema(kinds)))
    spec: dict[str, Any] = {"spec-id": 1, "fields": [{"name": "p", "source-id": source, "transform": transform}]}  # fmt: skip
    with pytest.raises(UnsupportedError, match=message):
        Partitioning.of(spec, schema)
    spec["fields"] = [{"name": "p", "source-id": 2, "transform": "day"}]
    assert Partitioning.of(spec, schema).fields == ((2, "day", 0),)
