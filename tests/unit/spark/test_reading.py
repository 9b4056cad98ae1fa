"""Planning and reading without a JVM: every filter skips bytes, every split gives its rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

import binlake
from binlake.errors import OptionError, SchemaError, SourceError
from binlake.spark.batch import BinlogReader
from binlake.spark.driver import SessionDriver
from binlake.spark.partitions import LogPartition
from binlake.spark.schema import arrow_schema, spark_schema
from binlake.spark.source import BinlogDataSource
from binlake.table.log_part import LogPart
from binlake.values.ledger import Ledger
from support.logs.log_builder import TABLE_MAP
from support.logs.stream_log import SID, StreamLog
from support.logs.table_log import INSERT, Log, image, rows_body, table_map

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = GOLDEN / "mysql-9.7" / "transactions" / "binlog.index"
ROTATED = GOLDEN / "mysql-9.7" / "rotation" / "binlog.index"

Row = dict[str, Any]


def reader(path: Path = LOGS, schema: pa.Schema | None = None, **options: str) -> BinlogReader:
    """Make a reader in the way Spark does; `schema` is one that the user gives."""
    source = BinlogDataSource({"path": str(path), **options})
    wanted = spark_schema(schema) if schema else source.schema()
    made = source.reader(wanted)
    assert isinstance(made, BinlogReader)
    return made


def read(
    path: Path = LOGS, schema: pa.Schema | None = None, **options: str
) -> tuple[list[Row], Ledger]:
    made = reader(path, schema, **options)
    ledger = Ledger()
    rows: list[Row] = []
    for partition in made.partitions():
        assert isinstance(partition, LogPartition)
        for batch in made.batches(partition, ledger):
            rows += batch.to_pylist()
    assert ledger.join_problems() == []
    return rows, ledger


# -- filters --------------------------------------------------------------------------------------

Predicate = Callable[[Row], bool]


def _moment(row: Row) -> str:
    text: str = row["ts"].isoformat()
    return text


def _filters(rows: list[Row]) -> dict[str, tuple[dict[str, str], Predicate]]:
    """For every filter: its options, and which of all rows it must give."""
    order = list(dict.fromkeys(row["gtid"] for row in rows))  # rows come in commit order
    turn = len(order) // 2
    middle = next(row for row in rows if row["gtid"] == order[turn])
    at = f"{middle['file']}:{middle['pos']}"
    some_thread = rows[0]["thread_id"]
    later = middle["ts"] + timedelta(microseconds=1)
    return {
        "table": ({"table": "golden.a", "view": "changes"}, lambda r: r["table"] == "a"),
        "exclude_table": ({"exclude_table": "golden.b"}, lambda r: r["table"] != "b"),
        "op": ({"op": "delete"}, lambda r: r["op"] == "delete"),
        "since": ({"since": _moment(middle)}, lambda r: r["ts"] >= middle["ts"]),
        "until": ({"until": later.isoformat()}, lambda r: r["ts"] < later),
        "gtid": ({"gtid": middle["gtid"]}, lambda r: r["gtid"] == middle["gtid"]),
        "exclude_gtid": (
            {"exclude_gtid": middle["gtid"]},
            lambda r: r["gtid"] != middle["gtid"],
        ),
        "at": ({"at": at}, lambda r: r["gtid"] == middle["gtid"]),
        "thread": ({"thread": str(some_thread)}, lambda r: r["thread_id"] == some_thread),
        "server_id": ({"server_id": "4294967295"}, lambda r: False),
        # the position of a row is inside its transaction, which starts before it
        "start": ({"start": at}, lambda r: order.index(r["gtid"]) > turn),
        "stop": ({"stop": at}, lambda r: order.index(r["gtid"]) <= turn),
    }


@pytest.mark.parametrize(
    "name",
    ["table", "exclude_table", "op", "since", "until", "gtid", "exclude_gtid", "at", "thread",
     "server_id", "start", "stop"],
)  # fmt: skip
def test_every_filter_gives_its_rows_and_decodes_fewer_bytes(name: str) -> None:
    everything, whole = read(ROTATED if name in ("since", "until") else LOGS, thread_id="true")
    path = ROTATED if name in ("since", "until") else LOGS
    options, wanted = _filters(everything)[name]
    rows, ledger = read(path, thread_id="true", **options)
    assert rows == [row for row in everything if wanted(row)]
    assert 0 <= ledger.decoded_bytes < whole.decoded_bytes
    assert (ledger.decoded_bytes > 0) == bool(rows)
    assert len(rows) < len(everything)


def test_of_several_sources_one_is_meant_or_named(tmp_path: Path) -> None:
    for server, gnos in (("db1", (1, 2)), ("db2", (1, 2, 3))):
        (tmp_path / server).mkdir()
        (tmp_path / server / "archive.json").write_text("{}")
        for gno in gnos:
            log = StreamLog().plain(gno).plain(gno + 10)
            log.write(tmp_path / server, f"binlog.{gno:06d}")
    place = {"at": "binlog.000002:200", "view": "transactions"}
    with pytest.raises(OptionError, match="set the option source to one of db1, db2"):
        read(tmp_path, **place)
    rows, _ = read(tmp_path, **place, source="db2", max_partition_bytes="200")
    assert [row["gtid"] for row in rows] == [f"{SID}:2"]
    rows, _ = read(tmp_path, view="transactions", at=f"{SID}:13")
    assert [row["file"] for row in rows] == ["binlog.000003"]
    rows, ledger = read(tmp_path, view="transactions")
    assert len(rows) == 10
    assert {name.rpartition("/")[0] for name in ledger.files} == {"db1", "db2"}


def test_only_requested_columns_are_decoded() -> None:
    rows, _ = read(table="golden.a", columns="v,id")
    whole, _ = read(table="golden.a")
    assert rows
    names = [name for name in whole[0] if name != "s"]
    assert [{name: row[name] for name in names} for row in whole] == rows


# -- the typed view -------------------------------------------------------------------------------


def test_typed_view_equals_the_python_api() -> None:
    rows, _ = read(ROTATED, table="golden.r")
    assert rows == binlake.open(str(ROTATED)).to_arrow("golden.r").to_pylist()
    assert rows


def test_a_schema_of_the_user_chooses_columns_and_types() -> None:
    wanted = {"v": pa.int64(), "id": pa.decimal128(20), "_op": pa.string(), "nothing": pa.date32()}
    rows, _ = read(schema=pa.schema(wanted), table="golden.a")
    typed, _ = read(table="golden.a")
    assert [(int(r["id"]), r["v"], r["_op"], r["nothing"]) for r in rows] == [
        (r["id"], r["v"], r["_op"], None) for r in typed
    ]
    made = reader(schema=pa.schema(wanted), table="golden.a")
    assert made.options.read.columns == ("v", "id", "nothing")


def test_metadata_that_a_schema_names_is_asked_for() -> None:
    before = pa.struct({"id": pa.int32(), "v": pa.int32()})
    wanted = pa.schema({"id": pa.int32(), "_thread_id": pa.int64(), "_before": before})
    rows, _ = read(schema=wanted, table="golden.a")
    assert all(row["_thread_id"] for row in rows)
    assert any(row["_before"] for row in rows)


def test_a_schema_that_cannot_hold_a_value_is_an_error() -> None:
    with pytest.raises(SchemaError, match=r"column s \(string\) does not fit int32"):
        read(schema=pa.schema({"s": pa.int32()}), table="golden.a")


def test_unknown_table_and_columns() -> None:
    with pytest.raises(
        SourceError, match=r"the newest \d+ bytes of the log contain no change of table golden.zzz"
    ):
        reader(table="golden.zzz")
    with pytest.raises(OptionError, match=r"table golden.a has no column 'ids'; did you mean id"):
        reader(table="golden.a", columns="ids")
    with pytest.raises(OptionError, match=r"where: table golden.a has no column 'ids'; did you"):
        reader(table="golden.a", where="ids = 1")
    with pytest.raises(OptionError, match=r"where: golden.a: id is int: compare it with a number"):
        reader(table="golden.a", where="id = 'x'", columns="s")
    assert read(table="golden.a", where="ID = 1", columns="s")[0]


def test_the_look_for_columns_is_bounded() -> None:
    reader(ROTATED, table="golden.r", schema_scan_bytes="1GB")
    first = GOLDEN / "mysql-9.7" / "transactions" / "binlog.000001"
    # table c is used in the first file only: a look at the newest few bytes does not meet it
    with pytest.raises(SourceError, match="raise option schema_scan_bytes"):
        reader(LOGS, table="golden.only_in_the_first", schema_scan_bytes="1")
    reader(first, table="golden.a")


def test_the_look_for_columns_reaches_the_start_of_a_long_transaction(tmp_path: Path) -> None:
    """One step of the search is of 64 kB here: the transaction has more, and so has what is before it."""
    log = Log()
    log.insert((1, "a", None), table="older")
    for _ in range(500):
        log.insert((1, "a", None), table="between")
    body = rows_body(image((2, "b", None)))
    log.commit(*[(TABLE_MAP, table_map()), (INSERT, body)] * 2000)
    path = log.save(tmp_path)
    assert log.offsets[-1] > 3 * (64 << 10)
    rows, _ = read(path, table="shop.t", schema_scan_bytes="1000")
    assert len(rows) == 2000
    with pytest.raises(SourceError, match="raise option schema_scan_bytes"):
        reader(path, table="shop.older", schema_scan_bytes="1000")


# -- splits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["changes", "events", "transactions", "statements"])
@pytest.mark.parametrize("size", ["100", "1000", "20000"])
def test_any_partition_size_gives_the_same_rows(view: str, size: str) -> None:
    whole, _ = read(view=view)
    cut, _ = read(view=view, max_partition_bytes=size)
    assert cut == whole
    assert whole


def test_small_files_share_a_task() -> None:
    made = reader(ROTATED)
    [partition] = made.partitions()
    assert isinstance(partition, LogPartition)
    assert len(partition.splits) > 2


def test_lengths_are_pinned_when_the_read_is_planned(tmp_path: Path) -> None:
    source = LOGS.parent / "binlog.000001"
    growing = tmp_path / "binlog.000001"
    data = source.read_bytes()
    growing.write_bytes(data)
    made = reader(growing)
    expected, _ = read(source)
    [partition] = made.partitions()
    with growing.open("ab") as file:
        file.write(b"half an event")
    assert isinstance(partition, LogPartition)
    rows = [row for batch in made.batches(partition, Ledger()) for row in batch.to_pylist()]
    assert rows == expected


# -- batches --------------------------------------------------------------------------------------


def test_batches_have_exactly_the_announced_schema() -> None:
    choices: list[dict[str, Any]] = [
        {"view": "events"}, {"view": "transactions"}, {"table": "golden.a"}, {}
    ]  # fmt: skip
    for options in choices:
        made = reader(**options)
        for partition in made.partitions():
            assert isinstance(partition, LogPartition)
            for batch in made.batches(partition, Ledger()):
                assert isinstance(batch, pa.RecordBatch)
                assert batch.schema.equals(arrow_schema(made.schema))


# -- schemas of the user --------------------------------------------------------------------------


def test_names_of_a_schema_ignore_case_as_sparks_and_the_servers_do() -> None:
    given = pa.schema([("ID", pa.int32()), ("_OP", pa.string()), ("_Query", pa.string())])
    rows, _ = read(schema=given, table="golden.a")
    expected, _ = read(table="golden.a", columns="Id", query="true")
    assert [tuple(row.values()) for row in rows] == [
        (row["id"], row["_op"], row["_query"]) for row in expected
    ]
    assert {row["ID"] for row in rows} != {None}
    events, _ = read(schema=pa.schema([("POS", pa.int64())]), view="events")
    assert events[0] == {"POS": 4}


@pytest.mark.parametrize("view", ["changes", "events", "transactions", "statements"])
def test_a_schema_with_columns_missing_in_the_view_is_an_error(view: str) -> None:
    with pytest.raises(OptionError, match=rf"the view {view} has no column 'serverid'.*server_id"):
        reader(schema=pa.schema([("serverid", pa.int64())]), view=view)


def test_an_error_about_a_missing_table_names_an_existing_one() -> None:
    with pytest.raises(
        SourceError, match=r"no change of table golden\.aa; did you mean golden\.a\?"
    ):
        reader(table="golden.aa")


def test_a_column_that_no_row_has_is_reported() -> None:
    schema = pa.schema([("id", pa.int32()), ("colour", pa.string()), ("_seqq", pa.string())])
    rows, ledger = read(schema=schema, table="golden.a")
    assert {row["colour"] for row in rows} == {None}
    [told] = [remark for remark in ledger.remarks() if "colour" in remark]
    assert told == (
        "no row that was read has the column 'colour', '_seqq' of the given schema: null"
    )
    _, ledger = read(schema=pa.schema([("ID", pa.int32())]), table="golden.a")
    assert not [remark for remark in ledger.remarks() if "given schema" in remark]


def test_a_schema_may_ask_for_times_in_any_form() -> None:
    path = GOLDEN / "mysql-9.7" / "types-full" / "binlog.000001"
    log = binlake.open(path).to_arrow("golden.temporals")
    names = [field.name for field in log.schema if field.type == pa.duration("us")]
    for kind, form in ((pa.int64(), "micros"), (pa.string(), "text")):
        schema = pa.schema([(name, kind) for name in names])
        rows, _ = read(path, schema, table="golden.temporals")
        expected = binlake.open(path, time=form).to_arrow("golden.temporals").select(names)
        assert rows == expected.to_pylist()
    duration = pa.schema([("duration", pa.string())])
    rows, _ = read(schema=duration, view="transactions")
    assert rows == read(view="transactions", columns="duration", time="text")[0]


def test_the_view_ledger_has_a_row_per_task() -> None:
    made = reader(view="ledger", max_partition_bytes="4000")
    whole = Ledger()
    rows: list[Row] = []
    for partition in made.partitions():
        assert isinstance(partition, LogPartition)
        ledger = Ledger()
        for batch in made.batches(partition, ledger):
            rows += batch.to_pylist()
        whole += ledger
    assert len(rows) == len(made.partitions()) > 3
    assert sum(row["events"] for row in rows) == whole.total.events
    assert [entry for row in rows for entry in row["covered"]] == [
        covered._asdict() for covered in whole.covered
    ]


def planned(
    path: Path, source: type[BinlogDataSource] = BinlogDataSource, **options: str
) -> list[LogPart]:
    """The partitions of a read whose driver reads no byte of the logs."""
    made = source({"path": str(path), "ddl_scan_bytes": "0", **options})
    parts = made.reader(made.schema()).partitions()
    assert all(isinstance(part, LogPart) for part in parts)
    return parts  # type: ignore[return-value]


def test_tasks_have_one_size_for_logs_of_different_sizes(tmp_path: Path) -> None:
    """One log of 100 MB beside 500 of 4 KB: the large one is cut, the small ones are put together."""
    most, opening = 16 << 20, 1 << 20
    for number in range(1, 502):
        with (tmp_path / f"binlog.{number:06d}").open("wb") as log:
            log.truncate(100 << 20 if number == 250 else 4096)  # no byte is read
    parts = planned(tmp_path, max_partition_bytes=str(most))
    costs = [sum(split.bytes + opening for split in part.splits) for part in parts]
    assert max(costs) <= most + opening
    assert len(parts) <= 1.2 * sum(costs) / most
    large = [split for part in parts for split in part.splits if split.ordinal == 249]
    assert len(large) == 7
    assert max(split.bytes for split in large) - min(split.bytes for split in large) <= 8
    assert len({split.ordinal for part in parts for split in part.splits}) == 501


@pytest.mark.parametrize(
    ("megabytes", "cores", "tasks"),
    [
        ((101,), 2, 2),  # a share for each core
        ((101,), 4, 4),
        ((101,), 100, 7),  # but not less than 16 MB
        ((10,), 2, 1),
        ((300,), 2, 4),  # and not more than 128 MB, with as many tasks for each core
        ((600,), 2, 6),
        ((0,) * 500, 2, 4),  # opening a file counts as 1 MB
    ],
)
def test_by_default_each_core_has_a_share(
    tmp_path: Path, megabytes: tuple[int, ...], cores: int, tasks: int
) -> None:
    for number, size in enumerate(megabytes, 1):
        with (tmp_path / f"binlog.{number:06d}").open("wb") as log:
            log.truncate((size << 20) + 4)
    source = BinlogDataSource.for_session(SessionDriver(cores=cores))
    assert len(planned(tmp_path, source)) == tasks
