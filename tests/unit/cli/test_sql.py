"""`binlake sql` as a person meets it: whole transactions, their inverse, one line for a refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from binlake.cli.main import main
from support.logs.log_builder import QUERY, query_body
from support.logs.stream_log import StreamLog
from support.logs.table_log import Log

SID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
TRANSACTIONS = "mysql-9.7/transactions/binlog.000001"


def run(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["sql", *argv])
    out, err = capfd.readouterr()
    return code, out, err


def parts(script: str) -> tuple[str, list[list[str]]]:
    """The head of a script, and the statements of its transactions; each is framed."""
    head, *rest = script.split("\n-- ")
    transactions = []
    for text in rest:
        comment, begin, *statements = text.splitlines()
        assert comment.endswith("Z") or ", " in comment
        assert begin == "BEGIN;"
        assert statements[-1] == "COMMIT;"
        transactions.append(statements[:-1])
    return head, transactions


@pytest.fixture
def log(tmp_path: Path) -> Path:
    made = Log()
    made.insert((1, "one", None), (2, None, None), gno=1)
    made.insert((3, "it's", None), gno=2)
    made.insert((4, "four", None), table="u", gno=3)
    return made.save(tmp_path)


def test_a_script_of_whole_transactions(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    code, out, err = run(capfd, str(log))
    assert (code, err) == (0, "")
    head, transactions = parts(out)
    client, names, session = head.splitlines()
    assert client == "/*!999999 \\C utf8mb4 */;"
    assert names == "SET NAMES utf8mb4;"
    assert session.startswith("SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,")
    insert = "INSERT INTO `shop`.`t` (`id`, `name`, `day`) VALUES "
    assert transactions == [
        [insert + "(1, 'one', NULL);", insert + "(2, NULL, NULL);"],
        [insert + "(3, 'it''s', NULL);"],
        [insert.replace("`t`", "`u`") + "(4, 'four', NULL);"],
    ]


def test_undo_is_the_reverse(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    code, out, _ = run(capfd, str(log), "--undo")
    assert code == 0
    exact = "CAST(CONVERT(`name` USING utf8mb4) AS BINARY) <=> CAST({0} AS BINARY)"
    delete = "DELETE FROM `shop`.`{0}` WHERE `id` <=> {1} AND `name` <=> {2} AND {3} AND `day` <=> NULL LIMIT 1;"
    wanted = [[("u", 4, "'four'")], [("t", 3, "'it''s'")], [("t", 2, "NULL"), ("t", 1, "'one'")]]
    assert parts(out)[1] == [
        [delete.format(t, i, name, exact.format(name)) for t, i, name in group] for group in wanted
    ]


def test_undo_at_a_position_takes_back_one_transaction(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`stats` and `gtid locate` print where a transaction starts: that one is meant."""
    made = Log()
    made.insert((1, "one", None), gno=1)
    start = made.insert((2, "two", None), gno=2)
    path = str(made.save(tmp_path))
    name = Path(path).name
    code, out, err = run(capfd, path, "--undo", "--at", f"{name}:{start}")
    assert code == 0
    [[statement]] = parts(out)[1]
    assert "`id` <=> 2" in statement
    assert f"--at {name}:" in err
    code, out, _ = run(capfd, path, "--undo", "--at", err.split("--at ")[1].strip())
    assert code == 0
    [[statement]] = parts(out)[1]
    assert "`id` <=> 1" in statement


