"""The sessions in which tables are compared."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import ConnectionLostError, ServerError
from binlake.mirror import verification
from binlake.mirror.equality.compare import TableComparison, TableDifference
from unit.mirror.equality.compared_mirror import PLACE, mirror_of


def _sessions(monkeypatch: pytest.MonkeyPatch, begin: Any = lambda _number: None) -> list[int]:
    """The numbers of the sessions that comparisons open from now on. `begin` takes each, and may raise an error."""
    sessions: list[int] = []

    def opened(_url: str) -> Any:
        sessions.append(len(sessions) + 1)
        begin(sessions[-1])
        return nullcontext(SimpleNamespace(position=PLACE, server=None))

    monkeypatch.setattr(verification, "exact_session", opened)
    return sessions


def test_small_tables_share_a_session_for_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a metadata lock until the session ends, which blocks an ALTER and what comes after it."""
    found = TableComparison("a.t", 2, 2, 1, 0, ())
    mirror = mirror_of(monkeypatch, lambda *_, **__: found, lambda: None)
    sessions = _sessions(monkeypatch)
    assert verification.compare_tables(mirror).is_equal
    assert sessions == [1]
    assert verification.compare_tables(mirror, session_s=0).is_equal
    assert sessions == [1, 2, 3]
    mirror.tables["a.t"].lake.rows = 10**9
    assert verification.compare_tables(mirror, session_s=600).is_equal
    assert sessions == [1, 2, 3, 4, 5]


def test_a_table_that_was_dropped_before_its_session_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = TableComparison("a.t", 2, 2, 1, 0, ())
    mirror = mirror_of(monkeypatch, lambda *_, **__: found, lambda: None)

    def begin(number: int) -> None:
        if number == 2:
            del mirror.tables["a.u"]
            mirror.gone["a.u"] = "the server has no such table"

    _sessions(monkeypatch, begin)
    result = verification.compare_tables(mirror, session_s=0)
    assert [(table.table, table.state) for table in result.tables] == [("a.t", "equal")]


def test_tables_that_are_altered_again_and_again_end_a_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if each has a session of its own."""
    found = TableComparison("a.t", 2, 2, 1, 0, (TableDifference("column", columns=("v",)),))
    mirror = mirror_of(monkeypatch, lambda *_, **__: found, lambda: None)
    count = iter(range(1000))

    def compared(*_: Any, **__: Any) -> TableComparison:
        columns = (f"v{next(count)}",)
        return replace(found, differences=(TableDifference("column", columns=columns),))

    monkeypatch.setattr(verification, "compare", compared)
    result = verification.compare_tables(mirror, session_s=0)
    assert [table.state for table in result.tables] == ["not compared"] * 2
    assert next(count) == 10


@pytest.mark.parametrize("error", [
    ServerError("db commits without a pause of a few milliseconds", waited_s=60.0),
    ConnectionLostError("cannot connect to db: it is restarted"),
])  # fmt: skip
def test_a_session_that_cannot_begin_leaves_the_results_of_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, error: ServerError
) -> None:
    found = TableComparison("a.t", 2, 2, 1, 0, ())
    mirror = mirror_of(monkeypatch, lambda *_, **__: found, lambda: None)

    def begin(number: int) -> None:
        if number == 2:
            raise error

    sessions = _sessions(monkeypatch, begin)
    result = verification.compare_tables(mirror, session_s=0)
    assert {table.table: (table.state, table.reason) for table in result.tables} == {
        "a.t": ("equal", ""),
        "a.u": ("not compared", str(error)),
    }
    assert sessions == [1, 2]
