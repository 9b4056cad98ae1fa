"""Options as Spark gives them: lower-cased texts."""

from __future__ import annotations

import pytest

from binlake.errors import BinlogError, OptionError
from binlake.spark.options import SPARK_OPTIONS, SourceOptions
from binlake.values.options import READ_OPTIONS

PATH = {"path": "/logs"}


def parse(**given: str) -> SourceOptions:
    return SourceOptions.parse({**PATH, **given})


@pytest.mark.parametrize(
    "spelling", ["exclude_table", "excludetable", "excludeTable", "exclude-table"]
)
def test_spellings_are_one_option(spelling: str) -> None:
    assert SourceOptions.parse({**PATH, spelling: "shop.tmp*"}).read.exclude_table == ("shop.tmp*",)


def test_two_spellings_of_one_option_are_refused() -> None:
    with pytest.raises(OptionError, match="exclude_table is given twice"):
        SourceOptions.parse({**PATH, "exclude_table": "a.b", "excludetable": "a.c"})


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("tabel", "table"), ("sinse", "since"), ("exclude_tables", "exclude_table"),
     ("maxPartitionByte", "max_partition_bytes")],
)  # fmt: skip
def test_unknown_option_names_the_nearest(typed: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{typed}'.*did you mean {nearest}\\?"):
        SourceOptions.parse({**PATH, typed: "x"})


def test_unknown_option_far_from_all_lists_them() -> None:
    with pytest.raises(OptionError, match=r"options are: .*batch_bytes.*zero_date"):
        parse(qqqqqqqq="1")


def test_every_option_of_spark_is_reachable() -> None:
    for spec in READ_OPTIONS:
        if "spark" in spec.surfaces:
            with pytest.raises(OptionError, match=f"{spec.name} is given twice"):
                SourceOptions.parse({**PATH, spec.name: "x", spec.name.upper() + "_": "x"})


@pytest.mark.parametrize(
    ("given", "view"),
    [
        ({}, "changes"),
        ({"table": "shop.orders"}, "table"),
        ({"table": "shop.*"}, "changes"),
        ({"table": "shop.orders,shop.items"}, "changes"),
        ({"table": "shop.orders", "view": "changes"}, "changes"),
        ({"table": "shop.orders", "view": "table"}, "table"),
        ({"view": "events"}, "events"),
    ],
)
def test_view(given: dict[str, str], view: str) -> None:
    assert parse(**given).view == view


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"view": "table"}, "needs the option table with exactly one"),
        ({"view": "table", "table": "shop.*"}, "needs the option table with exactly one"),
        ({"table": "orders"}, "expected DATABASE.TABLE"),
        ({"view": "rows"}, "'rows': expected one of changes, table"),
        ({"max_partition_bytes": "big"}, "max_partition_bytes: 'big': expected a size"),
        ({"max_partition_bytes": "0"}, "expected a size"),
        ({"since": "someday"}, "option since: 'someday': expected a time"),
        ({"op": "upsert"}, "'upsert': expected one of insert"),
    ],
)
def test_wrong_values(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(**given)


def test_paths() -> None:
    assert SourceOptions.parse({"path": "/a"}).paths == ("/a",)
    assert SourceOptions.parse({"paths": '["/a", "s3://b/c"]'}).paths == ("/a", "s3://b/c")
    with pytest.raises(OptionError, match="no path to read"):
        SourceOptions.parse({})


def test_sizes() -> None:
    options = parse(max_partition_bytes="64MB", schemaScanBytes="1GB")
    assert parse(ddl_scan_bytes="0").ddl_scan_bytes == 0
    assert (options.max_partition_bytes, options.schema_scan_bytes) == (64 << 20, 1 << 30)
    assert {s.name: s.default for s in SPARK_OPTIONS if s.default} == {
        "schema_scan_bytes": parse().schema_scan_bytes,
        "ddl_scan_bytes": parse().ddl_scan_bytes,
    }


@pytest.mark.parametrize(
    "given",
    [
        {"server": "mysql://me:secret@db1/"},
        {"server": "mysql://me:sec/secret?secret@db1/"},
        {"server": "mariadb://:secret@db1/"},
        {"server": "mysql://me@db1/?ssl-mode=required&password=secret"},
        {"server": "mysql://me@db1/?pass%77d=secret"},
        {"server": "mysql://me@db1/,mysql://me:secret@db2/"},
        {"path": "s3://key:secret@bucket/logs"},
        {"path": "/logs", "schema": "mysql://me:secret@db1/"},
    ],
)
def test_a_password_in_a_url_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="contains a password") as caught:
        SourceOptions.parse(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["mysql://me@db1:3306,db2/", "mysql://db1:3306/", "mysql://me@[::1]:3306/?password-file=/p"],
)
def test_a_url_without_a_password(url: str) -> None:
    assert SourceOptions.parse({"server": url}).paths == (url,)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"server": "db1"}, "not the URL of a server"),
        ({"server": "mysql://me@db1/?bogus=1"}, "no option 'bogus'"),
        ({"path": "mysql://me@db1:99999/"}, "99999 is not a port"),
        ({"path": "/logs", "starting_offsets": "yesterday"}, "neither earliest, latest"),
        ({"path": "/logs", "starting_offsets": "binlog.000001"}, "neither earliest, latest"),
    ],
)
def test_mistakes_are_reported_before_the_query_starts(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        SourceOptions.parse(given)


@pytest.mark.parametrize("option", ["path", "schema"])
@pytest.mark.parametrize(
    "uri",
    ["s3://bucket/x?access_key=a&secret_key=geheim", "abfs://c@a.example/x?sas_token=geheim"],
)
def test_keys_of_a_store_are_refused_before_a_plan_is_made(option: str, uri: str) -> None:
    given = {"path": "/logs", option: uri}
    with pytest.raises(BinlogError, match="refuses credentials") as caught:
        SourceOptions.parse(given)
    assert "geheim" not in str(caught.value)
