"""Privileges of the whole server that a mirror needs: without one of them, it can copy or follow no table."""

from __future__ import annotations

from collections.abc import Iterator

from binlake.errors import ConnectionLostError, ServerError
from binlake.source.replica.connection import ServerConnection, connect
from binlake.source.replica.handshake import FollowOptions, check_allowed
from binlake.source.replica.health import DENIED, account


def check_privileges(server: ServerConnection, *, reads_log: bool) -> None:
    """Raise ServerError for privileges that the user lacks, with the GRANT. `reads_log`: whether the log of the server is read, and not
    that of an archive. The server itself answers: privileges are used, because a role or a hosted server may give them in other ways.
    """
    missing = [*_lacks_process(server)]
    if reads_log:
        missing += _lacks_replication(server)
    if missing:
        user, names = account(server), ", ".join(missing)
        raise ServerError(
            f"{server.where}: {user} lacks {names}, which a mirror needs",
            hint=f"run GRANT {names} ON *.* TO {user}",
        )


def _lacks_process(server: ServerConnection) -> Iterator[str]:
    """Yield PROCESS if a copy could not see which transactions are being committed; MariaDB shows the position of a snapshot itself."""
    if server.flavour == "mariadb":
        return
    try:
        server.rows("SHOW ENGINE INNODB STATUS")
    except ServerError as error:
        if error.code in DENIED:
            yield "PROCESS"
        elif isinstance(error, ConnectionLostError):
            raise


def _lacks_replication(server: ServerConnection) -> Iterator[str]:
    try:
        with connect(server.url) as replica:
            check_allowed(replica, FollowOptions.of(server.url))
    except ConnectionLostError:
        raise
    except ServerError as error:  # others concern the log, which the mirror reads with patience
        if error.code in DENIED:
            yield "REPLICATION SLAVE"
