"""Lake tables that equal the tables of a server.

from binlake.mirror import mirror, status
mirror("mysql://repl@db1/", "/lake", ["shop.*"])
status("/lake").tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.lazy import lazy_names

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
else:
    # A task needs neither the loop nor Java.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "binlake.mirror.api": "add compact mirror pause remove resume resync status verify",
            "binlake.mirror.moments": "Moment absent_tables drop_moment history name_moment tables_at views_at",
            "binlake.mirror.options": "MirrorOptions",
            "binlake.mirror.reporting.report": "MirrorStatus TableStatus",
            "binlake.mirror.verification": "TableVerification Verification",
        },
    )

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
