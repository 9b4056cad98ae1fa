"""Questions to logs: the history of a row in a large archive, conditions, and SQL.

The archive has as many logs of 10 MB as `LOGS`: a few that a server wrote, and hard links to them. The key
that is asked for is in the last log only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.commands import BINLAKE
from dev.bench_log import TABLE, Load
from dev.servers import Server, installation

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench

__all__ = ["ask"]

LOGS = 2000
LOG_BYTES = 10 << 20
_WRITTEN = 4  # distinct logs
_CONDITION = "quantity = 7"
_SUM = 'SELECT sum(quantity) FROM "shop.orders"'


def ask(bench: Bench, server_name: str, logs: int = LOGS) -> None:
    """Ask a large archive for a row, and one log for rows and for a sum."""
    folder = bench.folder / "many"
    if not (folder / "key").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, server_name, logs)
    archive, key = folder / "logs", (folder / "key").read_text()
    table = "shop.orders"
    bench.case("history, 2,000 logs", "ask.py", "history", archive, table, key)
    command: list[str | Path] = [*BINLAKE, "history", table, key, archive, "--json"]
    bench.command("binlake history, 2,000 logs", command, keep_output=False)
    bench.case("decode all columns", "decode.py", bench.log, table, "before=false")
    bench.case("where on one column", "ask.py", "where", bench.log, table, _CONDITION)
    bench.case("decode the column of a sum", "ask.py", "columns", bench.log, table, "quantity")
    bench.case("query of a sum", "ask.py", "query", bench.log, _SUM)


def _make(folder: Path, server_name: str, logs: int) -> None:
    """Write distinct logs with a server, link the others, and make all indexes."""
    server = Server(installation(server_name), folder / "server")
    server.start(("--binlog-row-metadata=FULL", f"--max-binlog-size={LOG_BYTES}"))
    load = Load(seed=3)
    try:
        server.execute(server.kind.reset_statement, "CREATE DATABASE shop", TABLE)
        with server.session("shop") as session:
            while len(server.log_files()) <= _WRITTEN:
                session.execute(*load.small())
        key = load.next - 1
        written = server.log_files()[:_WRITTEN]
    finally:
        server.stop()
    print(f"key {key}", flush=True)
    archive = folder / "logs"
    archive.mkdir()
    for number in range(1, logs + 1):
        source = written[-1] if number == logs else written[number % (_WRITTEN - 1)]
        os.link(source, archive / f"binlog.{number:06d}")
    subprocess.run([*BINLAKE, "index", "--keys", archive], check=True, stdout=sys.stderr)
    (folder / "key").write_text(str(key))
