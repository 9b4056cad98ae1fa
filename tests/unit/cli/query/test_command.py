from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from binlake.cli.main import main

DEMO = str(Path(__file__).resolve().parents[4] / "demo" / "mysql-9.7")
ORDERS = "SELECT id, state, total, _ts, _seq, _before FROM shop.orders WHERE id = 116"


def test_json_is_that_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", ORDERS, DEMO]) == 0
    shown = capsys.readouterr()
    first, second, _ = map(json.loads, shown.out.splitlines())
    assert shown.err == "changes that rows cannot show: DDL: 7\n"
    assert first == {
        "id": 116,
        "state": "new",
        "total": "67.51",
        "_ts": "2026-11-21T10:31:09.276136Z",
        "_seq": {"file": 0, "pos": 186852, "row": 0},
        "_before": None,
    }
    assert second["_before"]["state"] == "new"


@pytest.mark.parametrize("form", ["csv", "csv-guarded", "parquet", "arrow"])
def test_files(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "result"
    sql = f"SELECT *, 0.5::DOUBLE AS half, 'a'::BLOB AS b FROM ({ORDERS})"
    assert main(["query", sql, DEMO, "--format", form, "-o", str(file)]) == 0
    assert capsys.readouterr().out == ""
    if form == "parquet":
        table = pa.parquet.read_table(file)
    elif form == "arrow":
        table = pa.ipc.open_stream(file.read_bytes()).read_all()
    else:
        table = pa.csv.read_csv(file)
    assert table["state"].to_pylist() == ["new", "returned", "returned"]
    assert table["half"].to_pylist() == [0.5] * 3


def test_all_types_have_a_form_in_every_format(tmp_path: Path) -> None:
    sql = (
        "SELECT 1::HUGEINT AS h, 2::UBIGINT AS u, 1.5::DECIMAL(5,2) AS d, 'NaN'::DOUBLE AS f, true AS t,"
        " NULL AS n, 'x\"y' AS s, '\\x00\\xff'::BLOB AS b, DATE '2026-11-21' AS day, INTERVAL 3 HOUR AS i,"
        " TIME '10:00' AS c, TIMESTAMP '2026-11-21 10:00:00.5' AS ts, [1, 2] AS l, {'a': INTERVAL 1 DAY} AS o,"
        " MAP {'k': 1} AS m, '101'::BIT AS bits, uuid() AS id, 'a'::ENUM ('a', 'b') AS e, 1 AS \"h\""
    )
    for form in ("json", "table", "csv", "csv-guarded", "arrow"):
        out = tmp_path / form
        assert main(["query", sql, DEMO, "-f", form, "-o", str(out)]) == 0
    found = json.loads((tmp_path / "json").read_text())
    assert (found["u"], found["d"], found["f"], found["t"], found["n"]) == (
        2,
        "1.50",
        "nan",
        True,
        None,
    )
    assert (found["s"], found["b"], found["day"], found["i"]) == (
        'x"y',
        "0x00ff",
        "2026-11-21",
        "03:00:00",
    )
    assert (found["l"], found["m"], found["bits"], found["e"]) == ([1, 2], {"k": 1}, "101", "a")
    assert found["ts"] == "2026-11-21 10:00:00.5"
    parquet = ["query", sql, DEMO, "-f", "parquet", "-o", str(tmp_path / "p")]
    assert main(parquet) == 2  # two columns named h
    parquet[1] = sql.replace('AS "h"', "AS h2")
    assert main(parquet) == 0


def test_times_are_the_same_text_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    sql = (
        "SELECT TIMESTAMP '2026-11-21 10:00:00.123' AS millis, TIMESTAMP '2026-11-21 10:00:00' AS whole,"
        " TIMESTAMPTZ '2026-11-21 10:00:00.123Z' AS moment, TIMESTAMP_S '2026-11-21 10:00:00' AS s,"
        " TIMESTAMP_NS '2026-11-21 10:00:00.123456789' AS ns, INTERVAL 2 HOUR AS i, TIME '10:00:00.5' AS t"
    )
    found = {}
    for form in ("json", "csv", "csv-guarded", "table"):
        assert main(["query", sql, DEMO, "-f", form]) == 0
        found[form] = capsys.readouterr().out
    expected = json.loads(found["json"])
    assert expected["millis"] == "2026-11-21 10:00:00.123"
    assert expected["moment"] == "2026-11-21T10:00:00.123000Z"
    for form in ("csv", "csv-guarded"):
        [row] = csv.DictReader(io.StringIO(found[form]))
        assert row == expected, form
    assert found["table"].splitlines()[-1].split("  ") == list(expected.values())


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT state, 5 AS n, NULL AS x, 'a\x1b[2J' AS c FROM shop.orders WHERE id = 116 LIMIT 1"
    assert main(["query", sql, DEMO, "-f", "table"]) == 0
    assert capsys.readouterr().out == (
        "state  n  x     c\n-----  -  ----  --------\nnew    5  NULL  a\\x1b[2J\n"
    )
    assert main(["query", "SELECT 1 AS one WHERE false", DEMO, "-f", "table"]) == 0
    assert capsys.readouterr().out == "one\n---\n"


def test_statements_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "CREATE VIEW big AS FROM shop.orders WHERE total > 900;\nSELECT count(*) AS n FROM big; SELECT 1 AS m;"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["query", DEMO]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()][1] == {"m": 1}
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1; SELECT 2"))
    assert main(["query", DEMO, "-f", "csv"]) == 2
    assert "one statement" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["SELECT 1"], 2, "expected the logs"),
        (
            [DEMO, "SELECT 1"],
            2,
            "binlake: the statement comes before the logs; binlake query 'SELECT …' FILE…\n",
        ),
        (["SELEC 1", DEMO], 2, 'binlake: syntax error at or near "SELEC" (line 1, column 1)\n'),
        (["SELECT 1", DEMO, "-f", "xml"], 2, "--format xml: expected one of table, json"),
        (["SELECT 1", "-"], 2, "a pipe can be read once only"),
        (["FROM read_text('x')", DEMO], 2, "--external-access lets SQL"),
        (["SELECT 1", f"{DEMO}/nothing"], 2, "does not exist"),
    ],
)
def test_mistakes(
    argv: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", *argv]) == code
    assert message in capsys.readouterr().err


def test_a_missing_library_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["query", "SELECT 1", DEMO]) == 1
    assert capsys.readouterr().err == (
        "binlake: SQL over logs needs the library duckdb; pip install 'binlake[query]'\n"
    )


def test_a_file_that_is_no_log_is_an_error_before_the_statement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text("# a page")
    assert main(["query", "SELECT 1", DEMO, str(page)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        f"binlake: {page} is not a binary log: it begins with 0x23206120, not 0xfe62696e\n"
    )


def test_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "FROM changes", DEMO, "-n", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_skipped_bytes_are_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(Path(DEMO, "binlog.000001").read_bytes())
    data[20_000] ^= 1
    damaged = tmp_path / "binlog.000001"
    damaged.write_bytes(data)
    argv = ["query", "SELECT count(*) FROM changes", str(damaged)]
    assert main(argv) == 1
    assert "--on-error skip" in capsys.readouterr().err
    assert main([*argv, "--on-error", "skip"]) == 1
    assert "bytes 19978 to 21158 were skipped" in capsys.readouterr().err
    assert main([*argv[:2], DEMO, "--on-unshown", "error"]) == 1
