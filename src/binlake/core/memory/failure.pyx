"""Errors of code that runs without the interpreter's lock, and the exceptions that they become.

A function without the lock describes an error in a `Failure` and returns -1. The caller that takes the
lock back raises the exception that `error_of` makes of it.
"""

from binlake.errors import MalformedError, MissingContextError, TruncatedError, UnsupportedError


cdef int fail(
    Failure* failure, Fault fault, int64_t offset, int64_t need, int64_t have
) noexcept nogil:
    """Describe a failure; returns -1."""
    failure.fault = fault
    failure.offset = offset
    failure.need = need
    failure.have = have
    return -1


# MariaDB writes fractions in the old formats, too, and its logs do not contain the number of digits
_OLD_HINT = "if the column has fractional digits, give its CREATE TABLE with the option schema"

# The texts of MalformedErrors (`{0}`: need, `{1}`: have).
_MALFORMED = {
    NOT_A_LENGTH: "0x{0:02X} does not begin a length-encoded integer",
    NOT_A_CHARACTER: "0x{0:02X} is no character of its set",
    NOT_DIGITS: "{0} is not a group of {1} decimal digits",
    NOT_A_DECIMAL: "DECIMAL({0},{1}) does not exist",
    NOT_A_DATE: "the bytes are not a DATE",
    NOT_A_DATETIME: "the bytes are not a DATETIME",
    NOT_A_DATETIME_OLD: "the bytes are not a DATETIME",
    NOT_A_TIME: "the bytes are not a TIME",
    NOT_A_TIME_OLD: "the bytes are not a TIME",
    NOT_A_TIMESTAMP: "the bytes are not a TIMESTAMP",
    JSON_TYPE: "malformed JSON: no value has type 0x{0:02X}",
    JSON_DEPTH: "malformed JSON: more than {0} containers inside each other",
    JSON_BEYOND: "malformed JSON: a value goes beyond its container",
    JSON_OVERLAP: "malformed JSON: values overlap",
    JSON_SIZE: "malformed JSON: a container is larger than what holds it",
    JSON_KEY: "malformed JSON: a key lies inside the entries",
    JSON_VALUE: "malformed JSON: a value lies inside the entries",
    JSON_LITERAL: "malformed JSON: {0} is none of null, true, false",
    JSON_LENGTH: "malformed JSON: a length has more than 5 bytes",
    JSON_TEXT: "malformed JSON: a string is not UTF-8",
    JSON_NUMBER: "malformed JSON: a number is infinite or none",
    JSON_DIGITS: "malformed JSON: the digits of a DECIMAL are not as many as it says",
    JSON_DATE: "malformed JSON: the bytes are not a date or time",
    EXTRA_HEADER: "the extra header of a rows event cannot be {0} bytes",
    TOO_MANY_COLUMNS: "a table cannot have {0} columns",
    OTHER_WIDTH: "the rows have {0} columns, their table map {1}",
    NO_COLUMNS: "rows without columns cannot have bytes",
    NOT_A_ROW: "a packet that begins with 0x{0:02X} is not a row",
    LEFT_OVER: "{0} bytes follow the last value of a row",
    NOT_A_BIT_STRING: "a BIT value cannot have {0} bytes",
    NOT_DECIMAL_TEXT: "the text is not a DECIMAL of the column's digits",
}

# Other arguments of MalformedErrors.
_MORE = {
    NOT_A_DATETIME_OLD: {"hint": _OLD_HINT},
    NOT_A_TIME_OLD: {"hint": _OLD_HINT},
    EXTRA_HEADER: {"field": "extra"},
    TOO_MANY_COLUMNS: {"field": "width"},
    OTHER_WIDTH: {"field": "width"},
    NO_COLUMNS: {"field": "rows"},
}


cdef object error_of(Failure* failure, object plans):
    """The exception that describes a failure. `plans` are those of the columns, or None."""
    cdef Fault fault = failure.fault
    offset = failure.offset if failure.offset >= 0 else None
    need, have = failure.need, failure.have
    if fault == CUT_OFF or fault == NO_BODY:
        text = f"the event ends too early: {need} bytes needed, {have} left"
        if fault == NO_BODY:
            text = "the event has no body"
        return TruncatedError(text, need=need, have=have, offset=offset)
    if fault == NO_MEMORY:
        return MemoryError("the decoded rows do not fit into memory; lower batch_bytes")
    if fault == OUTSIDE_DATA:
        return ValueError(f"range [{need}, {have}) is outside the buffer")
    if fault == UNDECODABLE:
        return UnsupportedError(plans[failure.column].why)
    if fault == COLUMN_FULL:
        return UnsupportedError(
            "one batch would hold more than 2 GiB of one column",
            offset=offset,
            hint="lower batch_bytes",
        )
    if fault == NO_TABLE_MAP:
        return MissingContextError(
            f"no TABLE_MAP event of the statement names table id {need}",
            offset=offset,
            hint="read from the start of the transaction",
        )
    if fault == NO_TRANSACTION:
        return MissingContextError("row changes stand outside of a transaction", offset=offset)
    text = _MALFORMED[fault].format(need, have)
    return MalformedError(text, offset=offset, **_MORE.get(fault, {}))
