# cython: boundscheck=False
"""The GTIDs of plain transactions as text: a whole column at once."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from binlake.core.events.plain_groups cimport PlainGroups
from binlake.core.text.text_output cimport (
    NO_MEMORY,
    OK,
    Output,
    TextBuffer,
    put_mariadb_gtid,
    put_mysql_gtid,
)

from binlake.core.events.plain_groups import MARIADB, MYSQL

__all__ = ["gtid_texts"]

cdef int _MYSQL = MYSQL
cdef int _MARIADB = MARIADB
cdef enum:
    _SID_BYTES = 16


def gtid_texts(PlainGroups groups, int64_t low, int64_t high):
    """The GTIDs of the transactions [low, high), as their flavours spell them.

    Returns `high - low + 1` offsets (uint32), the text between them, and how many transactions have no
    GTID; their text is empty. Raises IndexError.
    """
    cdef TextBuffer text = TextBuffer()
    cdef int64_t without = 0
    cdef int64_t group
    cdef int failed = OK
    if not 0 <= low <= high <= groups.count:
        raise IndexError(f"transactions [{low}, {high}) of {groups.count}")
    offsets = memoryview(bytearray(4 * (high - low + 1))).cast("I")
    cdef uint32_t[::1] ends = offsets
    with nogil:
        for group in range(low, high):
            failed = _put(groups, group, &text.out)
            if failed:
                break
            ends[group - low + 1] = <uint32_t>text.out.used
            without += ends[group - low + 1] == ends[group - low]
    if failed == NO_MEMORY:
        raise MemoryError
    if failed:
        raise IndexError(f"transaction {group}: its UUID is not in the data")
    return offsets, text, without


cdef inline int _put(PlainGroups groups, int64_t group, Output* out) noexcept nogil:
    """OK, NO_MEMORY, or -1 for a UUID that is not in the data."""
    cdef int kind = groups.gtid_kind[group]
    cdef int64_t sid_at
    if kind == _MYSQL:
        sid_at = groups.sid_at[group]
        if sid_at < 0 or sid_at + _SID_BYTES > groups.steps.data.shape[0]:
            return -1
        return put_mysql_gtid(out, &groups.steps.data[sid_at], groups.number[group])
    if kind != _MARIADB:
        return OK
    return put_mariadb_gtid(
        out,
        groups.domain_id[group],
        groups.block.server_id[groups.first[group]],
        <uint64_t>groups.number[group],
    )
