"""`binlake stats` as a person meets it: text, JSON, the page, the audit, and every mistake."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from binlake.cli.main import main
from binlake.cli.stats.charts import Slot, bars, timeline
from binlake.cli.stats.html import page
from binlake.cli.stats.text import bytes_text, duration_text, one_line
from binlake.stream.views import VIEWS

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


def test_text_says_what_json_says(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    log = str(golden / LOG)
    total = json.loads(run(capfd, log, "--json")[1])["total"]
    code, out, _ = run(capfd, log)
    assert code == 0
    assert "all times are UTC" in out
    assert f"{total['inserts']:,} inserts, {total['updates']:,} updates" in out
    for head in ("Tables", "Threads", "Largest transactions by rows", "DDL"):
        assert f"\n{head}" in out


def test_a_time_chosen_by_nobody_is_empty(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
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
        (["--statements", "--kind", "select"], "--kind select: not one of dml, load, truncate,"),
        (
            ["--statements", "--digest", "--table", "a.b"],
            "--table: binlake does not know which tables",
        ),
        (["--by", "week"], "--by week: not one of 10ms, 100ms, second, minute, hour, day"),
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


class Checker(HTMLParser):
    """Balanced tags; nothing that loads or runs something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {"src", "href", "onload", "onclick", "action"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert not checker.open
    assert not checker.seen & {"script", "link", "img", "iframe", "object", "form", "b0rk"}
    assert not re.search(r"https?://|url\(|@import|javascript:", html)
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ElementTree.fromstring(svg)
    return checker


def test_the_page_stands_alone(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    code, out, _ = run(capfd, str(golden / LOG), "--html", str(target))
    assert (code, out) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    html = target.read_text(encoding="utf-8")
    checker = checked(html)
    assert "svg" in checker.seen
    assert "prefers-color-scheme:dark" in html
    assert "All times are UTC." in checker.text
    assert "CREATE DATABASE" in checker.text


def test_names_and_statements_cannot_break_the_page(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    document: dict[str, Any] = json.loads(run(capfd, str(golden / LOG), "--json")[1])
    evil = "<script>alert(1)</script>\"'&<b0rk "
    document["tables"]["top"][0]["table"] = evil
    document["ddl"]["list"][0]["sql"] = evil
    document["ddl"]["list"][0]["user"] = evil
    document["remarks"] = [evil]
    document["largest_by_bytes"][0]["tables"] = [evil]
    checker = checked(page(document, [evil]))
    assert checker.text.count(evil.strip()) >= 6


def test_a_page_counts_one_thing_in_the_singular_and_cuts_no_table_on_paper(
    capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    document: dict[str, Any] = json.loads(run(capfd, str(golden / LOG), "--json")[1])
    document["tables"]["count"] = document["total"]["deletes"] = 1
    html = page(document, ["binlog.000001"])
    assert "<b>1</b><span>table</span>" in html
    assert "<b>1</b><span>delete</span>" in html
    printed = html[html.index("@media print") : html.index("</style>")]
    assert ".scroll{overflow:visible}" in printed


def test_a_page_without_anything(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    assert run(capfd, str(golden / LOG), "--until", "2001-01-01", "--html", str(target))[0] == 0
    assert "No transactions." in checked(target.read_text(encoding="utf-8")).text


def test_a_long_time_has_bounded_bars() -> None:
    slots = [Slot(minute * 60, (minute % 7, 1)) for minute in range(0, 50_000, 3)]
    plot = timeline(slots, 60, ("inserts", "deletes"), str, str)
    found = ElementTree.fromstring(plot).findall(".//rect")
    assert len(found) <= 2 * 401
    assert all(float(rect.get("height", "-1")) >= 0 for rect in found)
    ends = [float(rect.get("x", "0")) + float(rect.get("width", "0")) for rect in found]
    assert max(ends) <= 1000


def test_bars_are_as_long_as_their_values() -> None:
    chart = ElementTree.fromstring(bars([("a" * 100, (4, 4)), ("b", (2, 0))], ("x", "y"), str))
    tracks = chart.findall(".//span[@class='track']")
    assert [track.get("style") for track in tracks] == ["width:80.00%", "width:20.00%"]
    shares = [[(part.get("class"), part.get("style")) for part in track] for track in tracks]
    assert shares == [[("x", "flex:4"), ("y", "flex:4")], [("x", "flex:2")]]


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
def test_what_would_be_ignored_is_refused(
    given: list[str], golden: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = golden / "mysql-9.7/rotation/binlog.000001"
    assert main(["stats", str(log), *given]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert next(word for word in reversed(given) if word.startswith("--")) in said.err
