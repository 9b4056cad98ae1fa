"""`make demo`: the shipped logs of two real servers to Parquet tables by Spark, then a look.

What it shows is what `binlake export` and any Parquet reader show; nothing is prepared.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "demo"
OUT = ROOT / "demo-out"
BINLAKE = Path(sys.executable).with_name("binlake")


def _say(text: str = "") -> None:
    print(text, flush=True)


def _run(*command: str | Path) -> None:
    shown = " ".join(os.path.relpath(w, ROOT) if isinstance(w, Path) else w for w in command)
    _say(f"$ {shown}")
    done = subprocess.run(list(map(str, command)), cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def _export(server: str) -> None:
    _say(f"\n== {server}: {_sizes(LOGS / server)} of binary logs to tables\n")
    _run(BINLAKE, "export", LOGS / server, OUT / server, "--overwrite")


def _sizes(folder: Path) -> str:
    logs = [f for f in folder.iterdir() if f.suffix != ".index"]
    return f"{len(logs)} files, {sum(f.stat().st_size for f in logs) / 1e6:.1f} MB"


def _show_rows(server: str) -> None:
    """A few rows of one table, as any Parquet reader sees them."""
    import pyarrow.parquet as pq

    folder = OUT / server / "shop" / "orders"
    table = pq.read_table(folder)
    chosen = ["_op", "_ts", "_gtid", "id", "state", "total", "note"]
    rows = table.select([c for c in chosen if c in table.column_names]).slice(0, 5).to_pylist()
    _say(f"\n{folder.relative_to(ROOT)}: {table.num_rows} row changes; the first five:")
    for row in rows:
        _say("  " + "  ".join(f"{name}={_short(value)}" for name, value in row.items()))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 32 else text[:31] + "…"


def _show_ledger(server: str) -> None:
    ledger = json.loads((OUT / server / "_ledger.json").read_text())
    _say(f"\n{OUT.relative_to(ROOT)}/{server}/_ledger.json says:")
    for key, value in ledger.items():
        text = json.dumps(value, ensure_ascii=False)
        _say(f"  {key}: {text if len(text) <= 100 else text[:99] + '…'}")


def main() -> None:
    """Export both servers' logs, show what came out, and say what to try next."""
    started = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    servers = sorted(folder.name for folder in LOGS.iterdir() if folder.is_dir())
    for server in servers:
        _export(server)
    for server in servers:
        _show_rows(server)
    _show_ledger(servers[-1])
    _say(f"\n{time.monotonic() - started:.0f} s. Tables are in {OUT.relative_to(ROOT)}/. Try next:\n")
    log = f"demo/{servers[-1]}/binlog.000001"
    python = os.path.relpath(sys.executable, ROOT)
    for command in (
        f"binlake rows {log} --table shop.products --op update -n 3",
        f"binlake inspect {log} | head",
        f"binlake verify demo/{servers[-1]}",
        "binlake export /var/lib/mysql/ lake/        # your own logs",
    ):
        _say(f"  {os.path.relpath(BINLAKE, ROOT).removesuffix('binlake')}{command}")
    code = f"import binlake; print(binlake.open('{log}').to_arrow('shop.orders'))"
    _say(f'  {python} -c "{code}"')


if __name__ == "__main__":
    main()
