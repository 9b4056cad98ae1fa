"""What every command says besides its result: messages and progress, on stderr only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["byte_progress", "note", "say_result", "say_time_zone"]

stderr = Console(stderr=True, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """One line on stderr."""
    stderr.print(text, markup=False)


def say_time_zone(options: ReadOptions, raw: list[str]) -> None:
    """Say once that times without a zone were read as UTC (design §3)."""
    times = [a for flag in ("--since", "--until") for a in _values(raw, flag)]
    if any(not (t.endswith(("Z", "z")) or "+" in t or t.startswith("@") or t.count("-") > 2) for t in times):
        note("times without a zone are UTC")


def _values(raw: list[str], flag: str) -> list[str]:
    found = [raw[i + 1] for i, a in enumerate(raw[:-1]) if a == flag]
    return found + [a.partition("=")[2] for a in raw if a.startswith(flag + "=")]


@contextmanager
def byte_progress(total: int | None, ledger: Ledger) -> Iterator[Progress | None]:
    """A progress bar over bytes while the block runs; nothing when stderr is no terminal."""
    if not sys.stderr.isatty() or not total or total < (16 << 20):
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr, transient=True) as progress:
        progress.add_task("reading", total=total)
        yield progress


def say_result(ledger: Ledger) -> None:
    """The closing words of a read: what was not shown, skipped or doubtful; silent if all is well."""
    for line in ledger.remarks():
        note(line)
