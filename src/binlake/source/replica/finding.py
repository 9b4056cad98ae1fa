"""A finding of the check of a live server (`health`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlake.source.replica.connection import ServerConnection
    from binlake.source.replica.handshake import FollowOptions


class Severity(StrEnum):
    """The severity of a finding."""

    PROBLEM = "problem"  # data will be lost, wrong, or unavailable
    WARNING = "warning"  # it works, and will cost something
    NOTE = "note"  # good to know


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a server: `what` is the case, `why` it matters, `sql` fixes it ("": no
    statement does).
    """

    severity: Severity
    topic: str
    what: str
    why: str
    sql: str = ""

    def __str__(self) -> str:
        text = f"{self.what}: {self.why}"
        return f"{text} (to correct it, run {self.sql})" if self.sql else text


#: One check of a server for a follower.
Look: TypeAlias = "Callable[[ServerConnection, FollowOptions], Iterator[Finding]]"


def persisted(server: ServerConnection, sql: str) -> str:
    """Return the statement in the form that outlives a restart, if the server has one."""
    persists = server.flavour == "mysql" and server.version >= (8, 0, 0)
    return sql.replace("SET GLOBAL", "SET PERSIST") if persists else sql


def is_on(value: str | None) -> bool:
    """Whether the value of a variable is on; a server without the variable returns false."""
    return (value or "").lower() in ("on", "1", "yes")
