"""DDL at its place in the log: what the lake follows, what makes a table be copied again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "alters"

# name of the table: (definition behind the key, the statement); {t} is the table
FOLLOWED = {
    "adds": ("v INT", "ALTER TABLE {t} ADD COLUMN n VARCHAR(20) CHARACTER SET utf8mb4 NULL"),
    "adds_first": ("v INT", "ALTER TABLE {t} ADD n BIGINT DEFAULT NULL FIRST, ADD m DATE AFTER id"),
    "drops": ("v INT, w INT", "ALTER TABLE {t} DROP COLUMN v"),
    "renames": ("v INT", "ALTER TABLE {t} CHANGE v `new name` INT"),
    "widens": ("v INT, w FLOAT", "ALTER TABLE {t} MODIFY v BIGINT"),
    "longer": ("v VARCHAR(10) CHARACTER SET utf8mb4", "ALTER TABLE {t} MODIFY v VARCHAR(300) CHARACTER SET utf8mb4"),
    "precise": ("v DECIMAL(8,2)", "ALTER TABLE {t} MODIFY v DECIMAL(12,2)"),
    "moves": ("v INT, w INT", "ALTER TABLE {t} MODIFY v INT AFTER w"),
    "members": ("v ENUM('a','b')", "ALTER TABLE {t} MODIFY v ENUM('a','b','c')"),
    "indexes": ("v INT", "ALTER TABLE {t} ADD INDEX (v), ENGINE = InnoDB, COMMENT = 'default'"),
    "empties": ("v INT", "TRUNCATE TABLE {t}"),
    "swaps_names": ("v INT, w INT", "ALTER TABLE {t} CHANGE v w INT, CHANGE w v INT"),
}  # fmt: skip
REFUSED = {
    "defaults": ("v INT", "ALTER TABLE {t} ADD n INT NOT NULL DEFAULT 7", "added with values"),
    "narrows": ("v BIGINT", "ALTER TABLE {t} MODIFY v INT", "changes from bigint"),
    "converts": ("v INT", "ALTER TABLE {t} MODIFY v VARCHAR(20)", "changes from int"),
    "rekeys": ("v INT NOT NULL", "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "primary key"),
    "gone": ("v INT", "DROP TABLE {t}", "drops it"),
    "renamed": ("v INT", "RENAME TABLE {t} TO alters2.elsewhere", "renames"),
    "partitions": ("v INT", "ALTER TABLE {t} DROP PARTITION p0", "without row events"),
}  # fmt: skip


def made(server: Server, tables: dict[str, Any]) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", "DROP DATABASE IF EXISTS alters2")
    server.execute(f"CREATE DATABASE {DATABASE}", "CREATE DATABASE alters2")
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, (columns, *_) in tables.items():
            parted = " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE)"
            end = parted if name == "partitions" else ""
            session.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns}){end}")
            session.execute(
                f"INSERT INTO {name} (id, {first(columns)}) VALUES (1, 1), (2, 2), (3, 1)"
            )


def first(columns: str) -> str:
    return columns.split()[0]


def test_what_the_lake_follows(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    made(server, FOLLOWED)
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",))
    lake.catch_up()
    copied = {note for note in lake.notes if "copied" in note}
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, (columns, statement) in FOLLOWED.items():
            session.execute(f"UPDATE {name} SET {first(columns)} = 2 WHERE id = 1")
            session.execute(statement.format(t=name))
            session.execute(f"INSERT INTO {name} (id) VALUES (10), (11)")
            session.execute(
                f"DELETE FROM {name} WHERE id = 2", f"UPDATE {name} SET id = 20 WHERE id = 3"
            )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert {note for note in lake.notes if "copied" in note} == copied, "none was copied again"
    assert lake.equals_source(f"{DATABASE}.*") == sorted(f"{DATABASE}.{name}" for name in FOLLOWED)


def test_what_is_refused_and_made_anew(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    tables = {**REFUSED, "sound": ("v INT", "")}
    made(server, tables)
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{DATABASE}.*",))
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, (_, statement, _) in REFUSED.items():
            session.execute(statement.format(t=name))
        session.execute("INSERT INTO sound VALUES (7, 7)")
        session.execute(
            "CREATE TABLE fresh (id INT PRIMARY KEY, v INT)", "INSERT INTO fresh VALUES (1, 1)"
        )
    lake.catch_up()
    reasons = quarantined(lake)
    assert set(reasons) == {f"{DATABASE}.{name}" for name in REFUSED}
    for name, (_, _, why) in REFUSED.items():
        assert why in reasons[f"{DATABASE}.{name}"], name
    assert lake.equals_source(f"{DATABASE}.sound")
    assert lake.equals_source(f"{DATABASE}.fresh")
    from binlake.mirror.control import Control
    from binlake.mirror.iceberg.jvm import Lake as Catalog

    control = Control(Catalog(lake.spark, lake.catalog), None, None)
    there = {f"{DATABASE}.{name}" for name in REFUSED} - {f"{DATABASE}.gone", f"{DATABASE}.renamed"}
    control.request_resync(there)
    lake.catch_up()
    assert set(quarantined(lake)) == {f"{DATABASE}.gone", f"{DATABASE}.renamed"}
    lake.equals_source(f"{DATABASE}.*")
    server.execute(f"DROP DATABASE {DATABASE}", "DROP DATABASE alters2")
