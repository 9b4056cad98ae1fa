"""Kills of a mirror whose server is written to, and the comparison after each."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

from binlake.mirror import resync, verify
from binlake.mirror.control import NAMESPACE, ROUNDS, Control
from binlake.mirror.iceberg.lake import IcebergLake
from mirror.killed_mirror import OF_A_COPY, OF_A_REQUEST, OF_LARGE_RANGES, Kill, killed
from proof.mirror_load import Load
from proof.mirror_victims import KINDS, Victims
from support.spark.mirrored import Lake, quarantined

__all__ = ["Kills"]

# small ranges are still decoded by tasks, and a log of some minutes is not a thousand tasks
_SPLIT_BYTES = 1 << 14


@dataclass
class Kills:
    """Kills the mirror of a lake, at places of its code or by its processes."""

    lake: Lake
    load: Load
    victims: Victims
    rng: random.Random

    def round(self) -> int:
        """The number of rounds that the lake records; 0 for one that no mirror has come to."""
        tables = IcebergLake(self.lake.spark, self.lake.catalog)
        return Control(tables).round if tables.exists(NAMESPACE, ROUNDS) else 0

    def make(self, what: Kill | str) -> str:
        """Run a mirror until the kill; return what became of it."""
        if isinstance(what, str):
            try:
                return KINDS[what](self.victims)
            finally:
                self.victims.end()
        if what.place in (*OF_A_REQUEST, *OF_LARGE_RANGES) and not self.round():
            self.lake.catch_up()
        if what.place in OF_LARGE_RANGES:  # no other transaction of the load exceeds `round_bytes`
            self.lake.server.execute("UPDATE shop.keyed SET v = v + 1")
        if what.place in (*OF_A_COPY, *OF_A_REQUEST) and self.round():
            table = self.rng.choice(("shop.keyed", "shop.keyless", "shop.parts"))
            resync(self.lake.location, [table], spark=self.lake.spark, catalog=self.lake.catalog)
        code = killed(self.lake, what, split_bytes=_SPLIT_BYTES)
        assert code == -signal.SIGKILL, f"{what}: exit code {code}"
        return f"{'after' if what.after else 'before'} call {what.call}"

    def compare(self, when: str) -> None:
        """Compare lake and source by checksums of all rows, at one position of the log."""
        lake = self.lake
        with self.load.no_ddl:
            found = verify(lake.location, spark=lake.spark, catalog=lake.catalog, state=lake.state)
        assert quarantined(lake) == {}, when
        assert found.is_equal, f"{when}: {found.tables}"
