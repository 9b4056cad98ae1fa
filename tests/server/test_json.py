"""Random JSON documents through a real server: our text of its bytes is its own text."""

from __future__ import annotations

import pytest

import binlake
from dev.servers.server import Server
from support.values.json_expressions import Expressions

pytestmark = pytest.mark.server

DOCUMENTS = 1500


@pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
def test_documents_have_the_servers_text(server: Server) -> None:
    expressions = Expressions(seed=1)
    server.execute("CREATE DATABASE j", "CREATE TABLE j.docs (id INT PRIMARY KEY, doc JSON)")
    with server.session("j") as session:
        session.execute(
            "BEGIN",
            *(
                f"INSERT INTO docs VALUES ({number}, {expressions.value(number % 5)})"
                for number in range(DOCUMENTS)
            ),
            "COMMIT",
        )
        stored = session.rows("SELECT id, CAST(doc AS CHAR) FROM docs ORDER BY id")
    table = binlake.open([str(path) for path in server.log_files()]).to_arrow("j.docs")
    ids, texts = (table.column(i).to_pylist() for i in (0, 1))
    assert dict(zip(map(str, ids), texts, strict=True)) == {row[0]: row[1] for row in stored}
    assert len(texts) == DOCUMENTS
