"""Lake tables that differ from the rows of the server: columns left out and hashed, and deleted rows."""

from __future__ import annotations

import hashlib
import hmac
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.errors import OptionError
from binlake.mirror.api import resync, status
from binlake.mirror.control import Control
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.verification import Verification, verify_tables
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "modes"
KEY = "0123456789abcdef-a-key-that-nobody-may-see"
PRIVATE = "ada@example.org", "eve@example.org", "bob@example.org", "555-0100", "a-secret"


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def key_file(folder: Path, key: str = KEY) -> str:
    file = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:8]}.key"
    file.write_text(f"{key}\n")
    return str(file)


def hashed(text: str | None, key: str = KEY) -> str | None:
    """Compute it as the documentation describes."""
    if text is None:
        return None
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def verified(lake: Lake) -> Verification:
    mirror = lake.mirror()
    try:
        return verify_tables(mirror)
    finally:
        mirror.close()


def states(found: Verification) -> dict[str, str]:
    return {
        table.table.partition(".")[2]: f"{table.state} {table.reason}".strip()
        for table in found.tables
    }


def rows(lake: Lake, table: str, order: str = "id") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.table(f"{DATABASE}.{table}").sort_by(order).to_pylist()
    return found


def everything_in(folder: Path) -> bytes:
    """All bytes of a lake and of what its mirror keeps, data files as they are read."""
    parts = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        parts.append(file.read_bytes())
        if file.suffix == ".parquet":
            found = pq.ParquetFile(file).read()
            parts.append(str(found.to_pylist()).encode())
    return b"\n".join(parts)


PEOPLE = """CREATE TABLE people (
    id INT PRIMARY KEY, email VARCHAR(40), phone VARCHAR(20), born DATE, amount DECIMAL(10,2),
    big BIGINT UNSIGNED, raw VARBINARY(10), share DOUBLE, kind ENUM('a', 'b'), doc JSON, at DATETIME(3), note TEXT, phone_doc JSON)"""
PERSON = "'555-0100', '1999-12-31', 10.50, 18446744073709551615, x'00ff', 0.1, 'b', '{\"a\": \"555-0100\"}', '2026-01-02 03:04:05.678'"


def make_people(server: Server) -> None:
    with server.session(DATABASE) as session:
        session.execute(
            PEOPLE,
            f"INSERT INTO people VALUES (1, 'ada@example.org', {PERSON}, 'x', '[1]'), (2, 'eve@example.org', {PERSON}, 'y', '[1]')",
            "INSERT INTO people (id) VALUES (3)",
            "CREATE TABLE by_email (email VARCHAR(40) PRIMARY KEY, v INT)",
            "INSERT INTO by_email VALUES ('ada@example.org', 1), ('eve@example.org', 2), ('bob@example.org', 3)",
            "CREATE TABLE heap (email VARCHAR(40), phone VARCHAR(20), v INT)",
            "INSERT INTO heap VALUES ('ada@example.org', '555-0100', 1), ('ada@example.org', '1', 1), (NULL, NULL, 2)",
            "CREATE TABLE keyed_by_secret (phone VARCHAR(20) PRIMARY KEY, v INT)",
            "CREATE TABLE plain (id INT PRIMARY KEY, v INT)",
            "INSERT INTO plain VALUES (1, 1)",
        )


