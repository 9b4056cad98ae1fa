"""`binlake history`: its arguments, its text and its messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from binlake.cli.history.arguments import key_and_files
from binlake.cli.history.text_form import lines, value_text
from binlake.cli.main import main
from binlake.errors import OptionError
from binlake.table.row_history.entries import NOT_LOGGED
from binlake.table.row_history.keys import RowKey
from support.logs.log_builder import QUERY, LogBuilder, query_body

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = str(Path(__file__).parents[3] / "demo" / "mysql-9.7")


def test_the_files_begin_at_the_first_thing_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("4711", "log.1", "log.2"):
        (tmp_path / name).touch()
    for arguments, key, files in (
        (["4711", "log.1", "log.2"], ("4711",), ["log.1", "log.2"]),
        (["4711", "1", "log.1"], ("4711", "1"), ["log.1"]),
        (["4711", "log.*"], ("4711",), ["log.*"]),
        (["a", "-"], ("a",), ["-"]),
        (["a", "mysql://u@h/", "missing"], ("a",), ["mysql://u@h/", "missing"]),
    ):
        assert key_and_files(arguments, ()) == (RowKey(key), files)
    named = key_and_files(["4711", "log.1"], ["id=a=b", "n="])
    assert named == (RowKey(("a=b", ""), ("id", "n")), ["4711", "log.1"])


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        (["4711"], [], "no FILE in the arguments"),
        ([LOGS], [], "no KEY in the arguments"),
        (["4711", "missing"], [], "none of the arguments after the first value is a file .*: missing"),
        ([LOGS], ["id"], "expected COLUMN=VALUE"),
        ([LOGS], ["id=1", "id=2"], "given twice"),
    ],
)  # fmt: skip
def test_arguments_without_key_or_file_are_refused(
    arguments: list[str], named: list[str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        key_and_files(arguments, named)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "shop.orders", "2", LOGS]) == 0
    out = capsys.readouterr().out
    assert out.startswith("shop.orders, id = 2: ")
    assert "\x1b" not in out
    assert re.search(
        r"^  1  2026-\S+ \S+  insert  binlog\.\d+:\d+  \S+:\d+  thread \d+$", out, re.M
    )
    assert re.search(r"^     state +'new' → 'delivered'$", out, re.M)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "shop.orders", "--key", "id=2", LOGS, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found[0]["op"] == "insert"
    assert found[-1]["op"] == "delete"
    assert found[0]["key"] == {"id": 2}


def test_an_unknown_key_reports_the_tables_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "shop.orders", "99999", LOGS]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "shop.orders: no change of a row with this key: 99999" in err
    assert "the log has changes of" in err


@pytest.mark.parametrize("more", [(), ("--since", "2030-01-01"), ("--html", "page.html")])
def test_a_table_that_the_logs_do_not_name_is_a_mistake(
    more: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = str(Path(LOGS).absolute())
    monkeypatch.chdir(tmp_path)
    assert main(["history", "shop.orderz", "1", logs, *more]) == 2
    out, err = capsys.readouterr()
    line = next(line for line in err.splitlines() if line.startswith("binlake:"))
    assert "table shop.orderz: the logs contain no change of it" in line
    assert "did you mean shop.orders?" in line
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_a_table_with_ddl_only_has_no_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogBuilder()
    log.add(QUERY, query_body(b"CREATE TABLE Quiet (id INT PRIMARY KEY)"))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes())
    assert main(["history", "shop.quiet", "1", str(path)]) == 0
    assert "shop.quiet: no change of a row with this key: 1" in capsys.readouterr().err
    assert main(["history", "shop.qui", "1", str(path)]) == 2, "it is not the name of a table"


def test_a_table_with_compressed_ddl_only_has_no_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MariaDB's log_bin_compress."""
    log = (GOLDEN / "mariadb-11.8" / "types-compressed" / "binlog.000001").read_bytes()
    path = tmp_path / "binlog.000001"
    path.write_bytes(log[:891])  # up to the end of the first CREATE TABLE
    assert main(["history", "golden.integers", "1", str(path)]) == 0
    assert "golden.integers: no change of a row with this key: 1" in capsys.readouterr().err
    assert main(["history", "golden.integer", "1", str(path)]) == 2


