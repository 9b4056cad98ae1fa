# Errors of code that cannot raise exceptions.

from libc.stdint cimport int64_t

cdef enum Fault:
    NO_FAULT
    # of the reader
    CUT_OFF  # need, have
    NOT_A_LENGTH  # need: the first byte of a length-encoded integer
    # of memory
    NO_MEMORY
    COLUMN_FULL
    # of values
    NOT_A_CHARACTER  # need: the byte
    NOT_DIGITS  # need: the value of the group, have: its digits
    NOT_A_DECIMAL  # need: precision, have: scale
    NOT_A_DATE
    NOT_A_DATETIME
    NOT_A_DATETIME_OLD
    NOT_A_TIME
    NOT_A_TIME_OLD
    NOT_A_TIMESTAMP
    UNDECODABLE  # column
    # of JSON
    JSON_TYPE  # need: the type
    JSON_DEPTH
    JSON_BEYOND
    JSON_OVERLAP
    JSON_SIZE
    JSON_KEY
    JSON_VALUE
    JSON_LITERAL  # need: the number that is none
    JSON_LENGTH
    JSON_TEXT
    JSON_NUMBER
    JSON_DIGITS
    JSON_DATE
    # of rows events
    EXTRA_HEADER  # need: its bytes
    TOO_MANY_COLUMNS  # need: how many
    OTHER_WIDTH  # need: of the rows, have: of the table map
    NO_COLUMNS
    # of result rows
    NOT_A_ROW  # need: the first byte of the packet
    LEFT_OVER  # need: bytes behind the last value
    NOT_A_BIT_STRING  # need: its bytes
    NOT_DECIMAL_TEXT
    # of the walk
    NO_BODY  # need
    OUTSIDE_DATA  # need, have: the range
    NO_TABLE_MAP  # need: the table id
    NO_TRANSACTION

cdef struct Failure:
    Fault fault
    int64_t column  # ordinal; for UNDECODABLE
    int64_t offset  # inside the event body; -1: there is none
    int64_t need
    int64_t have

cdef int fail(Failure* failure, Fault fault, int64_t offset, int64_t need, int64_t have) noexcept nogil
cdef object error_of(Failure* failure, object plans)
