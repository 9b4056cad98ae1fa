"""The compiled core: from the bytes of events to the buffers of Arrow arrays.

    memory the checked readers, growing bytes, errors as a struct
    events    headers and checksums of a part of a log; GTIDs; the effect of each event on transactions
    values    single values to numbers and to text: decimals, times, binary JSON
    rows      rows events to columns: `walk` is the Python side, `walk_loop` the loop over events,
              `table_sink` the changes of a table, `image` and `row_values` their values, `sink` one column
    text      events and rows as text, for the commands

The way of a rows event (`rows`, `values`) runs without the interpreter's lock, over C structs.

A `.py` is Cython's pure-Python mode, with bounds checks on. Three habits of it: numbers that do not fit an int
are C constants (`cython.declare`), since Cython makes a literal of that size a Python object; signatures in a
`.pxd` end in `except -1`, since without it a caller asks for an exception after every call; and a `.py` whose
method is declared in its `.pxd` has no `cfunc` decorator.
"""
