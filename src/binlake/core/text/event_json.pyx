# cython: boundscheck=False
"""Lines of `binlake inspect --json` for the events that a log is full of.

    {"file":"binlog.000001","pos":883,…,"type":"XID_EVENT",…,"event":{"xid":14}}

The header of every line, and all of a GTID, XID or statement event, are written from the bytes. The
typed events decode TABLE_MAPs, the heads of rows events and the status variables of QUERY events
once. `learn_…` keeps the JSON for their bytes, because a log repeats them all the time.
`write` stops before an event that it does not know. `cli/inspect/event_json.py` makes the lines of
those, and tests compare the two on every test log.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8

from binlake.core.memory.failure cimport Failure
from binlake.core.events.format_constants cimport (
    FLAGS_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_POS_AT,
    QUERY_HEADER_BYTES,
    SERVER_ID_AT,
    TIMESTAMP_AT,
    TYPE_AT,
)
from binlake.core.events.gtid cimport GtidFields
from binlake.core.memory.reader cimport Reader, load, load16, load32, load64
from binlake.core.rows.rows_header cimport RowsHead, read_rows_head
from binlake.core.text.event_kinds cimport (
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
    Output,
    TextWriter,
    put,
    put_byte,
    put_digits,
    put_hex,
    put_json_text,
    put_mariadb_gtid,
    put_mysql_gtid,
    put_number,
    put_text,
    put_utc,
)

from enum import IntEnum


class SqlText(IntEnum):
    """Which statements of a character set are written as they are."""

    NONE = 0
    ASCII = 1
    UTF8 = 2


cdef enum:
    SQL_ASCII = 1
    SQL_UTF8 = 2

cdef enum:
    HAS_COMMIT_ID = 2  # of a GTID event of MariaDB
    ENDS_ALTER = 12  # of its extra flags: COMMIT ALTER, ROLLBACK ALTER
    LEARNED_BYTES = 16 << 20


cdef class EventJson(TextWriter):
    """Writes the lines of one log format's events.

    `types` are 256 texts, each `,"type":"…","code":…,"ts":`, and `table` is the format's `KindTable`.
    `event_flags`, `gtid_flags`, `mariadb_flags` and `mariadb_extra_flags` are the JSON of the names of
    16 bits.
    `checksum_bytes`: 4 where the checksums were verified, 0 where there are none.
    """

    cdef list types, event_flags, gtid_flags, mariadb_flags, mariadb_extra_flags
    cdef bytes kinds, id_bytes, bitmaps, file
    cdef bint inside
    cdef int64_t outer_pos, outer_end
    cdef int checksum_bytes
    cdef dict table_maps, rows_heads, queries
    cdef int64_t learned
    cdef GtidFields gtid
    cdef const uint8_t[::1] view

    def __init__(
        self,
        list types,
        table,
        list event_flags,
        list gtid_flags,
        list mariadb_flags,
        list mariadb_extra_flags,
        *,
        int checksum_bytes,
    ):
        if len(types) != 256:
            raise ValueError("a text for each of 256 types")
        for names in (event_flags, gtid_flags, mariadb_flags, mariadb_extra_flags):
            if len(names) != 16:
                raise ValueError("a name for each of 16 bits")
        if checksum_bytes not in (0, 4):
            raise ValueError("a checksum has four bytes")
        self.types = types
        self.kinds, self.id_bytes, self.bitmaps = table
        self.event_flags, self.gtid_flags = event_flags, gtid_flags
        self.mariadb_flags, self.mariadb_extra_flags = mariadb_flags, mariadb_extra_flags
        self.checksum_bytes = checksum_bytes
        self.file = b'""'
        self.gtid = GtidFields()
        self.forget()

    # -- texts learned from typed events

    def forget(self):
        """Forget everything learned."""
        self.table_maps, self.rows_heads, self.queries = {}, {}, {}
        self.learned = 0

    cdef int _keep(self, dict words, key, value, int64_t size) except -1:
        if size > LEARNED_BYTES:
            return 0
        if self.learned + size > LEARNED_BYTES:
            self.forget()
            return 0
        words[key] = value
        self.learned += size
        return 0

    def learn_table_map(self, bytes body, bytes fields):
        """The JSON of all fields of a TABLE_MAP with this body."""
        self._keep(self.table_maps, body, fields, len(body) + len(fields))

    def learn_rows(self, int type_code, bytes body, bytes before, bytes after):
        """The JSON of the fields of a rows event between its table id and its rows, and behind them.

        Nothing is kept for a body whose head cannot be read.
        """
        cdef const uint8_t* start = <const uint8_t*>body
        cdef int64_t head = self._rows_start(type_code, start, len(body))
        cdef int width = self.id_bytes[type_code]
        if head >= 0:
            key = (type_code, body[width:head])
            self._keep(self.rows_heads, key, (before, after), head + len(before) + len(after))

    def learn_query(self, bytes body, bytes fields, sql_text):
        """The JSON of a QUERY event's fields between its time of execution and its statement.

        `sql_text` selects the statements under the same status variables that are written unchanged.
        """
        cdef int64_t end = self._query_start(<const uint8_t*>body, len(body))
        if end >= 0:
            self._keep(self.queries, body[8:end], (fields, int(sql_text)), end + len(fields))

    # -- lines

    def begin(self, bytes file, outer=None):
        """From now on, events are those of a file, whose name is given as JSON.

        `outer` is where the payload lies that they are in, its first and its last byte's offset
        plus one; None for events of the file itself.
        """
        self.file = file
        self.inside = outer is not None
        self.outer_pos, self.outer_end = (0, 0) if outer is None else outer

    def write(self, data, int64_t pos, int64_t end, int64_t counted, int64_t limit):
        """Write the lines of the events from `data[pos]` on, at most `limit` of them.

        `counted` is the number in the first line: the file offset of that event, or, inside a
        payload, its ordinal. Returns the number of lines and where they ended: `data[end]`, or
        the first event that is left to its typed event.
        """
        cdef const uint8_t[::1] view = data
        cdef const uint8_t* first
        cdef Output* out = &self.text.out
        cdef int64_t length, line, lines = 0
        cdef int failed
        if not 0 <= pos <= end <= view.shape[0]:
            raise IndexError(f"[{pos}, {end}) of {view.shape[0]} bytes")
        if pos == end:
            return 0, pos
        self.view = view
        first = &view[0]
        while pos < end and lines < limit:
            if end - pos < HEADER_BYTES:
                break
            length = load32(first + pos + LENGTH_AT)
            if length < HEADER_BYTES + self.checksum_bytes or length > end - pos:
                break
            if not self.kinds[first[pos + TYPE_AT]]:
                break
            line = out.used
            failed = self.put_head(out, first + pos, length, counted)
            if not failed:
                failed = self.put_fields(out, first, pos, pos + length - self.checksum_bytes)
            if not failed:
                failed = put(out, "}\n", 2)
            if failed == NO_MEMORY:
                raise MemoryError
            if failed:
                out.used = line
                break
            lines += 1
            pos += length
            counted += 1 if self.inside else length
        return lines, pos

    cdef int put_head(self, Output* out, const uint8_t* event, int64_t length, int64_t counted) except -1:
        """All before the event's own fields."""
        cdef bytes type_text = self.types[event[TYPE_AT]]
        cdef uint32_t timestamp = load32(event + TIMESTAMP_AT)
        cdef int64_t pos = self.outer_pos if self.inside else counted
        cdef int64_t end = self.outer_end if self.inside else counted + length
        if put_text(out, '{"file":') or put(out, <const char*>self.file, len(self.file)):
            return NO_MEMORY
        if put_number(out, ',"pos":', <uint64_t>pos):
            return NO_MEMORY
        if put_number(out, ',"end_pos":', <uint64_t>end):
            return NO_MEMORY
        if put_number(out, ',"log_pos":', load32(event + LOG_POS_AT)):
            return NO_MEMORY
        if put(out, <const char*>type_text, len(type_text)):
            return NO_MEMORY
        if timestamp == 0:
            if put_text(out, "null"):
                return NO_MEMORY
        elif put_byte(out, c'"') or put_utc(out, timestamp) or put_byte(out, c'"'):
            return NO_MEMORY
        if put_number(out, ',"server_id":', load32(event + SERVER_ID_AT)):
            return NO_MEMORY
        if put_text(out, ',"flags":') or self.put_flags(out, self.event_flags, load16(event + FLAGS_AT)):
            return NO_MEMORY
        if put_number(out, ',"size":', <uint64_t>length):
            return NO_MEMORY
        if put_text(out, ',"checksum":"ok"' if self.checksum_bytes else ',"checksum":"none"'):
            return NO_MEMORY
        if put_text(out, ',"inner":'):
            return NO_MEMORY
        if self.inside:
            if put_digits(out, <uint64_t>counted, False):
                return NO_MEMORY
        elif put_text(out, "null"):
            return NO_MEMORY
        return put_text(out, ',"event":')

    cdef int put_flags(self, Output* out, list names, int flags) except -1:
        """The names of the bits, lowest first."""
        cdef bytes name
        cdef int bit
        cdef bint begun = False
        if put_byte(out, c"["):
            return NO_MEMORY
        for bit in range(16):
            if flags >> bit & 1:
                name = names[bit]
                if begun and put_byte(out, c","):
                    return NO_MEMORY
                if put(out, <const char*>name, len(name)):
                    return NO_MEMORY
                begun = True
        return put_byte(out, c"]")

    cdef int put_fields(self, Output* out, const uint8_t* first, int64_t pos, int64_t end) except -1:
        """The JSON of the body, `[pos + HEADER_BYTES, end)`."""
        cdef const uint8_t* body = first + pos + HEADER_BYTES
        cdef int64_t size = end - pos - HEADER_BYTES
        cdef int kind = self.kinds[first[pos + TYPE_AT]]
        cdef bytes fields
        if kind == ROWS:
            return self.put_rows(out, first[pos + TYPE_AT], body, size)
        if kind == TABLE_MAP:
            fields = self.table_maps.get(PyBytes_FromStringAndSize(<const char*>body, size))
            return LEFT if fields is None else put(out, <const char*>fields, len(fields))
        if kind == QUERY:
            return self.put_query(out, body, size)
        if kind == GTID or kind == ANONYMOUS_GTID:
            return self.put_gtid(out, first, pos, end, kind == ANONYMOUS_GTID)
        if kind == MARIADB_GTID:
            return self.put_mariadb_gtid(out, first, pos, end)
        if kind == XID:
            if size != 8:
                return LEFT
            if put_number(out, '{"xid":', load64(body)):
                return NO_MEMORY
            return put_byte(out, c"}")
        if kind == ROWS_QUERY:
            if size < 1:
                return LEFT
            body += 1
            size -= 1
        if put_text(out, '{"query":"'):
            return NO_MEMORY
        return self.put_statement(out, body, size, SQL_UTF8)

    cdef int put_statement(self, Output* out, const uint8_t* text, int64_t size, int sql_text) except -1:
        """A statement, its closing quote and bracket."""
        cdef int64_t i
        for i in range(size):
            if text[i] >= 128:
                if sql_text != SQL_UTF8:
                    return LEFT
                try:
                    PyUnicode_DecodeUTF8(<char*>text, size, NULL)
                except UnicodeDecodeError:
                    return LEFT
                break
        if put_json_text(out, text, size):
            return NO_MEMORY
        return put(out, '"}', 2)

    # -- statements

    cdef int64_t _query_start(self, const uint8_t* body, int64_t size) noexcept:
        """Where the statement of a QUERY event begins; -1 if its head is cut."""
        cdef int64_t start
        if size < QUERY_HEADER_BYTES:
            return -1
        start = QUERY_HEADER_BYTES + <int64_t>load16(body + 11) + body[8] + 1
        return start if start <= size else -1

    cdef int put_query(self, Output* out, const uint8_t* body, int64_t size) except -1:
        cdef int64_t start = self._query_start(body, size)
        cdef bytes fields
        if start < 0:
            return LEFT
        found = self.queries.get(PyBytes_FromStringAndSize(<const char*>body + 8, start - 8))
        if found is None:
            return LEFT
        fields = found[0]
        cdef int sql_text = found[1]
        if not sql_text:
            return LEFT
        if put_number(out, '{"thread_id":', load32(body)):
            return NO_MEMORY
        if put_number(out, ',"exec_time":', load32(body + 4)):
            return NO_MEMORY
        if put_byte(out, c",") or put(out, <const char*>fields, len(fields)):
            return NO_MEMORY
        if put_text(out, ',"sql":"'):
            return NO_MEMORY
        return self.put_statement(out, body + start, size - start, sql_text)

    # -- row changes

    cdef int64_t _rows_start(self, int type_code, const uint8_t* body, int64_t size) noexcept:
        """Where the rows of a rows event begin; -1 if its head cannot be read."""
        cdef Failure failure
        cdef RowsHead head
        cdef Reader reader = Reader(body, body, body + size, &failure)
        cdef int bitmaps = self.bitmaps[type_code]
        cdef int version = 2 if bitmaps & VERSION_2 else 1
        if read_rows_head(&reader, self.id_bytes[type_code], version, bitmaps & 3, &head):
            return -1
        return reader.pos - body

    cdef int put_rows(self, Output* out, int type_code, const uint8_t* body, int64_t size) except -1:
        cdef int64_t start = self._rows_start(type_code, body, size)
        cdef int width = self.id_bytes[type_code]
        cdef bytes before, after
        if start < 0:
            return LEFT
        head = PyBytes_FromStringAndSize(<const char*>body + width, start - width)
        found = self.rows_heads.get((type_code, head))
        if found is None:
            return LEFT
        before, after = found
        if put_number(out, '{"table_id":', load(body, width)):
            return NO_MEMORY
        if put_byte(out, c",") or put(out, <const char*>before, len(before)):
            return NO_MEMORY
        if put_text(out, ',"rows":"') or put_hex(out, body + start, size - start):
            return NO_MEMORY
        if put_text(out, '",') or put(out, <const char*>after, len(after)):
            return NO_MEMORY
        return put_byte(out, c"}")

    # -- transactions

    cdef int put_known(self, Output* out, const char* name, uint64_t value, bint known) noexcept:
        """`,"name":value`, or null."""
        if put_text(out, name):
            return NO_MEMORY
        return put_digits(out, value, False) if known else put_text(out, "null")

    cdef int put_gtid(
        self, Output* out, const uint8_t* first, int64_t pos, int64_t end, bint anonymous
    ) except -1:
        """MySQL 5.7 and newer, whose GTID events have a logical clock."""
        cdef GtidFields gtid = self.gtid
        cdef int reached
        if gtid.read_mysql(self.view, pos + HEADER_BYTES, end) < 0 or gtid.clock_type != 2:
            return LEFT
        if gtid.gno < 0 or (gtid.gno < 1 and not anonymous):
            return LEFT
        if gtid.last_committed < 0 or gtid.sequence_number < 0:
            return LEFT
        reached = gtid.reached
        if put_text(out, '{"flags":') or self.put_flags(out, self.gtid_flags, gtid.flags):
            return NO_MEMORY
        if put_text(out, ',"sid":"') or put_hex(out, first + gtid.sid_at, 16):
            return NO_MEMORY
        if put_number(out, '","gno":', <uint64_t>gtid.gno):
            return NO_MEMORY
        if put_number(out, ',"tag":"","last_committed":', <uint64_t>gtid.last_committed):
            return NO_MEMORY
        if put_number(out, ',"sequence_number":', <uint64_t>gtid.sequence_number):
            return NO_MEMORY
        if self.put_known(
            out, ',"immediate_commit_us":', <uint64_t>gtid.immediate_commit_us, reached > 0
        ) or self.put_known(
            out, ',"original_commit_us":', <uint64_t>gtid.original_commit_us, reached > 0
        ) or self.put_known(
            out, ',"transaction_length":', gtid.transaction_length, reached > 1
        ) or self.put_known(
            out, ',"immediate_server_version":', <uint64_t>gtid.immediate_server_version, reached > 2
        ) or self.put_known(
            out, ',"original_server_version":', <uint64_t>gtid.original_server_version, reached > 2
        ) or self.put_known(
            out, ',"commit_group_ticket":', gtid.commit_group_ticket, reached > 3
        ):
            return NO_MEMORY
        if anonymous:
            return put_text(out, ',"gtid":null}')
        if put_text(out, ',"gtid":"') or put_mysql_gtid(out, first + gtid.sid_at, gtid.gno):
            return NO_MEMORY
        return put_text(out, '"}')

    cdef int put_mariadb_gtid(self, Output* out, const uint8_t* first, int64_t pos, int64_t end) except -1:
        """A transaction that is not of XA."""
        cdef GtidFields gtid = self.gtid
        if gtid.read_mariadb(self.view, pos + HEADER_BYTES, end) < 0 or gtid.xid_format >= 0:
            return LEFT
        if put_number(out, '{"seq_no":', gtid.seq_no):
            return NO_MEMORY
        if put_number(out, ',"domain_id":', <uint64_t>gtid.domain_id):
            return NO_MEMORY
        if put_text(out, ',"flags":') or self.put_flags(out, self.mariadb_flags, gtid.flags):
            return NO_MEMORY
        if self.put_known(
            out, ',"commit_id":', gtid.commit_id, gtid.flags & HAS_COMMIT_ID != 0
        ):
            return NO_MEMORY
        if put_text(out, ',"format_id":null,"gtrid":null,"bqual":null,"flags_extra":'):
            return NO_MEMORY
        if gtid.flags_extra < 0:
            if put_text(out, "null"):
                return NO_MEMORY
        elif self.put_flags(out, self.mariadb_extra_flags, gtid.flags_extra):
            return NO_MEMORY
        if put_number(out, ',"extra_engines":', <uint64_t>gtid.extra_engines):
            return NO_MEMORY
        if self.put_known(
            out,
            ',"start_alter_seq_no":',
            gtid.start_alter_seq_no,
            gtid.flags_extra > 0 and gtid.flags_extra & ENDS_ALTER != 0,
        ):
            return NO_MEMORY
        if self.put_known(out, ',"thread_id":', <uint64_t>gtid.thread_id, gtid.thread_id >= 0):
            return NO_MEMORY
        if put_text(out, ',"gtid":"'):
            return NO_MEMORY
        if put_mariadb_gtid(out, gtid.domain_id, load32(first + pos + SERVER_ID_AT), gtid.seq_no):
            return NO_MEMORY
        return put_text(out, '","xid":null}')