def test_undo_never_takes_back_two_transactions_of_one_gtid(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = Log()
    for row in (1, 2):
        made.insert((row, "x", None), gno=7)
    path = str(made.save(tmp_path))
    gtid = json.loads(_rows(capfd, path).splitlines()[0])["gtid"]
    code, out, err = run(capfd, path, "--undo", "--at", gtid)
    assert (code, out) == (2, "")
    assert f"--at {gtid} means 2 transactions" in err


def _rows(capfd: pytest.CaptureFixture[str], path: str) -> str:
    assert main(["rows", path]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("flags", [[], ["--undo"]])
def test_a_flush_anywhere_changes_nothing(
    capfd: pytest.CaptureFixture[str], golden: Path, flags: list[str]
) -> None:
    """Batches end in the middle of transactions; the script has no seam."""
    log = str(golden / TRANSACTIONS)
    flags = [*flags, "--start", "1080"] if flags else flags  # behind the DDL
    code, whole, _ = run(capfd, log, *flags)
    assert code == 0
    assert len(parts(whole)[1]) > 3
    assert run(capfd, log, *flags, "--batch-bytes", "1")[1] == whole


def test_a_damaged_transaction_is_not_committed(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = Log()
    made.insert((1, "a", None), gno=1)
    start = made.insert(*[(n, "x" * 50, None) for n in range(50)], gno=2)
    whole = made.save(tmp_path, "binlog.000001").read_bytes()
    (tmp_path / "binlog.000001").write_bytes(whole[: start + 1500])
    code, out, _ = run(capfd, str(tmp_path / "binlog.000001"))
    assert code == 1
    assert parts(out)[1] == [
        ["INSERT INTO `shop`.`t` (`id`, `name`, `day`) VALUES (1, 'a', NULL);"]
    ]


def test_undo_of_irreversible_changes_is_refused_before_output(
    capfd: pytest.CaptureFixture[str], golden: Path, log: Path
) -> None:
    minimal = str(golden / "mysql-9.7/partial-json/binlog.000001")
    main(["rows", minimal, "--op", "update"])
    changes = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    partial = next(change for change in changes if "d" not in change["before"])
    for argv, why in (
        (
            [str(golden / TRANSACTIONS)],
            f"cannot show: DDL (file {golden / TRANSACTIONS}, event at 158)",
        ),
        (
            [minimal, "--at", partial["gtid"]],
            "cannot be restored, because the log lacks its column d",
        ),
    ):
        code, out, err = run(capfd, *argv, "--undo")
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert why in err
    code, out, err = run(capfd, str(log), "--undo", "--on-error", "skip")
    assert (code, out) == (2, "")
    assert "cannot be combined" in err


@pytest.mark.parametrize(
    ("statement", "is_hinted"),
    [
        (b"INSERT INTO mysql.rds_heartbeat2 (id, value) VALUES (1, 2)", True),
        (b"CALL p()", True),
        (b"INSERT INTO shop.v VALUES (1)", False),
        (b"ALTER TABLE t ADD COLUMN c INT", False),
        (b"TRUNCATE TABLE t", False),
    ],
)
def test_the_hint_about_tables_of_the_server(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, statement: bytes, is_hinted: bool
) -> None:
    """It helps only if the refused statement may concern such a table."""
    made = Log()
    made.insert((1, "one", None), gno=1)
    made.add(QUERY, query_body(statement))
    code, out, err = run(capfd, str(made.save(tmp_path)), "--undo")
    assert (code, out) == (1, ""), err
    assert "choose the changes before or after it" in err
    assert ("--exclude-table 'mysql.*'" in err) == is_hinted


def test_an_undo_of_whole_tables_reads_the_log_once(log: Path) -> None:
    """Everything that follows in these tables is undone, too, so there are no later changes to look for."""
    command = [sys.executable, "-m", "binlake.cli.main", "sql", "-", "--undo"]
    for choice, is_checked in ((("--table", "shop.t"), False), (("--gtid", f"{SID}:1"), True)):
        done = subprocess.run(
            [*command, *choice], input=log.read_bytes(), capture_output=True, check=True
        )
        assert (b"cannot check for later changes" in done.stderr) == is_checked


def test_later_children_of_a_whole_table_are_reported(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, log: Path
) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text(
        "CREATE TABLE shop.t (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20), day DATE) CHARSET utf8mb4;\n"
        "CREATE TABLE shop.u (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20), day DATE,"
        " FOREIGN KEY (id) REFERENCES t (id)) CHARSET utf8mb4;\n"
    )
    made = Log()
    made.insert((4, "parent", None), gno=1)
    made.insert((4, "child", None), table="u", gno=2)
    made.insert((5, "no child", None), gno=3)
    path = str(made.save(tmp_path))
    given = ("--undo", "--table", "shop.t", "--schema", str(schema))
    code, out, err = run(capfd, path, *given)
    assert (code, out.count("DELETE")) == (0, 2)
    assert "shop.u: 1 later change refers to rows of shop.t that the undo deletes" in err
    assert "later changes of the same rows" not in err


def without_create_table(log: Path, folder: Path) -> str:
    """The path of a copy of a log whose DDL makes no tables; its checksums are wrong."""
    copy = folder / log.name
    copy.write_bytes(log.read_bytes().replace(b"CREATE TABLE", b"CREATE INDEX"))
    return str(copy)


def test_without_names_there_is_no_sql(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    """The CREATE TABLE before the start names the columns; where there is none, it is refused."""
    log = golden / "mariadb-11.8/types-unsaid/binlog.000001"
    place = ("--start", "1154")  # behind the CREATE TABLE
    code, out, err = run(capfd, str(log), *place)
    assert code == 0, err
    assert "`bigint_u`" in out
    without = without_create_table(log, tmp_path)
    code, out, err = run(capfd, without, *place, "--no-verify-checksum")
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert "does not contain the names of the columns" in err
    assert "`binlake schema OLDER-LOGS > history.sql`" in err


@pytest.mark.parametrize("direction", [(), ("--undo",)])
def test_names_come_from_the_log_too(
    direction: tuple[str, ...], capfd: pytest.CaptureFixture[str], golden: Path
) -> None:
    case = golden / "mysql-5.6.24/types-full"
    place = ("--start", "830", "--table", "golden.integers")  # behind the CREATE TABLE
    given = (str(case / "binlog.000001"), *place, *direction)
    code, out, err = run(capfd, *given)
    assert code == 0, err
    assert "`golden`.`integers`" in out
    assert "`tinyint_u`" in out
    assert out == run(capfd, *given, "--schema", str(case / "schema.sql"))[1]


def test_generated_columns_are_not_set(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, log: Path
) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text(
        "CREATE TABLE shop.t (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20) "
        "GENERATED ALWAYS AS (CONCAT('n', id)) STORED, day DATE) DEFAULT CHARSET utf8mb4;"
    )
    told = run(capfd, str(log), "--table", "shop.t", "--schema", str(schema))[1]
    assert parts(told)[1][0][0] == "INSERT INTO `shop`.`t` (`id`, `day`) VALUES (1, NULL);"
    assert told == run(capfd, str(log), "--table", "shop.t", "--generated", "NAME")[1]
    assert told == run(capfd, str(log), "--table", "shop.t", "--generated", "shop.t.name")[1]
    undo = run(capfd, str(log), "--table", "shop.t", "--schema", str(schema), "--undo")[1]
    assert parts(undo)[1][-1][-1] == "DELETE FROM `shop`.`t` WHERE `id` = 1;"


def test_partial_rows_set_their_columns_only(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = Log()
    made.insert((1, "one", None), present=0b011)
    path = str(made.save(tmp_path))
    insert = "INSERT INTO `shop`.`t` (`id`, `name`) VALUES (1, 'one');"
    assert parts(run(capfd, path)[1])[1] == [[insert]]
    code, out, err = run(capfd, path, "--undo")
    assert (code, out) == (1, "")
    assert (
        "a row without a known key cannot be restored, because the log lacks its column day" in err
    )


def test_stdin_is_read_once(golden: Path) -> None:
    data = (golden / TRANSACTIONS).read_bytes()
    command = [sys.executable, "-m", "binlake.cli.main", "sql", "-", "--undo", "--start", "1080"]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    assert done.stdout.count(b"BEGIN;") > 3


def test_a_schema_mismatch_error_contains_the_reason(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, golden: Path
) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("CREATE TABLE golden.integers (id INT PRIMARY KEY);")
    log = without_create_table(golden / "mariadb-11.8/types-unsaid/binlog.000001", tmp_path)
    given = ("--start", "1154", "--table", "golden.integers", "--schema", str(schema))
    code, out, err = run(capfd, log, "--no-verify-checksum", *given)
    assert (code, out) == (1, "")
    assert "does not fit the log: it has 1 columns" in err
    assert "does not contain the names" in err.splitlines()[-1]


def test_foreign_key_checks_are_off_only_if_the_log_contains_cascades(
    capfd: pytest.CaptureFixture[str], golden: Path, tmp_path: Path
) -> None:
    checks = "SET SESSION foreign_key_checks = 0;"
    logs = [
        str(golden / server / "schema/binlog.000001") for server in ("mysql-9.7", "mariadb-11.8")
    ]
    assert [checks in run(capfd, log)[1] for log in logs] == [True, False]
    upgraded = ("mariadb-11.8", "mysql-9.7")
    for number, server in enumerate(upgraded, 1):
        data = (golden / server / "schema/binlog.000001").read_bytes()
        (tmp_path / f"binlog.{number:06d}").write_bytes(data)
    code, _, err = run(capfd, str(tmp_path))
    assert code == 1
    assert "need different foreign_key_checks" in err


def test_databases_are_rewritten(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    """The option has mysqlbinlog's spelling; filters use the names in the log."""
    given = ("--table", "shop.u", "--rewrite-db", "shop -> try `it`", "--rewrite-db=a->b")
    assert "INSERT INTO `try ``it```.`u` (" in run(capfd, str(log), *given)[1]
    assert "DELETE FROM `try ``it```.`u` WHERE" in run(capfd, str(log), *given, "--undo")[1]
    code, out, err = run(capfd, str(log), "--rewrite-db", "shop")
    assert (code, out) == (2, "")
    assert "--rewrite-db 'shop': expected 'old->new'" in err


def test_ddl_at_its_places(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    log = str(golden / TRANSACTIONS)
    code, out, err = run(capfd, log, "--ddl")
    assert code == 0
    assert "cannot show" not in err
    places = [out.index(text) for text in ("CREATE DATABASE golden", "CREATE TABLE a (", "CREATE TABLE b (", "BEGIN;")]  # fmt: skip
    assert places == sorted(places)
    head = out[: places[-1]]
    assert head.count("SET @binlake_foreign_key_checks = @@foreign_key_checks") == 1
    assert head.count("DELIMITER /*!*/;") == head.count("DELIMITER ;") == 1
    assert "SET TIMESTAMP=" in head
    assert head.rindex("SET timestamp = DEFAULT") < head.index("SET NAMES utf8mb4;")
    # the row changes are those of the script without
    rows = [line for line in run(capfd, log)[1].splitlines() if line.startswith("INSERT")]
    assert [line for line in out.splitlines() if line.startswith("INSERT")] == rows


def test_ddl_of_the_wanted_tables(capfd: pytest.CaptureFixture[str], golden: Path) -> None:
    log = str(golden / TRANSACTIONS)
    code, out, err = run(capfd, log, "--ddl", "--table", "golden.a", "--on-unshown", "error")
    assert code == 0
    assert out.count("CREATE") == 1
    assert "CREATE TABLE a (" in out
    assert "changes that rows cannot show: DDL: 3" in err
    code, out, err = run(capfd, log, "--ddl", "--stop", "binlog.000001:500")
    assert (code, "CREATE DATABASE golden" in out, "nothing matches" in err) == (0, True, False)


def test_ddl_that_is_not_plain_is_kept(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = StreamLog()
    statements = (
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE shop.t /* ticket 7 */ ADD c INT",
    )
    others = ("ALTER TABLE u RENAME COLUMN a TO b", "DROP DATABASE shop /* t */")
    for number, sql in enumerate((*statements, *others), 1):
        log.gtid(number).query(sql.encode())
    code, out, err = run(capfd, str(log.write(tmp_path)), "--ddl", "--table", "shop.t")
    assert (code, [sql in out for sql in (*statements, *others)]) == (0, [True, True, False, False])
    assert "changes that rows cannot show: DDL: 2" in err


def test_ddl_without_excluded_tables(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = StreamLog()
    kept = (
        "CREATE DATABASE shop",
        "CREATE TABLE t (a INT)",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1",
        "CREATE USER 'app'@'%'",
        "GRANT SELECT ON shop.t TO 'app'@'%'",
        "DROP VIEW v",
    )
    excluded = (
        "CREATE TABLE audit (a INT)",
        "CREATE VIEW w AS SELECT a FROM audit",
        "CREATE TRIGGER r AFTER INSERT ON audit FOR EACH ROW SET @a = 1",
        "GRANT SELECT ON shop.audit TO 'app'@'%'",
    )
    for number, sql in enumerate((*kept, *excluded), 1):
        log.gtid(number).query(sql.encode())
    path = str(log.write(tmp_path))
    code, out, err = run(capfd, path, "--ddl", "--exclude-table", "shop.audit")
    assert (code, [sql for sql in (*kept, *excluded) if f"{sql}\n" in out]) == (0, [*kept])
    assert "changes that rows cannot show: DDL: 3, account management: 1" in err
    # all tables of a database
    code, out, err = run(capfd, path, "--ddl", "--exclude-table", "shop.*")
    assert (code, "CREATE DATABASE" in out) == (0, False)


@pytest.mark.parametrize(
    ("pattern", "sql", "is_kept"),
    [
        ("shop.c*", "create database shop", True),
        ("shop.s*", "CREATE DATABASE shop", True),
        ("shop.*", "ALTER DATABASE CHARACTER SET utf8mb4", False),
        ("shop.a*", "create view v as select x from t", True),
        ("shop.v*", "create or replace view `x` as select x from t", True),
        ("shop.a*", "CREATE FUNCTION audit_of(x INT) RETURNS INT RETURN @audit + x", True),
        ("shop.a*", "create trigger r after insert on t for each row set @a = 'audit'", True),
        ("shop.a*", "CREATE DEFINER=app@localhost VIEW v AS SELECT x FROM t", True),
        ("shop.a*", "GRANT SELECT ON shop.t TO 'app'@'%', audit", True),
        ("shop.a*", "create user app@localhost identified by 'audit'", True),
        ("shop.a*", "GRANT SELECT ON shop.* TO t", True),
        ("shop.*", "GRANT SELECT ON shop.* TO t", False),
        ("shop.a*", "GRANT SELECT ON *.* TO t", True),
        ("shop.audit", "CREATE VIEW w AS SELECT a /* x */ FROM audit", False),
        ("shop.audit", "/* app */ CREATE VIEW w AS SELECT '\\n' FROM audit", False),
        ("shop.audit", 'CREATE VIEW w AS SELECT a FROM "audit"', False),
        ("shop.audit", "CREATE VIEW w AS SELECT 'it''s', `a b` FROM `audit`", False),
        ("shop.as", "CREATE VIEW w AS SELECT x FROM shop.as", False),
        ("shop.on", "REVOKE SELECT (`on x`) ON `on` FROM 'app'@'%'", False),
        ("shop.audit", "ALTER TABLE audit /* ticket 7 */ ADD c INT", False),
        ("shop.audit", "ALTER TABLE t /* audit */ ADD c INT", True),
    ],
)
def test_ddl_that_mentions_an_excluded_table(
    pattern: str, sql: str, is_kept: bool, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(StreamLog().gtid(1).query(sql.encode()).write(tmp_path))
    code, out, err = run(capfd, path, "--ddl", "--exclude-table", pattern)
    assert (code, f"{sql}\n" in out) == (0, is_kept)
    assert ("changes that rows cannot show" in err) is not is_kept


@pytest.mark.parametrize(("flags", "why"), [
    (["--undo"], "--undo reverses row changes only, not --ddl"), (["--op", "insert"], "--ddl and --op cannot be combined"),
])  # fmt: skip
def test_ddl_excludes_other_options(
    capfd: pytest.CaptureFixture[str], log: Path, flags: list[str], why: str
) -> None:
    assert run(capfd, str(log), "--ddl", *flags) == (2, "", f"binlake: {why}\n")
