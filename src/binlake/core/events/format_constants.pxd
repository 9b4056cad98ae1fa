# Numbers of the servers' format as C constants, which cost nothing in a loop. Each has the name and the value that it
# has in format/, where it is explained; tests/meta/test_core.py compares them.

# format/event_header.py
cdef enum:
    HEADER_BYTES = 19
    HEADER_BYTES_V1 = 13
    CHECKSUM_BYTES = 4
    TIMESTAMP_AT = 0
    TYPE_AT = 4
    SERVER_ID_AT = 5
    LENGTH_AT = 9
    LOG_POS_AT = 13
    FLAGS_AT = 17

# format/event_types.py
cdef enum:
    FORMAT_DESCRIPTION_EVENT = 15
    QUERY_HEADER_BYTES = 13  # the post-header length of QUERY_EVENT

# format/flags.py
cdef enum:
    LOG_EVENT_BINLOG_IN_USE_F = 0x0001
    LOG_EVENT_ARTIFICIAL_F = 0x0020
    LOG_EVENT_IGNORABLE_F = 0x0080
    ROWS_STMT_END_F = 0x0001
    FLAG_MAY_HAVE_SBR = 0x01
    FL_STANDALONE = 0x01
    FL_GROUP_COMMIT_ID = 0x02
    FL_TRANSACTIONAL = 0x04
    FL_ALLOW_PARALLEL = 0x08
    FL_WAITED = 0x10
    FL_DDL = 0x20
    FL_EXTRA_THREAD_ID = 0x10
