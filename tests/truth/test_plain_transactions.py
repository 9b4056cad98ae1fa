"""Transactions made of columns have every fact that those made of their events have."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import BinlogError
from binlake.source.resolve import resolve
from binlake.stream.groups.transaction_of import transaction_of
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Outcome, Transaction
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

FIELDS = [field.name for field in fields(Transaction) if field.name not in ("_pieces", "file")]


def facts(transaction: Transaction) -> dict[str, Any]:
    found = {name: getattr(transaction, name) for name in (*FIELDS, "gtid")}
    found["frames"] = [
        piece.window.frame(index).offset
        for piece in transaction.pieces()
        for index in range(piece.first, piece.last)
    ]
    return found


def from_events(path: str) -> list[dict[str, Any]]:
    """The transactions by their groups, without those of XA; all public ways make plain ones of columns."""
    found = []
    for reader in LogReader.of_chains(resolve([path]), ReadOptions(), Ledger()):
        for group, outcome in reader.groups():
            if outcome is Outcome.COMMITTED and not (group.decides or group.xid):
                found.append(facts(transaction_of(group, outcome, group, group.undone)))
    return found


def from_columns(path: str) -> list[dict[str, Any]]:
    return [facts(t) for t in binlake.open(path).transactions() if t.xa_xid is None]


def same(path: Path) -> int:
    """Compare a log, and return how many transactions it has. Raises BinlogError."""
    columns = from_columns(str(path))
    events = from_events(str(path))
    assert len(columns) == len(events), path
    for column, event in zip(columns, events, strict=True):
        assert column == event, path
    return len(columns)


def test_golden_logs(golden: Path) -> None:
    logs = sorted(golden.glob("*/*/binlog.0*"))
    compared = sum(same(log) for log in logs if "encrypted" not in str(log))
    assert compared > 1000


def test_the_corpus(corpus: Path) -> None:
    compared = 0
    for log in sorted(path for path in corpus.glob("generated/*/*/binlog.0*")):
        try:
            compared += same(log)
        except BinlogError as error:
            assert "keyring" in str(error) or "encrypt" in str(error), (log, error)
    assert compared > 1000


def test_fields_are_listed_on_request(golden: Path) -> None:
    """They stay what they are when the reader has gone on, and look as always."""
    log = golden / "mysql-9.7" / "transactions" / "binlog.000001"
    kept = list(binlake.open(log).transactions())
    at_once = [t.gtid for t in binlake.open(log).transactions()]
    assert [t.gtid for t in kept] == at_once
    plain = next(t for t in kept if not t.statements)
    assert plain == plain
    assert plain.gtid_event is not None
    assert plain.gtid_event is plain.gtid_event
    assert repr(plain).startswith(
        f"Transaction(outcome={Outcome.COMMITTED!r}, start=ChainPosition(ordinal=0"
    )
    with pytest.raises(AttributeError):
        plain.nonsense  # type: ignore[attr-defined]  # noqa: B018
