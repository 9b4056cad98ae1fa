"""Reader of event bodies, field by field; `writer.py` is the counterpart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from binlake.core.memory.cursor import Cursor
from binlake.errors import MalformedError


class BodyReader:
    """Reads an event body field by field; `field` is the current field, for errors.

    A thin layer over the one bounds-checked Cursor: each read takes the field's name first.
    """

    __slots__ = ("body", "cursor", "field")

    def __init__(self, body: bytes | bytearray | memoryview) -> None:
        self.body = memoryview(body).cast("B")
        self.cursor = Cursor(self.body)
        self.field = ""

    def at(self, name: str) -> Cursor:
        """The cursor, about to read the field `name`."""
        self.field = name
        return self.cursor

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return self.cursor.left()

    @property
    def pos(self) -> int:
        """Offset in the body."""
        return self.cursor.pos

    def u8(self, name: str) -> int:
        return self.at(name).u8()

    def u16(self, name: str) -> int:
        return self.at(name).u16()

    def u32(self, name: str) -> int:
        return self.at(name).u32()

    def u64(self, name: str) -> int:
        return self.at(name).u64()

    def lenenc(self, name: str) -> int:
        return self.at(name).lenenc()

    def take(self, name: str, count: int) -> bytes:
        return self.at(name).take(count)

    def rest(self, name: str) -> bytes:
        """All bytes that are left."""
        return self.at(name).take(self.cursor.left())

    def rest_view(self, name: str) -> memoryview:
        """All bytes that are left, not copied."""
        cursor = self.at(name)
        start = cursor.pos
        cursor.skip(cursor.left())
        return self.body[start : cursor.pos]

    def counted_by(self, name: str, width: int) -> bytes:
        """Bytes after their length in `width` bytes."""
        cursor = self.at(name)
        return cursor.take(cursor.le_uint(width))

    def counted(self, name: str) -> bytes:
        """Bytes after their length-encoded length."""
        cursor = self.at(name)
        return cursor.take(cursor.length())

    def short(self, name: str) -> bytes:
        """Bytes after their one-byte length."""
        cursor = self.at(name)
        return cursor.take(cursor.u8())

    def nul(self, name: str) -> None:
        """The zero byte that ends a name."""
        if self.at(name).u8():
            raise MalformedError("the name does not end in a zero byte", offset=self.pos - 1)

    def until_nul(self, name: str) -> bytes:
        """Bytes up to a zero byte, which is consumed."""
        cursor = self.at(name)
        tail = bytes(self.body[cursor.pos : cursor.end])
        length = tail.find(b"\0")
        if length < 0:
            raise MalformedError("the name does not end in a zero byte", offset=cursor.pos)
        cursor.skip(length + 1)
        return tail[:length]

    @contextmanager
    def block(self, name: str, count: int) -> Iterator[None]:
        """Within it, reads end after `count` bytes; at its end, the position is there."""
        cursor = self.at(name)
        cursor.need(count)
        outer_end = cursor.end
        block_end = cursor.pos + count
        cursor.bound(cursor.pos, block_end)
        yield
        cursor.bound(block_end, outer_end)

    def name_text(self, name: str, raw: bytes) -> str:
        """An identifier: servers log it in utf8mb3, whatever the character set of the connection."""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(
                f"the name {raw!r} is not UTF-8", offset=self.pos, field=name
            ) from error
