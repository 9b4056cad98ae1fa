"""ALTER statements and the outcome that each has for a mirror. `docs/mirror-alter.md` lists them, and
`tests/mirror/test_schema_changes.py` runs them on real servers.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "APPLIED",
    "COPIED",
    "PRIMARY_KEY",
    "QUARANTINED",
    "RENAMED",
    "RETYPED",
    "Alteration",
    "Renaming",
    "Retyping",
]

PRIMARY_KEY = "id INT PRIMARY KEY"


@dataclass(frozen=True, slots=True)
class Alteration:
    """A statement on a table `t` with the columns `id INT PRIMARY KEY, …`, whose first column after the key has values.

    `columns`: those after the key. `effect`: on the lake table. `reason`: of a quarantine, a part of its text. `servers`:
    the beginnings of the names of the servers on which it runs. `key`: another definition of `id`. `others`: statements
    that make the other tables that it needs. `partition`: the column by which the lake table is partitioned. With
    `is_final`, the mirror cannot copy the table again.
    """

    columns: str
    statement: str
    effect: str
    reason: str = ""
    servers: tuple[str, ...] = ("",)
    key: str = PRIMARY_KEY
    others: tuple[str, ...] = ()
    partition: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Retyping:
    """A change of a column's type from `before` to `after`, and an SQL value of each."""

    before: str
    value: str
    after: str
    later: str


@dataclass(frozen=True, slots=True)
class Renaming:
    """Statements that rename the tables `a`, `b` and `c`, which a mirror follows, and `x`, which it does not follow. The
    mirror follows the table `spare` while it exists, and not the table `tmp`.
    """

    statements: tuple[str, ...]
    effect: str


_TEXT = "VARCHAR(10) CHARACTER SET latin1"
_SAME = "no change of the lake"
_DEFAULT = "added; existing rows have the default"
_UNIQUE = "id INT NOT NULL UNIQUE"
_PARENT = (
    "CREATE TABLE alters2.parent (id INT PRIMARY KEY)",
    "INSERT INTO alters2.parent VALUES (1), (2)",
)
_CASCADE = "ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES alters2.parent (id) ON DELETE CASCADE"

