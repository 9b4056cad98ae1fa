"""INTVAR_EVENT (5) and RAND_EVENT (13): values that a replica needs to repeat the effect of the next statement.

Source: libs/mysql/binlog/event/statement_events.cpp, Intvar_event, Rand_event. MariaDB: same.
Since 3.23.
Body of 5:
    1  kind    1 LAST_INSERT_ID, 2 INSERT_ID
    8  value
Body of 13:
    8  seed1
    8  seed2
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import Event
from binlake.events.body.fields import U8, U64

_VARIABLES = {1: "LAST_INSERT_ID", 2: "INSERT_ID"}


@dataclass(slots=True)
class IntvarEvent(Event):
    """An integer for the next statement: `kind` is LAST_INSERT_ID or INSERT_ID."""

    layout = {"kind": U8, "value": U64}
    extra_fields = ("variable",)

    kind: int
    value: int

    @property
    def variable(self) -> str:
        """The server's name of `kind`: LAST_INSERT_ID or INSERT_ID."""
        return _VARIABLES.get(self.kind, f"UNKNOWN_{self.kind}")


@dataclass(slots=True)
class RandEvent(Event):
    """Seeds of RAND() in the next statement."""

    layout = {"seed1": U64, "seed2": U64}

    seed1: int
    seed2: int
