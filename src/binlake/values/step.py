"""The effect of an event on the grouping of events into transactions."""

from __future__ import annotations

from enum import IntEnum


class Step(IntEnum):
    """The meaning of one event for transaction grouping."""

    NEUTRAL = 0  # belongs to whatever is open: heartbeat, checkpoint, ignorable events
    CONTROL = 1  # format description, rotate, stop, previous GTIDs: between transactions
    UNKNOWN = 2  # a type that is not known and not marked ignorable
    UNDECIDED = 3  # to be decided by decoding the event
    PREFIX = 4  # precedes its statement: INTVAR, RAND, USER_VAR, BEGIN_LOAD_QUERY …
    TEXT = 5  # text of the statement behind row events: ROWS_QUERY, ANNOTATE_ROWS
    TABLE_MAP = 6
    ROWS = 7
    ROWS_END = 8  # ROWS with STMT_END
    GTID = 9  # MySQL: BEGIN, a statement or a payload follows
    GTID_OPEN = 10  # MariaDB: stands for BEGIN
    GTID_OTHER = 11  # MariaDB standalone, XA, DDL; MySQL tagged
    BEGIN = 12
    XID = 13
    COMMIT = 14
    ROLLBACK = 15
    STATEMENT = 16
    SAVEPOINT = 17
    ROLLBACK_TO = 18
    RELEASE = 19
    XA_START = 20
    XA_END = 21
    XA_PREPARE = 22
    XA_COMMIT = 23
    XA_ROLLBACK = 24
    PAYLOAD = 25
    INCIDENT = 26
    LOAD_FAILED = 27  # DELETE_FILE: the statement that its blocks belong to did not happen
