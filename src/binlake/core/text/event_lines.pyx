# cython: boundscheck=False
"""Lines of `binlake inspect` for the events that a log is full of.

    binlog.000001:157        2026-11-21T10:31:09Z          1 QUERY_EVENT                         80  [shop] BEGIN

A log of a busy server consists almost entirely of GTID, QUERY, TABLE_MAP, rows and XID events. Their lines
need a few bytes of the body, so they are written here without making typed events. `write` stops
before all other events and unusual fields (a name that is not plain ASCII, a field that does not
fit), and the typed events write these lines. `cli/inspect/event_text.py` defines the lines; tests
compare the two on every test log.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from binlake.core.events.format_constants cimport (
    HEADER_BYTES,
    LENGTH_AT,
    QUERY_HEADER_BYTES,
    SERVER_ID_AT,
    TIMESTAMP_AT,
    TYPE_AT,
)
from binlake.core.memory.failure cimport Failure
from binlake.core.memory.reader cimport Reader, left, load, load16, load32, load64
from binlake.core.rows.rows_header cimport RowsHead, read_rows_head
from binlake.core.text.event_kinds cimport (
    ANNOTATE_ROWS,
    ANONYMOUS_GTID,
    GTID,
    LEFT,
    MARIADB_GTID,
    QUERY,
    ROWS,
    ROWS_QUERY,
    TABLE_MAP,
    VERSION_2,
    XID,
)
from binlake.core.text.text_output cimport (
    NO_MEMORY,
    OK,
    Output,
    TextWriter,
    put,
    put_byte,
    put_digits,
    put_mariadb_gtid,
    put_mysql_gtid,
    put_number,
    put_utc,
)


cdef enum:
    PLACE_WIDTH = 24
    TIME_WIDTH = 20
    SERVER_WIDTH = 10
    LENGTH_WIDTH = 9
    SUMMARY_CHARACTERS = 100

cdef inline int pad(Output* out, int64_t start, int64_t width) noexcept nogil:
    """Fill what was written since `start` with spaces up to a width."""
    while out.used - start < width:
        if put_byte(out, c" "):
            return NO_MEMORY
    return OK


cdef int put_right(Output* out, uint64_t value, int width) noexcept nogil:
    """A number, aligned to the right."""
    cdef uint64_t rest = value
    cdef int digits = 1
    while rest >= 10:
        rest //= 10
        digits += 1
    while digits < width:
        if put_byte(out, c" "):
            return NO_MEMORY
        digits += 1
    return put_digits(out, value, False)


cdef int put_time(Output* out, uint32_t timestamp) noexcept nogil:
    """The header's time; `-` for 0."""
    return put_utc(out, timestamp) if timestamp else put_byte(out, c"-")


cdef inline bint is_space(uint8_t byte) noexcept nogil:
    """White space to Python's str.split, of ASCII."""
    return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31


cdef int put_words(Output* out, const uint8_t* text, int64_t size, int64_t* left) noexcept nogil:
    """ASCII text with its white space as single spaces; `left` characters may be written.

    Left to Python when a byte is neither printable nor white space.
    """
    cdef int64_t i
    cdef bint waiting = False
    cdef bint begun = left[0] != SUMMARY_CHARACTERS
    for i in range(size):
        if text[i] >= 127 or (text[i] < 32 and not is_space(text[i])):
            return LEFT
    for i in range(size):
        if is_space(text[i]):
            waiting = begun
            continue
        if waiting:
            if left[0] > 0 and put_byte(out, c" "):
                return NO_MEMORY
            left[0] -= 1
            waiting = False
        if left[0] > 0 and put_byte(out, <char>text[i]):
            return NO_MEMORY
        left[0] -= 1
        begun = True
        if left[0] < 0:
            break
    return OK


cdef int end_summary(Output* out, int64_t left) noexcept nogil:
    """An ellipsis in the place of the last character when there were too many."""
    if left < 0:
        out.used -= 1
        return put(out, "\xe2\x80\xa6", 3)
    return OK


cdef int put_name(Output* out, const uint8_t* name, int64_t size) noexcept nogil:
    """A name of printable ASCII without spaces; others are left to Python."""
    cdef int64_t i
    for i in range(size):
        if name[i] <= 32 or name[i] >= 127:
            return LEFT
    return put(out, <const char*>name, size)


cdef struct Format:
    int header_bytes
    int checksum_bytes
    int query_header_bytes
    const uint8_t* kind_of
    const uint8_t* id_bytes_of
    const uint8_t* bitmaps_of
    const uint8_t* ascii_of  # by collation: ASCII bytes mean themselves
    int64_t collations


