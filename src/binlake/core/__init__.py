"""The compiled core: from the bytes of events to the buffers of Arrow arrays.

Cython's pure-Python mode: every module is Python that also runs uncompiled, with identical
results, and the tests run both. Bounds checks stay on. A sibling `.pxd` declares what other
compiled modules cimport (or a C function that a module needs).

    frames, checksum       common headers of a stretch of a log; CRC32
    packets, gtid_runs     events out of the packets of a replication stream; their GTIDs
    steps, control_text    what each frame means for transactions
    cursor, buffers        the one bounds-checked reader; growing output
    rows_header, gtid, inflate   heads and bodies of hot events
    sink, sinks            one column: what all kernels share; from a plan to its kernel
    numeric, decimals, temporal*, varlen   the kernels; json_binary, number_text: texts of JSON
    image, table_sink, transactions   row images, changes of a table, their transactions
    walk, actions          the loop over frames that feeds them; what it does with which type

Three habits of the compiled code: numbers larger than an int's are C constants
(`cython.declare`), since a literal were a Python object; signatures in a `.pxd` end in `except
-1`, since without it a caller asks for an exception after every call; and a `.py` whose
method is declared in its `.pxd` has no `cfunc` decorator.
"""
