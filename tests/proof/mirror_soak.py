"""`make mirror-soak`: kills of a mirror, and rounds with compaction beside them, each followed by a comparison.

    python -m proof.mirror_soak --kills 200 --rounds 1000 --seed 1 --server mysql-9.7

The server, the lake and what was done so far are in the folder `--state`: a soak that was interrupted goes on
there. It ends with exit code 1 at the first difference, and leaves everything as it is.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from binlake.mirror import compact
from binlake.mirror.sessions import mirror_session
from dev.servers import Server, installation
from mirror.killed_mirror import OF_A_COPY, OF_ICEBERG, RARE, Kill
from proof.mirror_kills import Kills
from proof.mirror_load import OPTIONS, Load
from proof.mirror_random import say
from proof.mirror_victims import DURABLE, Victims
from support.spark.lake_histories import check_history
from support.spark.mirrored import Lake, iceberg_jar, iceberg_table
from support.spark.spark_processes import PATIENT, Cluster

__all__: list[str] = []

#: Of twenty kills, so many are at places of the code; the others are of processes.
_OF_PROCESSES = (
    "command",
    "command",
    "JVM",
    "JVM",
    "worker",
    "executor",
    "executor",
    "server",
    "server at rest",
)
_AT_PLACES = 20 - len(_OF_PROCESSES)
_SCANS = 5


def plan(seed: int, kills: int) -> list[Kill | str]:
    """The victims, in their order: a place in the code, or the name of a process."""
    rng = random.Random(seed)
    planned: list[Kill | str] = []
    places: list[str] = []
    while len(planned) < kills:
        some: list[Kill | str] = [*_OF_PROCESSES]
        for _ in range(_AT_PLACES):
            places = places or rng.sample(sorted(OF_ICEBERG), len(OF_ICEBERG))
            place = places.pop()
            call = 1 if place in (*OF_A_COPY, *RARE) else rng.randrange(1, 9)
            some.append(Kill(place, call, after=rng.random() < 0.5))
        planned += rng.sample(some, len(some))
    return planned[:kills]


class Soak:
    """A server that is written to, a lake, and the kills that were made."""

    def __init__(self, arguments: argparse.Namespace, held: ExitStack) -> None:
        folder = Path(arguments.state).absolute() / arguments.server
        folder.mkdir(parents=True, exist_ok=True)
        self.held, self.folder = held, folder
        self.wanted, self.rounds = arguments.kills, arguments.rounds
        self.done = folder / "kills.jsonl"
        self.seed = self._seed(arguments.seed)
        self.rng = random.Random(f"{self.seed} {len(self._lines())}")
        self.server = Server(installation(arguments.server), folder / "server")
        held.callback(self.server.stop)
        is_new = not self.server.data.exists()
        self.server.start(DURABLE)
        self.load = Load(self.server, self.rng)
        if is_new:
            self.load.prepared()
        (folder / "lake").mkdir(exist_ok=True)
        spark = mirror_session(
            str(folder / "lake"), master="local[2]", iceberg_jar=str(iceberg_jar()),
            config={**PATIENT, "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1"},
        )  # fmt: skip
        held.callback(spark.stop)
        self.lake = Lake(spark, folder / "lake", self.server, **OPTIONS)
        log = folder / "mirror.log"
        victims = Victims(self.lake, self.load, log, OPTIONS, self._cluster, self.rng)
        self.kills = Kills(self.lake, self.load, victims, self.rng)
        self._made: Cluster | None = None

    def _seed(self, given: int | None) -> int:
        """The seed of the first start of this soak."""
        kept = self.folder / "seed"
        if not kept.exists():
            kept.write_text(str(int(time.time()) % 100_000 if given is None else given))
        seed = int(kept.read_text())
        if given not in (None, seed):
            raise SystemExit(f"{self.folder} is of the seed {seed}: choose another --state")
        return seed

    def _cluster(self) -> Cluster:
        if self._made is None:
            self._made = Cluster(self.folder)
            self.held.callback(self._made.stop)
        return self._made

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.done.open()] if self.done.exists() else []

    # -- kills -------------------------------------------------------------------------------------

    def kill_all(self) -> None:
        """The kills that are left, with a comparison after each."""
        planned = plan(self.seed, self.wanted)
        with self.load:
            for number in range(len(self._lines()), self.wanted):
                began = time.monotonic()
                what = planned[number]
                outcome = self.kills.make(what)
                self.kills.compare(f"after kill {number + 1}, {what}")
                line = {
                    "kill": number + 1,
                    "of": what if isinstance(what, str) else what.place,
                    "outcome": outcome,
                    "rounds": self.kills.round(),
                    "transactions": self.load.written,
                    "seconds": round(time.monotonic() - began, 1),
                }
                with self.done.open("a") as done:
                    done.write(json.dumps(line) + "\n")
                say(f"{line}: equal")

    # -- rounds ------------------------------------------------------------------------------------

    def make_rounds(self) -> None:
        """The rounds that are left, a transaction each, with compaction beside them; then what a scan costs."""
        while (left := self.rounds - self.kills.round()) > 0:
            self.load.write(min(left, 50))
            one = Lake(
                self.lake.spark, self.lake.folder, self.server, **OPTIONS | {"round_bytes": 1}
            )
            made = one.catch_up()
            compacted = sum("data files compacted" in note for note in one.notes)
            assert not [note for note in one.notes if "not compacted" in note], one.notes
            files = {
                name: len(iceberg_table(table).files.rows) for name, table in made.tables.items()
            }
            self.kills.compare(f"after round {self.kills.round()}")
            say(f"round {self.kills.round()}: equal; {compacted} compactions; data files {files}")
        self.lake.catch_up()  # the kills may have been more rounds than wanted, and writes came after the last
        names = self.lake.equals_source("shop.*")
        say(f"row by row, as Spark reads them: {', '.join(names)} equal")
        versions = check_history(self.lake, "shop.versions", ("id",))
        say(f"shop.versions: {versions} versions that changes began, each as the log tells")
        before = self._scan_s()
        compact(self.folder / "lake", spark=self.lake.spark, catalog=self.lake.catalog)
        after = self._scan_s()
        say(f"a scan of shop.keyed takes {before:.2f} s, {after:.2f} s when it is compacted")
        self.kills.compare("after the compaction of all")
        assert before <= 2 * after, "a scan takes more than twice as long as of the compacted table"

    def _scan_s(self) -> float:
        query = f"SELECT sum(v), max(t), count(*) FROM {self.lake.catalog}.shop.keyed"
        times = []
        for _ in range(_SCANS):
            began = time.perf_counter()
            self.lake.spark.sql(query).collect()
            times.append(time.perf_counter() - began)
        return min(times)

    def report(self) -> None:
        """How many of what."""
        lines = self._lines()
        kinds = Counter(line["of"] for line in lines)
        say(f"{len(lines)} kills, {self.kills.round()} rounds, all equal; seed {self.seed}")
        say(", ".join(f"{count} of {kind}" for kind, count in sorted(kinds.items())))


def main() -> None:
    """Run a soak, or continue one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="by default one that the clock gives")
    parser.add_argument("--server", default="mysql-9.7", help="a name of `python -m dev.servers`")
    parser.add_argument("--state", default="build/mirror-soak", help="where everything is kept")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with ExitStack() as held:
        soak = Soak(arguments, held)
        say(f"{soak.server.name}, seed {soak.seed}, {soak.folder}")
        try:
            soak.kill_all()
            soak.make_rounds()
        except AssertionError as error:
            say(f"seed {soak.seed}: {error}")
            sys.exit(1)
        soak.report()


if __name__ == "__main__":
    main()
