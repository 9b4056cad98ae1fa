"""`make mirror-demo`: a real server that is written to, its mirror, an ALTER and a kill -9 in the middle.

At the end `binlake mirror verify` compares the lake with the server, and Spark, PyIceberg and DuckDB read the table.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from binlake.mirror.sessions import mirror_session
from dev.servers import Server, busy, installation, running
from dev.servers.lake_jars import lake_jars
from dev.servers.lake_readers import duckdb_copies, provision_lake_readers
from dev.servers.packages import SetupError

SERVER = "mysql-9.7"
ROWS = 500_000
TABLE = """CREATE TABLE shop.orders (
  id INT PRIMARY KEY AUTO_INCREMENT, state VARCHAR(10) NOT NULL, total DECIMAL(8,2) NOT NULL)"""
ALTER = "ALTER TABLE shop.orders ADD COLUMN note VARCHAR(20) NULL"
PATIENCE_S = 240
GOAL_S = 180

Sums = tuple[int, str]
console = Console(highlight=False, soft_wrap=True)


def fill(server: Server) -> None:
    """Create the table."""
    server.execute(
        "CREATE DATABASE shop",
        TABLE,
        "CREATE TABLE shop.digits (d INT PRIMARY KEY)",
        "INSERT INTO shop.digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
        "INSERT INTO shop.orders (state, total) SELECT 'new', a.d * 10 + b.d FROM shop.digits a, shop.digits b,"
        f" shop.digits c, shop.digits d, shop.digits e, shop.digits f LIMIT {ROWS}",
        "DROP TABLE shop.digits",
    )


def change(server: Server, stop: threading.Event) -> None:
    """Change rows until `stop` is set."""
    chance = random.Random(1)
    with server.session("shop") as session:
        while not stop.wait(0.01):
            at = chance.randrange(ROWS)
            session.execute(
                f"UPDATE orders SET state = 'paid' WHERE id BETWEEN {at} AND {at + 20}",
                f"DELETE FROM orders WHERE id = {chance.randrange(ROWS)}",
                "INSERT INTO orders (state, total) VALUES ('new', 1), ('new', 2)",
            )


def start(jar: str, *words: str) -> subprocess.Popen[bytes]:
    """Start the command in its own process group."""
    console.print(f"[bold green]$ binlake mirror {' '.join(words)}[/bold green]")
    command = [sys.executable, "-m", "binlake.cli.main", "mirror", *words]
    spark = ["--master", "local[2]", "--iceberg-jar", jar]
    return subprocess.Popen([*command, *spark], start_new_session=True)


def version(lake: Path) -> int:
    """The number of the table's newest metadata file."""
    hint = lake / "shop" / "orders" / "metadata" / "version-hint.text"
    return int(hint.read_text()) if hint.exists() else 0


def wait_for(lake: Path, process: subprocess.Popen[bytes], wanted: int) -> None:
    """Wait until the table has this number of versions."""
    deadline = time.monotonic() + PATIENCE_S
    while version(lake) < wanted:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("The mirror makes no progress.")
        time.sleep(0.1)


def watch(server: Server, lake: Path) -> int:
    """Mirror, alter, kill, verify and read. Return 0 if the lake equals the server."""
    socket = quote(str(server.run / "server.sock"), safe="")
    url = f"mysql://root@{socket}/?option-file=none"
    jar = str(next(jar for jar in lake_jars() if jar.name.startswith("iceberg")))
    fill(server)
    run = (url, str(lake), "--table", "shop.*")
    with busy(server, change):
        process = start(jar, *run)
        wait_for(lake, process, 4)
        console.print(f"[bold]{ALTER}[/bold]")
        server.execute(ALTER)
        wait_for(lake, process, version(lake) + 3)
        console.print("[bold]$ kill -9 …     (the mirror)[/bold]")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if start(jar, "verify", str(lake)).wait():
            return 1
    if start(jar, *run, "--once").wait():
        return 1
    return read(server, lake, jar)


def read(server: Server, lake: Path, jar: str) -> int:
    """Read the table with each program. Return 0 if all of them find the rows of the server."""
    question = "SELECT count(*), sum(total) FROM shop.orders"
    with server.session("shop") as session:
        [(count, total)] = session.rows(question)
    there = (int(count or 0), str(total))
    metadata = lake / "shop" / "orders" / "metadata" / f"v{version(lake)}.metadata.json"
    readers: dict[str, Callable[[], Sums | None]] = {
        "Spark": lambda: by_spark(lake, jar),
        "PyIceberg": lambda: by_pyiceberg(metadata),
        "DuckDB": lambda: by_duckdb(metadata),
    }
    console.print(f"{'server':<9}  {there[0]:,} rows, total {there[1]}")
    same = True
    for name, reader in readers.items():
        here = reader()
        if here is None:
            console.print(f"{name:<9}  skipped, because DuckDB or its extension for Iceberg cannot be installed")  # fmt: skip
            continue
        same &= here == there
        word = "[green]equal[/green]" if here == there else "[red]different[/red]"
        console.print(f"{name:<9}  {here[0]:,} rows, total {here[1]}: {word}")
    return 0 if same else 1


def by_spark(lake: Path, jar: str) -> Sums:
    """Count and sum."""
    spark = mirror_session(
        str(lake), master="local[2]", iceberg_jar=jar, log_file=lake / "spark.log"
    )
    try:
        [row] = spark.sql("SELECT count(*), sum(total) FROM lake.shop.orders").collect()
        return int(row[0]), str(row[1])
    finally:
        spark.stop()


def by_pyiceberg(metadata: Path) -> Sums:
    """Count and sum."""
    import pyarrow.compute as pc
    from pyiceberg.table import StaticTable

    rows = StaticTable.from_metadata(str(metadata)).scan().to_arrow()
    return rows.num_rows, str(pc.sum(rows["total"]).as_py())


def by_duckdb(metadata: Path) -> Sums | None:
    """Count and sum. Return None if DuckDB or its extension for Iceberg cannot be installed.

    With BINLAKE_REQUIRE=1, raise SetupError instead.
    """
    import pyarrow.parquet as pq

    question = f"SELECT count(*) AS n, sum(total) AS total FROM iceberg_scan('{metadata}')"
    answer = metadata.parents[3] / "duckdb.parquet"
    try:
        provision_lake_readers()
    except SetupError:
        if os.environ.get("BINLAKE_REQUIRE") == "1":
            raise
        return None
    duckdb_copies({question: answer})
    [row] = pq.read_table(answer).to_pylist()
    return int(row["n"]), str(row["total"])


def download() -> None:
    """Download the server, the jars and the readers, if they are not there: the goal does not include that."""
    _ = installation(SERVER).root
    lake_jars()
    with suppress(SetupError):  # `by_duckdb` reports it
        provision_lake_readers()


def exit_code(code: int, seconds: float) -> int:
    """Print how long the demo took. Return its exit code: 1 also if it took longer than the goal."""
    if seconds > GOAL_S:
        console.print(f"[red]Failed: the demo took {seconds:.0f} s; the goal is {GOAL_S} s[/red]")
        return code or 1
    console.print(f"Finished after {seconds:.0f} s; the goal is {GOAL_S} s")
    return code


def main() -> int:
    """Start a server and run the demo."""
    console.print(
        f"Starting {SERVER} (the first start downloads it into ~/.cache/binlake-servers) …"
    )
    download()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="binlake-mirror-"))
    try:
        with running(SERVER, ["--binlog-row-metadata=FULL"]) as server:
            code = watch(server, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return exit_code(code, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
