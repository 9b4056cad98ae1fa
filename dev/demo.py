"""`make demo`: export the logs of a real MySQL and a real MariaDB server as tables, and query them.

The demo uses ordinary commands only, and prints each one before it runs it.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from binlake import export as binlake_export
from binlake.cli.main import main as binlake
from binlake.spark import session

ROOT = Path(__file__).resolve().parents[1]
SERVERS = ("mysql-9.7", "mariadb-11.8")
OUT = "demo-out"

console = Console(highlight=False, soft_wrap=True)

SQL = """
SELECT state, count(*) AS orders, sum(total) AS total, max(placed_at) AS last
FROM orders GROUP BY state ORDER BY orders DESC
"""

NEXT = f"""\
[bold]Try these commands next[/bold]
  .venv/bin/binlake inspect demo/mysql-9.7/binlog.000002
  .venv/bin/binlake rows demo/mysql-9.7 --table shop.products --since 2026-01-01 | head
  .venv/bin/binlake verify demo/mysql-9.7
  .venv/bin/binlake export /var/lib/mysql/binlog.* {OUT}/mine      (your own logs)
and in Python:
  import binlake; binlake.open("demo/mysql-9.7").to_pandas("shop.orders")
The tables are Parquet files in {OUT}/, one data set per table."""


def say(text: str) -> None:
    """Print a line of the demo itself."""
    console.print(text)


def run(*words: str) -> None:
    """Print a command and run it. End the demo if the command fails."""
    say(f"\n[bold green]$ binlake {shlex.join(words)}[/bold green]")
    code = binlake(list(words))
    if code:
        sys.exit(code)


def time_local() -> None:
    """Measure the same export without Spark, for comparison."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        binlake_export(f"demo/{SERVERS[0]}", folder, engine="local")
        seconds = time.monotonic() - started
    say(
        f"\n(The first export takes {seconds:.1f} s with --engine local, which needs neither Spark nor Java."
        " Use Spark for logs that are too large for one machine.)"
    )


def show_with_spark() -> None:
    """Show the exported tables and the logs as DataFrames."""
    spark = session("binlake demo", master="local[2]", config={"spark.ui.enabled": "false"})
    folder = f"{OUT}/mysql-9.7/shop/orders"
    say(f'\n[bold green]>>> orders = spark.read.parquet("{folder}")[/bold green]')
    changes = spark.read.parquet(folder)
    changes.createOrReplaceTempView("changes")
    say("The export contains every change of the table, with its commit time and GTID:")
    changes.select("_op", "_ts", "_gtid", "id", "state", "channel", "total").orderBy("_seq").limit(
        5
    ).show(truncate=12)
    say("To get the current rows, take the newest change of each key, and leave out deletes:")
    spark.sql(
        "SELECT *, row_number() OVER (PARTITION BY id ORDER BY _seq DESC) AS age FROM changes"
    ).where("age = 1 AND _op != 'delete'").createOrReplaceTempView("orders")
    say(f"[bold green]>>> spark.sql('''{SQL.strip()}''')[/bold green]")
    spark.sql(SQL).show()
    say('[bold green]>>> spark.read.format("binlog").load("demo/mariadb-11.8")[/bold green]')
    log = spark.read.format("binlog").load("demo/mariadb-11.8")
    log.groupBy("table", "op").count().orderBy("table", "op").show()
    spark.stop()


def main() -> None:
    """Export the logs, query the tables, and print the next steps."""
    started = time.monotonic()
    for name in SERVERS:
        begun = time.monotonic()
        run("export", f"demo/{name}", f"{OUT}/{name}", "--overwrite", "--master", "local[2]")
        say(f"(with Spark, including its start: {time.monotonic() - begun:.1f} s)")
    time_local()
    run("rows", "demo/mysql-9.7", "--table", "shop.customers", "--limit", "1")
    run("verify", "demo/mysql-9.7", "demo/mariadb-11.8")
    show_with_spark()
    say(f"{NEXT}\n\ndone in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
