# The groups of event types that the writers of text distinguish.

cpdef enum EventKind:
    OTHER = 0
    QUERY = 1
    TABLE_MAP = 2
    ROWS = 3
    XID = 4
    GTID = 5
    ANONYMOUS_GTID = 6
    MARIADB_GTID = 7
    ROWS_QUERY = 8
    ANNOTATE_ROWS = 9

cdef enum:
    LEFT = 2  # beside OK and NO_MEMORY: left to the code that reads the typed event

cdef enum:
    VERSION_2 = 16  # beside the number of bitmaps
