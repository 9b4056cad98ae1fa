from binlake.core.cursor cimport Cursor
from binlake.core.json_binary cimport JsonRenderer
from binlake.core.sink cimport VarSink
