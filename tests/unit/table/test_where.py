"""`where` on the demo logs: every way of reading chooses the same row changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import binlake
from binlake.errors import OptionError, UnsupportedError
from binlake.table.where.documents import DocumentTests
from binlake.values.ledger import Ledger
from binlake.values.where import Comparison, Document, parse_where
from support.forked_commands import run_binlake
from support.oracles.reading import command as run_here

LOGS = Path(__file__).parents[3] / "demo" / "mysql-9.7"
GOLDEN = Path(__file__).parents[2] / "golden"
ORDERS = "shop.orders"

Row = dict[str, Any]


def read(logs: Path = LOGS, **options: Any) -> list[Row]:
    """The row changes that are chosen, as JSON objects."""
    log = binlake.open(str(logs), **options)
    rows = [row for batch in log.changes() for row in batch.to_pylist()]
    return [
        {
            **row,
            "before": json.loads(row["before"] or "null"),
            "after": json.loads(row["after"] or "null"),
        }
        for row in rows
    ]


def either(decide: Callable[[Row], Any]) -> Callable[[Row], bool]:
    """A decision about an image, for a change."""
    return lambda row: any(bool(decide(image)) for image in (row["before"], row["after"]) if image)


CONDITIONS: list[tuple[str, Callable[[Row], bool]]] = [
    ("id IN (TRUE, 5)", either(lambda row: row["id"] in (1, 5))),
    ("id = 45", either(lambda row: row["id"] == 45)),
    ("id IN (45, 46) AND state <> 'new'", either(lambda row: row["id"] in (45, 46) and row["state"] != "new")),
    ("total > 100.005 XOR id < 50", either(lambda row: row["total"] is not None and (float(row["total"]) > 100.005) != (row["id"] < 50))),
    ("placed_at BETWEEN '2026-11-02' AND '2026-11-03 16:00:00'", either(lambda row: "2026-11-02" <= row["placed_at"] <= "2026-11-03 16:00:00.000000")),
    ("NOT (note IS NULL) AND note LIKE '%gift%'", either(lambda row: row["note"] and "gift" in row["note"])),
    ("changed(state) AND after.state = 'returned'", lambda row: row["op"] == "update" and row["before"]["state"] != row["after"]["state"] == "returned"),
    ("before.id <=> NULL AND after.total >= 500", lambda row: row["op"] == "insert" and float(row["after"]["total"]) >= 500),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "decide"), CONDITIONS)
@pytest.mark.parametrize("how", [{}, {"batch_bytes": 4096, "threads": 1}, {"threads": 2}])
def test_chosen_rows_are_those_of_all_that_match(
    condition: str, decide: Callable[[Row], bool], how: dict[str, Any]
) -> None:
    expected = [row for row in read(table=ORDERS) if decide(row)]
    assert expected
    assert read(table=ORDERS, where=condition, **how) == expected


@pytest.mark.parametrize(("condition", "decide"), CONDITIONS)
def test_typed_rows_are_the_same(condition: str, decide: Callable[[Row], bool]) -> None:
    expected = [(row["file"], row["pos"], row["row"]) for row in read(table=ORDERS) if decide(row)]
    log = binlake.open(str(LOGS), where=condition, columns="customer_id")
    found = log.to_pylist(ORDERS)
    assert [(row["_log_file"], row["_log_pos"], row["_row"]) for row in found] == expected
    assert "total" not in found[0]


def test_a_whole_transaction_has_its_other_changes() -> None:
    chosen = {row["gtid"] for row in read(table=ORDERS, where="id = 45")}
    expected = [row for row in read(table=ORDERS) if row["gtid"] in chosen]
    found = read(table=ORDERS, where="id = 45", whole_transaction=True)
    assert found == expected
    assert len(found) > len(read(table=ORDERS, where="id = 45"))


def test_most_transactions_match_and_the_others_are_left_out() -> None:
    found = read(table=ORDERS, where="id <> 45", whole_transaction=True)
    chosen = {row["gtid"] for row in read(table=ORDERS, where="id <> 45")}
    expected = [row for row in read(table=ORDERS) if row["gtid"] in chosen]
    assert found == expected
    assert len(expected) < len(read(table=ORDERS))


def test_counts_are_those_of_the_chosen_rows() -> None:
    log = binlake.open(str(LOGS), table=ORDERS, where="changed(state)")
    rows = sum(batch.num_rows for batch in log.changes())
    assert log.ledger.rows == {("shop", "orders"): {"update": rows}}


def test_only_the_needed_columns_of_the_others_are_decoded() -> None:
    def decoded(**options: Any) -> int:
        log = binlake.open(str(LOGS), table=ORDERS, **options)
        list(log.changes())
        return log.ledger.decoded_bytes

    assert decoded(where="id = 45") < decoded() / 4
    assert decoded(where="id <> 45") < decoded()


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-10.11"])
@pytest.mark.parametrize("how", [{}, {"query": True}])
def test_rows_chosen_here_and_there_are_those_of_all(server: str, how: dict[str, Any]) -> None:
    logs = GOLDEN / server / "transactions"
    decide = either(lambda row: row.get("id") in (1, 50))
    every = read(logs, **how)
    expected = [row for row in every if decide(row)]
    assert len({row["table"] for row in expected}) > 1
    assert "query" not in how or len({row["query"] for row in expected}) > 2
    assert read(logs, where="id IN (1, 50)", **how) == expected
    assert read(logs, where="id NOT IN (1, 50)", **how) == [
        row for row in every if either(lambda image: image.get("id", 1) not in (1, 50))(row)
    ]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("id =", "syntax error at '='"),
        ("1 = 1", "names no column"),
        ("id + 1 = 2", "neither a column nor a constant"),
        ("id IN (SELECT 1)", "list of constants"),
        ("orders.id = 1", "before.id or after.id"),
        ("id REGEXP 'x'", "not a condition that binlake can decide"),
        ("doc->'$[*]' = 1", "keys and indexes only"),
        ("id BETWEEN 1 AND 1e3", "with an exponent"),
    ],
)
def test_invalid_conditions_are_refused_before_reading(condition: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        binlake.open(str(LOGS), where=condition)


@pytest.mark.parametrize(
    ("table", "condition", "message"),
    [
        (ORDERS, "stat = 'new'", r"shop.orders has no column 'stat'; did you mean state\? it has id"),
        (ORDERS, "id = '45'", "id is bigint unsigned: compare it with a number"),
        (ORDERS, "state = 1", "state is enum.*with a text in quotes"),
        (ORDERS, "placed_at > 'yesterday'", "compare it with a date in quotes"),
        (ORDERS, "total LIKE '1%'", "LIKE is for text"),
        (ORDERS, "BINARY id = 1", "BINARY is for text"),
        ("shop.products", "weight > 1.5", "write the constant with an exponent"),
        ("shop.products", "attributes->'$.a' = 'x'", "-> is compared with numbers"),
        ("shop.products", "attributes->'$.a' = TRUE", "-> is compared with numbers"),
        ("shop.products", "attributes->'$.a' LIKE 'x'", "use ->> for LIKE"),
        ("shop.products", "attributes->>'$.a' = 5", "compare it with a text"),
        ("shop.customers", "name < 'M'", "does not know the order of texts under utf8mb4_0900_ai_ci; write BINARY before the column"),
    ],
)  # fmt: skip
def test_a_wrong_column_or_type_is_one_line(table: str, condition: str, message: str) -> None:
    with pytest.raises((OptionError, UnsupportedError), match=message):
        list(binlake.open(str(LOGS), table=table, where=condition).changes())


def test_rows_from_before_a_column_was_added_do_not_match() -> None:
    def has_channel(row: Row) -> bool:
        return bool((row["after"] or row["before"]).get("channel"))

    rows = read(table=ORDERS)
    expected = [row for row in rows if has_channel(row)]
    assert 0 < len(expected) < len(rows)
    assert read(table=ORDERS, where="channel IS NOT NULL") == expected


@pytest.mark.parametrize("table", [["--table", ORDERS], []])
@pytest.mark.parametrize("command", [["rows"], ["sql"], ["export", "--engine", "local"]])
def test_a_column_that_no_table_has_is_an_error_everywhere(
    command: list[str], table: list[str], tmp_path: Path
) -> None:
    target = [str(tmp_path / "lake")] if command[0] == "export" else []
    code, out, err = run_here(*command, str(LOGS), *target, *table, "--where", "sate = 'new'")
    assert code == 2
    assert out == b""
    what = "table shop.orders has no" if table else "no table that was read has a"
    assert f"binlake: --where: {what} column 'sate'; " in err
    assert "did you mean state? it has id, customer_id, state, channel" in err
    assert not list(tmp_path.glob("lake/*"))


def test_a_text_that_cannot_be_compared_is_an_error_with_its_place() -> None:
    log = binlake.open(str(LOGS), table="shop.customers", where="name LIKE '%ê%'")
    with pytest.raises(
        UnsupportedError, match=r"write BINARY before the column.*file binlog.000001, event at"
    ):
        list(log.changes())


def test_binary_and_collate_compare_any_text() -> None:
    rows = read(table="shop.customers")
    names = [row for row in rows if either(lambda image: "ê" in image["name"])(row)]
    assert read(table="shop.customers", where="name LIKE BINARY '%ê%'") == names
    assert read(table="shop.customers", where="name COLLATE utf8mb4_bin LIKE '%ê%'") == names
    later = [row for row in rows if either(lambda image: image["name"] >= "M")(row)]
    assert read(table="shop.customers", where="BINARY name >= 'M'") == later


def test_ascii_letters_decide_for_names_with_other_characters() -> None:
    found = read(table="shop.customers", where="name LIKE 'eva%'")
    assert found == [
        row
        for row in read(table="shop.customers")
        if either(lambda i: i["name"].startswith("Eva"))(row)
    ]


def test_a_column_that_only_some_tables_have_is_a_remark() -> None:
    log = binlake.open(str(LOGS), where="state = 'returned'")
    assert sum(batch.num_rows for batch in log.changes())
    assert any("shop.customers has no column 'state'" in line for line in log.ledger.remarks())
    with pytest.raises(OptionError, match="no table that was read has a column 'nothing'"):
        list(binlake.open(str(LOGS), where="nothing = 1").changes())


@pytest.mark.parametrize("call", ["events", "transactions", "stats"])
def test_calls_without_row_changes_refuse_conditions(call: str) -> None:
    log = binlake.open(str(LOGS), where="id = 1")
    with pytest.raises(OptionError, match="option where chooses row changes"):
        list(getattr(log, call)())


def test_an_export_has_the_chosen_rows(tmp_path: Path) -> None:
    command = ["export", str(LOGS), str(tmp_path / "lake"), "--engine", "local", "--workers", "1"]
    run = run_binlake(*command, "--table", ORDERS, "--where", "id = 45")
    assert run.returncode == 0, run.stderr
    found = pq.read_table(str(tmp_path / "lake" / "shop" / "orders"))
    assert found.column("id").to_pylist() == [45] * len(read(table=ORDERS, where="id = 45"))


def test_sql_has_the_chosen_rows() -> None:
    run = run_binlake("sql", str(LOGS), "--where", "id = 45", "--table", ORDERS)
    assert run.returncode == 0, run.stderr
    expected = [row["op"].upper() for row in read(table=ORDERS, where="id = 45")]
    written = re.findall(r"^(INSERT|UPDATE|DELETE)", run.stdout.decode(), re.MULTILINE)
    assert written == expected
    both = run_binlake("sql", str(LOGS), "--where", "id = 45", "--ddl")
    assert both.returncode == 2
    assert b"--ddl and --where cannot be combined" in both.stderr


def test_whole_transaction_needs_where() -> None:
    with pytest.raises(OptionError, match="whole_transaction needs option where"):
        binlake.open(str(LOGS), whole_transaction=True)


def test_the_ledger_keeps_the_requested_columns() -> None:
    ledger = Ledger()
    ledger.look_for_where(["a", "b"], ["A"])
    again = Ledger.from_json(ledger.to_json())
    again += ledger
    assert again.where_columns == {"a": True, "b": False}
    assert "no table that was read has the column 'b' of option where" in again.remarks()


def test_a_minus_keeps_every_digit() -> None:
    text = "-99999999.999999999999999999999999999999"
    assert text in str(parse_where(f"x = {text}"))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "{", "1" * 5000 + "x"])
def test_texts_that_are_no_documents(text: str) -> None:
    """MariaDB's are texts: a user with INSERT chooses their nesting depth."""
    condition = parse_where("d->>'$.a' = 'x'")
    assert isinstance(condition, Comparison)
    assert isinstance(condition.left, Document)
    kind = SimpleNamespace(charset="utf8mb4")  # not MySQL's JSON; more is not asked of it
    test = DocumentTests(kind, condition.left).compare("=", "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a text is no JSON document"):
        test(pa.array([text]), None)


def test_warnings_of_sqlglot_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """An unreadable path was, with all that it contains."""
    for path in ("$.a[\x1b[2J", "$.a[" + "9" * 100_000 + "]"):
        with suppress(ValueError):
            parse_where(f"d->'{path}' = 1")
    assert capfd.readouterr() == ("", "")
