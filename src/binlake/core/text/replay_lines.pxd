# Lines of the text that a client replays, which depend on little but the event's header.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.time cimport time_t

from binlake.core.text.text_output cimport Output

# The times written last, in the local time zone: most events have that of the event before.
cdef struct Clock:
    uint32_t second
    char[64] text
    time_t commit_second
    char[64] commit_text
    char[64] zone


cdef void start_clock(Clock* clock) noexcept nogil
cdef int put_base64(Output* out, const uint8_t* data, int64_t size) noexcept nogil
cdef int put_at(Output* out, int64_t offset) noexcept nogil
cdef int put_header(Output* out, Clock* clock, const uint8_t* event, int64_t length) noexcept nogil
cdef int put_commit(Output* out, Clock* clock, const char* which, uint64_t microseconds) noexcept nogil
