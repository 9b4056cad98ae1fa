"""The statements after which the server no longer has a mirrored table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from binlake.errors import UnsupportedError
from binlake.follow.logs import DirectoryLogs
from binlake.follow.planner import StreamPlanner
from binlake.mirror.apply.decode import statements_in
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.ddl.effects import Effect, departure_of, effect_of
from binlake.mirror.ddl.schema_changes import SchemaChanges
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.names import APPEND, MIRROR
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.stream.sql.comments import without_comments
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.catalogue import DROPPED
from binlake.table.schema.ddl_effects import CASCADES, changes_no_column, concerns
from binlake.table.schema.schema_file import parse_schema
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition
from support.logs.stream_log import StreamLog
from unit.mirror.followed.fake_lake import OFFSET


class _Shop:
    """The name of a followed table, which is all that most of these statements are compared with."""

    id = ("shop", "t")
    key = ()
    mode = mode_named(MIRROR)


def statement(sql: str) -> DdlStatement:
    return DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)


@pytest.mark.parametrize("sql", [
    "DROP TABLE t", "DROP DATABASE shop", "CREATE OR REPLACE TABLE t (id INT)",
    "CREATE OR REPLACE DATABASE shop", "create or replace schema `shop` collate utf8mb4_bin",
    "/*!40000 DROP DATABASE IF EXISTS `shop`*/", "-- reset\nDROP DATABASE shop", "# reset\nDROP SCHEMA shop -- t",
    "DROP TABLE IF EXISTS t -- later", "/* new */ CREATE OR REPLACE TABLE t (id INT /*!80000 INVISIBLE */)",
])  # fmt: skip
def test_a_table_that_is_gone(sql: str) -> None:
    ddl = without_comments(statement(sql))
    assert concerns(ddl, *_Shop.id)
    assert departure_of(ddl, cast(Followed, _Shop())) == Effect(
        gone=DROPPED, dropped=True, departure="drop"
    )


@pytest.mark.parametrize("sql", [
    "ALTER TABLE `p` CONVERT TABLE t TO PARTITION p3 VALUES LESS THAN (9)",
    "alter online table if exists shop.p convert table `shop`.`t` to partition p3 values in ('x') without validation",
])  # fmt: skip
def test_a_table_that_becomes_a_partition(sql: str) -> None:
    ddl = statement(sql)
    assert concerns(ddl, *_Shop.id)
    gone = Effect(gone="made a partition of shop.p", departure="convert")
    assert departure_of(ddl, cast(Followed, _Shop())) == gone
    for other in ("p", "p3"):
        table = cast(Followed, SimpleNamespace(id=("shop", other)))
        assert departure_of(ddl, table) is None


@pytest.mark.parametrize(("sql", "expected"), [
    ("CREATE TABLE shop.t (id INT)", True), ("RENAME TABLE hidden.x TO shop.t", True),
    ("ALTER TABLE hidden.x CONVERT PARTITION p0 TO TABLE shop.t", True),
    ("ALTER TABLE shop.x ADD COLUMN n INT", False), ("CREATE TABLE hidden.t (id INT)", False),
    ("CREATE TABLE SHOP.Orders (id INT)", True), ("RENAME TABLE hidden.x TO CRM.People", True), ("CREATE TABLE CRM.t (id INT)", False),
])  # fmt: skip
def test_a_table_that_may_be_new(sql: str, expected: bool) -> None:
    tables = WantedTables(
        SourceHost("mysql://db1/"), MirrorOptions(tables=("shop.*", "crm.people"))
    )
    assert tables.may_be_new(statement(sql)) == expected


@pytest.mark.parametrize("sql", [
    "RENAME TABLE t TO x, x TO t", "RENAME TABLE a TO x, t TO y, y TO t, x TO a", "ALTER TABLE t RENAME TO t",
])  # fmt: skip
def test_a_table_that_has_its_name_again(sql: str) -> None:
    table = cast(Followed, _Shop())
    assert effect_of(statement(sql), table, ReadOptions(), ColumnRules()).is_none


@pytest.mark.parametrize("sql", [
    "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER JSON RELATIONAL DUALITY VIEW `v` AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM t",
    "ALTER JSON DUALITY VIEW v AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM t",
    "CREATE ALGORITHM=UNDEFINED MATERIALIZED /*(BY ENGINE=UNKNOWN)*/ DEFINER=`root`@`%` SQL SECURITY DEFINER VIEW `v` AS SELECT * FROM t",
    "CREATE LIBRARY `lib`\n  LANGUAGE JAVASCRIPT\nAS $$ let t = 1 $$", "ALTER LIBRARY lib COMMENT 't'", "DROP LIBRARY t",
    "CREATE TABLESPACE t ADD DATAFILE 't.ibd'", "ALTER TABLESPACE t RENAME TO u", "DROP UNDO TABLESPACE t",
    "CREATE OR REPLACE SPATIAL REFERENCE SYSTEM 41200 NAME 't' DEFINITION ''", "CREATE LOGFILE GROUP t ADD UNDOFILE 'u'",
    "CREATE DEFINER=`a b`@`%` TRIGGER tr AFTER INSERT ON t FOR EACH ROW SET @a=1", "CREATE DEFINER = 'a''s x' @'%' VIEW v AS SELECT * FROM t",
    "CREATE DEFINER=`a``@ b` PROCEDURE p() DELETE FROM t", "CREATE DEFINER=CURRENT_USER() VIEW v AS SELECT * FROM t",
])  # fmt: skip
def test_a_statement_about_another_object(sql: str) -> None:
    assert not concerns(statement(sql), *_Shop.id)
    assert not concerns(without_comments(statement(sql)), *_Shop.id)


def test_a_statement_with_many_definers_takes_linear_time() -> None:
    assert concerns(statement("CREATE " + "DEFINER=`a` @`b` " * 5000 + "t"), *_Shop.id)


@pytest.mark.parametrize(("sql", "is_other"), [
    ("ALTER TABLE other ADD t INT DEFAULT 'x', RENAME other2", True),
    ("ALTER ONLINE TABLE IF EXISTS `shop`.`other` WAIT 5 ADD t INT DEFAULT 'x', RENAME TO other2", True),
    ("ALTER TABLE crm.t ADD x INT DEFAULT 't', RENAME other2", True),
    ("ALTER TABLE T ADD x INT DEFAULT 'x', RENAME other2", False),
    ("ALTER TABLE \"t\" ADD x INT DEFAULT 'x', RENAME other2", False),
    ("ALTER TABLE other EXCHANGE PARTITION p WITH TABLE t", False),
    ("ALTER TABLE other CONVERT PARTITION p TO TABLE t", False),
])  # fmt: skip
def test_an_alter_of_another_table_that_is_renamed(sql: str, is_other: bool) -> None:
    """The text does not determine the new name, but that is not the name of a table that exists."""
    ddl = statement(sql)
    assert concerns(ddl, *_Shop.id)
    effect = effect_of(ddl, cast(Followed, _Shop()), ReadOptions(), ColumnRules())
    assert effect.is_none is is_other


@pytest.mark.parametrize("sql", [
    "/*!40000 ALTER TABLE `t` DISABLE KEYS */", "/*!40000 ALTER TABLE `shop`.`t` ENABLE KEYS */;",
    "CREATE TABLE \"lines\" (id INT, FOREIGN KEY (id) REFERENCES t (id))",
])  # fmt: skip
def test_a_statement_without_effect(sql: str) -> None:
    ddl = without_comments(statement(sql))
    assert concerns(ddl, *_Shop.id)
    assert effect_of(ddl, cast(Followed, _Shop()), ReadOptions(), ColumnRules()).is_none
    assert changes_no_column(ddl)


@pytest.mark.parametrize("sql", [
    "/*!40000 ALTER TABLE `t` DISABLE KEYS */",
    "CREATE TABLE u (id INT, -- of t\n FOREIGN KEY (id) REFERENCES shop.t (id))",
    "CREATE TABLE u (id INT /*!80000 INVISIBLE */, FOREIGN KEY (id) REFERENCES shop.t (id))",
    "CREATE TABLE u (id INT COMMENT 'as t, #fff')", "ALTER TABLE u ADD v INT -- as t",
])  # fmt: skip
def test_a_statement_about_a_table_of_another_database(sql: str) -> None:
    ddl = statement(sql)._replace(database="other")
    assert not concerns(without_comments(ddl), *_Shop.id)


@pytest.mark.parametrize("sql", [
    "TRUNCATE t -- nightly", "TRUNCATE TABLE t WAIT 5", "/* nightly */ TRUNCATE TABLE t NOWAIT",
])  # fmt: skip
def test_a_table_that_is_emptied(sql: str) -> None:
    ddl = without_comments(statement(sql))
    found = effect_of(ddl, cast(Followed, _Shop()), ReadOptions(), ColumnRules())
    assert found == Effect(truncate=True)


ANOTHER_CASE = (
    "TRUNCATE TABLE T", "TRUNCATE Shop.t", "DROP TABLE x, T", "DROP DATABASE Shop", "CREATE OR REPLACE SCHEMA SHOP",
    "ALTER TABLE Shop.t ADD x INT", "RENAME TABLE T TO x", "CREATE OR REPLACE TABLE T (id INT)",
)  # fmt: skip


@pytest.mark.parametrize("sql", [
    *ANOTHER_CASE, "TRUNCATE t", "DROP TABLE T, t", "RENAME TABLE t TO T", 'TRUNCATE "T"', "DROP DATABASE shop",
])  # fmt: skip
@pytest.mark.parametrize("distinguishes", [True, False])
def test_a_name_in_another_case(sql: str, distinguishes: bool) -> None:
    """On most servers it is the name of another table; on the others, and if the text is not certain, it is the same."""
    asked: list[bool] = []

    def distinguishes_case() -> bool:
        asked.append(distinguishes)
        return distinguishes

    source = SimpleNamespace(distinguishes_case=distinguishes_case, may_be_new=lambda _ddl: False)
    found = cast(Any, SchemaChanges)(
        MirrorOptions(), ColumnRules(), None, SimpleNamespace(source=source), print, None
    )
    table = cast(Any, SimpleNamespace(id=("shop", "t"), mode=mode_named(MIRROR)))
    ddl = statement(sql)
    is_other = sql in ANOTHER_CASE
    assert found.first([ddl], [table]) is (None if is_other and distinguishes else ddl)
    assert bool(asked) is is_other
    if is_other and distinguishes:
        found.apply(table, ddl, None)  # it has no effect
        assert not found.copied_again([SimpleNamespace(**vars(table), offset=OFFSET)], ddl)


@pytest.mark.parametrize("sql", [
    "RENAME TABLE IF EXISTS x TO t", "RENAME TABLE t TO x, T TO t", "RENAME TABLE t TO x, x TO T",
])  # fmt: skip
def test_a_table_that_may_have_another_name(sql: str) -> None:
    table = cast(Followed, _Shop())
    assert not effect_of(statement(sql), table, ReadOptions(), ColumnRules()).is_none


@pytest.mark.parametrize(("sql", "refused"), [
    ("ENGINE=BLACKHOLE", "BLACKHOLE"), ("engine 'blackhole'", "blackhole"), ("ADD INDEX (v), ENGINE = `CSV`", "CSV"),
    ("COMMENT='x' ENGINE=FEDERATED", "FEDERATED"), ("TYPE=BLACKHOLE", "BLACKHOLE"),
    ("COMMENT 'x' ENGINE BLACKHOLE", "BLACKHOLE"), ("ROW_FORMAT DYNAMIC COMMENT 'x' ENGINE CSV", "CSV"),
    ("ADD INDEX (v), MAX_ROWS 5 ENGINE `FEDERATED`", "FEDERATED"), ("COMMENT 'ENGINE CSV'", ""), ("COMMENT 'x' ENGINE InnoDB", ""),
    ("CHECKSUM=1 PARTITION BY HASH (id) (PARTITION p0 ENGINE CSV)", ""),
    ("ENGINE=InnoDB", ""), ("ENGINE=MyISAM", ""), ("ENGINE=heap", ""), ("COMMENT='ENGINE=CSV'", ""), ("FORCE", ""),
    ("PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5) ENGINE=CSV)", ""),
])  # fmt: skip
def test_another_engine(sql: str, refused: str) -> None:
    """A server that gives a table the engine BLACKHOLE has lost its rows, and logs later changes all the same."""
    declared = parse_schema(b"CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)").tables[0]
    facts = {"id": ("shop", "t"), "key": ("id",), "declared": declared, "flavour": "mysql"}
    for mode, expected in ((MIRROR, refused), (APPEND, "")):
        table = cast(Followed, SimpleNamespace(**facts, mode=mode_named(mode)))
        found = effect_of(statement(f"ALTER TABLE t {sql}"), table, ReadOptions(), ColumnRules())
        why = f"tables of engine {expected} cannot be mirrored" if expected else ""
        assert found == Effect(refused=why)


@pytest.mark.parametrize(("sql", "is_refused"), [
    ("CREATE INDEX x ON t (v)", False), ("CREATE UNIQUE INDEX x ON t (v, id)", False),
    ("CREATE OR REPLACE INDEX x ON t (v)", True), ("DROP INDEX x ON t", True),
    ("ALTER TABLE t COMMENT 'orders'", True),
])  # fmt: skip
def test_a_table_whose_key_is_a_unique_index(sql: str, is_refused: bool) -> None:
    """A statement that may drop that index is refused, and one that only adds another is not."""
    declared = parse_schema(b"CREATE TABLE shop.t (id INT NOT NULL, v INT, UNIQUE (id))").tables[0]
    table = SimpleNamespace(
        id=("shop", "t"), key=("id",), mode=mode_named(MIRROR), declared=declared
    )
    found = effect_of(statement(sql), cast(Followed, table), ReadOptions(), ColumnRules())
    assert bool(found.refused) is is_refused
    assert found.is_none is not is_refused


SECRETS = ColumnRules(exclude=("shop.*.ssn", "*.*.`a b`"), hash=("*.*.email",))


@pytest.mark.parametrize(("sql", "shown"), [
    ("ALTER TABLE t ADD ssn CHAR(9) DEFAULT '078051120'", "ALTER TABLE t ADD ssn CHAR(?) DEFAULT ?"),
    ("alter table t  modify `E-Mail` int, ALTER EMAIL SET DEFAULT 'ada@example.org'", "ALTER TABLE t MODIFY `E-Mail` int, ALTER EMAIL SET DEFAULT ?"),
    ("ALTER TABLE t ALTER `a b` SET DEFAULT 7", "ALTER TABLE t ALTER `a b` SET DEFAULT ?"),
    ("ALTER TABLE t ADD n CHAR(9)\n  DEFAULT '078'", "ALTER TABLE t ADD n CHAR(9) DEFAULT '078'"),
    ("ALTER TABLE people ADD PARTITION (PARTITION p2 VALUES LESS THAN ('zoe'))", "ALTER TABLE people ADD PARTITION (PARTITION p2 VALUES LESS THAN (?))"),
])  # fmt: skip
def test_a_quarantine_does_not_show_values_of_hidden_columns(sql: str, shown: str) -> None:
    """The reason is in the lake. The record of the definition leaves out the defaults of these columns, too."""
    quarantined: dict[str, str] = {}
    tables: Any = SimpleNamespace(quarantine=quarantined.__setitem__)
    nothing: Any = SimpleNamespace()
    changes = SchemaChanges(MirrorOptions(), SECRETS, nothing, tables, lambda _: None, nothing)
    hidden = "email" if "people" in sql else "v"
    declared = parse_schema(f"CREATE TABLE shop.t (id INT PRIMARY KEY, {hidden} INT)".encode())
    table: Any = SimpleNamespace(id=("shop", "t"), full_name="shop.t", declared=declared.tables[0])
    changes._refused(table, statement(sql), "it cannot be followed")
    assert quarantined["shop.t"].startswith(f"binlog.000001:4: {shown}: it cannot be followed; ")


RENAMES = ColumnRules(exclude=("*.*.secret",), hash=("*.*.email",))
_OTHER = "ALTER TABLE t MODIFY v VARCHAR(3)"


@pytest.mark.parametrize("policy", ["quarantine", "resync", "text", "new-column"])
@pytest.mark.parametrize(("sql", "is_hidden"), [
    ("ALTER TABLE t CHANGE secret open INT", True), ("ALTER TABLE t RENAME COLUMN Email TO mail, MODIFY v INT", True),
    ("ALTER IGNORE TABLE t CHANGE secret v INT, CHANGE v secret INT", True), ("ALTER TABLE t CHANGE v email TEXT", True),
    ("ALTER TABLE t CHANGE email secret INT, DROP secret", False), ("ALTER TABLE t RENAME COLUMN IF EXISTS other TO open", False), (_OTHER, False),
])  # fmt: skip
def test_a_copy_does_not_show_a_column_that_was_hidden(
    sql: str, is_hidden: bool, policy: str
) -> None:
    """Whatever the policy, and also if the reason for the copy is another one."""
    quarantined: dict[str, str] = {}
    copied: list[str] = []
    offset = SimpleNamespace(position=SimpleNamespace(server_uuid=""))
    tables: Any = SimpleNamespace(quarantine=quarantined.__setitem__, copy=copied.append)
    options = MirrorOptions(on_alter=policy)
    nothing: Any = SimpleNamespace()
    changes = SchemaChanges(options, RENAMES, nothing, tables, lambda _: None, nothing)
    made = b"CREATE TABLE shop.t (id INT PRIMARY KEY, secret INT, email TEXT, v TEXT)"
    table: Any = SimpleNamespace(
        id=("shop", "t"), full_name="shop.t", declared=parse_schema(made).tables[0], key=("id",),
        offset=offset, was_copied_after=lambda _position: True,
    )  # fmt: skip
    changes._refused(table, statement(sql), "it cannot be followed")
    is_quarantined = is_hidden or policy == "quarantine"
    assert (bool(quarantined), copied) == (is_quarantined, [] if is_quarantined else ["shop.t"])
    quarantined.clear()
    copied.clear()
    assert changes.copied_again([table], statement(sql))
    assert (bool(quarantined), copied) == (is_hidden, [] if is_hidden else ["shop.t"])
    assert all("is renamed to" in why for why in quarantined.values())


def refuse(why: str) -> None:
    raise UnsupportedError(why)


OF_PEOPLE = (
    "CREATE TABLE shop.t (id INT PRIMARY KEY, email VARCHAR(99), boss INT AS ((`email` = 'ceo@example.com')) STORED,"
    " state ENUM('HIV', 'none') DEFAULT 'none', code INT DEFAULT 4711) CHARSET=utf8mb4"
)


@pytest.mark.parametrize(("sql", "shown"), [
    ("MODIFY boss INT AS (email = 'alice@example.com') STORED", "the expression of column boss changes from ? to ?, and the server"),
    ("MODIFY state ENUM('none', 'HIV')", "column state changes from enum(?) to enum(?)"),
    ("MODIFY state VARCHAR(9)", "column state changes from enum(?) to varchar(?)"),
    (r"ADD note TEXT NOT NULL DEFAULT 'o\'brien@example.com'", "DEFAULT ? is not a constant that binlake knows"),
    ("ADD note TEXT DEFAULT 'zoe", "the statement cannot be read"),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["quarantine", "resync"])
def test_a_reason_does_not_show_values_of_a_table_with_hidden_columns(
    sql: str, shown: str, policy: str
) -> None:
    """The statement does not need to name the column, and the values may be those of the definition."""
    told: dict[str, str] = {}
    kinds = {
        "id": pa.int32(),
        "email": pa.string(),
        "boss": pa.int32(),
        "state": pa.string(),
        "code": pa.int32(),
    }
    lake = SimpleNamespace(
        schema=pa.schema(kinds),
        format="iceberg",
        partition_columns=frozenset(),
        has_initial_defaults=True,
    )
    table: Any = SimpleNamespace(
        id=("shop", "t"), full_name="shop.t", key=("id",), mode=mode_named(MIRROR), shard_column="", lake=lake, set_back="",
        declared=parse_schema(OF_PEOPLE.encode()).tables[0], flavour="mysql", text_columns=(), kept_columns=(),
    )  # fmt: skip
    ddl = statement(f"ALTER TABLE t {sql}")
    for rules in (ColumnRules(exclude=("shop.t.email",)), ColumnRules()):
        tables: Any = SimpleNamespace(quarantine=told.__setitem__, copy=lambda _name: None)
        nothing: Any = SimpleNamespace()
        options = MirrorOptions(on_alter=policy)
        changes = SchemaChanges(
            options, rules, nothing, tables, lambda note: told.update({"shop.t": note}), nothing
        )
        effect = effect_of(ddl, table, ReadOptions(), rules)
        assert effect.refused
        changes._refused(table, ddl, effect.refused)
        private = [
            one for one in ("example.com", "HIV", "none", "zoe", "4711") if one in told["shop.t"]
        ]
        assert bool(private) is not bool(rules.exclude), told
        assert (shown in told["shop.t"]) is bool(rules.exclude), told
        changes._attempt(table, ddl, partial(refuse, effect.refused))
        assert ("example.com" in told["shop.t"] or "HIV" in told["shop.t"]) <= (not rules.exclude)


@pytest.mark.parametrize("version", ["8.4.6", "9.6.0", "10.11.18-MariaDB-log"])
@pytest.mark.parametrize("logs_now", [False, True])
@pytest.mark.parametrize("accepted", [False, True])
def test_a_foreign_key_that_an_earlier_server_has_added(
    version: str, logs_now: bool, accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was upgraded before the mirror read the statement, and its log lacks the rows that were deleted until then."""
    log = StreamLog(version)
    adds = b"ALTER TABLE shop.t ADD FOREIGN KEY (v) REFERENCES shop.p (id) ON DELETE CASCADE"
    (log.gtid(1) if "Maria" not in version else log.maria(1, flags=1)).query(adds).write(tmp_path)
    options = MirrorOptions(on_cascade="ignore" if accepted else "quarantine")
    read = options.read_options()
    planner = StreamPlanner(DirectoryLogs([str(tmp_path)], read), read)
    splits = planner.splits(planner.earliest(), planner.latest())
    [ddl] = statements_in(splits, read)
    source = WantedTables(SourceHost("mysql://db1/"), options)
    monkeypatch.setattr(WantedTables, "accepts_cascades", lambda _self: logs_now)
    refused: dict[str, str] = {}
    tables: Any = SimpleNamespace(source=source, quarantine=refused.__setitem__)
    control: Any = SimpleNamespace(round=1)
    changes = SchemaChanges(options, ColumnRules(), control, tables, lambda _: None, planner)
    committed: list[Any] = []
    made = parse_schema(b"CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)").tables[0]
    table: Any = SimpleNamespace(
        id=("shop", "t"), full_name="shop.t", key=("id",), mode=mode_named(MIRROR), declared=made, flavour="mysql", text_columns=(),
        lake=SimpleNamespace(commit=lambda *of: committed.append(of)), kept_as=dict, position_properties=lambda *_of: {},
    )  # fmt: skip
    changes._change(table, ddl, planner.latest())
    assert bool(committed) is (accepted or (logs_now and version == "9.6.0"))
    assert [CASCADES in why for why in refused.values()] == [True] * (not committed)
