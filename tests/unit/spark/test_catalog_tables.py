"""The options that Spark passes to the source of a catalog's table, when it is created and when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from pyspark.sql.types import StringType, StructField, StructType

from binlake.errors import OptionError
from binlake.spark.catalog_tables import carrying, options_of_new_table, options_of_read
from binlake.spark.source import BinlogDataSource

LOGS = Path(__file__).parents[2] / "golden" / "mysql-9.7" / "transactions"
COLUMNS = StructType([StructField("a", StringType()), StructField("b", StringType())])

# as Spark 4.1.4 and 4.3.0 give them for CREATE TABLE … OPTIONS (…) TBLPROPERTIES ('k' = 'v')
CREATED = {
    "option.table": "golden.a",
    "option.exclude_table": "a.b",
    "table": "golden.a",
    "exclude_table": "a.b",
    "location": f"file:{LOGS}",
    "path": f"file:{LOGS}",
    "owner": "root",
    "external": "true",
    "k": "v",
    "provider": "binlog",
}


def test_a_new_table_has_the_users_options_only() -> None:
    expected = {"table": "golden.a", "exclude_table": "a.b", "path": str(LOGS)}
    assert options_of_new_table(CREATED) == expected
    assert options_of_new_table({"path": "/logs", "table": "a.b"}) is None
    server = {"provider": "binlog", "option.server": "mysql://u@db1/", "location": "file:/wh/t"}
    assert options_of_new_table(server) == {"server": "mysql://u@db1/"}
    stored = {"provider": "binlog", "location": "s3a://bucket/logs"}
    assert options_of_new_table(stored) == {"path": "s3a://bucket/logs"}
    assert options_of_new_table({"provider": "binlog", "path": "file:///a%20b"}) == {
        "path": "file:///a%20b"
    }


def test_a_schema_carries_options_to_the_read() -> None:
    schema = carrying(COLUMNS, {"path": "/logs", "table": "a.b", "since": "2026-11-21"})
    assert options_of_read({}, schema) == {
        "path": "/logs", "table": "a.b", "since": "2026-11-21"
    }  # fmt: skip
    assert options_of_read({"Since": "2026-11-22"}, schema) == {
        "path": "/logs", "table": "a.b", "Since": "2026-11-22"
    }  # fmt: skip
    assert options_of_read({"server": "mysql://u@db1/"}, schema) == {
        "server": "mysql://u@db1/", "table": "a.b", "since": "2026-11-21"
    }  # fmt: skip
    assert options_of_read({"path": "/other"}, COLUMNS) == {"path": "/other"}


def test_the_error_of_a_table_without_options_contains_a_hint() -> None:
    with pytest.raises(OptionError, match=r"created with columns; .*WITH \(path = "):
        BinlogDataSource({}).reader(COLUMNS)


@pytest.mark.parametrize("password", ["mysql://u:secret@db1/", "s3://a:secret@b/x"])
def test_a_password_is_not_kept_in_a_catalog(password: str) -> None:
    key = "option.server" if password.startswith("mysql") else "path"
    with pytest.raises(OptionError) as caught:
        BinlogDataSource({"provider": "binlog", key: password}).schema()
    assert "secret" not in str(caught.value)


def test_a_table_reads_as_load_does() -> None:
    schema = BinlogDataSource(CREATED).schema()
    made = BinlogDataSource({}).reader(schema)
    plain = BinlogDataSource({"path": str(LOGS), "table": "golden.a", "exclude_table": "a.b"})
    again = plain.reader(plain.schema())
    rows = [
        row
        for reader in (made, again)
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()  # type: ignore[union-attr]
    ]
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :] != []
