"""`history` of tables that get other names, or whose names other tables get."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import binlake
from binlake.errors import UnsupportedError
from dev.servers import Server, running
from dev.servers.server import RefusedError
from support.servers.live import url_of

pytestmark = pytest.mark.server


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"], indirect=True)
def test_rows_of_another_table_that_gets_the_name_are_other_rows(server: Server) -> None:
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE moved", "FLUSH BINARY LOGS"
    )
    file = server.log_files()[-1]
    with server.session("moved") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
            "INSERT INTO other VALUES (1, 100)",
            "INSERT INTO t VALUES (1, 0)",
            "RENAME TABLE t TO x, x TO t",
            "UPDATE t SET v = 1",
            "RENAME /* swap */ TABLE t TO tmp, other TO t, tmp TO other",
            "UPDATE t SET v = 101",
            "RENAME TABLE t TO tmp, other TO t, tmp TO other",
            "UPDATE t SET v = 2",
            "ALTER TABLE t RENAME TO away",
            "RENAME TABLE away TO t",
            "DELETE FROM t",
            "INSERT INTO t VALUES (1, 3)",
            "RENAME TABLE t TO old",
            "DROP TABLE old",
            "CREATE TABLE old (id INT PRIMARY KEY, v INT)",
            "INSERT INTO old VALUES (1, 4)",
            "RENAME TABLE old TO t",
            "UPDATE t SET v = 5",
        )
    log = binlake.open(str(file))
    found = log.history("moved.t", 1)
    assert [(change.op, change.life) for change in found.changes] == [
        ("insert", 1), ("update", 1), ("update", 2), ("update", 3), ("delete", 4), ("insert", 5), ("update", 6),
    ]  # fmt: skip
    of_other = log.history("moved.other", 1)
    assert [(change.op, change.life) for change in of_other.changes] == [("insert", 1)]


@pytest.mark.parametrize("server", ["mariadb-11.8"], indirect=True)
def test_a_rename_of_a_table_that_does_not_exist_moves_no_row(server: Server) -> None:
    """MariaDB logs RENAME TABLE IF EXISTS also then, and refuses it if both names have a table."""
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE nowhere", "FLUSH BINARY LOGS"
    )
    file = server.log_files()[-1]
    with server.session("nowhere") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
            "INSERT INTO other VALUES (1, 100)",
            "INSERT INTO t VALUES (1, 0)",
            "RENAME TABLE IF EXISTS nothing TO t",
            "UPDATE t SET v = 1",
        )
        with pytest.raises(RefusedError, match="already exists"):
            session.execute("RENAME TABLE IF EXISTS other TO t")
        session.execute(
            "UPDATE t SET v = 2",
            "DROP TABLE t",
            "RENAME TABLE IF EXISTS other TO t",
            "UPDATE t SET v = 101",
        )
    log = binlake.open(str(file))
    found = log.history("nowhere.t", 1)
    assert [change.life for change in found.changes] == [1, 1, 1, 2]
    assert "RENAME TABLE IF EXISTS nothing TO t" in {entry.query for entry in found}
    assert log.ledger.warnings == []


def test_names_in_upper_and_lower_case(tmp_path: Path, provisioned: Callable[[str], str]) -> None:
    """With lower_case_table_names=1, which no log contains, the statements have the names as they were written."""
    options = ["--lower-case-table-names=1", "--binlog-row-metadata=FULL"]
    with running(provisioned("mariadb-11.8"), options) as server:
        with server.session() as session:
            session.execute(
                "CREATE DATABASE spelled",
                "USE spelled",
                "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
                "INSERT INTO t VALUES (1, 0)",
            )
            dump = tmp_path / "dump.sql"
            dump.write_bytes(server.dump("spelled", "--master-data=2", "--databases"))
            session.execute("ALTER TABLE t RENAME TO T", "UPDATE T SET v = 1")
            before = "{}:{}".format(*server.position())
            session.execute("RENAME TABLE t TO x, X TO t", "UPDATE t SET v = 2")
            after = "{}:{}".format(*server.position())
        log, live = binlake.open(str(server.data / "binlog.index")), url_of(server)
        changes = log.history("spelled.t", 1).changes
        assert [change.life for change in changes] == [1, 1, 2]
        [warning] = log.ledger.warnings
        assert warning.startswith(f"{before.split(':')[0]}:")
        assert "differ only in case" in warning
        assert log.state("spelled.t", before, str(dump)).to_pylist() == [{"id": 1, "v": 1}]
        assert log.state("spelled.t", after, live).to_pylist() == [{"id": 1, "v": 2}]
        for moment, source in ((after, str(dump)), (before, live)):
            with pytest.raises(
                UnsupportedError, match="cannot know whether they are the same table"
            ):
                log.state("spelled.t", moment, source)
