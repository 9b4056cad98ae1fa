"""Errors of a server that concern one table, which the mirror then quarantines."""

from __future__ import annotations

from binlake.errors import AuthError, PositionLostError, ServerError
from binlake.source.replica.connection import LOCK_WAIT_TIMEOUT, QUERY_INTERRUPTED

#: Codes of answers that do not depend on the table: too little memory, and too many connections of the user.
_OF_SERVER = (1037, 1038, 1226)
#: Codes of answers that the user lacks a privilege of the whole server, or may not log in or be a replica.
_DENIED = (1045, 1227)
#: Codes of answers that the server gives for now, to whatever it is asked: a disk that is full (also while it sorts), a query
#: that may not examine so many rows, no memory for a thread, a query that another session has ended, and too many prepared
#: statements.
_PASSING = (1021, 1028, 1104, 1114, 1135, QUERY_INTERRUPTED, 1461)
#: Codes of answers that another attempt does not change: no privilege for the server, the database, the table or a column, a
#: table that is damaged, or that its engine does not have.
_LASTING = (*_DENIED, 1044, 1142, 1143, 1194, 1195, 1932)
#: Codes of answers that the server has no such database or table.
_ABSENT = (1049, 1146)


class AlteredError(ServerError):
    """A table was altered or emptied while it was read: its copy begins again."""


def is_of_table(error: ServerError) -> bool:
    """Whether an error concerns the table that was read, and not the connection, the login or the log.

    Such errors have the server's code for the table, `waited_s` if the server was too busy to read it, or `is_of_rows`.
    """
    if error.retryable or isinstance(error, AuthError | PositionLostError):
        return False
    is_answer = error.code is not None and error.code not in (*_OF_SERVER, *_DENIED)
    is_met = error.waited_s is not None or bool(error.is_of_rows)
    return is_answer or is_met or isinstance(error, AlteredError)


def is_absent(error: ServerError) -> bool:
    """Whether the server answers that it has no such table."""
    return error.code in _ABSENT


def is_passing(error: ServerError) -> bool:
    """Whether to read the table later: another session had locked it for too long or has ended the query, or the whole server
    is short of something, such as disk space.
    """
    return error.code in (LOCK_WAIT_TIMEOUT, *_PASSING) or bool(error.is_passing)


def concerns_other_tables(error: ServerError) -> bool:
    """Whether an error after which a copy waits would also be met by the copies of other tables."""
    return not error.retryable and error.code not in (LOCK_WAIT_TIMEOUT, QUERY_INTERRUPTED)


def is_lasting(error: ServerError) -> bool:
    """Whether it is useless to try again now."""
    return error.code in _LASTING or error.waited_s is not None
