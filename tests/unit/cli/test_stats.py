"""`binlake stats` as a person meets it: text, JSON, the page, the audit, and every mistake."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from binlake.cli.main import main
from binlake.cli.stats.text_form import bytes_text, duration_text, one_line
from binlake.stream.views import VIEWS
from support.logs.hostile_log import MARIADB, MYSQL, named

LOG = "mysql-9.7/transactions/binlog.000001"
STATEMENTS = "mysql-5.6.24/statements/binlog.000001"


def run(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["stats", *argv])
    out, err = capfd.readouterr()
    return code, out, err


def test_json_is_the_documented_object(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    code, out, err = run(capfd, str(golden / LOG), "--json", "--top", "3")
    found = json.loads(out)
    assert code == 0
    assert list(found) == [
        "first_ts", "last_ts", "total", "uncounted_transactions", "tables", "servers", "threads",
        "time", "largest_by_bytes", "largest_by_rows", "longest", "statements", "ddl", "log",
        "remarks",
    ]  # fmt: skip
    assert len(found["largest_by_bytes"]) == 3
    assert [t["bytes"] for t in found["largest_by_bytes"]] == sorted(
        (t["bytes"] for t in found["largest_by_bytes"]), reverse=True
    )
    assert found["ddl"]["count"] == len(found["ddl"]["list"]) == found["statements"]["DDL"]
    assert found["ddl"]["list"][0]["sql"].startswith("CREATE DATABASE")
    assert found["first_ts"].endswith("Z")
    assert all(remark in err for remark in found["remarks"])


def test_text_output_agrees_with_json(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    log = str(golden / LOG)
    total = json.loads(run(capfd, log, "--json")[1])["total"]
    code, out, _ = run(capfd, log)
    assert code == 0
    assert "all times are UTC" in out
    assert f"{total['inserts']:,} inserts, {total['updates']:,} updates" in out
    for head in ("Tables", "Threads", "Largest transactions by rows", "DDL"):
        assert f"\n{head}" in out


def test_an_unset_time_is_empty(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    code, out, _ = run(capfd, str(golden / LOG), "--until", "2001-01-01")
    assert (code, "no transactions" in out) == (0, True)


def test_the_unit_of_time_can_be_chosen(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    for unit, end in (
        ("10ms", "0000Z"),
        ("second", ".000000Z"),
        ("minute", ":00.000000Z"),
        ("hour", ":00:00.000000Z"),
        ("day", "T00:00:00.000000Z"),
    ):
        found = json.loads(run(capfd, str(golden / LOG), "--by", unit, "--json")[1])["time"]
        assert found["unit"] == unit
        assert all(bucket["ts"].endswith(end) for bucket in found["buckets"])


# -- the audit -------------------------------------------------------------------------------------


def test_the_audit_lists_every_statement(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    code, out, _ = run(capfd, str(golden / STATEMENTS), "--statements", "--json")
    entries = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert all(list(e) == [column.name for column in VIEWS["statements"].columns] for e in entries)
    sql = [e["sql"] for e in entries]
    assert "BEGIN" not in sql
    assert "transaction control" not in {e["kind"] for e in entries}
    assert any(text.startswith("UPDATE s SET a = LAST_INSERT_ID()") for text in sql)
    assert all(e["ts"].endswith("Z") for e in entries)
    users = {e["user"] for e in entries}
    assert users == {None, "root@localhost"}  # a server logs the user of few statements only
    text = run(capfd, str(golden / STATEMENTS), "--statements")[1]
    assert len(text.splitlines()) == len(entries)
    assert "user=unknown" in text
    assert "user=root@localhost" in text


def test_the_audit_takes_the_filters_of_transactions(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    log = str(golden / LOG)
    whole = run(capfd, log, "--statements", "--json")[1].splitlines()
    gtid = next(json.loads(line)["gtid"] for line in whole)
    code, out, _ = run(capfd, log, "--statements", "--json", "--gtid", gtid)
    assert code == 0
    assert [json.loads(line)["gtid"] for line in out.splitlines()] == [gtid]


def test_the_audit_by_kind(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    def kinds(*flags: str) -> dict[str, int]:
        out = run(capfd, str(golden / STATEMENTS), "--statements", "--json", *flags)[1]
        return dict(Counter(json.loads(line)["kind"] for line in out.splitlines()))

    everything = kinds()
    assert kinds("--kind", "ddl") == {"DDL": everything["DDL"]}
    assert kinds("--kind", "DML,truncate", "--kind", "load") == {
        kind: everything[kind] for kind in ("statement DML", "TRUNCATE", "LOAD DATA")
    }
    assert list(kinds("--kind", "control")) == ["transaction control"]


@pytest.mark.parametrize(
    "log",
    ["mysql-9.7/transactions", "mysql-9.7/types-compressed", "mariadb-11.8/transactions", "mysql-5.6.24/statements"],
)  # fmt: skip
def test_digests_add_up(capfd: pytest.CaptureFixture[str], golden: Path, log: str) -> None:
    """Each row and each byte of rows events counts once, also inside of compressed transactions."""
    path = str(golden / log / "binlog.000001")
    whole = json.loads(run(capfd, path, "--json")[1])["total"]
    code, out, _ = run(capfd, path, "--statements", "--digest", "--json")
    entries = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert sum(entry["rows"] or 0 for entry in entries) == whole["rows"]
    assert [e["bytes"] for e in entries] == sorted((e["bytes"] for e in entries), reverse=True)
    assert all(entry["rows"] is None for entry in entries if "row events" not in entry["kind"])
    listed = run(capfd, path, "--statements", "--json", "--kind", "dml,ddl,truncate,account,load")[
        1
    ]
    texts = [e for e in map(json.loads, listed.splitlines()) if e["outcome"] == "committed"]
    assert sum(e["count"] for e in entries if "row events" not in e["kind"]) == len(texts)
    top = run(capfd, path, "--statements", "--digest", "--json", "--top", "2")[1].splitlines()
    assert [json.loads(line) for line in top] == entries[:2]


def test_a_digest_of_statements(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    log = str(golden / "mariadb-11.8" / "transactions" / "binlog.000001")
    out = run(capfd, log, "--statements", "--digest", "--json", "--kind", "rows")[1]
    [inserts] = [e for e in map(json.loads, out.splitlines()) if e["digest"] == "INSERT INTO b VALUES (...)"]  # fmt: skip
    assert (inserts["count"], inserts["rows"], inserts["kind"]) == (7, 8, "text of row events")
    assert (inserts["first"]["pos"], inserts["last"]["pos"]) == (1311, 5304)
    text = run(capfd, log, "--statements", "--digest")[1]
    assert re.search(r"7 x +8 rows +1.1 kB  binlog.000001:1311 to binlog.000001:5304  INSERT INTO b VALUES", text)  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--kind", "ddl"], "--kind requires --statements"),
        (["--digest"], "--digest requires --statements"),
        (
            ["--statements", "--kind", "select"],
            "--kind select: expected one of dml, load, truncate,",
        ),
        (
            ["--statements", "--digest", "--table", "a.b"],
            "--table: binlake does not know which tables",
        ),
        (["--by", "week"], "--by week: expected one of 10ms, 100ms, second, minute, hour, day"),
        (["--top", "0"], "Invalid value for '--top'"),
        (
            ["--statements", "--table", "a.b"],
            "--table: binlake does not know which tables a statement changes",
        ),
        (["--statements", "--op", "insert"], "--op: binlake does not know which tables"),
        (["--statements", "--html", "x.html"], "--statements excludes --html"),
        (["--html", "/no/such/folder/x.html"], "cannot write /no/such/folder/x.html"),
        (["--gtid", "x"], "--gtid"),
    ],
)
def test_mistakes_are_one_line(
    capfd: pytest.CaptureFixture[str], golden: Path, argv: list[str], message: str
) -> None:
    code, _, err = run(capfd, str(golden / LOG), *argv)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_an_empty_file_and_no_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(b"")
    code, out, err = run(capfd, str(tmp_path / "binlog.000001"))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert run(capfd, str(tmp_path / "binlog.000002"))[0] == 2


# -- the page --------------------------------------------------------------------------------------


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def written(capfd: pytest.CaptureFixture[str], target: Path, *argv: str) -> str:
    assert run(capfd, *argv, "--html", str(target))[:2] == (0, "")
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    return target.read_text(encoding="utf-8")


def test_the_html_report_agrees_with_json(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    log = str(golden / LOG)
    expected = json.loads(run(capfd, log, "--json", "--top", "4")[1])
    data = data_of(written(capfd, tmp_path / "page.html", log, "--top", "4"))
    del expected["time"]
    assert data["summary"] == expected
    assert data["state"]["files"] == {"count": 1, "first": "binlog.000001", "last": "binlog.000001"}
    total = data["timeline"]["total"]
    assert {name: sum(total[name]) for name in total} == {
        name: expected["total"][name] for name in total
    }


def test_the_page_stands_alone(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    """It names nothing to load, and its policy allows the scripts and styles that are in it only."""
    html = written(capfd, tmp_path / "page.html", str(golden / LOG))
    assert not re.search(r"<(?:link|img|iframe|object)|\ssrc=|@import|url\(", html)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    for tag in ("style", "script"):
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digests = [base64.b64encode(sha256(part.encode()).digest()).decode() for part in parts]
        named = re.search(rf"{tag}-src ([^;]*)", policy[1].replace("&#x27;", "'"))
        assert named
        assert named[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert "unsafe" not in policy[1]


@pytest.mark.parametrize("version", [MYSQL, MARIADB])
def test_names_and_statements_cannot_end_the_data(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, version: str
) -> None:
    evil = "</script><script>alert(1)</script><!--"
    log = tmp_path / "in" / "binlog.000001"
    log.parent.mkdir()
    log.write_bytes(named(version, evil))
    (tmp_path / "out").mkdir()
    html = written(capfd, tmp_path / "out" / "page.html", str(log))
    clean = written(capfd, tmp_path / "out" / "page.html", str(log), "--until", "2001-01-01")
    assert html.count("<script") == clean.count("<script")
    assert html.count("<!--") == clean.count("<!--")
    assert evil in json.dumps(data_of(html))


def test_a_short_log_has_bars_of_a_fraction_of_a_second(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    found = json.loads(run(capfd, str(golden / LOG), "--json")[1])
    total = found["total"]["transactions"]
    assert found["time"]["unit"] in ("10ms", "100ms", "second")
    assert len(found["time"]["buckets"]) > 3
    assert sum(bucket["transactions"] for bucket in found["time"]["buckets"]) == total


def test_numbers_for_people() -> None:
    assert [bytes_text(n) for n in (0, 999, 1000, 999_960, 5 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "1.0 MB", "5.0 TB",
    ]  # fmt: skip
    assert [duration_text(s) for s in (0, 4, 185, 3725)] == [
        "< 1 s", "4 s", "3 min 05 s", "1 h 02 min",
    ]  # fmt: skip
    assert one_line("a\n b\x1b[31mc", 8) == "a b\\x1b…"


@pytest.mark.parametrize(
    "given",
    [
        *(
            ["--columns", "id"],
            ["--schema", "x.sql"],
            ["--nested"],
            ["--query"],
            ["--zero-date", "text"],
        ),
        *(["--statements", "--top", "3"], ["--statements", "--by", "day"]),
    ],
)
def test_options_without_effect_are_refused(
    given: list[str], golden: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = golden / "mysql-9.7/rotation/binlog.000001"
    assert main(["stats", str(log), *given]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert next(word for word in reversed(given) if word.startswith("--")) in said.err
