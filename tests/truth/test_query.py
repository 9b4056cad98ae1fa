"""SQL sees what `Log.to_arrow` returns, of all types, and aggregates are those of Arrow."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import binlake
from support.oracles.queries import answer, database, plain

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
DEMO = GOLDEN.parents[1] / "demo" / "mysql-9.7"
LOGS = (
    "mysql-9.7/types-full",
    "mysql-9.7/partial-json",
    "mysql-9.7/schema",
    "mariadb-11.8/types-full",
    "mysql-5.6.24/types-noblob",
    "mysql-5.6.24/schema",
)


@pytest.mark.parametrize("name", LOGS)
def test_typed_tables_are_those_of_arrow(name: str) -> None:
    log = binlake.open(GOLDEN / name, before=True, query=True, thread_id=True)
    with database(GOLDEN / name) as sql:
        tables = sql.table_names()[4:]
        assert set(tables) == set(log.tables())
        for table in tables:
            expected = log.to_arrow(table)
            found = answer(sql, f'FROM "{table}"')
            assert found.schema.names == expected.schema.names
            assert plain(found.to_pylist()) == plain(expected.to_pylist()), table


def test_the_fixed_tables_are_those_of_the_api() -> None:
    log = binlake.open(DEMO, query=True, thread_id=True)
    with database(DEMO) as sql:
        changes = answer(sql, "FROM changes").to_pylist()
        assert plain(changes) == plain([r for b in log.changes() for r in b.to_pylist()])
        for view in ("transactions", "events", "statements"):
            found = plain(answer(sql, f"FROM {view}").to_pylist())
            assert found == plain([r for b in log.view(view) for r in b.to_pylist()]), view


def number(value: int) -> pa.Scalar:
    return pa.scalar(Decimal(value), pa.decimal128(20, 0))


#: Conditions on each kind of column, and the same in Arrow.
CONDITIONS = (
    ("id = 116", pc.field("id") == number(116)),
    ("id IN (116, 117, 99999)", pc.field("id").isin([116, 117, 99999])),
    ("id BETWEEN 10 AND 12", (pc.field("id") >= number(10)) & (pc.field("id") <= number(12))),
    ("customer_id = 7 AND _op = 'update'", (pc.field("customer_id") == 7) & (pc.field("_op") == "update")),
    ("total = 67.51", pc.field("total") == Decimal("67.51")),
    ("state = 'paid'", pc.field("state") == "paid"),
    ("state = 'PAID'", pc.field("state") == "PAID"),
    ("note IS NULL AND id < 20", pc.field("note").is_null() & (pc.field("id") < number(20))),
    ("id = 5 OR state = 'returned'", (pc.field("id") == number(5)) | (pc.field("state") == "returned")),
    ("_op IN ('delete', 'nothing')", pc.field("_op") == "delete"),
    ("_op = 'nothing'", pc.field("_op") == "nothing"),
    ("_gtid = 'no gtid'", pc.field("_gtid") == "no gtid"),
    ("_thread_id = 11 AND id = 3", (pc.field("_thread_id") == 11) & (pc.field("id") == number(3))),
    ("_before.state = 'new'", pc.field("_before", "state") == "new"),
)  # fmt: skip


@pytest.mark.parametrize(("condition", "filter"), CONDITIONS, ids=[c for c, _ in CONDITIONS])
def test_a_condition_keeps_the_same_rows_as_arrow(condition: str, filter: pc.Expression) -> None:
    orders = binlake.open(DEMO, before=True, thread_id=True).to_arrow("shop.orders")
    expected = orders.filter(filter).select(["id", "_op", "total", "_log_pos"])
    with database(DEMO) as sql:
        found = answer(sql, f"SELECT id, _op, total, _log_pos FROM shop.orders WHERE {condition}")
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("sign", ["<", "<=", "=", ">=", ">"])
def test_times_of_commit_choose_transactions(sign: str) -> None:
    orders = binlake.open(DEMO).to_arrow("shop.orders")
    moment = orders["_ts"][300]
    compare = {
        "<": pc.less,
        "<=": pc.less_equal,
        "=": pc.equal,
        ">=": pc.greater_equal,
        ">": pc.greater,
    }
    expected = pc.sum(compare[sign](orders["_ts"], moment)).as_py()
    with database(DEMO) as sql:
        text = (
            f"SELECT count(*) AS n FROM shop.orders WHERE _ts {sign} TIMESTAMPTZ '{moment.as_py()}'"
        )
        assert answer(sql, text)["n"].to_pylist() == [expected]
        [scan] = sql.scans
        assert (scan.options.since or scan.options.until) is not None


def test_options_of_the_user_stay_and_conditions_add_to_them() -> None:
    given = {"op": "update", "where": "state = 'returned'"}
    expected = binlake.open(DEMO, **given).to_arrow("shop.orders")
    with database(DEMO, **given) as sql:
        found = answer(sql, "SELECT id FROM shop.orders WHERE _op IN ('update', 'insert')")
        assert found["id"].to_pylist() == expected["id"].to_pylist()
        one = answer(sql, "SELECT state FROM shop.orders WHERE id = 116")
        assert one.num_rows == pc.sum(pc.equal(expected["id"], 116)).as_py()
    with database(DEMO, where="id = 116", whole_transaction=True) as sql:
        whole = binlake.open(DEMO, where="id = 116", whole_transaction=True).to_arrow("shop.orders")
        found = answer(sql, "SELECT id FROM shop.orders WHERE id = 1")
        assert found.num_rows == pc.sum(pc.equal(whole["id"], 1)).as_py()
