"""Followed tables whose rows foreign keys change without row events, on a server that has logged these rows until now."""

from __future__ import annotations

from binlake.errors import UnsupportedError
from binlake.mirror.followed.tables import FollowedTables
from binlake.mirror.followed.wanted import refuse_cascades


def quarantine_cascades(tables: FollowedTables) -> None:
    """Quarantine the followed tables with such keys, unless the server logs the rows, or the options accept that it does not.

    MySQL 9.6 and later log them, unless they are started with innodb_native_foreign_keys=ON; after a failover, the server may be an
    older one. Raises ServerError.
    """
    refused: dict[str, str] = {}
    for full_name, table in tables.followed.items():
        try:
            refuse_cascades(full_name, table.declared)
        except UnsupportedError as error:
            refused[full_name] = str(error)
    if refused and not tables.source.accepts_cascades():
        for full_name, why in refused.items():
            tables.quarantine(full_name, why)
