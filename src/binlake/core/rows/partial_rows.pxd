# Rows events with JSON differences.

from binlake.core.rows.walk_loop cimport Walk

cdef int take_partial_rows(Walk* w, object data) except -1
