from libc.string cimport memcpy

from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport Sink, Sink8, Sink16, Sink32, Sink64, Sink128
