"""The places of tables in the log that are not those of the newest round of a lake.

A round tells the place of tables that all have the rows of one moment. While tables are at different positions, and for tables that a run
does not follow, the control table keeps the place of each. Otherwise a table without changes would return to its last commit
when the mirror starts again, and the log from there on may be purged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from binlake.follow.offsets import StreamOffset

#: A snapshot of a table, and the position of its rows.
TablePlace: TypeAlias = tuple[int, StreamOffset]


@dataclass(frozen=True, slots=True)
class KeptPlaces:
    """Places by the name of the table. `round`: the newest round when they were recorded."""

    round: int = 0
    tables: Mapping[str, TablePlace] = field(default_factory=dict)

    def renewed(
        self, round_number: int, places: Mapping[str, TablePlace], outdated: Collection[str]
    ) -> KeptPlaces:
        """These places without the outdated ones, and others that are newer; `round_number` is the newest round now."""
        left = {name: one for name, one in self.tables.items() if name not in outdated}
        return KeptPlaces(round_number, {**left, **places})

    def to_json(self) -> str:
        """One line of JSON, the same for equal places; each position is in it once, because most tables have the same one."""
        offsets: dict[str, int] = {}
        tables = {}
        for name, (snapshot, offset) in sorted(self.tables.items()):
            text = json.dumps(offset.to_json(), sort_keys=True)
            tables[name] = [snapshot, offsets.setdefault(text, len(offsets))]
        known = [json.loads(text) for text in offsets]
        return json.dumps({"round": self.round, "offsets": known, "tables": tables})


@lru_cache(maxsize=4)  # it is asked for each table
def kept_places(text: str) -> KeptPlaces:
    """Parse the output of `KeptPlaces.to_json`; no places for "". Raises SourceError."""
    if not text:
        return KeptPlaces()
    found = json.loads(text)
    offsets = [StreamOffset.from_json(one) for one in found["offsets"]]
    tables = {name: (snapshot, offsets[at]) for name, (snapshot, at) in found["tables"].items()}
    return KeptPlaces(found["round"], tables)
