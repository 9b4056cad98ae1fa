# cython: boundscheck=False
"""The GTIDs of plain transactions as text: a whole column at once."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from binlake.core.events.plain_groups cimport PlainGroups
from binlake.core.text.text_output cimport (
    NO_MEMORY,
    OK,
    Output,
    TextBuffer,
    put,
    put_byte,
    put_mariadb_gtid,
    put_signed,
    put_uuid,
    reserve,
)

from binlake.core.events.plain_groups import MARIADB, MYSQL

cdef int _MYSQL = MYSQL
cdef int _MARIADB = MARIADB
cdef enum:
    _SID_BYTES = 16
    _PREFIX_BYTES = 37  # of the UUID's text and the colon

# The UUID that was written last, and where its text is in the output. Most transactions of a log have the same.
cdef struct LastSid:
    const uint8_t* sid
    int64_t text_at


def gtid_texts(PlainGroups groups, int64_t low, int64_t high):
    """The GTIDs of the transactions [low, high), as their flavours spell them.

    Returns `high - low + 1` offsets (uint32), the text between them, and how many transactions have no
    GTID; their text is empty. Raises IndexError.
    """
    cdef TextBuffer text = TextBuffer()
    cdef int64_t without = 0
    cdef int64_t group
    cdef int failed = OK
    cdef LastSid last
    last.sid = NULL
    last.text_at = 0
    if not 0 <= low <= high <= groups.count:
        raise IndexError(f"transactions [{low}, {high}) of {groups.count}")
    offsets = memoryview(bytearray(4 * (high - low + 1))).cast("I")
    cdef uint32_t[::1] ends = offsets
    with nogil:
        for group in range(low, high):
            failed = _put(groups, group, &text.out, &last)
            if failed:
                break
            ends[group - low + 1] = <uint32_t>text.out.used
            without += ends[group - low + 1] == ends[group - low]
    if failed == NO_MEMORY:
        raise MemoryError
    if failed:
        raise IndexError(f"transaction {group}: its UUID is not in the data")
    return offsets, text, without


cdef inline int _put(PlainGroups groups, int64_t group, Output* out, LastSid* last) noexcept nogil:
    """OK, NO_MEMORY, or -1 for a UUID that is not in the data."""
    cdef int kind = groups.gtid_kind[group]
    cdef int64_t sid_at
    if kind == _MYSQL:
        sid_at = groups.sid_at[group]
        if sid_at < 0 or sid_at + _SID_BYTES > groups.steps.data.shape[0]:
            return -1
        return _put_mysql(out, &groups.steps.data[sid_at], groups.number[group], last)
    if kind != _MARIADB:
        return OK
    return put_mariadb_gtid(
        out,
        groups.domain_id[group],
        groups.block.server_id[groups.first[group]],
        <uint64_t>groups.number[group],
    )


cdef inline int _put_mysql(Output* out, const uint8_t* sid, int64_t gno, LastSid* last) noexcept nogil:
    """A GTID as MySQL spells it."""
    cdef int64_t at = out.used
    if last.sid != NULL and memcmp(last.sid, sid, _SID_BYTES) == 0:
        if reserve(out, _PREFIX_BYTES) or put(out, out.data + last.text_at, _PREFIX_BYTES):
            return NO_MEMORY
    elif put_uuid(out, sid) or put_byte(out, c":"):
        return NO_MEMORY
    last.sid = sid
    last.text_at = at
    return put_signed(out, gno)
