"""The answers to the page equal the results of the Python API and the commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import binlake
from binlake.cli.main import main
from binlake.errors import OptionError
from binlake.ui.answers import Answers
from binlake.ui.code import program
from binlake.ui.opened_logs import LogSession, Stopped
from binlake.values.options import ReadOptions

OpensSession = Callable[..., LogSession]


def ask(session: LogSession, name: str, *keys: str, **query: object) -> dict[str, Any]:
    texts = {field: str(value) for field, value in query.items()}
    return Answers(session).by_name()[name](texts, list(keys), Event())


def all_transactions(session: LogSession, **query: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = ask(session, "transactions", after=after, **query)
        found += page["transactions"]
        if page["next"] is None:
            return found
        assert len(page["transactions"]) == 50
        after = page["next"]


@pytest.mark.parametrize(
    "log", ["mysql-9.7/transactions", "mariadb-11.8/transactions", "mysql-9.7/rotation"]
)
def test_pages_have_every_transaction_once(
    golden: Path, session_of: OpensSession, log: str
) -> None:
    folder = golden / log
    found = all_transactions(session_of(folder))
    expected = [(t.file.shown, t.start.offset, t.gtid) for t in binlake.open(folder).transactions()]
    assert [(one["file"], one["pos"], one["gtid"]) for one in found] == expected


def test_a_span_reads_a_part_and_finds_the_same(demo: Path, session_of: OpensSession) -> None:
    session = session_of(demo)
    everything = all_transactions(session)
    times = [binlake.open(demo, at=f"{t['file']}:{t['pos']}") for t in everything[:1]]
    assert times
    moments = sorted(t.commit_us for t in binlake.open(demo).transactions())
    since, until = moments[100], moments[400]
    inside = [t for t in binlake.open(demo).transactions() if since <= t.commit_us < until]
    found = all_transactions(session, since=since, until=until)
    assert [one["pos"] for one in found] == [t.start.offset for t in inside]
    summary = ask(session, "summary", since=since, until=until)
    assert summary["total"]["transactions"] == len(inside)
    timeline = ask(session, "timeline", since=since, until=until, table="shop.orders")
    rows = binlake.open(demo, table="shop.orders").to_pylist()
    width = timeline["width_us"]
    assert {one["table"] for one in timeline["sums"]} == {"shop.orders"}
    stamps = [int(row["ts"].timestamp() * 1_000_000) for row in rows]
    low, high = timeline["starts"][0], timeline["starts"][-1] + width
    total = timeline["total"]
    shown = sum(sum(total[name]) for name in ("inserts", "updates", "deletes"))
    assert shown == sum(low <= stamp < high for stamp in stamps)
    nothing = ask(session, "transactions", since=moments[-1] + 1_000_000)
    assert nothing["transactions"] == []


def test_rows_are_those_of_the_condition(demo: Path, session_of: OpensSession) -> None:
    session = session_of(demo)
    where = "state = 'paid' AND changed(state)"
    expected = binlake.open(demo, where=where, table="shop.orders").to_pylist()
    found: list[dict[str, Any]] = []
    while True:
        answer = ask(session, "rows", where=where, table="shop.orders", offset=len(found))
        found += answer["rows"]
        if not answer["more"]:
            break
    assert [(row["file"], row["pos"], row["row"]) for row in found] == [
        (row["file"], row["pos"], row["row"]) for row in expected
    ]
    assert len(found) > 50
    first = found[0]
    assert first["after"]["state"] == "paid"
    assert first["before"]["state"] != "paid"
    assert first["key"] == {"id": first["after"]["id"]}


def test_a_transaction_has_its_statements_and_values(
    demo: Path, golden: Path, session_of: OpensSession
) -> None:
    session = session_of(demo)
    largest = ask(session, "summary")["largest_by_rows"][0]
    at = f"{largest['file']}:{largest['pos']}"
    pages = [ask(session, "transaction", at=at, offset=offset) for offset in (0, 50, 100)]
    assert [len(page["rows"]) for page in pages] == [50, 50, len(pages[2]["rows"])]
    rows = [row for page in pages for row in page["rows"]]
    assert len(rows) == largest["rows"]
    same = ask(session, "transaction", at=pages[0]["gtid"])
    assert same == pages[0]
    assert pages[0]["remarks"] == []
    ddl = ask(session, "summary")["ddl"]["list"][0]
    found = ask(session, "transaction", at=f"{ddl['file']}:{ddl['pos']}")
    assert [one["sql"] for one in found["statements"]] == [ddl["sql"]]
    with pytest.raises(OptionError, match="ends at"):
        ask(session, "transaction", at="binlog.000001:99999999")


def test_the_history_is_that_of_the_api(demo: Path, session_of: OpensSession) -> None:
    session = session_of(demo)
    expected = binlake.open(demo).history("shop.orders", 26)
    for keys in (("26",), ("id=26",)):
        found = ask(session, "history", *keys, table="shop.orders")
        assert [(one["op"], one["pos"]) for one in found["entries"]] == [
            (one.op, one.pos) for one in expected
        ]
        assert found["key"] == {"id": "26"}
    changed = found["entries"][1]["changed"]
    assert changed == [{"name": "state", "old": "new", "new": "paid"}]
    with pytest.raises(OptionError, match="key of the row is missing"):
        ask(session, "history", table="shop.orders")


@pytest.mark.parametrize(
    ("command", "keys", "query"),
    [
        (["sql", "--undo", "--at", "binlog.000001:237129"], (), {"at": "binlog.000001:237129"}),
        (["sql", "--undo", "--where", "id = 26", "--since", "2026-11-21 10:31:09.31"], (), {"where": "id = 26", "since": "1795257069310000"}),
        (["history", "shop.orders", "26", "--undo", "4"], ("26",), {"table": "shop.orders", "point": "4"}),
    ],
    ids=["transaction", "condition", "row"],
)  # fmt: skip
def test_the_undo_is_that_of_the_command(
    capfd: pytest.CaptureFixture[str], demo: Path, session_of: OpensSession,
    command: list[str], keys: tuple[str, ...], query: dict[str, str],
) -> None:  # fmt: skip
    place = 3 if command[0] == "history" else 1
    main([*command[:place], str(demo), *command[place:]])
    expected = capfd.readouterr().out
    assert "COMMIT" in expected
    assert ask(session_of(demo), "undo", *keys, **query)["text"] == expected


def test_generated_programs_read_the_rows_on_the_page(demo: Path, session_of: OpensSession) -> None:
    session = session_of(demo)
    query = {"table": "shop.orders", "where": "state = 'paid' AND note <> \"it's\"", "op": "update"}
    expected = len(binlake.open(demo, **query).to_pylist())
    python = ask(session, "code", kind="python", **query)["text"]
    scope: dict[str, Any] = {}
    exec(python, scope)  # noqa: S102
    assert scope["rows"].num_rows == expected
    command = ask(session, "code", kind="command", **query)["text"]
    folder = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == expected
    spark = ask(session, "code", kind="spark", **query)["text"]
    compile(spark, "spark", "exec")
    assert """.option("where", "state = 'paid' AND note <> \\"it's\\"")""" in spark
    history = ask(session, "code", "id=26", kind="python", table="shop.orders")["text"]
    exec(history, scope)  # noqa: S102
    assert len(scope["history"].changes) == 5
    with pytest.raises(OptionError, match="kind 'x'"):
        ask(session, "code", kind="x")


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("timeline", {"since": "x"}), ("timeline", {"since": "9" * 30}), ("rows", {"offset": "-1"}),
        ("rows", {"where": "id ="}), ("rows", {"where": "nothing_like_it = 1"}), ("rows", {"op": "drop"}),
        ("transactions", {"after": "x"}), ("transaction", {}), ("transaction", {"at": "x"}), ("undo", {"at": "x"}),
        ("timeline", {"table": "orders"}),
    ],
)  # fmt: skip
def test_a_wrong_request_is_an_error_of_the_user(
    demo: Path, session_of: OpensSession, name: str, query: dict[str, str]
) -> None:
    with pytest.raises(OptionError):
        ask(session_of(demo), name, **query)


