"""The kernel of MySQL's JSON columns: a length, and the binary document, to the server's text."""

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.core.json_binary import JsonRenderer
from binlake.core.sink import VarSink

__all__ = ["JsonText"]


@cython.final
@cython.cclass
class JsonText(VarSink):
    """Documents behind a length of `prefix` bytes."""

    prefix: cython.int
    renderer: JsonRenderer

    def __init__(self, prefix: cython.int) -> None:
        VarSink.__init__(self)
        self.prefix = prefix
        self.renderer = JsonRenderer()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        if self.filled != row:
            self.fill(row)
        size: cython.Py_ssize_t = c.u32() if self.prefix == 4 else c.le_uint(self.prefix)
        self.renderer.render(c, size, self.out)
        self.offsets[row + 1] = cython.cast(cython.uint, self.out.size)
        self.filled = row + 1
        return 0
