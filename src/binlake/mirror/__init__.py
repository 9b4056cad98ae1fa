"""Lake tables that equal the tables of a server.

from binlake.mirror import mirror, status
mirror("mysql://repl@db1/", "/lake", ["shop.*"])
status("/lake").tables
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlake.mirror.api import (
        add,
        compact,
        mirror,
        pause,
        remove,
        resume,
        resync,
        status,
        verify,
    )
    from binlake.mirror.moments import (
        Moment,
        absent_tables,
        drop_moment,
        history,
        name_moment,
        tables_at,
        views_at,
    )
    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.reporting.report import MirrorStatus, TableStatus
    from binlake.mirror.verification import TableVerification, Verification

__all__ = [
    "MirrorOptions",
    "MirrorStatus",
    "Moment",
    "TableStatus",
    "TableVerification",
    "Verification",
    "absent_tables",
    "add",
    "compact",
    "drop_moment",
    "history",
    "mirror",
    "name_moment",
    "pause",
    "remove",
    "resume",
    "resync",
    "status",
    "tables_at",
    "verify",
    "views_at",
]

# Imported when first used: a task needs neither the loop nor Java.
_HOMES = {
    "MirrorOptions": "binlake.mirror.options",
    "MirrorStatus": "binlake.mirror.reporting.report",
    "Moment": "binlake.mirror.moments",
    "TableStatus": "binlake.mirror.reporting.report",
    "TableVerification": "binlake.mirror.verification",
    "Verification": "binlake.mirror.verification",
    "absent_tables": "binlake.mirror.moments",
    "add": "binlake.mirror.api",
    "compact": "binlake.mirror.api",
    "drop_moment": "binlake.mirror.moments",
    "history": "binlake.mirror.moments",
    "mirror": "binlake.mirror.api",
    "name_moment": "binlake.mirror.moments",
    "pause": "binlake.mirror.api",
    "remove": "binlake.mirror.api",
    "resume": "binlake.mirror.api",
    "resync": "binlake.mirror.api",
    "status": "binlake.mirror.api",
    "tables_at": "binlake.mirror.moments",
    "verify": "binlake.mirror.api",
    "views_at": "binlake.mirror.moments",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
