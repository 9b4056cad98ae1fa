"""`make live-demo`: change rows in a real MySQL server, and watch Spark receive the changes.

The stream reads directly from the server. At the end, the demo builds the table from the rows of the
stream and compares it with the table on the server.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from binlake.spark import session
from dev.servers import Server, busy, running

SERVER = "mysql-9.7"
SECONDS = 30
TABLE = """CREATE TABLE shop.orders (
  id INT PRIMARY KEY AUTO_INCREMENT, state VARCHAR(10) NOT NULL, total DECIMAL(8,2) NOT NULL)"""

console = Console(highlight=False, soft_wrap=True)


def serve_orders(server: Server, stop: threading.Event) -> None:
    """Change rows as a shop does, until `stop` is set."""
    chance = random.Random(1)
    with server.session() as session:
        while not stop.wait(0.02):
            if chance.random() < 0.6:
                total = chance.randint(100, 99_999) / 100
                session.execute(f"INSERT INTO shop.orders (state, total) VALUES ('new', {total})")
            elif chance.random() < 0.8:
                session.execute("UPDATE shop.orders SET state = 'paid' WHERE state = 'new' LIMIT 2")
            else:
                session.execute("DELETE FROM shop.orders WHERE state = 'paid' LIMIT 1")


class Mirror:
    """The table that results from the rows of the stream. `foreachBatch` updates it."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, Any]] = {}

    def take(self, batch: Any, number: int) -> None:
        """Apply one batch and print a summary of it."""
        changes = batch.orderBy("_seq").collect()
        for change in changes:
            if change["_op"] == "delete":
                del self.rows[change["id"]]
            else:
                self.rows[change["id"]] = (change["state"], change["total"])
        if changes:
            age = datetime.now(UTC) - changes[-1]["_ts"].replace(tzinfo=UTC)
            console.print(
                f"  batch {number}: {len(changes)} changes, the last one {age.total_seconds():.1f} s "
                f"after its commit. The table has {len(self.rows)} orders."
            )


def watch(server: Server, folder: Path) -> int:
    """Stream while rows change. Return 0 if the result equals the table on the server."""
    spark = session("binlake live demo", master="local[2]", config={"spark.ui.enabled": "false"})
    url = f"mysql://reader@127.0.0.1:{server.port}"
    console.print(
        f'\n[bold green]>>> spark.readStream.format("binlog").option("server", "{url}")'
        '.option("table", "shop.orders").load()[/bold green]'
    )
    spark.range(1).count()  # the first job of a session is slow
    mirror = Mirror()
    with busy(server, serve_orders):
        stream = spark.readStream.format("binlog").option("server", url)
        query = (
            stream.option("table", "shop.orders")
            .load()
            .writeStream.foreachBatch(mirror.take)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )
        query.awaitTermination(SECONDS)
    console.print("\nNo more changes. Waiting for the last batch …")
    query.processAllAvailable()
    query.stop()
    with server.session() as shop:
        there = {tuple(row) for row in shop.rows("SELECT id, state, total FROM shop.orders")}
    here: set[tuple[str | None, ...]] = {
        (str(i), state, str(total)) for i, (state, total) in mirror.rows.items()
    }
    same = here == there
    console.print(
        f"server: {len(there)} orders, stream: {len(mirror.rows)}: "
        + ("[bold green]equal[/bold green]" if same else "[bold red]different[/bold red]")
    )
    return 0 if same else 1


def main() -> int:
    """Start a server, change rows and stream them."""
    console.print(
        f"Starting {SERVER} (the first start downloads it into ~/.cache/binlake-servers) …"
    )
    folder = Path(tempfile.mkdtemp(prefix="binlake-live-"))
    try:
        with running(SERVER, ["--binlog-row-metadata=FULL"]) as server:
            server.execute(
                "CREATE DATABASE shop",
                TABLE,
                "INSERT INTO shop.orders (state, total) VALUES ('new', 1)",
                "CREATE USER reader@localhost, reader@'127.0.0.1'",
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@localhost, "
                "reader@'127.0.0.1'",
            )
            return watch(server, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