cdef int put_query(Output* out, const Format* fmt, const uint8_t* body, int64_t size) noexcept nogil:
    cdef int64_t status, database, at, end, item
    cdef int code
    cdef int64_t left = SUMMARY_CHARACTERS
    cdef int failed
    cdef bint told = False
    if fmt.query_header_bytes != QUERY_HEADER_BYTES or size < QUERY_HEADER_BYTES:
        return LEFT
    database = body[8]
    status = load16(body + 11)
    if QUERY_HEADER_BYTES + status + database + 1 > size:
        return LEFT
    at = QUERY_HEADER_BYTES
    end = at + status
    while at < end and not told:
        code = body[at]
        at += 1
        if code == 0 or code == 3:  # flags2, auto_increment
            at += 4
        elif code == 1:  # sql_mode
            at += 8
        elif code == 6:  # catalog
            if at >= end:
                return LEFT
            at += 1 + body[at]
        elif code == 4:  # client, connection and server collation
            if at + 6 > end:
                return LEFT
            item = load16(body + at)
            if item >= fmt.collations or not fmt.ascii_of[item]:
                return LEFT
            told = True
        else:
            return LEFT
    if not told:
        return LEFT
    body += QUERY_HEADER_BYTES + status
    size -= QUERY_HEADER_BYTES + status
    if body[database]:
        return LEFT
    if database:
        if database + 3 > SUMMARY_CHARACTERS or put_byte(out, c"["):
            return LEFT
        failed = put_name(out, body, database)
        if failed:
            return failed
        if put(out, "]", 1):
            return NO_MEMORY
        left -= database + 2
        if size > database + 1:
            # the statement's first word comes behind a space
            left -= 1
            if put_byte(out, c" "):
                return NO_MEMORY
            if is_space(body[database + 1]):
                return LEFT
    failed = put_words(out, body + database + 1, size - database - 1, &left)
    if failed:
        return failed
    return end_summary(out, left)


cdef int put_table_map(Output* out, int id_bytes, const uint8_t* body, int64_t size) noexcept nogil:
    cdef uint64_t table_id
    cdef int64_t at = id_bytes + 2
    cdef int64_t start = out.used
    cdef int part, failed
    if size < at:
        return LEFT
    table_id = load(body, id_bytes)
    for part in range(2):
        if at >= size or at + 2 + body[at] > size or body[at + 1 + body[at]]:
            return LEFT
        failed = put_name(out, body + at + 1, body[at])
        if not failed:
            failed = put_byte(out, c" " if part else c".")
        if failed:
            return failed
        at += 2 + body[at]
    if put_number(out, "table id ", table_id):
        return NO_MEMORY
    return LEFT if out.used - start > SUMMARY_CHARACTERS else OK


cdef int put_rows(
    Output* out, int id_bytes, int bitmaps, const uint8_t* body, int64_t size
) noexcept nogil:
    cdef Failure failure
    cdef RowsHead head
    cdef Reader reader = Reader(body, body, body + size, &failure)
    if read_rows_head(&reader, id_bytes, 2 if bitmaps & VERSION_2 else 1, bitmaps & 3, &head):
        return LEFT
    if head.extra_bytes:  # the typed event decodes them
        return LEFT
    if put_number(out, "table id ", <uint64_t>head.table_id):
        return NO_MEMORY
    if put_number(out, ", ", <uint64_t>left(&reader)):
        return NO_MEMORY
    return put(out, " bytes of rows", 14)


cdef int put_gtid(Output* out, const uint8_t* body, int64_t size) noexcept nogil:
    cdef int64_t number
    if size < 25:
        return LEFT
    number = <int64_t>load64(body + 17)
    if number < 1:
        return LEFT
    return put_mysql_gtid(out, body + 1, number)


cdef int put_summary(
    Output* out, const Format* fmt, const uint8_t* event, int64_t length
) noexcept nogil:
    cdef const uint8_t* body = event + fmt.header_bytes
    cdef int64_t size = length - fmt.header_bytes - fmt.checksum_bytes
    cdef uint8_t type_code = event[4]
    cdef int kind = fmt.kind_of[type_code]
    cdef int64_t left = SUMMARY_CHARACTERS
    cdef int failed
    if size < 0:
        return LEFT
    if kind == ROWS:
        return put_rows(out, fmt.id_bytes_of[type_code], fmt.bitmaps_of[type_code], body, size)
    if kind == TABLE_MAP:
        return put_table_map(out, fmt.id_bytes_of[type_code], body, size)
    if kind == QUERY:
        return put_query(out, fmt, body, size)
    if kind == GTID:
        return put_gtid(out, body, size)
    if kind == ANONYMOUS_GTID:
        return put(out, "anonymous", 9) if size >= 25 else LEFT
    if kind == MARIADB_GTID:
        if size < 13:
            return LEFT
        return put_mariadb_gtid(out, load32(body + 8), load32(event + SERVER_ID_AT), load64(body))
    if kind == XID:
        return LEFT if size != 8 else put_number(out, "xid ", load64(body))
    if kind == ROWS_QUERY or kind == ANNOTATE_ROWS:
        if kind == ROWS_QUERY:
            if size < 1:
                return LEFT
            body += 1
            size -= 1
        failed = put_words(out, body, size, &left)
        return failed if failed else end_summary(out, left)
    return LEFT


