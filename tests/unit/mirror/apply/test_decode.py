"""A range that tasks decode into files has the changes, in the order, of one that is decoded here."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
from binlake.errors import IncompleteError
from binlake.format import event_types as types
from binlake.lake.engine import Progress, Task
from binlake.mirror.apply import definitions
from binlake.mirror.apply.decode import Decoded, Wanted, decode_range
from binlake.mirror.apply.definitions import Definition, Definitions
from binlake.mirror.apply.range_changes import RangeChanges
from binlake.mirror.apply.task_files import TaskFiles, opened
from binlake.mirror.options import MirrorOptions
from binlake.stream.positions.splits import plan_splits
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.schema_file import parse_schema
from support.logs.decoded_rows import ADA, BOB
from support.logs.log_builder import TABLE_MAP
from support.logs.stream_log import SID, StreamLog
from support.logs.table_log import INSERT, Log, day, image, rows_body, table_map
from support.spark.engines import HereEngine

LOGS = Path(__file__).resolve().parents[4] / "demo" / "mysql-9.7"
T = ("shop", "t")
TABLES = ("products", "orders", "order_lines", "customers")


def decoded(
    task_files: TaskFiles, task_bytes: int = 32 << 20, held_bytes: int = 1 << 30
) -> Decoded:
    read = MirrorOptions().read_options([("shop", table) for table in TABLES])
    splits = plan_splits([str(LOGS / "binlog.00000?")], read, 50_000)
    wanted = Wanted({("shop", table): () for table in TABLES}, Definitions({}))
    return decode_range(
        splits,
        read,
        wanted,
        HereEngine(),
        task_files,
        task_bytes=task_bytes,
        held_bytes=held_bytes,
    )


def batches_of(changes: RangeChanges) -> list[pa.RecordBatch]:
    """The batches of this process and those of files."""
    found = list(changes.batches)
    for file in changes.files:
        with opened(file.path) as source, pa.ipc.open_file(source) as reader:
            found += [reader.get_batch(i) for i in range(reader.num_record_batches)]
    return found


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("is_cluster", [False, True])
def test_by_tasks_into_files(tmp_path: Path, is_cluster: bool) -> None:
    task_files = TaskFiles(tmp_path / "state", str(tmp_path) if is_cluster else None)
    here = decoded(task_files)
    by_tasks = decoded(task_files, task_bytes=1)
    assert by_tasks.changes.keys() == here.changes.keys() == {("shop", table) for table in TABLES}
    for name, changes in here.changes.items():
        found, expected = batches_of(by_tasks.changes[name]), batches_of(changes)
        assert rows_of(found) == rows_of(expected)
        assert {str(batch.schema) for batch in found} == {str(batch.schema) for batch in expected}
        assert by_tasks.changes[name].rows == changes.rows > 0
    assert sum(changes.rows for changes in here.changes.values()) > 2000
    assert [ddl.sql for ddl in by_tasks.ddl] == [ddl.sql for ddl in here.ddl]
    directory = Path(task_files.for_tasks())
    assert list(directory.iterdir())
    task_files.clear()
    assert not directory.exists()


@pytest.mark.parametrize("share", [0, 0.9])
def test_changes_that_are_not_held_are_in_files(tmp_path: Path, share: float) -> None:
    task_files = TaskFiles(tmp_path / "state", None)
    held = decoded(task_files).changes
    held_bytes = int(share * sum(one.nbytes for one in held.values()))
    found = decoded(task_files, held_bytes=held_bytes).changes
    assert found.keys() == held.keys()
    for name, changes in held.items():
        assert rows_of(batches_of(found[name])) == rows_of(batches_of(changes))
        assert (found[name].rows, found[name].nbytes) == (changes.rows, changes.nbytes)
    in_memory = sum(batch.nbytes for one in found.values() for batch in one.batches)
    assert in_memory <= held_bytes
    assert any(one.files for one in found.values())
    assert any(one.batches for one in found.values()) is bool(held_bytes)


@dataclass
class StatementLog:
    """A log with a row of the table t, and a statement in statement format between two transactions."""

    folder: Path
    task_bytes: int

    def decoded(self, sql: bytes, *, refuse_statements: bool = True) -> Decoded:
        log = StreamLog().plain(1).gtid(2).query(b"BEGIN").query(sql).query(b"COMMIT").plain(3)
        return self.decoded_log(log, refuse_statements=refuse_statements)

    def decoded_event(self, code: int, body: bytes, *, refuse_statements: bool = True) -> Decoded:
        """Decode the log with an event that is alone in its transaction."""
        log = StreamLog().plain(1).gtid(2)
        log.add(code, body)
        return self.decoded_log(log.plain(3), refuse_statements=refuse_statements)

    def decoded_log(self, log: StreamLog, *, refuse_statements: bool = True, applied: str | None = None) -> Decoded:  # fmt: skip
        """Decode the log without the transactions of the GTIDs `applied`."""
        read = replace(MirrorOptions().read_options([("shop", "t")]), exclude_gtid=applied)
        return decode_range(
            plan_splits([str(log.write(self.folder))], read, 1 << 20),
            read,
            Wanted({T: ()}, Definitions({T: Definition("CREATE TABLE shop.t (id INT);")})),
            HereEngine(),
            TaskFiles(self.folder / "state", None),
            refuse_statements=refuse_statements,
            task_bytes=self.task_bytes,
        )


@pytest.fixture(params=[32 << 20, 1], ids=["here", "by tasks"])
def statement_log(request: pytest.FixtureRequest, tmp_path: Path) -> StatementLog:
    return StatementLog(tmp_path, request.param)


@pytest.mark.parametrize(
    "sql",
    [b"INSERT INTO mysql.rds_heartbeat2 (id, value) VALUES (1, 2)", b"DELETE FROM `shop`.`other`"],
)
def test_statements_that_change_another_table(statement_log: StatementLog, sql: bytes) -> None:
    found = statement_log.decoded(sql)
    assert found.failed == {}
    assert found.changes["shop", "t"].rows == 2


def test_a_statement_that_changes_a_followed_table_is_one_of_this_table(
    statement_log: StatementLog,
) -> None:
    failed = statement_log.decoded(b"UPDATE T SET id = 1").failed
    assert list(failed) == [("shop", "t")]
    assert "a statement that changes the table" in failed["shop", "t"]
    assert statement_log.decoded(b"UPDATE t SET id = 1", refuse_statements=False).failed == {}


def test_a_statement_that_empties_a_table_is_applied_as_truncate(
    statement_log: StatementLog,
) -> None:
    found = statement_log.decoded(b"DELETE FROM `shop`.`t`")
    assert found.failed == {}
    assert [ddl.sql for ddl in found.ddl] == ["TRUNCATE TABLE `shop`.`t`"]


def test_the_statements_of_transactions_that_are_left_out(statement_log: StatementLog) -> None:
    log = StreamLog().plain(1).gtid(2).query(b"TRUNCATE t").plain(3).gtid(4).query(b"DROP TABLE t")
    found = statement_log.decoded_log(log, applied=f"{SID}:1-2")
    assert [ddl.sql for ddl in found.ddl] == ["DROP TABLE t"]
    assert found.changes["shop", "t"].rows == 1


def load_query(table: bytes) -> bytes:
    """The body of a LOAD DATA."""
    sql = b"LOAD DATA INFILE 'x' INTO"
    head = struct.pack("<IIBHH", 7, 0, 4, 0, 0) + struct.pack("<IIIB", 1, 9, len(sql), 0)
    return head + b"shop\0" + sql + b" TABLE " + table


ROLLED_BACK = (
    lambda log, sql: log.query(b"BEGIN").query(sql).query(b"ROLLBACK"),
    lambda log, sql: (
        log.query(b"BEGIN")
        .query(b"SAVEPOINT a")
        .query(sql)
        .query(b"ROLLBACK TO `a`")
        .query(b"COMMIT")
    ),
)


@pytest.mark.parametrize("rolled_back", ROLLED_BACK, ids=["transaction", "savepoint"])
def test_statements_that_were_rolled_back(
    statement_log: StatementLog, rolled_back: Callable[[StreamLog, bytes], StreamLog]
) -> None:
    """A server logs them only if a table without transactions has kept its changes."""

    def decoded(sql: bytes, *, refuse_statements: bool = True) -> Decoded:
        log = rolled_back(StreamLog().plain(1).gtid(2), sql).plain(3)
        return statement_log.decoded_log(log, refuse_statements=refuse_statements)

    found = decoded(b"INSERT INTO T VALUES (1)")
    assert found.failed == {}
    assert found.undone.keys() == {("shop", "t")}
    assert "a statement that was rolled back" in found.undone["shop", "t"]
    assert found.changes["shop", "t"].rows == 2
    assert decoded(b"DELETE FROM t").ddl == []
    with pytest.raises(IncompleteError, match="any table: statement in a rolled back transaction"):
        decoded(b"CALL p()")
    assert decoded(b"CREATE TEMPORARY TABLE x (id INT)").undone == {}
    assert decoded(b"INSERT INTO t VALUES (1)", refuse_statements=False).undone == {}


def test_load_data_concerns_the_table_that_it_names(statement_log: StatementLog) -> None:
    load = types.EXECUTE_LOAD_QUERY_EVENT
    found = statement_log.decoded_event(load, load_query(b"`other` (`id`)"))
    assert found.failed == {}
    assert found.changes["shop", "t"].rows == 2
    failed = statement_log.decoded_event(load, load_query(b"`t`")).failed
    assert list(failed) == [("shop", "t")]
    assert "a statement that changes the table" in failed["shop", "t"]
    with pytest.raises(IncompleteError, match="may concern any table: LOAD DATA"):
        statement_log.decoded_event(load, load_query(b"`other` (@a) SET `id`=f(@a)"))


def test_an_incident_concerns_all_tables(statement_log: StatementLog) -> None:
    lost = struct.pack("<H", 1) + b"\x04lost"
    with pytest.raises(IncompleteError, match=r"events are missing from its log") as refused:
        statement_log.decoded_event(types.INCIDENT_EVENT, lost)
    found = statement_log.decoded_event(types.INCIDENT_EVENT, lost, refuse_statements=False)
    [place] = found.incidents
    assert str(refused.value).startswith(f"{place}: the server reports")
    assert place.startswith("binlog.000001:")
    assert "binlake mirror resync LAKE '*.*'" in (refused.value.hint or "")
    assert found.changes["shop", "t"].rows == 2


@pytest.mark.parametrize("sql", [b"CALL p()", b"UPDATE other, t SET t.id = 1", b"INSERT INTO other VALUES (f())"])  # fmt: skip
def test_a_statement_that_may_change_any_table(statement_log: StatementLog, sql: bytes) -> None:
    with pytest.raises(IncompleteError, match="may concern any table: statement DML"):
        statement_log.decoded(sql)
    assert statement_log.decoded(sql, refuse_statements=False).failed == {}


@pytest.mark.parametrize("task_bytes", [32 << 20, 1], ids=["here", "by tasks"])
def test_dates_that_become_null_are_counted_by_table_and_column(
    tmp_path: Path, task_bytes: int
) -> None:
    """Only those of wanted tables: another table may have the name that a pattern matches."""
    log = Log()
    log.insert(ADA, BOB, (3, "c", day(2026, 0, 0)))
    log.commit((TABLE_MAP, table_map("t.x", 8)), (INSERT, rows_body(image(BOB), table_id=8)))
    read = MirrorOptions().read_options([("shop", "t")])
    found = decode_range(
        plan_splits([str(log.save(tmp_path))], replace(read, table=()), 1 << 20),
        replace(read, table=()),
        Wanted({("shop", "t"): ()}, Definitions({})),
        HereEngine(),
        TaskFiles(tmp_path / "state", None),
        task_bytes=task_bytes,
    )
    assert found.zero_dates == {("shop", "t"): {"day": 2}}


class PicklingEngine(HereEngine):
    """Runs tasks as they arrive on another machine, and keeps their sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        pickled = [pickle.dumps(task) for task in tasks]
        self.sizes += map(len, pickled)
        return super().run([pickle.loads(one) for one in pickled], what, progress)


