"""Questions to logs: the history of a row in a large archive, conditions, and SQL.

The archive has as many logs of 10 MB as `LOGS`: a few that a server wrote, and hard links to them. The keys
that are asked for are in the last log only, which is no link. The DDL of the server is in a small log before all
others, which is not linked: otherwise every third log would have it.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.commands import BINLAKE
from dev.bench_log import BULK, TABLE, Load
from dev.servers import Server, installation

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench

__all__ = ["HISTORIES", "ask"]

LOGS = 2000
LOG_BYTES = 10 << 20
_WRITTEN = 4  # distinct logs of this size
#: Each for another random key.
HISTORIES = tuple(f"binlake history, 2,000 logs, key {number}" for number in (1, 2, 3))
_CONDITION = "quantity = 7"
_SUM = 'SELECT sum(quantity) FROM "shop.orders"'


def ask(bench: Bench, server_name: str, logs: int = LOGS) -> None:
    """Ask a large archive for a row, and one log for rows and for a sum."""
    folder = bench.folder / "many"
    if not (folder / "keys").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, server_name, logs)
    archive, keys = folder / "logs", (folder / "keys").read_text().split()
    table = "shop.orders"
    bench.case("history, 2,000 logs", "ask.py", "history", archive, table, keys[0])
    for name, key in zip(HISTORIES, keys, strict=True):
        command: list[str | Path] = [*BINLAKE, "history", table, key, archive, "--json"]
        bench.command(name, command, keep_output=False)
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
        server.execute(
            server.kind.reset_statement, "CREATE DATABASE shop", TABLE, "FLUSH BINARY LOGS"
        )
        firsts: dict[int, int] = {}  # by the number of logs so far: the first key in the last one
        with server.session("shop") as session:
            while (count := len(server.log_files())) <= 1 + _WRITTEN:
                firsts.setdefault(count, load.next)
                session.execute(*load.small())
        there = range(firsts[1 + _WRITTEN], load.next - BULK)
        keys = random.Random(5).sample(there, len(HISTORIES))
        ddl, *written = server.log_files()[: 1 + _WRITTEN]
    finally:
        server.stop()
    archive = folder / "logs"
    archive.mkdir()
    linked = [written[number % (_WRITTEN - 1)] for number in range(logs - 1)]
    for number, source in enumerate([ddl, *linked, written[-1]], 1):
        os.link(source, archive / f"binlog.{number:06d}")
    subprocess.run([*BINLAKE, "index", "--keys", archive], check=True, stdout=sys.stderr)
    (folder / "keys").write_text("\n".join(map(str, keys)))