def change_people(server: Server) -> None:
    with server.session(DATABASE) as session:
        session.execute(
            "UPDATE people SET email = 'bob@example.org', amount = 0.07 WHERE id = 1",
            "UPDATE people SET phone = 'a-secret' WHERE id = 2",
            "UPDATE by_email SET email = 'x@example.org' WHERE v = 1",
            "UPDATE by_email SET v = 20 WHERE v = 2",
            "DELETE FROM by_email WHERE v = 3",
            "UPDATE heap SET phone = 'a-secret' WHERE v = 1",
            "UPDATE heap SET email = 'eve@example.org' WHERE v = 2",
            "DELETE FROM heap WHERE v = 1 AND phone = 'a-secret' LIMIT 1",
            "ALTER TABLE people ADD phone_2 VARCHAR(20) NOT NULL DEFAULT 'a-secret'",
            "ALTER TABLE people ADD email_2 VARCHAR(40) DEFAULT 'ada@example.org', MODIFY email VARCHAR(60), MODIFY amount DECIMAL(14,2)",
            "ALTER TABLE people CHANGE phone phone_1 VARCHAR(20), CHANGE note phone_3 TEXT",
            "UPDATE people SET email_2 = 'eve@example.org', phone_2 = '555-0100' WHERE id = 2",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE people SET share = 0.25 WHERE id = 2",
            "UPDATE people SET email = NULL WHERE id = 3",
            "UPDATE by_email SET v = 21 WHERE v = 20",
            "INSERT INTO people SELECT 4, 'eve@example.org', phone_1, born, amount, big, raw, share, kind, doc, at,"
            " phone_3, phone_doc, phone_2, email_2 FROM people p WHERE id = 2",
        )
        if server.name.startswith("mysql"):
            session.execute(
                "SET SESSION binlog_row_image = 'FULL', binlog_row_value_options = 'PARTIAL_JSON'",
                "UPDATE people SET doc = JSON_SET(doc, '$.a', 'a-secret') WHERE id = 2",
                "SET SESSION binlog_row_image = 'MINIMAL'",  # the document itself is not in the log
                "UPDATE people SET phone_doc = JSON_SET(phone_doc, '$[0]', 2), share = 0.5 WHERE id = 2",
            )


