"""Dumps of a server, and the rows that `binlake state` prints from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from binlake.cli.main import main
from dev.servers import Server, Session

__all__ = ["SERVERS", "as_texts", "dumped", "rows_of", "state"]

SERVERS = ("mysql-9.7", "mariadb-11.8")


def dumped(server: Server, database: str, *options: str) -> bytes:
    """A dump by the server's own tool, with the position in the log."""
    place = "--source-data=2" if server.flavour == "mysql" else "--master-data=2"
    return server.dump(database, place, *options)


def rows_of(session: Session, table: str) -> list[str]:
    """The rows of a table as sorted JSON texts, all values as text."""
    names = [name for (name, *_) in session.rows(f"SHOW COLUMNS FROM {table}")]
    found = session.rows(f"SELECT * FROM {table}")
    return sorted(json.dumps(dict(zip(names, row, strict=True))) for row in found)


def as_texts(rows: list[dict[str, Any]]) -> list[str]:
    """The rows of a state in the form of `rows_of`."""
    return sorted(
        json.dumps({n: v if v is None else str(v) for n, v in row.items()}) for row in rows
    )


def state(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    code = main(["state", *arguments])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return [json.loads(line) for line in printed.out.splitlines()]
