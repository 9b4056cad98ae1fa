"""The format of a lake is checked before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import OptionError, UnsupportedError
from binlake.mirror import MirrorOptions
from binlake.mirror.tables.formats import DELTA, check_format, check_key, format_of, why_ambiguous


@pytest.mark.parametrize(
    "options",
    [
        {"deletes": "position"},
        {"partition_tables": ("shop.t=id",)},
        {"shard_tables": ("shop.*=shop.all",)},
        {"keep_tags_s": 60},
        {"max_snapshots": 5},
        {"compact_bytes": 1 << 20},
        {"orphans_s": 7200},
    ],
)
def test_options_that_delta_does_not_have(options: dict[str, Any]) -> None:
    assert MirrorOptions.of(options).format == "iceberg"
    with pytest.raises(OptionError, match="format delta do not support it"):
        MirrorOptions.of({"format": "delta", **options})


@pytest.mark.parametrize(
    ("there", "wanted"), [("metadata", "delta"), ("_delta_log", "iceberg"), ("none", "parquet")]
)
def test_a_lake_has_one_format(tmp_path: Path, there: str, wanted: str) -> None:
    assert format_of(str(tmp_path)) is None
    (tmp_path / "_binlake" / "rounds" / there).mkdir(parents=True)
    with pytest.raises(OptionError, match=r"has a mirror of format|expected one of"):
        check_format(str(tmp_path), MirrorOptions.of({"format": wanted}))


def test_delta_is_in_a_directory(tmp_path: Path) -> None:
    delta = MirrorOptions.of({"format": "delta"})
    check_format(str(tmp_path), delta)
    with pytest.raises(OptionError, match="needs a directory"):
        check_format("s3://bucket/lake", delta)


def test_keys_by_which_merge_finds_rows() -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64())])
    check_key("a.t", schema, ("id",), DELTA)
    check_key("a.t", schema, None, DELTA)
    with pytest.raises(UnsupportedError, match="has no key"):
        check_key("a.t", schema, (), DELTA)
    with pytest.raises(UnsupportedError, match="floating-point"):
        check_key("a.t", schema, ("id", "f"), DELTA)


def test_the_elements_of_a_vector_have_a_name_in_iceberg() -> None:
    vector = pa.list_(pa.field("element", pa.float32()))
    for name in ("v.element", "V.Element"):
        schema = pa.schema([("v", vector), (name, pa.int32())])
        assert f"it has a column {name}" in why_ambiguous(schema, "iceberg")
        assert why_ambiguous(schema, "delta") == ""
    for schema in (
        pa.schema([("v", pa.string()), ("v.element", pa.int32())]),
        pa.schema([("v", vector), ("element", pa.int32()), ("v.element.element", pa.int32())]),
    ):
        assert why_ambiguous(schema, "iceberg") == ""
