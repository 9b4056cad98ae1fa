"""Tables in a catalog that outlives the session: an embedded Derby metastore."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

LOGS = Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions"

SESSION = """
from binlake.spark import session
folder, logs = sys.argv[1:]
spark = session(master="local[1]", config={
    "spark.ui.enabled": "false", "spark.log.level": "OFF",
    "spark.sql.catalogImplementation": "hive", "spark.sql.warehouse.dir": folder + "/warehouse",
    "spark.hadoop.javax.jdo.option.ConnectionURL":
        f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
})
def rows(sql):
    return as_json(spark.sql(sql))
def as_json(frame):
    return [[str(value) for value in row] for row in frame.collect()]
def load(**options):
    return spark.read.format("binlog").options(**options).load(logs)
"""
CREATE = """
spark.sql(f"CREATE TABLE a USING binlog OPTIONS (path '{logs}', table 'golden.a') "
          "TBLPROPERTIES ('team' = 'data')")
spark.sql(f"CREATE TABLE everything USING binlog LOCATION '{logs}'")
spark.sql(f"CREATE TABLE kinds USING binlog OPTIONS (view 'transactions') LOCATION '{logs}'")
spark.sql("CREATE TABLE narrow (v BIGINT, _op STRING) USING binlog COMMENT 'two columns'")
spark.sql(f"CREATE VIEW narrow_a AS SELECT * FROM narrow WITH (path = '{logs}', table = 'golden.a')")
answer(rows("SELECT count(*) FROM a"))
"""
READ = """
narrow = load(table="golden.a").selectExpr("v", "_op")
try:
    rows("SELECT * FROM narrow")
except Exception as error:
    told = str(error)
answer({
    "a": [rows("SELECT * EXCEPT (_seq) FROM a ORDER BY _log_file, _log_pos, _row"),
          as_json(load(table="golden.a").drop("_seq").orderBy("_log_file", "_log_pos", "_row"))],
    "columns": [spark.table("a").columns, load(table="golden.a").columns],
    "everything": [rows("SELECT count(*) FROM everything"), [[str(load().count())]]],
    "kinds": [rows("SELECT sum(inserts) FROM kinds WHERE outcome = 'committed'"),
              rows("SELECT sum(inserts) FROM kinds")],
    "narrow": [rows("SELECT * FROM narrow_a"), as_json(narrow)],
    "with": [rows("SELECT DISTINCT _op FROM a WITH (op = 'delete')"), [["delete"]]],
    "joined": [rows("SELECT count(*) FROM a JOIN a AS b USING (_log_file, _log_pos, _row)"),
               [[str(load(table="golden.a").count())]]],
    "told": told,
})
"""


def test_tables_outlive_their_session(run_script: Any, tmp_path: Path) -> None:
    arguments = [str(tmp_path), str(LOGS)]
    assert run_script(dedent(SESSION) + CREATE, *arguments) == [["9"]]
    found = run_script(dedent(SESSION) + READ, *arguments)
    told = found.pop("told")
    assert {name: pair[0] == pair[1] for name, pair in found.items()} == dict.fromkeys(found, True)
    assert found["a"][0]
    assert "Spark keeps no options of a table that was created with columns" in told
    assert len([line for line in told.splitlines() if line.strip()]) <= 4
