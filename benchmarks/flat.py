"""Whether rounds of a mirror cost as much in a large table as in a small one.

make bench ARGS="--only flat --rows 2000000 --rows 20000000"

One server has a table of each size, and one mirror follows all of them. The rounds of the tables alternate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import Goal
from benchmarks.measure import Measured
from benchmarks.mirror_load import KEYS, Load

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench

__all__ = ["FLAT_ROWS", "flat", "flat_goals", "loads"]

FLAT_ROWS = (2_000_000, 20_000_000)
#: Sizes of rounds, and how many of each a table has.
_ROUNDS = {1_000_000: 6, 100_000: 15}
_WARM_UP = 10_000
_MOST = 1.2
_CPU, _COMPACTION_CPU = "cpu_seconds_per_million", "compaction_cpu_seconds_per_million"


def loads(folder: Path, key: str, rows: Sequence[int]) -> list[Load]:
    """The tables of one server, in the order of their sizes."""
    return [Load(folder, key, one, f"rows_{one}.orders") for one in sorted(rows)]


def flat(bench: Bench, rows: Sequence[int]) -> None:
    """Measure the rounds of tables with each kind of key."""
    for key in KEYS:
        folder = bench.folder / "flat" / key
        tables = loads(folder, key, rows)
        print(f"  {key}: the server and its tables …", flush=True)
        try:  # a server that is left running would be taken for the next one
            tables[0].start_with(tables, _WARM_UP + sum(a * b for a, b in _ROUNDS.items()))
            with tempfile.TemporaryDirectory(prefix="binlake-bench-", dir=bench.folder) as scratch:
                rounds = ",".join(f"{count}x{changes}" for changes, count in _ROUNDS.items())
                source = (tables[0].url, tables[0].logs, Path(scratch) / "lake")
                bench.case(
                    _name(key), "mirror_flat.py", *source, folder, key, rounds, *sorted(rows),
                    warmup=0, runs=1,
                )  # fmt: skip
        finally:
            tables[0].server.stop()


def _name(key: str) -> str:
    return f"{key}: rounds in tables of different sizes"


def flat_goals(done: Mapping[str, Measured]) -> Iterator[Goal]:
    """The lines of the result table, of what was measured."""
    for key in KEYS:
        if _name(key) not in done:
            continue
        rounds = done[_name(key)].output["rounds"]
        if len(rounds) == len(_ROUNDS):  # one table, which has no other to compare with
            continue
        for changes in _ROUNDS:
            small, *_, large = (name for name in rounds if name.endswith(f", {changes}"))
            sizes = " vs ".join(
                f"{rounds[name]['rows'] / 1e6:.1f} M rows" for name in (large, small)
            )
            what = f"{key}, rounds of {changes:,}, {sizes}"
            for unit, fields in (
                ("CPU seconds", [_CPU]),
                ("CPU seconds with compactions", [_CPU, _COMPACTION_CPU]),
                ("seconds", ["seconds_per_million"]),
            ):
                yield Goal(
                    f"{what}: {unit} for a million changes",
                    _ratio(_name(key), large, small, fields),
                    f"<= {_MOST}" if fields == [_CPU] else "",
                    lambda value: value <= _MOST,
                )


def _ratio(
    name: str, large: str, small: str, fields: Sequence[str]
) -> Callable[[dict[str, Measured]], float]:
    def value(done: dict[str, Measured]) -> float:
        rounds = done[name].output["rounds"]
        of_large, of_small = (sum(rounds[table][one] for one in fields) for table in (large, small))
        return float(of_large / of_small)

    return value
