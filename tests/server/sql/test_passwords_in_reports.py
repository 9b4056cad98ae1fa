"""Passwords and their hashes in statements of real servers: reports do not show them."""

from __future__ import annotations

import json
import re
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from binlake.cli.main import main
from binlake.source.resolve import resolve
from binlake.ui.answers import Answers
from binlake.ui.opened_logs import LogSession
from binlake.values.options import ReadOptions
from dev.servers import RefusedError, Server

pytestmark = pytest.mark.server

_SERVER = (
    "CREATE SERVER elsewhere FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', PASSWORD 'geheim-4')"
)


def transactions_of_the_page(log: str, places: list[str]) -> list[Any]:
    """The views of transactions in `binlake ui`."""
    with closing(LogSession(resolve([log]), ReadOptions(), [log])) as session:
        session.begin()
        assert session.ready.wait(60)
        answer = Answers(session).by_name()["transaction"]
        return [answer({"at": place}, [], Event()) for place in places]


def test_reports_show_no_passwords_of_statements(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.execute("FLUSH BINARY LOGS")
    server.execute(
        "CREATE USER ada@'%' IDENTIFIED BY 'geheim-1'",
        "SET PASSWORD FOR ada@'%' = "
        + ("'geheim-2'" if server.name == "mysql-9.7" else "PASSWORD('geheim-2')"),
        _SERVER,
        "CREATE DATABASE IF NOT EXISTS far",
    )
    with suppress(RefusedError):  # the server may lack this engine
        server.execute(
            "CREATE TABLE far.t (id INT) ENGINE=FEDERATED CONNECTION='mysql://u:geheim-3@h:1/d/t'"
        )
    log = str(server.log_files()[-1])
    assert main(["stats", log, "--statements", "--kind", "account,ddl", "--json"]) == 0
    entries = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    raw = [entry["sql"] for entry in entries]
    places = [f"{entry['file']}:{entry['pos']}" for entry in entries]
    hashes = [
        found[1]
        for sql in raw
        for found in re.finditer(r"(?:AS|BY|PASSWORD|=) *'((?:[^'\\]|\\.)*)'", sql)
        if found[1]
    ]
    assert len(hashes) >= 2  # the view is exact
    page = tmp_path / "page.html"
    outputs = []
    for options in ([], ["--json"], ["--html", str(page)]):
        assert main(["stats", log, *options]) == 0
        outputs.append(capfd.readouterr().out)
    outputs[2] = page.read_text()
    outputs.append(json.dumps(transactions_of_the_page(log, places), ensure_ascii=False))
    for output in outputs:
        assert "'***'" in output
        assert "geheim" not in output
        for secret in hashes:
            assert secret not in output
            assert json.dumps(secret)[1:-1] not in output