@pytest.mark.parametrize("task_bytes", [32 << 20, 1], ids=["here", "by tasks"])
def test_only_definitions_of_tables_with_rows_are_parsed(
    tmp_path: Path, task_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, however many parts and rounds there are. The log of other tables costs no more than before."""
    parsed: list[bytes] = []

    def counted(data: bytes) -> DeclaredSchema:
        parsed.append(data)
        return parse_schema(data)

    monkeypatch.setattr(definitions, "parse_schema", counted)
    made = f"CREATE TABLE shop.products (id INT, note{task_bytes} INT);"
    # which nothing can parse
    others = {("tenant", f"t{n}"): Definition(f"CREATE TABLE t{n} (x wibble)") for n in range(500)}
    known = Definitions({("shop", "products"): Definition(made), **others})
    read = MirrorOptions().read_options([("shop", "products"), *others])
    splits = plan_splits([str(LOGS / "binlog.00000?")], read, 50_000)
    wanted = Wanted(dict.fromkeys([("shop", "products"), *others], ()), known)
    engine = PicklingEngine()
    for _ in range(2):
        task_files = TaskFiles(tmp_path / "state", None)
        found = decode_range(splits, read, wanted, engine, task_files, task_bytes=task_bytes)
        assert found.changes.keys() == {("shop", "products")}
        assert not found.failed
    assert parsed == [made.encode()]
    assert bool(engine.sizes) is (task_bytes == 1)


def test_tasks_receive_thousands_of_definitions_compressed(tmp_path: Path) -> None:
    columns = ", ".join(f"column_{n} VARCHAR(100) DEFAULT NULL" for n in range(50))
    texts = {("tenant", f"t{n}"): f"CREATE TABLE tenant.t{n} ({columns})" for n in range(500)}
    read = MirrorOptions().read_options([("shop", "products")])
    splits = plan_splits([str(LOGS / "binlog.000001")], read, 50_000)
    known = Definitions({name: Definition(text) for name, text in texts.items()})
    engine = PicklingEngine()
    wanted = Wanted({("shop", "products"): ()}, known)
    task_files = TaskFiles(tmp_path / "state", None)
    assert decode_range(splits, read, wanted, engine, task_files, task_bytes=1).changes.keys() <= {
        ("shop", "products")
    }
    assert max(engine.sizes) < sum(map(len, texts.values())) / 10
