"""Columns that the lake keeps as text: their texts, and which columns they are after an ALTER."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import OptionError
from binlake.format import column_types as ct
from binlake.mirror.columns.kept_as_text import server_texts
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.kept_columns import kept_name
from binlake.mirror.options import MirrorOptions
from binlake.values.plan import ColumnDefinition

_MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 120_000)


@pytest.mark.parametrize(
    ("value", "kind", "decimals", "text"),
    [
        (-5, pa.int32(), 0, "-5"),
        (2**64 - 1, pa.uint64(), 0, "18446744073709551615"),
        (Decimal("-0.050"), pa.decimal128(9, 3), 3, "-0.050"),
        (16777216.0, pa.float32(), 0, "16777216"),  # CAST gives 16777200
        (123456.78125, pa.float32(), 0, "123456.78"),  # of FLOAT(10,2), as CAST gives it
        (3.4028234663852886e38, pa.float32(), 0, "3.4028235e38"),
        (0.1, pa.float32(), 0, "0.1"),
        (1e20, pa.float32(), 0, "1e20"),
        (0.1, pa.float64(), 0, "0.1"),
        (_MOMENT, pa.timestamp("us"), 0, "2026-01-02 03:04:05"),
        (_MOMENT, pa.timestamp("us"), 3, "2026-01-02 03:04:05.120"),
        (_MOMENT.replace(tzinfo=dt.UTC), pa.timestamp("us", "UTC"), 6, "2026-01-02 03:04:05.120000"),
        (dt.date(2026, 1, 2), pa.date32(), 0, "2026-01-02"),
        (b"\x00\xff", pa.binary(), 0, "00ff"),
        ("é", pa.large_string(), 0, "é"),
    ],
)  # fmt: skip
def test_texts_of_a_server(value: Any, kind: pa.DataType, decimals: int, text: str) -> None:
    column = ColumnDefinition(0, "c", ct.MYSQL_TYPE_LONG, decimals=decimals)
    found = server_texts(pa.array([value, None], kind), column)
    assert found.to_pylist() == [text, None]
    assert found.type == pa.string()


def test_members_are_texts() -> None:
    values = pa.array(["a", None, "b"]).dictionary_encode()
    column = ColumnDefinition(0, "c", ct.MYSQL_TYPE_ENUM)
    assert server_texts(values, column).to_pylist() == ["a", None, "b"]


def test_rules_of_text_columns() -> None:
    """A column that is left out or hashed stays so; names are compared without case."""
    rules = ColumnRules(exclude=("shop.t.hidden",), hash=("shop.t.secret",))
    rules = rules.with_texts("shop", "t", ["C", "hidden", "secret"])
    treated = {n: rules.treatment("shop", "t", n) for n in ("c", "hidden", "secret", "other")}
    assert list(treated.values()) == ["as text", "left out", "hashed", "shown"]
    assert rules.treatment("shop", "other", "c") == "shown"
    schema = pa.schema([("c", pa.int32()), ("other", pa.int32())])
    types = rules.lake_schema("shop", "t", schema).types
    assert types == [pa.string(), pa.int32()]


def test_policies_of_tables() -> None:
    options = MirrorOptions(
        on_alter="resync", on_alter_tables=("shop.o*=text", "shop.*=new-column")
    )
    names = ("shop.orders", "shop.items", "other.orders")
    found = [options.alter_policy(*name.split(".")) for name in names]
    assert found == ["text", "new-column", "resync"]
    with pytest.raises(OptionError, match=r"on_alter_tables.*'drop': expected one of quarantine"):
        MirrorOptions(on_alter_tables=("shop.*=drop",))


@pytest.mark.parametrize("chosen", [{"on_alter": "text"}, {"on_alter_tables": ("a.b=new-column",)}])
def test_delta_has_no_such_policies(chosen: dict[str, Any]) -> None:
    [name] = chosen
    with pytest.raises(
        OptionError, match=f"option {name}: tables of format delta do not support"
    ) as error:
        MirrorOptions(format="delta", **chosen)
    assert error.value.name == name
    MirrorOptions(format="delta", on_alter="resync", on_alter_tables=("a.b=quarantine",))


def test_names_of_earlier_values() -> None:
    assert kept_name("c", ["id", "c"]) == "c_before_1"
    assert kept_name("c", ["id", "C_BEFORE_1", "c"]) == "c_before_2"