def test_columns_left_out_and_hashed(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    make_people(server)
    hash_names = ("email*", "born", "amount", "big", "raw", "share", "kind", "doc", "at")
    lake_folder = tmp_path / "lake"
    options: dict[str, Any] = {
        "tables": (f"{DATABASE}.*",),
        "exclude_columns": (f"{DATABASE}.*.PHONE*", "*.*.misspelled"),
        "hash_columns": tuple(f"{DATABASE}.*.{name}" for name in hash_names),
        "hash_key_file": key_file(tmp_path),
    }
    lake = Lake(iceberg_spark, lake_folder, server, **options)
    lake.catch_up()
    assert "*.*.misspelled matches no column of the mirrored tables" in lake.notes
    reason = quarantined(lake)
    assert list(reason) == [f"{DATABASE}.keyed_by_secret"]
    assert "column phone is part of the key and cannot be left out" in reason.popitem()[1]
    found = rows(lake, "people")
    assert found[0] == {
        "id": 1,
        "email": hashed("ada@example.org"),
        "born": hashed("1999-12-31"),
        "amount": hashed("10.50"),
        "big": hashed("18446744073709551615"),
        "raw": hmac.new(KEY.encode(), b"\x00\xff", "sha256").hexdigest(),
        "share": hashed("0.1"),
        "kind": hashed("b"),
        "doc": hashed('{"a": "555-0100"}'),
        "at": hashed("2026-01-02 03:04:05.678000"),
        "note": "x",
    }
    assert set(found[2].values()) == {3, None}, "NULL stays NULL"
    assert {row["email"] for row in rows(lake, "heap", "v")} == {hashed("ada@example.org"), None}
    unequal = {"keyed_by_secret": states(verified(lake))["keyed_by_secret"]}
    equal = dict.fromkeys(("people", "by_email", "heap", "plain"), "equal")
    assert states(verified(lake)) == {**equal, **unequal}

    change_people(server)
    lake.catch_up()
    assert list(quarantined(lake)) == [f"{DATABASE}.keyed_by_secret"]
    assert states(verified(lake)) == {**equal, **unequal}
    found = rows(lake, "people")
    assert "note" not in found[0], "its new name is one that is left out"
    assert [row["email"] for row in found] == [
        hashed("bob@example.org"), hashed("eve@example.org"), None, hashed("eve@example.org")
    ]  # fmt: skip
    assert [row["email_2"] for row in found] == [
        hashed("ada@example.org"), hashed("eve@example.org"), hashed("ada@example.org"), hashed("eve@example.org")
    ]  # fmt: skip
    assert {row["email"] for row in rows(lake, "by_email", "v")} == {
        hashed("x@example.org"),
        hashed("eve@example.org"),
    }
    kept = everything_in(lake_folder)
    for text in (*PRIVATE, KEY):
        assert text.encode() not in kept, text
    shown = status(lake_folder, spark=iceberg_spark, catalog=lake.catalog)
    [people] = [table for table in shown.tables if table.table.endswith(".people")]
    assert people.left_out == ("phone_1", "phone_2", "phone_3", "phone_doc")
    assert people.hashed == tuple(
        sorted(("email", "email_2", "born", "amount", "big", "raw", "share", "kind", "doc", "at"))
    )
    finds_what_differs(server, lake)
    refuses_other_rules(lake, server, tmp_path, options)
    server.execute(*(f"DROP TABLE {DATABASE}.{name}" for name in (*equal, "keyed_by_secret")))


def finds_what_differs(server: Server, lake: Lake) -> None:
    with server.session(DATABASE) as session:
        session.execute(
            "SET SESSION sql_log_bin = 0",
            "UPDATE people SET email = 'wrong@example.org' WHERE id = 2",
            "UPDATE people SET phone_1 = 'not compared' WHERE id = 1",
            "DELETE FROM by_email WHERE v = 21",
        )
        found = {table.table: table for table in verified(lake).tables}
        [change] = found[f"{DATABASE}.people"].differences
        assert (change.kind, change.key, change.columns) == ("changed", (("id", "2"),), ("email",))
        [extra] = found[f"{DATABASE}.by_email"].differences
        assert (extra.kind, extra.key) == ("extra", (("email", hashed("eve@example.org")),))
        session.execute(
            "UPDATE people SET email = 'eve@example.org' WHERE id = 2",
            "INSERT INTO by_email VALUES ('eve@example.org', 21)",
        )


def refuses_other_rules(lake: Lake, server: Server, folder: Path, options: dict[str, Any]) -> None:
    other_key = {**options, "hash_key_file": key_file(folder, "another-key-of-some-length")}
    fewer = {**options, "exclude_columns": ()}
    for changed in (other_key, fewer):
        other = Lake(lake.spark, lake.folder, server, **changed)
        with pytest.raises(OptionError, match="have changed since the table was copied"):
            other.catch_up()
    lake.catch_up()  # nothing has changed
    Control(IcebergLake(lake.spark, lake.catalog), None, None).request_resync(
        {f"{DATABASE}.{name}" for name in ("people", "by_email", "heap", "plain")}
    )
    other = Lake(lake.spark, lake.folder, server, **other_key)
    other.catch_up()
    assert rows(other, "people")[0]["email"] == hashed(
        "bob@example.org", "another-key-of-some-length"
    )
    missing = Lake(lake.spark, lake.folder, server, **{**options, "hash_key_file": ""})
    with pytest.raises(OptionError, match="hashed columns need a key"):
        missing.catch_up()


def test_a_renamed_column_that_would_be_shown(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The lake has no values to show, or values that are not to be shown."""
    with server.session(DATABASE) as session:
        for name in ("reveals", "hides"):
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, secret INT, v INT, h INT)",
                f"INSERT INTO {name} VALUES (1, 2, 3, 4)",
            )
    lake = Lake(
        iceberg_spark,
        tmp_path / "lake",
        server,
        tables=(f"{DATABASE}.*",),
        exclude_columns=("*.*.secret",),
        hash_columns=("*.*.h",),
        hash_key_file=key_file(tmp_path),
    )
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "ALTER TABLE reveals CHANGE secret open INT",
            "ALTER TABLE hides DROP h, CHANGE v h INT",
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert (
        "was left out, is renamed to open, which should be shown" in reasons[f"{DATABASE}.reveals"]
    )
    assert "was shown, is renamed to h, which should be hashed" in reasons[f"{DATABASE}.hides"]
    Control(IcebergLake(lake.spark, lake.catalog), None, None).request_resync(set(reasons))
    lake.catch_up()
    assert states(verified(lake)) == {"reveals": "equal", "hides": "equal"}
    assert rows(lake, "hides") == [{"id": 1, "h": hashed("3")}]
    assert pa.types.is_integer(lake.table(f"{DATABASE}.reveals").schema.field("open").type)
    server.execute(*(f"DROP TABLE {DATABASE}.{name}" for name in ("reveals", "hides")))


def test_no_copy_shows_a_renamed_column(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """Neither one that an ALTER interrupts, nor one that an ALTER causes, whether that is the one that renames or an earlier one."""
    names = ("during", "renamed", "unseen")
    lake = Lake(
        iceberg_spark,
        tmp_path / "lake",
        server,
        tables=tuple(f"{DATABASE}.{name}" for name in names),
        exclude_columns=("*.*.secret",),
        on_alter="resync",
    )

    def made(name: str) -> list[str]:
        return [
            f"CREATE TABLE {name} (id INT PRIMARY KEY, secret INT, v INT)",
            f"INSERT INTO {name} VALUES (1, 4711, 3)",
        ]

    with server.session(DATABASE) as session:
        session.execute(*made("during"))
        assert killed(lake, Kill("tasks of a copy", 1, after=True)) == -signal.SIGKILL
        session.execute("ALTER TABLE during CHANGE secret open INT")
        session.execute(*made("renamed"), *made("unseen"))
        lake.catch_up()
        session.execute(
            "ALTER TABLE renamed CHANGE secret open INT",
            "ALTER TABLE unseen MODIFY v VARCHAR(9)",
            "ALTER TABLE unseen CHANGE secret open INT",
        )
    lake.catch_up()
    reasons = {name: why for name, why in quarantined(lake).items() if name.startswith(DATABASE)}
    assert sorted(reasons) == [f"{DATABASE}.{name}" for name in names]
    assert "is renamed to open, which should be shown" in reasons[f"{DATABASE}.renamed"]
    assert "it may be the same column" in reasons[f"{DATABASE}.during"]
    assert "it may be the same column" in reasons[f"{DATABASE}.unseen"]
    assert all("open" not in lake.table(name).schema.names for name in reasons)
    resync(lake.folder, list(reasons), spark=lake.spark, catalog=lake.catalog)
    lake.catch_up()
    assert rows(lake, "unseen") == [{"id": 1, "open": 4711, "v": "3"}]
    assert states(verified(lake)) == dict.fromkeys(names, "equal")
    server.execute(*(f"DROP TABLE {DATABASE}.{name}" for name in names))


def kept(lake: Lake, table: str) -> dict[Any, tuple[Any, bool]]:
    """For each key the value `v` and whether the row is deleted."""
    return {row["id"]: (row["v"], row["_deleted_at"] is not None) for row in rows(lake, table)}


def test_soft_deletes(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    with server.session(DATABASE) as session:
        for name in ("softened", "minimal"):
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, t TEXT, secret INT)",
                f"INSERT INTO {name} VALUES (1, 1, 'a', 1), (2, 2, 'b', 1), (3, 3, 'c', 1), (4, 4, 'd', 1), (5, 5, 'e', 1)",
            )
        session.execute(
            "CREATE TABLE soft_heap (v INT)",
            "CREATE TABLE soft_named (id INT PRIMARY KEY, _Deleted_At INT)",
            "CREATE TABLE plain (id INT PRIMARY KEY, v INT)",
            "INSERT INTO plain VALUES (1, 1), (2, 2)",
        )
    options: dict[str, Any] = {
        "tables": (f"{DATABASE}.*",),
        "soft_delete_tables": (f"{DATABASE}.so*", "*.minimal"),
        "exclude_columns": ("*.*.secret",),
    }
    lake = Lake(iceberg_spark, tmp_path, server, **options)
    lake.catch_up()
    reasons = quarantined(lake)
    assert set(reasons) == {f"{DATABASE}.soft_heap", f"{DATABASE}.soft_named"}
    assert "soft deletes need a primary key" in reasons[f"{DATABASE}.soft_heap"]
    assert "has a column _Deleted_At, and the mode" in reasons[f"{DATABASE}.soft_named"]
    images = {"softened": "FULL", "minimal": "MINIMAL"}
    began = datetime.now(UTC).replace(microsecond=0)
    with server.session(DATABASE) as session:
        for name, image in images.items():
            session.execute(
                f"SET SESSION binlog_row_image = '{image}'",
                f"DELETE FROM {name} WHERE id = 1",
                f"UPDATE {name} SET v = 20 WHERE id = 2",
                f"DELETE FROM {name} WHERE id = 2",  # as it was just before
                f"UPDATE {name} SET id = 30, v = 33 WHERE id = 3",  # the old key is gone
                f"INSERT INTO {name} VALUES (6, 6, 'f', 1)",
                f"DELETE FROM {name} WHERE id = 6",  # came and went
                f"DELETE FROM {name} WHERE id = 5",
                f"INSERT INTO {name} VALUES (5, 50, 'g', 1)",  # comes back
            )
        session.execute("DELETE FROM plain WHERE id = 1", "SET SESSION binlog_row_image = 'FULL'")
        session.execute("BEGIN", "UPDATE softened SET id = 99 WHERE id = 4",
                        "UPDATE softened SET id = 4 WHERE id = 30", "UPDATE softened SET id = 30 WHERE id = 99",
                        "COMMIT")  # fmt: skip
    lake.catch_up()
    assert set(quarantined(lake)) == set(reasons)
    expected = {
        1: (1, True), 2: (20, True), 3: (3, True), 4: (4, False), 5: (50, False), 6: (6, True), 30: (33, False),
    }  # fmt: skip
    assert kept(lake, "minimal") == expected
    times = [row["_deleted_at"] for row in rows(lake, "minimal") if row["_deleted_at"] is not None]
    assert all(began <= time <= datetime.now(UTC) for time in times)
    swapped = {**expected, 4: (33, False), 30: (4, False), 99: (4, True)}
    assert kept(lake, "softened") == swapped
    assert [row["t"] for row in rows(lake, "softened")] == ["a", "b", "c", "c", "g", "f", "d", "d"]
    assert rows(lake, "plain") == [{"id": 2, "v": 2}]
    with server.session(DATABASE) as session:
        session.execute(
            "ALTER TABLE softened ADD n INT NULL, DROP t",
            "INSERT INTO softened VALUES (1, 100, 1, 7)",  # comes back in a later round
            "DELETE FROM softened WHERE id = 4",
        )
    lake.catch_up()
    later = {**swapped, 1: (100, False), 4: (33, True)}
    assert kept(lake, "softened") == later
    lake.catch_up()
    assert kept(lake, "softened") == later
    found = states(verified(lake))
    assert {name for name, state in found.items() if state == "equal"} == {
        "softened", "minimal", "plain"
    }  # fmt: skip
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_log_bin = 0", "DELETE FROM softened WHERE id = 5")
    found = states(verified(lake))
    assert found["softened"] == "different"
    shown = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    modes = {table.table.partition(".")[2]: table.mode for table in shown.tables}
    assert (modes["softened"], modes["plain"]) == ("soft deletes", "mirror")
    plainly = Lake(iceberg_spark, tmp_path, server, **{**options, "soft_delete_tables": ()})
    with pytest.raises(OptionError, match="copied in the mode 'soft deletes', but should be in"):
        plainly.catch_up()
    server.execute(
        f"TRUNCATE {DATABASE}.minimal", f"ALTER TABLE {DATABASE}.softened ADD _deleted_at INT"
    )
    lake.catch_up()
    reasons = quarantined(lake)
    assert "has a column _deleted_at, and the mode" in reasons[f"{DATABASE}.softened"]
    assert kept(lake, "minimal") == {key: (value, True) for key, (value, _) in expected.items()}
    assert states(verified(lake))["minimal"] == "equal"
    names = ("softened", "minimal", "soft_heap", "soft_named", "plain")
    server.execute(*(f"DROP TABLE {DATABASE}.{name}" for name in names))
