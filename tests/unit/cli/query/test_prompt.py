"""The prompt of `query`, typed into without a terminal."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("prompt_toolkit")

from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from binlake.cli.query.prompt import NameCompleter, run_prompt
from binlake.errors import QueryError
from binlake.query.database import LogDatabase
from support.oracles.queries import answer, database

DEMO = Path(__file__).resolve().parents[4] / "demo" / "mysql-9.7"


@pytest.fixture
def sql() -> Iterator[LogDatabase]:
    with database(DEMO) as made:
        yield made


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def typed(sql: LogDatabase, keys: str) -> list[str]:
    """The statements that are run when these keys are typed."""
    run: list[str] = []

    def take(text: str) -> None:
        run.append(text)
        if text == "interrupt;":
            raise KeyboardInterrupt
        answer(sql, text)

    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        run_prompt(sql, take)
    return run


def test_a_statement_has_several_lines_and_an_error_does_not_end_the_prompt(
    sql: LogDatabase, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = "SELECT 1 +\r2;\rSELEC;\rinterrupt;\r\x03SELECT 3;\rexit\rSELECT 4;\r"
    assert typed(sql, keys) == ["SELECT 1 +\n2;", "SELEC;", "interrupt;", "SELECT 3;"]
    shown = capsys.readouterr().err
    assert 'syntax error at or near "SELEC"' in shown
    assert "interrupted" in shown
    history = state / "binlake" / "query_history"
    assert "SELECT 3;" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_the_end_of_the_input_ends_the_prompt(sql: LogDatabase, state: Path) -> None:
    assert typed(sql, "\x04") == []


def test_a_history_that_cannot_be_kept_is_left_out(
    sql: LogDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert typed(sql, "SELECT 1;\rexit\r") == ["SELECT 1;"]


def completed(sql: LogDatabase, text: str) -> list[str]:
    found = NameCompleter(sql).get_completions(Document(text), CompleteEvent())
    return [one.text for one in found]


def test_names_are_completed(sql: LogDatabase) -> None:
    assert completed(sql, "FROM shop.ord") == ["shop.orders", "shop.order_lines"][::-1]
    assert "customer_id" in completed(sql, "FROM shop.orders WHERE cust")
    assert "SELECT" in completed(sql, "sel")
    assert completed(sql, "FROM shop.orders ") == []
    with pytest.raises(QueryError):
        answer(sql, "FROM nothing")
