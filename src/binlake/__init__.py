"""MySQL and MariaDB binary logs as tables.

    import binlake
    log = binlake.open("/var/lib/mysql/binlog.000012")
    log.to_arrow("shop.orders")

The way of a byte: source (bytes to events) → events (decoded) → stream (transactions) → table
(Arrow) → spark, lake, cli. `binlake.api` has the whole Python API, `binlake.errors` the errors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from binlake.errors import BinlogError

if TYPE_CHECKING:
    from binlake.api import Log, open
    from binlake.lake.api import export
    from binlake.lake.export import ExportResult
    from binlake.source.keyring import Keyring
    from binlake.stream.verify.chains import VerifyReport, verify
    from binlake.values.ledger import Ledger
    from binlake.values.options import ReadOptions

__all__ = [
    "BinlogError",
    "ExportResult",
    "Keyring",
    "Ledger",
    "Log",
    "ReadOptions",
    "VerifyReport",
    "export",
    "open",
    "verify",
]

# Imported when first used: a task or a command that needs a part does not load the whole.
_HOMES = {
    "ExportResult": "binlake.lake.export",
    "Keyring": "binlake.source.keyring",
    "Ledger": "binlake.values.ledger",
    "Log": "binlake.api",
    "ReadOptions": "binlake.values.options",
    "VerifyReport": "binlake.stream.verify.chains",
    "export": "binlake.lake.api",
    "open": "binlake.api",
    "verify": "binlake.stream.verify.chains",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
