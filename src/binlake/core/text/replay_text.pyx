# cython: boundscheck=False
"""The text of `binlake mysqlbinlog` for the events that a log is full of.

A transaction of a busy server is GTID, BEGIN, statements of TABLE_MAP and rows events, and XID.
Their text is a place, a header line, and words that depend on little: the words about a table
are those of the same bytes before, the session of a BEGIN is that of the BEGIN before. The kernel
reuses the words that the printer (`replay/`) wrote for the same bytes, and writes the rest. It
writes the frame of a transaction, and each whole statement, in one step. `write` stops before
everything else. The printer then prints event by event, and the kernel learns the new words.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from binlake.core.events.format_constants cimport (
    CHECKSUM_BYTES,
    FL_ALLOW_PARALLEL,
    FL_DDL,
    FL_EXTRA_THREAD_ID,
    FL_GROUP_COMMIT_ID,
    FL_STANDALONE,
    FL_TRANSACTIONAL,
    FL_WAITED,
    FLAG_MAY_HAVE_SBR,
    FLAGS_AT,
    HEADER_BYTES,
    LENGTH_AT,
    ROWS_STMT_END_F,
    SERVER_ID_AT,
    TIMESTAMP_AT,
    TYPE_AT,
)
from binlake.core.events.gtid cimport GtidFields
from binlake.core.memory.reader cimport load16, load32, load64
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
    XID,
)
from binlake.core.text.replay_lines cimport (
    Clock,
    put_at,
    put_base64,
    put_commit,
    put_header,
    start_clock,
)
from binlake.core.text.text_output cimport (
    NO_MEMORY,
    OK,
    Output,
    TextBuffer,
    TextWriter,
    put,
    put_byte,
    put_digits,
    put_mariadb_gtid,
    put_mysql_gtid,
    put_number,
    put_text,
)


cdef class ReplayText(TextWriter):
    """Writes the text of plain events of one log format.

    `table` is the format's `KindTable`. `prints_base64`: statements are BINLOG
    statements; `says_queries`: statements behind row changes are shown (-vv of MySQL, always of
    MariaDB); `counts_rows`: how many rows a statement changed is said (MariaDB).

    The words of the printer are in `table_words` (by `server_version` and body of a TABLE_MAP),
    `rows_words` (by type, table id and flags), `queries` (by state of the session, header flags
    and body: what stands before and behind the timestamp, and the state after it).

    `in_transaction`, `has_gtid` (one was named), `names_next` (and belongs to what comes next),
    `server_version` (of the transaction, as MySQL's GTID event says it) and `state` (of the session) are
    those before `write`, and after it.
    """

    cdef public dict table_words, rows_words, queries
    cdef public bint in_transaction, has_gtid, names_next
    cdef public int64_t server_version
    cdef public object state
    # the last settings of MariaDB's session
    cdef public object parallel, domain_id, server_id
    cdef bytes kinds, id_bytes
    cdef bint mariadb, prints_base64, says_queries, counts_rows
    cdef Clock clock
    cdef GtidFields gtid
    cdef const uint8_t[::1] view

    def __init__(
        self,
        table,
        *,
        bint mariadb,
        bint prints_base64,
        bint says_queries,
        bint counts_rows,
    ):
        self.kinds, self.id_bytes, _ = table
        self.mariadb = mariadb
        self.prints_base64, self.says_queries = prints_base64, says_queries
        self.counts_rows = counts_rows
        self.table_words, self.rows_words, self.queries = {}, {}, {}
        self.gtid = GtidFields()
        start_clock(&self.clock)

    def write(self, data, int64_t pos, int64_t end, int64_t base, changes):
        """Write the events from `data[pos]` on, whose file offset is `base` + `pos`; returns where
        it ended, `end` or the first event that is left to the printer, and how many they are.

        `changes` has for the file offset of a rows event the number of its rows and their
        comments; None where neither is wanted.
        """
        cdef const uint8_t[::1] view = data
        cdef const uint8_t* first
        cdef Output* out = &self.text.out
        cdef int64_t begun, after, written
        cdef int kind, failed
        cdef int64_t frames = 0
        if not 0 <= pos <= end <= view.shape[0]:
            raise IndexError(f"[{pos}, {end}) of {view.shape[0]} bytes")
        if pos == end:
            return pos, 0
        first = &view[0]
        self.view = view
        while pos < end:
            after = self.end_of(first, pos, end)
            if after < 0:
                break
            kind = self.kinds[first[pos + TYPE_AT]]
            begun = out.used
            written = 1
            if kind == TABLE_MAP or kind == ROWS_QUERY or kind == ANNOTATE_ROWS:
                after = self.end_of_statement(first, pos, end, &written)
                if after < 0:
                    break
                failed = self.put_statement(out, first, pos, after, base, changes)
            elif kind == QUERY:
                failed = self.put_query(out, first, pos, after, base)
            elif kind == GTID or kind == ANONYMOUS_GTID:
                failed = self.put_gtid(out, first, pos, after, base)
            elif kind == MARIADB_GTID:
                failed = self.put_mariadb_gtid(out, first, pos, after, base)
            elif kind == XID:
                failed = self.put_xid(out, first, pos, after, base)
            else:
                break
            if failed == NO_MEMORY:
                raise MemoryError
            if failed:
                out.used = begun
                break
            frames += written
            pos = after
        return pos, frames

    cdef int64_t end_of(self, const uint8_t* first, int64_t pos, int64_t end) noexcept:
        """Where the event at `pos` ends; -1 if it is not wholly before `end`."""
        cdef int64_t length
        if end - pos < HEADER_BYTES:
            return -1
        length = load32(first + pos + LENGTH_AT)
        if length < HEADER_BYTES + CHECKSUM_BYTES or length > end - pos:
            return -1
        return pos + length

    cdef int64_t end_of_statement(
        self, const uint8_t* first, int64_t pos, int64_t end, int64_t* events
    ):
        """Where the statement ends that begins at `pos`; -1 if not all of it is plain."""
        cdef int64_t after, flags_at
        cdef int kind
        cdef bint has_table = False
        events[0] = 0
        while True:
            after = self.end_of(first, pos, end)
            if after < 0:
                return -1
            kind = self.kinds[first[pos + TYPE_AT]]
            events[0] += 1
            if kind == TABLE_MAP:
                has_table = True
            elif kind == ROWS:
                flags_at = pos + HEADER_BYTES + <int64_t>self.id_bytes[first[pos + TYPE_AT]]
                if not has_table or flags_at + 2 > after - CHECKSUM_BYTES:
                    return -1
                if first[flags_at] & ROWS_STMT_END_F:
                    return after
            elif (kind != ROWS_QUERY and kind != ANNOTATE_ROWS) or has_table or events[0] > 1:
                return -1
            pos = after

    # -- the lines before the words of an event

    cdef int put_place(self, Output* out, const uint8_t* first, int64_t pos, int64_t after, int64_t base) noexcept:
        """The place and the header line of an event."""
        if put_at(out, base + pos):
            return NO_MEMORY
        return put_header(out, &self.clock, first + pos, after - pos)

    # -- transactions

    cdef int put_xid(self, Output* out, const uint8_t* first, int64_t pos, int64_t after, int64_t base):
        if after - pos != HEADER_BYTES + 8 + CHECKSUM_BYTES:
            return LEFT
        if self.put_place(out, first, pos, after, base) or put_text(out, "\tXid = "):
            return NO_MEMORY
        if put_digits(out, load64(first + pos + HEADER_BYTES), False):
            return NO_MEMORY
        self.in_transaction = self.names_next = False
        return put_text(out, "\nCOMMIT/*!*/;\n")

    cdef int put_query(self, Output* out, const uint8_t* first, int64_t pos, int64_t after, int64_t base):
        cdef bytes body = first[pos + HEADER_BYTES : after - CHECKSUM_BYTES]
        cdef int flags = load16(first + pos + FLAGS_AT)
        found = self.queries.get((self.state, flags, body))
        if found is None:
            return LEFT
        cdef bytes before = found[0]
        cdef bytes behind = found[1]
        if self.put_place(out, first, pos, after, base) or put(out, before, len(before)):
            return NO_MEMORY
        if put_digits(out, load32(first + pos + TIMESTAMP_AT), False):
            return NO_MEMORY
        self.state = found[2]
        self.in_transaction = True
        return put(out, behind, len(behind))

    cdef int put_gtid(self, Output* out, const uint8_t* first, int64_t pos, int64_t after, int64_t base):
        """MySQL 8.0 and newer: all fields up to the server versions."""
        cdef GtidFields gtid = self.gtid
        cdef bint anonymous = self.kinds[first[pos + TYPE_AT]] == ANONYMOUS_GTID
        if gtid.read_mysql(self.view, pos + HEADER_BYTES, after - CHECKSUM_BYTES) < 0:
            return LEFT
        if gtid.reached < 3 or (gtid.gno < 1 and not anonymous):
            return LEFT
        if gtid.last_committed < 0 or gtid.sequence_number < 0:
            return LEFT
        if self.put_place(out, first, pos, after, base):
            return NO_MEMORY
        if put_text(out, "\tAnonymous_GTID" if anonymous else "\tGTID"):
            return NO_MEMORY
        if put_number(out, "\tlast_committed=", <uint64_t>gtid.last_committed):
            return NO_MEMORY
        if put_number(out, "\tsequence_number=", <uint64_t>gtid.sequence_number):
            return NO_MEMORY
        if put_text(out, "\trbr_only=no" if gtid.flags & FLAG_MAY_HAVE_SBR else "\trbr_only=yes"):
            return NO_MEMORY
        if put_number(out, "\toriginal_committed_timestamp=", <uint64_t>gtid.original_commit_us):
            return NO_MEMORY
        if put_number(out, "\timmediate_commit_timestamp=", <uint64_t>gtid.immediate_commit_us):
            return NO_MEMORY
        if put_number(out, "\ttransaction_length=", <uint64_t>gtid.transaction_length):
            return NO_MEMORY
        if put_byte(out, c"\n"):
            return NO_MEMORY
        if not gtid.flags & FLAG_MAY_HAVE_SBR and put_text(
            out, "/*!50718 SET TRANSACTION ISOLATION LEVEL READ COMMITTED*//*!*/;\n"
        ):
            return NO_MEMORY
        if put_commit(out, &self.clock, "original", <uint64_t>gtid.original_commit_us):
            return NO_MEMORY
        if put_commit(out, &self.clock, "immediate", <uint64_t>gtid.immediate_commit_us):
            return NO_MEMORY
        if _put_variable(
            out, "80001", "original_commit_timestamp", <uint64_t>gtid.original_commit_us
        ) or _put_variable(
            out, "80014", "original_server_version", <uint32_t>gtid.original_server_version
        ) or _put_variable(
            out, "80014", "immediate_server_version", <uint32_t>gtid.immediate_server_version
        ):
            return NO_MEMORY
        if put_text(out, "SET @@SESSION.GTID_NEXT= '"):
            return NO_MEMORY
        if anonymous:
            if put_text(out, "ANONYMOUS"):
                return NO_MEMORY
        else:
            if put_mysql_gtid(out, first + gtid.sid_at, gtid.gno):
                return NO_MEMORY
        self.has_gtid = self.names_next = True
        self.server_version = gtid.immediate_server_version
        return put_text(out, "'/*!*/;\n")

    cdef int put_mariadb_gtid(self, Output* out, const uint8_t* first, int64_t pos, int64_t after, int64_t base):
        """A transaction of the domain, server and flags that the session was told last."""
        cdef GtidFields gtid = self.gtid
        cdef uint32_t server = load32(first + pos + SERVER_ID_AT)
        if after - pos < HEADER_BYTES + 19 + CHECKSUM_BYTES:
            return LEFT
        if gtid.read_mariadb(self.view, pos + HEADER_BYTES, after - CHECKSUM_BYTES) < 0:
            return LEFT
        if gtid.flags & FL_STANDALONE or gtid.flags & 0xC0:  # XA
            return LEFT
        if self.domain_id != gtid.domain_id or self.server_id != server:
            return LEFT
        if self.parallel is None or <bint>self.parallel != (gtid.flags & FL_ALLOW_PARALLEL != 0):
            return LEFT
        if gtid.flags_extra >= 0 and gtid.flags_extra & ~FL_EXTRA_THREAD_ID:
            return LEFT
        if self.put_place(out, first, pos, after, base) or put_text(out, "\tGTID "):
            return NO_MEMORY
        if put_mariadb_gtid(out, gtid.domain_id, server, gtid.seq_no):
            return NO_MEMORY
        if gtid.flags & FL_GROUP_COMMIT_ID and (
            put_number(out, " cid=", gtid.commit_id)
        ):
            return NO_MEMORY
        if gtid.flags & FL_DDL and put_text(out, " ddl"):
            return NO_MEMORY
        if gtid.flags & FL_TRANSACTIONAL and put_text(out, " trans"):
            return NO_MEMORY
        if gtid.flags & FL_WAITED and put_text(out, " waited"):
            return NO_MEMORY
        if gtid.thread_id >= 0 and (
            put_number(out, " thread_id=", <uint64_t>gtid.thread_id)
        ):
            return NO_MEMORY
        if put_number(out, "\n/*M!100001 SET @@session.gtid_seq_no=", gtid.seq_no):
            return NO_MEMORY
        return put_text(out, "*//*!*/;\nSTART TRANSACTION\n/*!*/;\n")

    # -- statements of row changes

    cdef int put_statement(
        self, Output* out, const uint8_t* first, int64_t pos, int64_t after, int64_t base, changes
    ):
        cdef int64_t begun = pos
        cdef int64_t end, annotation = -1
        cdef int kind, failed
        cdef int64_t rows = 0
        cdef bytes words
        cdef TextBuffer heads = TextBuffer()  # MariaDB prints all of them together
        cdef Output* head_out = &heads.out if self.mariadb else out
        while pos < after:
            end = self.end_of(first, pos, after)
            kind = self.kinds[first[pos + TYPE_AT]]
            if put_at(out, base + pos):
                return NO_MEMORY
            if kind == ANNOTATE_ROWS:
                annotation = pos
            elif kind == ROWS_QUERY:
                if self.says_queries:
                    failed = self.put_statement_text(
                        out, first + pos, end - pos, 1, "\tRows_query\n# "
                    )
                    if failed:
                        return failed
            elif kind == TABLE_MAP:
                if annotation >= 0 and self.says_queries:
                    failed = self.put_statement_text(
                        out, first + annotation, self.end_of(first, annotation, after) - annotation,
                        0, "\tAnnotate_rows:\n#Q> ",
                    )
                    if failed:
                        return failed
                annotation = -1
                words = self.table_words.get(
                    (self.server_version, first[pos + HEADER_BYTES : end - CHECKSUM_BYTES])
                )
                if words is None:
                    return LEFT
                if put_header(out, &self.clock, first + pos, end - pos) or put(out, words, len(words)):
                    return NO_MEMORY
            else:
                words = self.rows_words.get(
                    (
                        first[pos + TYPE_AT],
                        first[pos + HEADER_BYTES : pos + HEADER_BYTES + 2
                              + <int64_t>self.id_bytes[first[pos + TYPE_AT]]],
                    )
                )
                if words is None:
                    return LEFT
                if put_header(head_out, &self.clock, first + pos, end - pos):
                    return NO_MEMORY
                if put(head_out, words, len(words)):
                    return NO_MEMORY
            pos = end
        if self.mariadb and put(out, heads.out.data, heads.out.used):
            return NO_MEMORY
        if self.prints_base64:
            failed = self.put_binlog(out, first, begun, after)
            if failed:
                return failed
        if changes is not None:
            pos = begun
            while pos < after:
                end = self.end_of(first, pos, after)
                if self.kinds[first[pos + TYPE_AT]] == ROWS:
                    failed = self.put_changes(out, changes.get(base + pos), &rows)
                    if failed:
                        return failed
                pos = end
        if self.counts_rows:
            if put_number(out, "# Number of rows: ", <uint64_t>rows):
                return NO_MEMORY
            return put_byte(out, c"\n")
        return OK

    cdef int put_binlog(self, Output* out, const uint8_t* first, int64_t pos, int64_t after) noexcept:
        cdef int64_t end
        cdef int kind
        if put_text(out, "\nBINLOG '\n"):
            return NO_MEMORY
        while pos < after:
            end = self.end_of(first, pos, after)
            kind = self.kinds[first[pos + TYPE_AT]]
            # the server that replays it logs the statement behind the changes again
            if kind != ANNOTATE_ROWS and (kind != ROWS_QUERY or self.says_queries):
                if put_base64(out, first + pos, end - pos):
                    return NO_MEMORY
            pos = end
        return put_text(out, "'/*!*/;\n")

    cdef int put_changes(self, Output* out, found, int64_t* rows) except -1:
        cdef const uint8_t[::1] comments
        if found is None:
            return OK
        rows[0] += <int64_t>found[0]
        if len(found[1]):
            comments = found[1]
            return put(out, <const char*>&comments[0], comments.shape[0])
        return OK

    cdef int put_statement_text(
        self, Output* out, const uint8_t* event, int64_t length, int prefix, const char* words
    ) noexcept:
        """The header and text of a statement that was logged beside its changes: of plain ASCII."""
        cdef const uint8_t* text = event + HEADER_BYTES + prefix
        cdef int64_t size = length - HEADER_BYTES - CHECKSUM_BYTES - prefix
        cdef int64_t i
        if size < 0:
            return LEFT
        for i in range(size):
            if text[i] < 32 or text[i] >= 127:
                return LEFT
        if put_header(out, &self.clock, event, length) or put_text(out, words):
            return NO_MEMORY
        if put(out, <const char*>text, size):
            return NO_MEMORY
        return put_byte(out, c"\n")


cdef inline int _put_variable(
    Output* out, const char* since, const char* name, uint64_t value
) noexcept nogil:
    """A statement that sets a variable of the session, for servers that know it."""
    if put_text(out, "/*!") or put_text(out, since) or put_text(out, " SET @@session."):
        return NO_MEMORY
    if put_text(out, name) or put_number(out, "=", value):
        return NO_MEMORY
    return put_text(out, "*//*!*/;\n")