def test_a_read_stops_when_no_client_waits(demo: Path, session_of: OpensSession) -> None:
    stop = Event()
    stop.set()
    answers = Answers(session_of(demo)).by_name()
    for name in ("transactions", "rows"):
        with pytest.raises(Stopped):
            answers[name]({}, [], stop)


def test_a_damaged_log_is_reported_and_can_be_skipped(
    demo: Path, tmp_path: Path, session_of: OpensSession
) -> None:
    data = bytearray((demo / "binlog.000001").read_bytes())
    data[400_000] ^= 0xFF
    (tmp_path / "binlog.000001").write_bytes(data)
    session = session_of(tmp_path)
    state = ask(session, "state")
    assert "checksum" in state["error"]
    assert state["can_skip"]
    session = session_of(tmp_path, on_error="skip")
    assert ask(session, "state")["error"] is None
    assert 0 < sum(ask(session, "timeline")["total"]["transactions"]) < 572
    assert any("skipped" in remark for remark in ask(session, "summary")["remarks"])


def test_a_program_names_every_file() -> None:
    files = ["one/binlog.000001", "two/it's.000002"]
    spark = program("spark", files, ReadOptions())
    assert '.load(["one/binlog.000001", "two/it\'s.000002"])' in spark
    assert (
        program("command", files, ReadOptions())
        == "binlake rows one/binlog.000001 'two/it'\"'\"'s.000002'\n"
    )
