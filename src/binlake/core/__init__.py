"""The compiled core: from the bytes of events to the buffers of Arrow arrays.

    frames, checksum       common headers of a stretch of a log; CRC32
    packets, gtid_runs     events out of the packets of a replication stream; their GTIDs
    steps, control_text    what each frame means for transactions
    cursor, buffers        the bounds-checked reader of Python code; growing output
    gtid, inflate          bodies of hot events
    event_lines, text_*    events and rows as text

The way of a rows event runs without the interpreter's lock, over C structs:

    failure, reader        what went wrong, as a struct; the checked reader
    growing                growing bytes, which Arrow takes over
    decimals, temporal*, json_binary, number_text   values to numbers and to text
    sink                   one column: its memory, and the decoding of one value
    image, partial         row images; those with JSON differences (json_diff)
    rows_header, table_sink, transactions   one rows event; changes of a table; their transactions
    walk, walk_loop        frames to row changes: the Python side and the loop; actions: by event type

A `.py` is Cython's pure-Python mode, with bounds checks on. Three habits of it: numbers that do
not fit an int are C
constants (`cython.declare`), since Cython makes a literal of that size a
Python object; signatures in a
`.pxd` end in `except -1`, since without it a caller asks for an exception after every call; and a
`.py` whose method is declared in its `.pxd` has no `cfunc` decorator.
"""
