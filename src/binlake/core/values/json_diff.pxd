# The C view of json_diff.py: the cimports of the compiled modules it uses.

from binlake.core.memory.cursor cimport Cursor