cdef class EventLines(TextWriter):
    """Writes the lines of one file's events, as long as one format holds.

    `place` is what stands before an event's position: the file's name and a colon. Inside a
    transaction payload it is the payload's whole place and `#`, and the ordinals of events are
    counted. `names` are the 256 names of the types, as wide as the column; `table` is the format's
    `KindTable`; `ascii_collations` a byte for each collation id, 1 where ASCII text means itself.
    """

    cdef bytes place, kinds, id_bytes, bitmaps, ascii_collations
    cdef list names
    cdef Format fmt

    def __init__(
        self,
        bytes place,
        list names,
        table,
        bytes ascii_collations,
        *,
        int header_bytes,
        int checksum_bytes,
        int query_header_bytes,
    ):
        if len(names) != 256:
            raise ValueError("a name for each of 256 types")
        if header_bytes < HEADER_BYTES:
            raise ValueError("events of before MySQL 4.0 have other headers")
        self.place, self.names = place, names
        self.kinds, self.id_bytes, self.bitmaps = table
        self.ascii_collations = ascii_collations
        self.fmt = Format(
            header_bytes,
            checksum_bytes,
            query_header_bytes,
            <const uint8_t*>self.kinds,
            <const uint8_t*>self.id_bytes,
            <const uint8_t*>self.bitmaps,
            <const uint8_t*>ascii_collations,
            len(ascii_collations),
        )

    def write(self, data, int64_t pos, int64_t end, int64_t counted, int64_t limit):
        """Write the lines of the events from `data[pos]` on, at most `limit` of them.

        `counted` is the number in the first line: the file offset of that event, or, inside a
        payload, its ordinal. Returns the number of lines and where they ended: `data[end]`, or
        the first event that is left to its typed event.
        """
        cdef const uint8_t[::1] view = data
        cdef bint ordinals = self.place.endswith(b"#")
        cdef const char *names[256]
        cdef int64_t name_bytes[256]
        cdef int64_t length, start, line, lines = 0
        cdef const char* place = self.place
        cdef int64_t place_bytes = len(self.place)
        cdef Output* out = &self.text.out
        cdef const Format* fmt = &self.fmt
        cdef const uint8_t* event
        cdef const uint8_t* first
        cdef int failed = OK
        cdef int i
        if not 0 <= pos <= end <= view.shape[0]:
            raise IndexError(f"[{pos}, {end}) of {view.shape[0]} bytes")
        if pos == end:
            return 0, pos
        for i in range(256):
            names[i] = <const char*>(<bytes>self.names[i])
            name_bytes[i] = len(<bytes>self.names[i])
        first = &view[0]
        with nogil:
            while pos < end and lines < limit:
                event = first + pos
                if end - pos < HEADER_BYTES:
                    break
                length = load32(event + LENGTH_AT)
                if length < HEADER_BYTES or length > end - pos or not fmt.kind_of[event[TYPE_AT]]:
                    break
                line = out.used
                failed = put(out, place, place_bytes)
                if not failed:
                    failed = put_digits(out, <uint64_t>counted, False)
                if not failed:
                    failed = pad(out, line, PLACE_WIDTH) or put_byte(out, c" ")
                start = out.used
                if not failed:
                    failed = put_time(out, load32(event + TIMESTAMP_AT))
                if not failed:
                    failed = pad(out, start, TIME_WIDTH) or put_byte(out, c" ")
                if not failed:
                    failed = put_right(out, load32(event + SERVER_ID_AT), SERVER_WIDTH)
                if not failed:
                    failed = put_byte(out, c" ") or put(
                        out, names[event[TYPE_AT]], name_bytes[event[TYPE_AT]]
                    )
                if not failed:
                    failed = put_byte(out, c" ") or put_right(out, length, LENGTH_WIDTH)
                if not failed:
                    failed = put(out, "  ", 2)
                if not failed:
                    failed = put_summary(out, fmt, event, length)
                if failed:
                    out.used = line
                    break
                while out.data[out.used - 1] == c" ":
                    out.used -= 1
                failed = put_byte(out, c"\n")
                if failed:
                    break
                lines += 1
                pos += length
                counted += 1 if ordinals else length
        if failed == NO_MEMORY:
            raise MemoryError
        return lines, pos
