# The C view of json_diff.py: the cimports of the compiled modules it uses.

from binlake.core.buffers cimport ByteBuffer
from binlake.core.cursor cimport Cursor
from binlake.core.json_binary cimport JsonRenderer
