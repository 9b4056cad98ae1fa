"""Growing byte buffers that Arrow takes over without a copy, and bytes to compare with.

The only places of the core where bytes move in blocks (memcpy, memcmp when compiled) are
here; both check their bounds first.
"""

from __future__ import annotations

import cython

from binlake.core.memory.cursor import Cursor
from binlake.errors import UnsupportedError

__all__ = ["MAX_BYTES", "ByteBuffer", "ByteKey"]

MAX_BYTES = 0x7FFF_FFFF  # Arrow's string layout counts with int32
_LIMIT = cython.declare(cython.Py_ssize_t, 0x7FFF_FFFF)
_SMALLEST = cython.declare(cython.Py_ssize_t, 256)


@cython.final
@cython.cclass
class ByteBuffer:
    """Bytes appended at the end, `size` of them. Writers call `reserve`, then write into
    `view` at `size` and advance it, or append whole pieces with `copy` and `put`.
    """

    def __init__(self) -> None:
        self.size = 0
        self.capacity = 0
        self.first = _SMALLEST
        self.raw = bytearray()
        self.view = memoryview(self.raw)

    def reserve(self, extra: cython.Py_ssize_t) -> int:
        """Make room for `extra` more bytes; returns 0.

        Raises UnsupportedError beyond what one Arrow string column can hold.
        """
        wanted: cython.Py_ssize_t = self.size + extra
        if wanted <= self.capacity:
            return 0
        if wanted > _LIMIT:
            raise UnsupportedError(
                "one batch would hold more than 2 GiB of one column", hint="lower batch_bytes"
            )
        wanted = max(wanted, 2 * self.capacity, self.first)
        wanted = min(wanted, _LIMIT)
        if (
            cython.compiled
        ):  # the same without zeroing: `finish` returns only bytes that were written
            grown = PyByteArray_FromStringAndSize(cython.NULL, wanted)  # noqa: F821 - cimported
        else:
            grown = bytearray(wanted)
        grown[: self.size] = memoryview(self.raw)[: self.size]
        self.raw = grown
        self.capacity = len(grown)
        self.view = memoryview(grown)
        return 0

    def copy(self, cursor: Cursor, count: cython.Py_ssize_t) -> int:
        """Append the next `count` bytes of `cursor`, which steps over them; returns 0."""
        if count < 0 or cursor.end - cursor.pos < count:
            cursor.need(count)
        if self.size + count > self.capacity:
            self.reserve(count)
        at: cython.Py_ssize_t = self.size
        pos: cython.Py_ssize_t = cursor.pos
        if cython.compiled:
            if count > 0:
                memcpy(  # noqa: F821 - cimported in buffers.pxd
                    cython.address(self.view[at]), cython.address(cursor.data[pos]), count
                )
        else:
            self.view[at : at + count] = cursor.view[pos : pos + count]
        self.size = at + count
        cursor.pos = pos + count
        return 0

    def put(self, data: bytes) -> int:
        """Append `data`; returns 0."""
        count: cython.Py_ssize_t = len(data)
        if self.size + count > self.capacity:
            self.reserve(count)
        if cython.compiled:
            if count > 0:
                memcpy(  # noqa: F821 - cimported in buffers.pxd
                    cython.address(self.view[self.size]), cython.cast(cython.p_char, data), count
                )
        else:
            self.view[self.size : self.size + count] = data
        self.size += count
        return 0

    def detach(self) -> memoryview:
        """Hand over the bytes, without a copy, and start again, empty.

        A batch is mostly as large as the one before, so the first byte of the next one takes
        that much room at once.
        """
        taken = memoryview(self.raw)[: self.size]
        self.first = max(self.size + (self.size >> 4), _SMALLEST)
        self.raw = bytearray()
        self.view = memoryview(self.raw)
        self.capacity = 0
        self.size = 0
        return taken


@cython.final
@cython.cclass
class ByteKey:
    """Bytes that are looked for in a buffer; `size` of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.view = data
        self.size = len(data)

    def at(self, cursor: Cursor, pos: cython.Py_ssize_t) -> bool:
        """Whether these bytes are at `pos` of the cursor's buffer, before the cursor's end."""
        if pos < 0 or cursor.end - pos < self.size:
            return False
        if cython.compiled:
            return self.size == 0 or (
                memcmp(  # noqa: F821 - cimported in buffers.pxd
                    cython.address(cursor.data[pos]), cython.address(self.view[0]), self.size
                )
                == 0
            )
        else:  # noqa: RET505 - only one branch is compiled
            return cursor.view[pos : pos + self.size] == self.view
