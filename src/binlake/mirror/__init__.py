"""Lake tables that equal the tables of a server.

from binlake.mirror import mirror, status
mirror("mysql://repl@db1/", "/lake", ["shop.*"])
status("/lake").tables
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlake.mirror.api import compact, mirror, pause, resume, resync, status, verify
    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.reporting.report import MirrorStatus, TableStatus
    from binlake.mirror.verification import TableVerification, Verification

__all__ = [
    "MirrorOptions",
    "MirrorStatus",
    "TableStatus",
    "TableVerification",
    "Verification",
    "compact",
    "mirror",
    "pause",
    "resume",
    "resync",
    "status",
    "verify",
]

# Imported when first used: a task needs neither the loop nor Java.
_HOMES = {
    "MirrorOptions": "binlake.mirror.options",
    "MirrorStatus": "binlake.mirror.reporting.report",
    "TableStatus": "binlake.mirror.reporting.report",
    "TableVerification": "binlake.mirror.verification",
    "Verification": "binlake.mirror.verification",
    "compact": "binlake.mirror.api",
    "mirror": "binlake.mirror.api",
    "pause": "binlake.mirror.api",
    "resume": "binlake.mirror.api",
    "resync": "binlake.mirror.api",
    "status": "binlake.mirror.api",
    "verify": "binlake.mirror.api",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