#: By the name of the test's table.
APPLIED = {
    "adds": Alteration("v INT", "ALTER TABLE t ADD COLUMN n VARCHAR(20) CHARACTER SET utf8mb4 NULL", "added"),
    "noted": Alteration("v INT", "ALTER TABLE t ADD n INT NULL -- not t", "added"),
    "adds_first": Alteration("v INT", "ALTER TABLE t ADD n BIGINT DEFAULT NULL FIRST, ADD m DATE AFTER id", "added at their places"),
    "instant_null": Alteration("v INT", "ALTER TABLE t ADD n TIMESTAMP NULL DEFAULT NULL", "added"),
    "defaults": Alteration("v INT", "ALTER TABLE t ADD n INT NOT NULL DEFAULT 7", _DEFAULT),
    "default_texts": Alteration("v INT", "ALTER TABLE t ADD n VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT 'new'", _DEFAULT),
    "implies": Alteration("v INT", "ALTER TABLE t ADD n VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL AFTER id", "added; existing rows have the empty string"),
    "indexes_first": Alteration("v INT", "ALTER TABLE t ADD INDEX (n), ADD COLUMN n INT NOT NULL DEFAULT 3", _DEFAULT),
    "renames_and_adds": Alteration("v INT", "ALTER TABLE t CHANGE v w INT, ADD (v INT DEFAULT 5, n INT)", "renamed, and added with the default"),
    "invisible": Alteration(
        "v INT", "ALTER TABLE t ADD n INT NOT NULL DEFAULT 7 INVISIBLE", _DEFAULT, servers=("mysql-9", "mariadb")),
    "compressed_default": Alteration(
        "v INT", "ALTER TABLE t ADD n VARCHAR(1000) COMPRESSED CHARACTER SET utf8mb4 NOT NULL DEFAULT 'abc'", _DEFAULT,
        servers=("mariadb",)),
    "checked_default": Alteration(
        "v INT", "ALTER TABLE t ADD n INT DEFAULT 7 CONSTRAINT positive CHECK (n > 0)", _DEFAULT, servers=("mysql-9",)),
    "refers_by_default": Alteration(
        "v INT", "ALTER TABLE t ADD n INT NOT NULL DEFAULT 1 REFERENCES alters2.parent (id)", _DEFAULT, others=_PARENT),
    "in_place": Alteration("v INT", "ALTER TABLE t ADD n INT NULL, ALGORITHM = INPLACE, LOCK = NONE", "added"),
    "at_once": Alteration(
        "v INT", "ALTER TABLE t ADD n INT NULL FIRST, ALGORITHM = INSTANT", "added at its place", servers=("mysql-9", "mariadb")),
    "adds_missing": Alteration(
        "v INT", "ALTER TABLE t ADD IF NOT EXISTS v BIGINT, ADD IF NOT EXISTS n INT, DROP COLUMN IF EXISTS w",
        "`n` is added; the server ignores the rest", servers=("mariadb",)),
    "adds_dropped": Alteration(
        "v INT, w INT", "ALTER TABLE t DROP COLUMN IF EXISTS w, ADD COLUMN IF NOT EXISTS w BIGINT",
        "dropped; the server ignores the rest, because the table had `w` before", servers=("mariadb",)),
    "adds_period": Alteration("v INT", "ALTER TABLE t ADD COLUMN period INT", "added"),
    "adds_system": Alteration("v INT", "ALTER TABLE t ADD COLUMN system INT", "added", servers=("mysql-5.6", "mariadb")),
    "adds_and_partitions": Alteration("v INT", "ALTER TABLE t ADD n INT NOT NULL DEFAULT 4 PARTITION BY KEY (id) PARTITIONS 2", _DEFAULT),
    "drops": Alteration("v INT, w INT", "ALTER TABLE t DROP COLUMN v", "dropped"),
    "replaces": Alteration("v INT", "ALTER TABLE t DROP v, ADD v INT DEFAULT 5", "dropped; the new column has another field id, and existing rows have the default"),
    "replaces_same": Alteration("v INT", "ALTER TABLE t DROP v, ADD v INT", "dropped; the new column has another field id"),
    "replaces_type": Alteration("v INT, w INT", "ALTER TABLE t DROP v, ADD V VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL FIRST", "dropped; the new column has another field id, and existing rows have the empty string"),
    "takes_name": Alteration("v INT, w INT", "ALTER TABLE t DROP w, CHANGE v w INT", "dropped, and renamed by field id"),
    "renames": Alteration("v INT", "ALTER TABLE t CHANGE v `new name` INT", "renamed by field id"),
    "renames_column": Alteration("v INT", "ALTER TABLE t RENAME COLUMN v TO w", "renamed by field id", servers=("mysql-9", "mariadb")),
    "recases": Alteration("v INT, w INT", "ALTER TABLE t CHANGE v V INT, MODIFY W BIGINT", "renamed by field id: the lake keeps the case of names; widened"),
    "swaps_names": Alteration("v INT, w INT", "ALTER TABLE t CHANGE v w INT, CHANGE w v INT", "renamed by field id"),
    "moves": Alteration("v INT, w INT", "ALTER TABLE t MODIFY v INT AFTER w", "moved"),
    "widens": Alteration("v INT, w FLOAT", "ALTER TABLE t MODIFY v BIGINT", "widened"),
    "widens_key": Alteration("v INT", "ALTER TABLE t MODIFY id BIGINT NOT NULL", "widened"),
    "widens_unsigned": Alteration("v SMALLINT UNSIGNED", "ALTER TABLE t MODIFY v INT UNSIGNED", "widened"),
    "same_width": Alteration("v TINYINT", "ALTER TABLE t MODIFY v SMALLINT", f"{_SAME}, which has an `int`"),
    "precise": Alteration("v DECIMAL(8,2)", "ALTER TABLE t MODIFY v DECIMAL(12,2)", "widened"),
    "same_types": Alteration(
        "v TINYINT(1), w CHAR(1) CHARACTER SET latin1, x BIT(1), y DECIMAL(10,0), z DATETIME, d DOUBLE",
        "ALTER TABLE t MODIFY v BOOL, MODIFY w CHAR CHARACTER SET latin1, MODIFY x BIT, MODIFY y DEC, MODIFY z DATETIME(0), MODIFY d REAL",
        _SAME),
    "longer": Alteration(f"v {_TEXT}", "ALTER TABLE t MODIFY v VARCHAR(300) CHARACTER SET latin1", _SAME),
    "longer_text": Alteration("v TEXT CHARACTER SET utf8mb4", "ALTER TABLE t MODIFY v LONGTEXT CHARACTER SET utf8mb4", _SAME),
    "longer_bytes": Alteration("v VARBINARY(10)", "ALTER TABLE t MODIFY v VARBINARY(20)", _SAME),
    "compresses": Alteration("v TEXT", "ALTER TABLE t MODIFY v TEXT COMPRESSED", _SAME, servers=("mariadb",)),
    "members": Alteration("v ENUM('a','b')", "ALTER TABLE t MODIFY v ENUM('a','b','c')", _SAME),
    "more_members": Alteration("v SET('a','b')", "ALTER TABLE t MODIFY v SET('a','b','c')", _SAME),
    "not_null": Alteration("v INT", "ALTER TABLE t MODIFY v INT NOT NULL", f"{_SAME}, if no value is NULL"),
    "still_not_null": Alteration("v INT, w DATETIME NOT NULL", "ALTER TABLE t MODIFY w DATETIME NOT NULL COMMENT 'zero'", f"{_SAME}, even with zero dates"),
    "nullable": Alteration("v INT NOT NULL", "ALTER TABLE t MODIFY v INT NULL", _SAME),
    "new_default": Alteration("v INT", "ALTER TABLE t ALTER COLUMN v SET DEFAULT 7", f"{_SAME}; new rows have the values of the log"),
    "no_default": Alteration("v INT DEFAULT 7", "ALTER TABLE t ALTER v DROP DEFAULT", _SAME),
    "indexes": Alteration("v INT", "ALTER TABLE t ADD INDEX (v), ENGINE = InnoDB, COMMENT = 'default'", _SAME),
    "unique_key": Alteration("v INT", "ALTER TABLE t ADD UNIQUE KEY (v, id)", _SAME),
    "renames_index": Alteration("v INT, KEY k (v)", "ALTER TABLE t RENAME INDEX k TO i", _SAME, servers=("mysql-9", "mariadb")),
    "hides_index": Alteration("v INT, KEY k (v)", "ALTER TABLE t ALTER INDEX k INVISIBLE", _SAME, servers=("mysql-9",)),
    "ignores_index": Alteration("v INT, KEY k (v)", "ALTER TABLE t ALTER INDEX k IGNORED", _SAME, servers=("mariadb",)),
    "searches": Alteration("v VARCHAR(10) CHARACTER SET utf8mb4", "ALTER TABLE t ADD FULLTEXT INDEX (v)", _SAME),
    "indexes_expression": Alteration("v INT", "ALTER TABLE t ADD INDEX ((v + 1))", _SAME, servers=("mysql-9",)),
    "hides_column": Alteration("v INT, w INT", "ALTER TABLE t ALTER COLUMN v SET INVISIBLE", _SAME, servers=("mysql-9",)),
    "hides": Alteration("v INT", "ALTER TABLE t MODIFY v INT INVISIBLE", _SAME, servers=("mysql-9", "mariadb")),
    "row_format": Alteration("v INT", "ALTER TABLE t ROW_FORMAT = REDUNDANT", _SAME),
    "not_encrypted": Alteration("v INT", "ALTER TABLE t ENCRYPTION = 'N'", _SAME, servers=("mysql-9",)),
    "sorts": Alteration("v INT", "ALTER TABLE t ORDER BY v DESC, id", _SAME),
    "indexes_off": Alteration("v INT", "/*!40000 ALTER TABLE t DISABLE KEYS */", _SAME),
    "no_index": Alteration("v INT, KEY k (v)", "ALTER TABLE t DROP KEY k", _SAME),
    "counter": Alteration("v INT", "ALTER TABLE t AUTO_INCREMENT = 100", _SAME),
    "numbers": Alteration("v INT", "ALTER TABLE t MODIFY id INT NOT NULL AUTO_INCREMENT", f"{_SAME}, if no value is 0"),
    "computes": Alteration(
        "v INT, w INT AS (v + 1) STORED", "ALTER TABLE t MODIFY w INT AS (`v`+1) STORED COMMENT 'next'", _SAME,
        servers=("mysql-9",)),  # other servers do not know it, or do not log its values
    "rebuilds": Alteration("v INT", "ALTER TABLE t FORCE", _SAME),
    "charset_later": Alteration("v INT", "ALTER TABLE t DEFAULT CHARACTER SET latin1", _SAME),
    "parted": Alteration("v INT", "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2", _SAME),
    "adds_parts": Alteration("v INT) PARTITION BY HASH (id", "ALTER TABLE t ADD PARTITION PARTITIONS 3", _SAME),
    "cuts_parts": Alteration(
        "v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE",
        "ALTER TABLE t REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (3), PARTITION p2 VALUES LESS THAN MAXVALUE)", _SAME),
    "joins_parts": Alteration(
        "v INT) PARTITION BY HASH (id) (PARTITION a, PARTITION b, PARTITION c", "ALTER TABLE t COALESCE PARTITION 2", _SAME),
    "rebuilds_parts": Alteration("v INT) PARTITION BY HASH (id) (PARTITION a, PARTITION b", "ALTER TABLE t REBUILD PARTITION a, b", _SAME),
    "analyses_parts": Alteration("v INT) PARTITION BY HASH (id", "ALTER TABLE t ANALYZE PARTITION ALL", _SAME),
    "unparted": Alteration("v INT) PARTITION BY HASH (id", "ALTER TABLE t REMOVE PARTITIONING", _SAME),
    "checks": Alteration("v INT", "ALTER TABLE t ADD CONSTRAINT c CHECK (v < 1000)", _SAME, servers=("mysql-9", "mariadb")),
    "unchecks": Alteration(
        "v INT, CONSTRAINT low CHECK (v < 1000)", "ALTER TABLE t DROP CONSTRAINT low", _SAME, servers=("mysql-9", "mariadb")),
    "drops_check": Alteration(
        "v INT, CONSTRAINT lower_check CHECK (v < 1000)", "ALTER TABLE t DROP CHECK lower_check", _SAME, servers=("mysql-9",)),
    "unique_indexed": Alteration("v INT", "CREATE INDEX i ON t (v)", _SAME, key=_UNIQUE),
    "unique_off": Alteration("v INT", "ALTER TABLE t DISABLE KEYS", _SAME, key=_UNIQUE),
    "refers": Alteration("v INT", f"{_CASCADE.rpartition(' ON ')[0]}", _SAME, others=_PARENT),
    "refers_no_more": Alteration(
        "v INT, CONSTRAINT f FOREIGN KEY (v) REFERENCES alters2.parent (id)", "ALTER TABLE t DROP FOREIGN KEY f", _SAME, others=_PARENT),
    "cascades": Alteration(
        "v INT", _CASCADE, f"{_SAME}, if the server logs the rows that it deletes", servers=("mysql-9",), others=_PARENT),
    "empties": Alteration("v INT", "TRUNCATE TABLE t", "emptied; the snapshot before it has a tag `before-truncate-…`"),
}  # fmt: skip
COPIED = {
    "loses_part": Alteration(
        "v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE",
        "ALTER TABLE t DROP PARTITION p0", "copied again"),
    "empties_part": Alteration(
        "v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE",
        "ALTER TABLE t TRUNCATE PARTITION p0", "copied again"),
    "gives_part": Alteration(
        "v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE alters2.given", "copied again",
        others=("CREATE TABLE alters2.given (id INT PRIMARY KEY, v INT)", "INSERT INTO alters2.given VALUES (0, 7)")),
    "becomes_part": Alteration(
        "v INT", "ALTER TABLE alters2.parts EXCHANGE PARTITION p0 WITH TABLE t", "copied again",
        others=(
            "CREATE TABLE alters2.parts (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN MAXVALUE)",
            "INSERT INTO alters2.parts VALUES (0, 7), (3, 8)")),
}  # fmt: skip
QUARANTINED = {
    "dates": Alteration("v INT", "ALTER TABLE t ADD n DATE DEFAULT '2020-02-29'", "", "PyIceberg finds no rows"),
    "instants": Alteration("v INT", "ALTER TABLE t ADD n TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'", "", "time zone"),
    "moments": Alteration("v INT", "ALTER TABLE t ADD n DATETIME DEFAULT CURRENT_TIMESTAMP", "", "not a constant"),
    "rounds": Alteration("v INT", "ALTER TABLE t ADD n DECIMAL(4,1) DEFAULT 1.25", "", "converts to decimal(4,1)"),
    "counts": Alteration("v INT", "ALTER TABLE t ADD n INT NOT NULL AUTO_INCREMENT UNIQUE", "", "the server computes them"),
    "narrows": Alteration("v BIGINT", "ALTER TABLE t MODIFY v INT", "", "changes from bigint"),
    "outgrows": Alteration("v INT UNSIGNED", "ALTER TABLE t MODIFY v BIGINT UNSIGNED", "", "changes from int64 to decimal128(20, 0)"),
    "loses_sign": Alteration("v INT", "ALTER TABLE t MODIFY v INT UNSIGNED", "", "changes from int"),
    "shortens": Alteration(f"v {_TEXT}", "ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET latin1", "", "changes from varchar"),
    "converts": Alteration("v INT", "ALTER TABLE t MODIFY v VARCHAR(20)", "", "changes from int"),
    "recodes": Alteration(f"v {_TEXT}", "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "", "changes from varchar"),
    "scales": Alteration("v DECIMAL(8,2)", "ALTER TABLE t MODIFY v DECIMAL(8,3)", "", "changes from decimal"),
    "doubles": Alteration("v FLOAT", "ALTER TABLE t MODIFY v DOUBLE", "", "changes from float"),
    "reorders": Alteration("v ENUM('a','b')", "ALTER TABLE t MODIFY v ENUM('b','a')", "", "changes from enum"),
    "computes_from_new": Alteration(
        "v INT, w INT, x INT AS (w + 1) VIRTUAL", "ALTER TABLE t DROP w, ADD w INT NOT NULL DEFAULT 7", "", "another one gets its name",
        servers=("mariadb",)),
    "computes_more": Alteration(
        "v INT", "ALTER TABLE t ADD w INT AS (v + 1) STORED", "", "the server computes", servers=("mysql-9", "mariadb")),
    "recomputes": Alteration(
        "v INT, w INT AS (v + 1) STORED", "ALTER TABLE t MODIFY w INT AS (v + 2) STORED", "", "the expression of column w changes",
        servers=("mysql-9", "mariadb")),
    "recomputes_virtual": Alteration(
        "v INT, w INT AS (v + 1) VIRTUAL", "ALTER TABLE t CHANGE w x INT AS (v + 2) VIRTUAL", "", "the expression of column x changes",
        servers=("mysql-9", "mariadb")),
    "recollates": Alteration(
        "v VARCHAR(9) CHARACTER SET utf8mb4, w INT AS (v = 'x') STORED",
        "ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "",
        "may get another collation", servers=("mysql-9", "mariadb")),
    "renumbers": Alteration("v INT, w INT NOT NULL, KEY (w)", "ALTER TABLE t MODIFY w INT NOT NULL AUTO_INCREMENT", "", "may replace 0"),
    "removes": Alteration(
        "v INT", "ALTER IGNORE TABLE t ADD UNIQUE KEY (v)", "", "IGNORE may remove rows", servers=("mysql-5.6", "mariadb")),
    "fills_null": Alteration("v INT, w INT", "ALTER TABLE t MODIFY w INT NOT NULL", "", "becomes NOT NULL"),
    "fills_period": Alteration("v INT, period INT", "ALTER TABLE t MODIFY period INT NOT NULL", "", "becomes NOT NULL"),
    "rekeys": Alteration("v INT NOT NULL", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "", "primary key"),
    "drops_key": Alteration("v INT", "ALTER TABLE t DROP PRIMARY KEY", "", "primary key"),
    "drops_key_constraint": Alteration(
        "v INT", "ALTER TABLE t DROP CONSTRAINT `PRIMARY`", "", "primary key", servers=("mysql-9", "mariadb")),
    "renames_key": Alteration("v INT", "ALTER TABLE t CHANGE id number INT NOT NULL", "", "the key is dropped or renamed"),
    "drops_id": Alteration("v INT", "ALTER TABLE t DROP COLUMN id", "", "the primary key changes"),
    "drops_part_of_key": Alteration(
        "v INT, k INT NOT NULL DEFAULT 0, PRIMARY KEY (id, k)", "ALTER TABLE t DROP COLUMN k", "", "the primary key changes",
        servers=("mysql",), key="id INT NOT NULL"),
    "drops_partition": Alteration(
        "v INT, w INT", "ALTER TABLE t DROP COLUMN v", "", "by which the lake table is partitioned", partition="v",
        is_final=True),
    "unique_adds": Alteration("v INT", "ALTER TABLE t ADD COLUMN n INT", "", "its key is a unique index", key=_UNIQUE),
    "unique_noted": Alteration("v INT", "ALTER TABLE t COMMENT = 'x'", "", "its key is a unique index", key=_UNIQUE),
    "unique_drops": Alteration("v INT, KEY k (v)", "DROP INDEX k ON t", "", "its key is a unique index", key=_UNIQUE),
    "cascades_unseen": Alteration(
        "v INT", _CASCADE, "", "a foreign key is added that changes rows", servers=("mysql-5.6", "mariadb"), others=_PARENT,
        is_final=True),
    "discards": Alteration("v INT", "ALTER TABLE t DISCARD TABLESPACE", "", "rows come or go without row events", is_final=True),
    "versions": Alteration(
        "v INT", "ALTER TABLE t ADD SYSTEM VERSIONING", "", "system-versioned", servers=("mariadb",), is_final=True),
    "versions_by_option": Alteration(
        "v INT", "ALTER TABLE t COMMENT 'x' WITH SYSTEM VERSIONING", "", "system-versioned", servers=("mariadb",), is_final=True),
    "forgets": Alteration(
        "v INT", "ALTER TABLE t ENGINE = BLACKHOLE", "", "engine BLACKHOLE cannot be mirrored", servers=("mysql",), is_final=True),
    "unsure": Alteration("v INT", "ALTER TABLE t RENAME TO alters2.sure, COMMENT 'sure'", "", "not certain which", is_final=True),
}  # fmt: skip

#: By the name of the column: the lake needs another type for its values.
RETYPED = {
    "whole": Retyping("INT", "-5", "VARCHAR(20)", "'text'"),
    "word": Retyping("VARCHAR(20)", "'42'", "BIGINT UNSIGNED", "18446744073709551615"),
    "narrow": Retyping("BIGINT", "7", "INT", "-8"),
    "large": Retyping("INT UNSIGNED", "4294967295", "BIGINT UNSIGNED", "18446744073709551615"),
    "exact": Retyping("DECIMAL(8,2)", "1.5", "DECIMAL(10,3)", "-0.125"),
    "single": Retyping("FLOAT", "1024.5", "DECIMAL(20,2)", "-1"),
    "twice": Retyping("DOUBLE", "0.1", "FLOAT", "123456.789"),
    "moment": Retyping("VARCHAR(40)", "'2026-01-02 03:04:05'", "DATETIME(3)", "'2026-01-02 03:04:05.12'"),
    "instant": Retyping("DATETIME", "'2026-01-02 03:04:05'", "TIMESTAMP(2) NULL", "'2026-02-03 04:05:06.5'"),
    "day": Retyping("DATE", "'2026-01-02'", "DATETIME", "'2026-01-02 03:04:05'"),
    "bits": Retyping("BIT(9)", "b'101'", "INT", "-1"),
    "raw": Retyping("VARCHAR(20)", "'A'", "VARBINARY(20)", "x'00FF'"),
    "year": Retyping("YEAR", "1999", "VARCHAR(9)", "'2000'"),
}  # fmt: skip

_BOTH = "both copied again"
#: By the beginning of the names of the test's tables: names that tables pass on in a circle.
RENAMED = {
    "two": Renaming(("RENAME TABLE a TO tmp, b TO a, tmp TO b",), _BOTH),
    "three": Renaming(("RENAME TABLE a TO tmp, b TO a, c TO b, tmp TO c",), "all three copied again"),
    "steps": Renaming(("RENAME TABLE a TO tmp", "RENAME TABLE b TO a", "RENAME TABLE tmp TO b"), _BOTH),
    "seen": Renaming(
        ("ALTER TABLE a RENAME TO spare", "ALTER TABLE b RENAME TO a", "ALTER TABLE spare RENAME TO b"),
        f"{_BOTH}; if a round ends between the statements, the lake keeps a table `spare`, whose state is `gone`"),
    "half": Renaming(("RENAME TABLE a TO tmp, x TO a, tmp TO x",), "`a` copied again"),
    "own": Renaming(("RENAME TABLE a TO tmp, tmp TO a",), _SAME),
}  # fmt: skip
