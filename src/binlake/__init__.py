"""MySQL and MariaDB binary logs as tables.

    import binlake
    log = binlake.open("/var/lib/mysql/binlog.000012")
    log.to_arrow("shop.orders")

The way of a byte: source (bytes to events) → events (decoded) → stream (transactions) → table
(Arrow) → spark, lake, cli. `binlake.api` has the whole Python API, `binlake.errors` the errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.errors import BinlogError
from binlake.lazy import lazy_names

if TYPE_CHECKING:
    from binlake.api import Log, open
    from binlake.lake.api import export
    from binlake.lake.export import ExportResult
    from binlake.source.keyring import Keyring
    from binlake.stream.verify.chains import VerifyReport, verify
    from binlake.values.ledger import Ledger
    from binlake.values.options import ReadOptions
else:
    # A task or a command that needs a part does not load the whole.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "binlake.api": "Log open",
            "binlake.lake.api": "export",
            "binlake.lake.export": "ExportResult",
            "binlake.source.keyring": "Keyring",
            "binlake.stream.verify.chains": "VerifyReport verify",
            "binlake.values.ledger": "Ledger",
            "binlake.values.options": "ReadOptions",
        },
    )

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
