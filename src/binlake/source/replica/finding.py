"""What can be said about a live server by those who examine it (`health`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlake.source.replica.connection import ServerConnection
    from binlake.source.replica.session import FollowOptions

__all__ = ["Finding", "Look", "Severity", "is_on", "kept", "quoted"]


class Severity(StrEnum):
    """How bad a finding is."""

    PROBLEM = "problem"  # data will be lost, wrong, or not to be had
    WARNING = "warning"  # it works, and will cost something
    NOTE = "note"  # good to know


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a server: `what` is the case, `why` that matters, `sql` mends it ("": none)."""

    severity: Severity
    topic: str
    what: str
    why: str
    sql: str = ""


#: One look at a server by who wants to follow it in some way.
Look: TypeAlias = "Callable[[ServerConnection, FollowOptions], Iterator[Finding]]"


def kept(server: ServerConnection, sql: str) -> str:
    """The statement in the form that outlives a restart, where the server has one."""
    persists = server.flavour == "mysql" and server.version >= (8, 0, 0)
    return sql.replace("SET GLOBAL", "SET PERSIST") if persists else sql


def is_on(value: str | None) -> bool:
    """Whether the value of a variable says yes; a server without the variable does not."""
    return (value or "").lower() in ("on", "1", "yes")


def quoted(*names: str) -> str:
    """A name for SQL, of its parts."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)
