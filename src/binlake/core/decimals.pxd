from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport Sink128, VarSink