def test_a_wrong_key_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "shop.orders", "1", "2", LOGS]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "the primary key is (id), but 2 values given" in err


def test_values_are_printable_and_differ_from_null() -> None:
    assert value_text(None) == "NULL"
    assert value_text(NOT_LOGGED) == "(not logged)"
    assert value_text("it's\x1b[31m") == "'it''s\\x1b[31m'"
    assert value_text(1.5) == "1.5"
    assert len(value_text("x" * 9999)) < 2100


def test_colours_are_for_terminals() -> None:
    import binlake

    history = binlake.open(LOGS).history("shop.orders", 2)
    coloured = "\n".join(lines(history, colours=True))
    assert "\x1b[31m'new'\x1b[0m → \x1b[32m'delivered'\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == "\n".join(lines(history))


def test_html_is_one_page_without_external_resources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "history.html"
    assert main(["history", "shop.orders", "2", LOGS, "--html", str(target)]) == 0
    assert capsys.readouterr().out == ""
    text = target.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"<script|src=|href=|url\(|@import", text)
    assert "<del>&#x27;new&#x27;</del>" in text
    assert "<ins>&#x27;delivered&#x27;</ins>" in text
    assert text.count("<section") == 5


def test_texts_of_the_log_are_escaped_in_a_page() -> None:
    from dataclasses import replace

    import binlake
    from binlake.cli.history.html import page

    history = binlake.open(LOGS).history("shop.orders", 2)
    hostile = "<script>alert(1)</script>\u202e\x1b"
    change = history.changes[1]
    column = replace(change.changed["state"], old=hostile)
    entry = replace(change, query=hostile, gtid=hostile, key={hostile: hostile}, changed={hostile: column})  # fmt: skip
    text = page(replace(history, table=hostile, key={hostile: hostile}, entries=(entry,)))
    assert "<script" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_json_and_html_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = str(tmp_path / "page.html")
    assert main(["history", "shop.orders", "2", LOGS, "--json", "--html", page]) == 2
    assert "cannot be combined" in capsys.readouterr().err


def undo(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """Exit code, statements, and messages of `history --undo` of order 2."""
    code = main(["history", "shop.orders", "2", LOGS, "--undo", *arguments])
    out, err = capfd.readouterr()
    wanted = ("INSERT", "UPDATE", "DELETE")
    return code, [line for line in out.splitlines() if line.startswith(wanted)], err


def test_an_undo_reverses_a_change_and_all_later_ones(capfd: pytest.CaptureFixture[str]) -> None:
    code, statements, _ = undo(capfd, "3")
    assert code == 0
    insert, update = statements
    assert insert.startswith("INSERT INTO `shop`.`orders`")
    assert update.startswith("UPDATE `shop`.`orders` SET `state` = 'delivered'")
    gtid = "a8ba829e-e596-11f1-9be8-02fc00000001:523"
    for point in ("binlog.000001:563348", gtid, gtid.upper(), "after:2"):
        assert undo(capfd, point)[:2] == (0, statements)
    assert undo(capfd, "after:3")[:2] == (0, [insert])
    code, statements, err = undo(capfd, "after:4")
    assert (code, statements) == (0, [])
    assert "no change after this point" in err


def test_an_undo_stops_at_ddl_of_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    code, statements, err = undo(capfd, "1")
    assert (code, statements) == (1, [])
    assert "DDL" in err
    assert "choose a point after it" in err
    code, statements, err = undo(capfd, "1", "--force")
    assert code == 0
    assert len(statements) == 4
    assert statements[-1].startswith("DELETE FROM `shop`.`orders`")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--undo", "9"], "the history has no such change; give a number from 1 to 4"),
        (["--undo", "1", "--json"], "cannot be combined"),
        (["--force"], "binlake: --force requires --undo"),
        (["--force", "--generated", "x"], "--generated and --force require --undo"),
        (["--undo", "1", "--on-error", "skip"], "cannot be combined"),
        (["--undo", "1", "--verify", "undo.sql"], "is not a server"),
    ],
)
def test_an_undo_that_makes_no_sense_is_refused(
    capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["history", "shop.orders", "2", LOGS, *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err


def test_standard_input_cannot_be_undone(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "shop.orders", "2", "-", "--undo", "1"]) == 2
    assert "standard input can be read only once" in capfd.readouterr().err
