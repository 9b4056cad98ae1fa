"""Delta tables whose source columns change: a resync, and statements that give a dropped name to another column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlake.errors import UnsupportedError
from binlake.mirror import resync
from binlake.mirror.lakes import open_lake
from dev.servers import Server
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "altered"
#: By the name of the table: ALTER statements that the mirror does not apply to a Delta table.
REFUSED = {
    "adds": "ALTER TABLE adds ADD n INT NOT NULL DEFAULT 7",
    "drops": "ALTER TABLE drops DROP v, ADD m DATETIME DEFAULT CURRENT_TIMESTAMP",
    "narrows": "ALTER TABLE narrows MODIFY w INT",
    "becomes_text": "ALTER TABLE becomes_text MODIFY v VARCHAR(20) CHARACTER SET utf8mb4 FIRST",
    "rekeys": "ALTER TABLE rekeys DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
}


def delta_lake(spark: Any, folder: Path, server: Server, **options: Any) -> Lake:
    return Lake(spark, folder, server, tables=(f"{DATABASE}.*",), format="delta", **options)


def made(server: Server, names: Any) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        for name in names:
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL, w BIGINT)",
                f"INSERT INTO {name} VALUES (1, 10, 100), (2, 20, 200), (3, 30, NULL)",
            )


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11")
def test_a_resync_after_an_alter(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """The table is created again with the columns of the server, through a kill, and followed from then on."""
    made(server, REFUSED)
    lake = delta_lake(iceberg_spark, tmp_path, server)
    lake.catch_up()
    names = {f"{DATABASE}.{name}" for name in REFUSED}
    server.execute(
        f"TRUNCATE {DATABASE}.adds", f"INSERT INTO {DATABASE}.adds VALUES (2, 2, 2), (3, 3, 3)"
    )
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''", *REFUSED.values())
    lake.catch_up()
    assert quarantined(lake).keys() == names
    resync(tmp_path, sorted(names), spark=iceberg_spark)
    assert killed(lake, Kill("commit of Delta", 2, after=False)) == -9
    lake.catch_up()
    assert quarantined(lake) == {}
    with server.session(DATABASE) as session:
        for name in REFUSED:
            session.execute(
                f"UPDATE {name} SET w = 7 WHERE id = 2", f"DELETE FROM {name} WHERE id = 1"
            )
    lake.catch_up()
    assert states(lake) == dict.fromkeys(names, "equal")
    lake.equals_source(f"{DATABASE}.*")
    # the tag from before the first statement is still there
    properties = open_lake(iceberg_spark, "", str(tmp_path)).load(DATABASE, "adds").describe()
    assert "before-truncate" in properties["properties"]["binlake.tags"]
    server.execute(f"DROP DATABASE {DATABASE}")


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11")
def test_a_resync_after_the_key_has_gone(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Delta cannot find the rows: the table stays quarantined, and the others are followed, until it has a key again."""
    names = ("loses", "floats", "stays")
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    with server.session(DATABASE) as session:
        for name in names:
            session.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, f DOUBLE NOT NULL, v INT)",
                f"INSERT INTO {name} VALUES (1, 1, 1), (2, 2, 2)",
            )
    lake = delta_lake(iceberg_spark, tmp_path, server)
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "ALTER TABLE loses DROP PRIMARY KEY",
            "ALTER TABLE floats DROP PRIMARY KEY, ADD PRIMARY KEY (f)",
        )
    lake.catch_up()
    refused = {f"{DATABASE}.loses": "has no key", f"{DATABASE}.floats": "a floating-point type"}
    assert quarantined(lake).keys() == refused.keys()
    resync(tmp_path, list(refused), spark=iceberg_spark)
    for _ in range(2):
        lake.catch_up()
        reasons = quarantined(lake)
        assert reasons.keys() == refused.keys()
        assert all(refused[name] in reason for name, reason in reasons.items())
        with server.session(DATABASE) as session:
            session.execute(*(f"UPDATE {name} SET v = v + 1 WHERE id = 1" for name in names))
    assert not [note for note in lake.notes if "created again" in note]
    lake.catch_up()
    assert lake.equals_source(f"{DATABASE}.*", *refused) == [f"{DATABASE}.stays"]
    tables = open_lake(iceberg_spark, "", str(tmp_path))
    with pytest.raises(UnsupportedError, match="has no key"):  # as earlier versions of binlake did
        tables.open_table(DATABASE, "loses", (), tmp_path)

    with server.session(DATABASE) as session:
        session.execute(
            "ALTER TABLE loses ADD PRIMARY KEY (id)",
            "ALTER TABLE floats DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
        )
    resync(tmp_path, list(refused), spark=iceberg_spark)
    lake.catch_up()
    server.execute(f"DELETE FROM {DATABASE}.loses WHERE id = 2")
    lake.catch_up()
    assert states(lake) == {f"{DATABASE}.{name}": "equal" for name in names}
    server.execute(f"DROP DATABASE {DATABASE}")


#: By the name of the table: statements after which another column has the name of one that is dropped.
RETAKEN = {
    "replaces": "ALTER TABLE replaces DROP v, ADD v INT",
    "replaces_type": "ALTER TABLE replaces_type DROP v, ADD V VARCHAR(9) CHARACTER SET utf8mb4 NULL FIRST",
    "takes_name": "ALTER TABLE takes_name DROP w, CHANGE v w INT",
    "twice": "ALTER TABLE twice DROP v, DROP w, ADD w DATETIME NULL AFTER id, ADD v BIGINT NULL",
}
WITH_DEFAULT = "ALTER TABLE defaults DROP v, ADD v INT DEFAULT 5"


def test_a_dropped_name_for_another_column(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The new column has no value of the old one, also after a kill between the commits of a statement."""
    made(server, [*RETAKEN, "defaults"])
    lake = delta_lake(iceberg_spark, tmp_path, server)
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''")
        for name, statement in (*RETAKEN.items(), ("defaults", WITH_DEFAULT)):
            session.execute(
                f"UPDATE {name} SET v = 11 WHERE id = 1",
                statement,
                f"INSERT INTO {name} (id, v) VALUES (4, 7), (5, NULL)",
                f"DELETE FROM {name} WHERE id = 2",
            ) if name != "takes_name" else session.execute(
                statement, f"INSERT INTO {name} VALUES (4, 7)"
            )
    assert killed(lake, Kill("commit of Delta", 2, after=True)) == -9
    lake.catch_up()
    assert quarantined(lake).keys() == {f"{DATABASE}.defaults"}
    assert "only Iceberg tables" in quarantined(lake)[f"{DATABASE}.defaults"]
    found = states(lake)
    assert {found[f"{DATABASE}.{name}"] for name in RETAKEN} == {"equal"}
    lake.equals_source(f"{DATABASE}.*", f"{DATABASE}.defaults")
    server.execute(f"DROP DATABASE {DATABASE}")
