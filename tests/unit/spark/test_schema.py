"""Arrow schemas to Spark's and back, and batches made exact."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, StructField, StructType

from binlake.errors import SchemaError
from binlake.spark.schema import (
    MAX_BATCH_ROWS,
    Conformer,
    arrow_schema,
    exact_schema,
    spark_schema,
    spark_schema_json,
)
from binlake.spark.source import BinlogDataSource

VIEW = pa.schema(
    [
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("price", pa.decimal128(38, 10)),
        ("day", pa.date32()),
        ("local", pa.timestamp("us")),
        ("moment", pa.timestamp("us", "UTC")),
        ("span", pa.duration("us")),
        ("vector", pa.list_(pa.float32())),
        ("_seq", pa.struct([("file", pa.int32()), ("pos", pa.int64())])),
        ("raw", pa.binary()),
    ]
)


def test_types_survive_the_way_to_spark_and_back() -> None:
    back = arrow_schema(spark_schema(VIEW))
    for field in VIEW:
        assert back.field(field.name).type.equals(field.type) or field.name == "vector"
    assert back.field("vector").type.value_type == pa.float32()


def test_the_schema_is_spark_s_own() -> None:
    """Its JSON and the exact Arrow types are made without PySpark: PySpark makes the same."""
    fields = [
        *VIEW,
        pa.field("texts", pa.map_(pa.string(), pa.list_(pa.string()))),
        pa.field("flag", pa.bool_(), metadata={"mysql.type": "TINYINT"}),
        pa.field("text", pa.large_string()),
        pa.field("unsigned", pa.uint64()),
        pa.field("member", pa.dictionary(pa.int16(), pa.string())),
        pa.field("nested", pa.struct([("a", pa.list_(pa.struct([("b", pa.uint8())])))])),
    ]
    schema = pa.schema(fields)
    assert spark_schema_json(schema) == spark_schema(schema).json()
    assert exact_schema(schema).equals(arrow_schema(spark_schema(schema)))


def test_spark_names_of_the_types() -> None:
    text = spark_schema(VIEW).simpleString()
    assert "local:timestamp_ntz,moment:timestamp,span:interval day to second" in text
    assert "price:decimal(38,10)" in text


def test_unsigned_types_get_the_next_wider() -> None:
    schema = pa.schema([("a", pa.uint32()), ("b", pa.uint64())])
    assert spark_schema(schema).simpleString() == "struct<a:bigint,b:decimal(20,0)>"
    batch = pa.record_batch(
        [pa.array([2**32 - 1], pa.uint32()), pa.array([2**64 - 1], pa.uint64())], schema=schema
    )
    exact = Conformer(exact_schema(schema)).exact(batch)
    assert exact.column(0).to_pylist() == [2**32 - 1]
    assert [int(v) for v in exact.column(1).to_pylist()] == [2**64 - 1]


def test_everything_is_nullable() -> None:
    schema = pa.schema(
        [pa.field("a", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False)]
    )
    field = spark_schema(schema)["a"]
    assert field.nullable
    assert isinstance(field.dataType, ArrayType)
    assert field.dataType.containsNull


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(
        SchemaError, match=r"cannot distinguish the columns '_op' and '_OP'.*metadata_prefix"
    ):
        spark_schema(pa.schema([("_op", pa.string()), ("_OP", pa.int32())]))


def test_unknown_arrow_type_is_named() -> None:
    with pytest.raises(SchemaError, match="column x: Spark has no type for Arrow's month_day_nano"):
        spark_schema(pa.schema([("x", pa.month_day_nano_interval())]))


def conform(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    return Conformer(exact_schema(wanted)).exact(batch)


def test_columns_match_by_name_in_any_order_and_case() -> None:
    batch = pa.record_batch({"b": ["x"], "A": [1]})
    exact = conform(batch, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    assert exact.to_pylist() == [{"a": 1, "b": "x"}]


def test_a_column_that_the_batch_lacks_is_null() -> None:
    exact = conform(
        pa.record_batch({"a": [1]}), pa.schema([("a", pa.int64()), ("new", pa.string())])
    )
    assert exact.to_pylist() == [{"a": 1, "new": None}]


def test_wider_types_keep_the_value_and_narrower_ones_are_refused() -> None:
    batch = pa.record_batch({"a": [300]})
    assert conform(batch, pa.schema([("a", pa.int16())])).to_pylist() == [{"a": 300}]
    with pytest.raises(SchemaError, match=r"column a \(int64\) does not fit int8.*300"):
        conform(batch, pa.schema([("a", pa.int8())]))


def test_long_batches_are_cut() -> None:
    batch = pa.record_batch({"a": pa.array(range(MAX_BATCH_ROWS + 1), pa.int64())})
    pieces = list(Conformer(exact_schema(batch.schema)).conform(batch))
    assert [p.num_rows for p in pieces] == [MAX_BATCH_ROWS, 1]
    assert pieces[1].to_pylist() == [{"a": MAX_BATCH_ROWS}]
    assert list(Conformer(exact_schema(batch.schema)).conform(batch.slice(0, 0))) == []


def test_durations_beyond_a_day() -> None:
    span = timedelta(hours=-838, minutes=-59, seconds=-59)
    batch = pa.record_batch([pa.array([span], pa.duration("us"))], names=["t"])
    assert conform(batch, batch.schema).to_pylist() == [{"t": span}]


def test_field_metadata_contains_the_mysql_type() -> None:
    field = pa.field("id", pa.uint64(), metadata={"mysql.type": "bigint unsigned"})
    schema = pa.schema([field], metadata={"binlake.table": "shop.orders"})
    assert spark_schema(schema)["id"].metadata == {"mysql.type": "bigint unsigned"}
    assert exact_schema(schema).field("id").metadata == {b"mysql.type": b"bigint unsigned"}
    assert exact_schema(schema).metadata == schema.metadata


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (1, pa.int32(), pa.date32()),
        (1, pa.int64(), pa.timestamp("us")),
        (1, pa.int64(), pa.duration("us")),
        (2, pa.int8(), pa.bool_()),
        (2**53 + 1, pa.int64(), pa.float64()),
        (0.1, pa.float64(), pa.float32()),
        (Decimal(2**64 - 1), pa.decimal128(20, 0), pa.float64()),
        (datetime(2026, 11, 21, 10), pa.timestamp("us"), pa.date32()),
        (datetime(2026, 11, 21, 10), pa.timestamp("us"), pa.int64()),
        (timedelta(1), pa.duration("us"), pa.int32()),
        (timedelta(1), pa.duration("us"), pa.date32()),
        ("007", pa.string(), pa.int32()),
        (b"\xff", pa.binary(), pa.string()),
        ({"a": 1}, pa.struct([("a", pa.int32())]), pa.struct([("A", pa.date32())])),
    ],
)
def test_a_type_that_would_change_the_value_is_refused(
    value: object, kind: pa.DataType, wanted: pa.DataType
) -> None:
    batch = pa.record_batch([pa.array([None, value], kind)], names=["x"])
    with pytest.raises(SchemaError, match=r"column x \(.*\) does not fit"):
        conform(batch, pa.schema([("x", wanted)]))


@pytest.mark.parametrize(
    ("kind", "wanted", "advice"),
    [
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "timestamp_ntz (or date)"),
        (pa.date32(), pa.timestamp("us", "UTC"), "timestamp_ntz (or date)"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "timestamp"),
        (pa.timestamp("us", "UTC"), pa.date32(), "timestamp"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_zone_is_never_invented(
    kind: pa.DataType, wanted: pa.DataType, advice: str, nested: bool
) -> None:
    """Spark's cast takes the session's zone, which a task does not know."""
    values = pa.array([datetime(1000, 1, 1)], pa.timestamp("us")).cast(kind)
    if nested:
        values = pa.StructArray.from_arrays([values], names=["x"])
        wanted = pa.struct([("x", wanted)])
    batch = pa.record_batch([values], names=["x"])
    with pytest.raises(SchemaError) as caught:
        conform(batch, pa.schema([("x", wanted)]))
    assert "does not convert" in str(caught.value)
    if not nested:
        assert f"use {advice} in .schema(…), and cast" in str(caught.value)


def test_text_of_a_time_has_the_digits_of_its_column() -> None:
    times = pa.array([timedelta(hours=1, milliseconds=250)], pa.duration("us"))
    field = pa.field("t", times.type, metadata={"mysql.fractional_digits": "3"})
    flat = pa.record_batch([times], schema=pa.schema([field]))
    assert conform(flat, pa.schema([("t", pa.string())])).to_pylist() == [{"t": "01:00:00.250"}]
    struct = pa.StructArray.from_arrays([times], fields=[field])
    nested = pa.record_batch([struct], names=["_before"])
    wanted = pa.schema([("_before", pa.struct([("t", pa.string())]))])
    assert conform(nested, wanted).to_pylist() == [{"_before": {"t": "01:00:00.250"}}]


@pytest.mark.parametrize("text", ["doc variant", "_before struct<doc: variant>"])
def test_a_variant_is_refused_with_the_way_to_get_one(text: str) -> None:
    source = BinlogDataSource({"path": "/logs", "table": "shop.orders"})
    with pytest.raises(SchemaError, match=r"use string.*parse_json\(doc\)"):
        source.reader(_parsed(text))


def _parsed(text: str) -> StructType:
    from pyspark.sql.types import VariantType

    field = StructField("doc", VariantType())
    nested = StructField("_before", StructType([field]))
    return StructType([nested if "struct" in text else field])


@pytest.mark.parametrize(
    ("value", "kind", "wanted", "made"),
    [
        (1, pa.int8(), pa.bool_(), True),
        (7, pa.int32(), pa.string(), "7"),
        (7, pa.int32(), pa.float64(), 7.0),
        (Decimal("0.10"), pa.decimal128(10, 2), pa.float64(), 0.1),
        (Decimal("0.10"), pa.decimal128(10, 2), pa.decimal128(20, 4), Decimal("0.1000")),
        (datetime(2026, 11, 21), pa.timestamp("us"), pa.date32(), date(2026, 11, 21)),
        ("12", pa.string(), pa.int32(), 12),
        (b"abc", pa.binary(), pa.string(), "abc"),
        (timedelta(hours=-30, microseconds=-5), pa.duration("us"), pa.int64(), -108_000_000_005),
        (timedelta(hours=-838, minutes=-59), pa.duration("us"), pa.string(), "-838:59:00"),
        (
            {"a": 1, "b": 2},
            pa.struct([("a", pa.int32()), ("b", pa.int32())]),
            pa.struct([("B", pa.int64()), ("c", pa.string())]),
            {"B": 2, "c": None},
        ),
    ],
)
def test_a_type_that_holds_the_value_is_taken(
    value: object, kind: pa.DataType, wanted: pa.DataType, made: object
) -> None:
    batch = pa.record_batch([pa.array([None, value], kind)], names=["x"])
    exact = conform(batch, pa.schema([("x", wanted)]))
    assert exact.to_pylist() == [{"x": None}, {"x": made}]
