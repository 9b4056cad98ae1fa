"""The tables that a statement reads, the statements that are refused, and errors."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import binlake
from binlake.errors import ChecksumError, OptionError, QueryError, SourceError
from binlake.query.database import LogDatabase
from binlake.source.resolve import resolve
from binlake.values.options import ReadOptions
from support.logs.log_builder import QUERY, ROWS, TABLE_MAP, query_body
from support.logs.stream_log import StreamLog, rows_body
from support.logs.table_log import ALL, UPDATE, Log, image, save_log_of_one_name, table_map
from support.logs.table_log import rows_body as table_rows
from support.oracles.queries import answer, database

DEMO = Path(__file__).resolve().parents[3] / "demo" / "mysql-9.7"


def test_only_the_columns_that_are_named_are_decoded() -> None:
    with database(DEMO) as sql:
        answer(sql, "SELECT sum(total) FROM shop.orders WHERE state = 'paid'")
        assert [scan.options.columns for scan in sql.scans] == [("state", "total")]
        assert not sql.scans[0].options.before
        answer(sql, "SELECT _op, count(*) FROM shop.orders GROUP BY 1")
        assert [scan.options.columns for scan in sql.scans] == [("",)]
        answer(sql, "SELECT op, count(*) FROM changes GROUP BY 1")
        assert [scan.options.columns for scan in sql.scans] == [("",)]
        answer(sql, "SELECT count(after) FROM changes")
        assert [scan.options.columns for scan in sql.scans] == [()]


def test_conditions_become_options() -> None:
    with database(DEMO) as sql:
        answer(sql, "SELECT state FROM shop.orders WHERE id IN (1, 2) AND _op = 'insert'")
        [scan] = sql.scans
        assert scan.options.op == ("insert",)
        assert scan.options.where == "(after.`id` IN (1, 2)) OR (before.`id` IN (1, 2))"
        answer(sql, "SELECT op FROM changes WHERE \"database\" = 'shop' AND \"table\" = 'orders'")
        assert [scan.options.table for scan in sql.scans] == [("shop.orders",)]
        gtid = "a8ba829e-e596-11f1-9be8-02fc00000001:530"
        found = answer(sql, f"SELECT deletes FROM transactions WHERE gtid = '{gtid}'")
        assert found["deletes"].to_pylist() == [32]
        assert [scan.options.gtid for scan in sql.scans] == [gtid]


def test_a_table_can_be_named_twice() -> None:
    with database(DEMO) as sql:
        found = answer(
            sql,
            "SELECT count(*) AS n FROM shop.orders a JOIN shop.orders b USING (id)"
            " WHERE a._op = 'insert' AND b._op = 'delete'",
        )
        assert found["n"].to_pylist() == [32]
        assert len(sql.scans) == 2
        assert sql.ledger.remarks() == ["changes that rows cannot show: DDL: 7"]


def test_an_interrupt_ends_a_statement_that_duckdb_computes() -> None:
    options = ReadOptions()
    chains = resolve([str(DEMO)])
    sql = LogDatabase(chains, options, begun=lambda _scan: os.kill(os.getpid(), signal.SIGINT))
    [result] = sql.run("SELECT count(*) FROM changes, range(1000000000000) WHERE op = 'insert'")
    with pytest.raises(KeyboardInterrupt):
        list(result.batches()[1])
    assert answer(sql, "SELECT 42 AS n")["n"].to_pylist() == [42]


def test_the_log_is_searched_for_tables_only_when_one_is_named() -> None:
    with database(DEMO) as sql:
        answer(
            sql, "WITH c AS (FROM changes) SELECT count(*) FROM c JOIN transactions USING (gtid)"
        )
        assert sql._changed is None
        assert "shop.orders" in answer(sql, "SHOW TABLES")["name"].to_pylist()


def definition(column: int, metadata: bytes = b"", table_id: int = 7) -> bytes:
    """shop.t with one column."""
    body = table_id.to_bytes(6, "little") + b"\x01\0" + b"\x04shop\0\x01t\0" + bytes([1, column])
    return body + bytes([len(metadata)]) + metadata + b"\x01"


def test_rows_that_do_not_fit_are_in_a_table_of_their_own(tmp_path: Path) -> None:
    made = StreamLog()
    texts = definition(15, b"\x14\0")
    for gno, text in ((1, b"12"), (2, b"twelve")):
        made.gtid(gno).query(b"BEGIN").add(TABLE_MAP, texts)
        made.add(ROWS, rows_body(0, table_id=7) + b"\0" + bytes([len(text)]) + text)
        made.xid()
    made.gtid(3).query(b"BEGIN").add(TABLE_MAP, definition(3, table_id=8))
    made.add(ROWS, rows_body(0, table_id=8) + b"\0" + (13).to_bytes(4, "little"))
    made.xid()
    with database(made.write(tmp_path), assume_charset="utf8mb4") as sql:
        assert answer(sql, "SELECT col_0 FROM shop.t")["col_0"].to_pylist() == [12, 13]
        # also where a statement does not name the column that decides it
        assert answer(sql, "SELECT count(_op) AS n FROM shop.t")["n"].to_pylist() == [2]
        assert answer(sql, 'SELECT col_0 FROM "shop.t@1"')["col_0"].to_pylist() == ["twelve"]
        answer(sql, "SELECT col_0 FROM shop.t")
        assert any("shop.t@n" in line for line in sql.ledger.remarks())
        with pytest.raises(QueryError, match=r"no table 'shop\.t@9'"):
            answer(sql, 'FROM "shop.t@9"')


def renamed_log() -> Log:
    """A log of shop.t whose second transaction has another name for a column."""
    log = Log()
    log.insert((1, "a", None), gno=1)
    log.commit(
        (TABLE_MAP, table_map(names=("id", "label", "day"))),
        (ROWS, table_rows(image((2, "b", None)))),
        gno=2,
    )
    return log


def test_an_aggregate_reads_the_log_once(tmp_path: Path) -> None:
    log = Log()
    log.insert((1, "a", None), (2, "b", None), gno=1)
    with database(log.save(tmp_path)) as sql:
        for _ in range(2):
            assert answer(sql, "SELECT sum(id) AS n FROM shop.t")["n"].to_pylist() == [3]
            assert sql._changed is None
            assert not sql.is_assuming
            assert len(sql.scans) == 1
        # rows leave before the end of the log, so the definitions of all of it are found first
        assert answer(sql, "FROM shop.t LIMIT 1").num_rows == 1
    with database(tmp_path / "binlog.000001") as sql:
        assert answer(sql, "FROM shop.t LIMIT 1").num_rows == 1
        assert not sql.is_assuming


@pytest.mark.parametrize(
    ("sql", "column", "values"),
    [
        ("SELECT sum(id) AS n FROM shop.t", "n", [3]),
        ("SELECT label FROM shop.t", "label", [None, "b"]),
        ("SELECT max(label) AS n FROM shop.t", "n", ["b"]),
        ("FROM shop.t ORDER BY id", "label", [None, "b"]),
        ("FROM shop.t WHERE id = 1", "label", [None]),
        ("FROM shop.t ORDER BY id", "name", ["a", None]),
        ("SELECT count(*) AS n FROM shop.t a JOIN shop.t b USING (label)", "n", [1]),
        ("SELECT len(COLUMNS('label')) AS n FROM shop.t WHERE id = 2", "n", [1]),
    ],
)
def test_a_definition_that_comes_late(
    sql: str, column: str, values: list[object], tmp_path: Path
) -> None:
    with database(renamed_log().save(tmp_path)) as made:
        assert answer(made, sql)[column].to_pylist() == values
        assert not made.is_assuming
        assert answer(made, "SELECT count(label) AS n FROM shop.t")["n"].to_pylist() == [1]


def test_a_table_made_after_an_interrupted_statement(tmp_path: Path) -> None:
    with database(renamed_log().save(tmp_path)) as made:
        results = made.run("SELECT sum(id) FROM shop.t")
        next(results)  # and its rows are not taken
        assert made.is_assuming
        assert list(made.run("CREATE TABLE copied AS FROM shop.t")) == []
        assert answer(made, "FROM copied ORDER BY id")["label"].to_pylist() == [None, "b"]


def test_metadata_of_a_table_whose_column_was_renamed(tmp_path: Path) -> None:
    """The before-image has the column under both names: neither is decoded for another column."""
    log = Log()
    log.insert((1, "a", None))
    log.add(QUERY, query_body(b"ALTER TABLE shop.t RENAME COLUMN name TO label"))
    log.commit(
        (TABLE_MAP, table_map(names=("id", "label", "day"))),
        (UPDATE, table_rows(image((1, "a", None)), image((1, "b", None)), bitmaps=(ALL, ALL))),
    )
    with database(log.save(tmp_path)) as made:
        positions = answer(made, "SELECT _log_pos FROM shop.t")["_log_pos"].to_pylist()
        assert [scan.options.columns for scan in made.scans] == [("",)]
        everything = answer(made, "SELECT *, _before FROM shop.t")
    assert positions == everything["_log_pos"].to_pylist() != []


def test_a_name_with_quotes_and_periods(tmp_path: Path) -> None:
    log = Log()
    name = 'it\'s "quoted" . twice'
    log.insert((1, "a", None), table=name)
    quoted = name.replace('"', '""')
    with database(log.save(tmp_path)) as made:
        for sql in (f'FROM "shop.{quoted}"', f'FROM shop."{quoted}"'):
            assert answer(made, f"SELECT id {sql}")["id"].to_pylist() == [1]


def test_a_name_that_two_tables_share_is_an_error(tmp_path: Path) -> None:
    """`shop`.`b.c` and `shop.b`.`c`: the rows of one of them would be missing."""
    path = save_log_of_one_name(tmp_path)
    for sql in ('SELECT * FROM "shop.b.c"', 'SELECT * FROM "shop.b".c'):
        with (
            database(path) as made,
            pytest.raises(OptionError, match=r"ambiguous: .* `shop`\.`b\.c` and `shop\.b`\.`c`"),
        ):
            answer(made, sql)
    with database(path) as made:
        found = answer(made, 'SELECT database, "table" FROM changes ORDER BY ALL').to_pylist()
    assert [tuple(row.values()) for row in found] == [("shop", "b.c"), ("shop.b", "c")]


def test_names_that_differ_in_case_are_an_error_wherever_they_come(tmp_path: Path) -> None:
    log = Log()
    log.insert((1, "a", None), gno=1)
    log.insert((2, "b", None), table="T", gno=2)
    path = log.save(tmp_path)
    for sql in ("SELECT sum(id) FROM shop.t", "FROM shop.t"):
        with database(path) as made, pytest.raises(OptionError, match="upper and lower case"):
            answer(made, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1) TO '{folder}/written'",
        "EXPORT DATABASE '{folder}/written'",
        "ATTACH '{folder}/written'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET temp_directory = '{folder}/written'",
        "SELECT * FROM secret",
        "SELECT getenv('HOME')",
    ],
)
def test_sql_cannot_leave_the_log(sql: str, tmp_path: Path) -> None:
    secret = pa.table({"a": [1]})  # a variable is no table
    assert secret.num_rows == 1
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with database(DEMO) as made, pytest.raises(QueryError):
        answer(made, sql.format(file=file, folder=tmp_path))
    assert [found.name for found in tmp_path.iterdir()] == ["secret.csv"]


def test_sql_reads_other_files_with_external_access(tmp_path: Path) -> None:
    file = tmp_path / "names.csv"
    file.write_text("id,name\n1,Ada\n")
    connection = binlake.open(DEMO).duckdb(external_access=True)
    found = connection.sql(
        f"SELECT name FROM shop.orders JOIN read_csv('{file}') USING (id) WHERE _op = 'insert'"
    ).fetchall()
    connection.close()
    assert found == [("Ada",)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", r"syntax error at or near \"SELEC\" \(line 1, column 1\)"),
        (
            "SELECT 1,\n  stat FROM shop.orders",
            r"no column 'stat' \(line 2, column 3\); columns: state",
        ),
        ("FROM shop.order", r"no table 'shop\.order' \(line 1, column 6\); tables: shop\.orders, "),
        (
            'FROM "shop.order"',
            r"no table 'shop\.order' \(line 1, column 6\); tables: shop\.orders, ",
        ),
        ("SELECT CAST(state AS INT) FROM shop.orders", "Could not convert string 'new'"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(sql: str, message: str) -> None:
    with database(DEMO) as made:
        with pytest.raises(QueryError, match=message) as caught:
            answer(made, sql)
        assert "\n" not in str(caught.value)
        assert answer(made, "SELECT 1 AS one")["one"].to_pylist() == [1]


def test_an_error_of_the_log_is_that_error(tmp_path: Path) -> None:
    data = bytearray((DEMO / "binlog.000001").read_bytes())
    data[20_000] ^= 1
    damaged = tmp_path / "binlog.000001"
    damaged.write_bytes(data)
    for table in ("changes", "shop.orders"):
        with database(damaged) as made, pytest.raises(ChecksumError) as caught:
            answer(made, f"SELECT count(*) FROM {table}")
        assert caught.value.event_pos == 19978
    with database(damaged, on_error="skip") as made:
        answer(made, "SELECT count(*) FROM changes a JOIN changes b USING (gtid)")
        assert [(lost.start, lost.end) for lost in made.ledger.skipped] == [(19978, 21158)]


def test_damage_adds_no_column(tmp_path: Path) -> None:
    log = Log()
    log.insert((1, "a", None), gno=1)
    log.insert((2, "b", None), gno=2)
    path = log.save(tmp_path)
    with database(path) as made:
        assert "name" in made.columns("shop.t")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"name")] ^= 1  # in the second TABLE_MAP
    path.write_bytes(data)
    with database(path) as made, pytest.raises(ChecksumError):
        made.columns("shop.t")


def test_options_that_a_table_cannot_have() -> None:
    with database(DEMO, where="id = 1") as made:
        for table in ("events", "transactions", "statements"):
            with pytest.raises(OptionError, match="option where"):
                answer(made, f"FROM {table}")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "binlog.000001"
    os.mkfifo(pipe)
    for path in ("-", pipe):
        with pytest.raises(SourceError, match="can be read once only"), database(path):
            pass


def test_a_result_larger_than_the_memory_limit() -> None:
    with database(DEMO, max_memory=64 << 20) as made:
        folder = Path(
            made.connection.sql("SELECT current_setting('temp_directory')").fetchall()[0][0]
        )
        assert folder.stat().st_mode & 0o777 == 0o700
        sql = "SELECT i, repeat('x', 100) AS t FROM range(1_500_000) r(i) ORDER BY hash(i)"
        assert answer(made, f"SELECT count(DISTINCT i) AS n FROM ({sql})")["n"].to_pylist() == [
            1_500_000
        ]


def test_a_connection_in_python() -> None:
    log = binlake.open(DEMO, op="delete", columns="nothing")
    connection = log.duckdb()
    assert connection.sql("SELECT count(*) FROM shop.orders").fetchall() == [(32,)]
    assert log.ledger.rows == {("shop", "orders"): {"delete": 32}}
    with pytest.raises(duckdb.Error, match="disabled by configuration"):
        connection.sql("FROM read_text('/etc/hostname')").fetchall()
    connection.close()


def test_polars() -> None:
    pytest.importorskip("polars")
    log = binlake.open(DEMO)
    frame = log.to_polars("shop.orders")
    assert frame.shape == (687, 16)
    assert frame["id"].to_list() == log.to_arrow("shop.orders")["id"].to_pylist()
