"""The counterpart of BodyReader: writes an event body field by field.

Every method has the name of the method that reads the same field, and takes the field's name first,
so encoder and decoder look alike. A value that does not fit its field is a MalformedError that
names the field.
"""

from __future__ import annotations

from binlake.errors import MalformedError

_LENENC_DIRECT = 0xFB  # below it the byte is the number


def lenenc_bytes(value: int) -> bytes:
    """Encode a length-encoded integer in as few bytes as possible, as the servers do."""
    if 0 <= value < _LENENC_DIRECT:
        return bytes((value,))
    for head, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
        if 0 <= value < 1 << (8 * width):
            return bytes((head,)) + value.to_bytes(width, "little")
    raise MalformedError(f"{value} cannot be a length-encoded integer")


class BodyWriter:
    """Appends fields to `data`, the body."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def le_uint(self, name: str, width: int, value: int) -> None:
        """Unsigned, `width` bytes."""
        if not 0 <= value < 1 << (8 * width):
            raise MalformedError(f"{value} does not fit into {width} bytes", field=name)
        self.data += value.to_bytes(width, "little")

    def u8(self, name: str, value: int) -> None:
        self.le_uint(name, 1, value)

    def u16(self, name: str, value: int) -> None:
        self.le_uint(name, 2, value)

    def u32(self, name: str, value: int) -> None:
        self.le_uint(name, 4, value)

    def u64(self, name: str, value: int) -> None:
        self.le_uint(name, 8, value)

    def i64(self, name: str, value: int) -> None:
        """Two's complement, 8 bytes."""
        if not -(1 << 63) <= value < 1 << 63:
            raise MalformedError(f"{value} does not fit into 8 bytes", field=name)
        self.data += value.to_bytes(8, "little", signed=True)

    def lenenc(self, name: str, value: int) -> None:
        try:
            self.data += lenenc_bytes(value)
        except MalformedError as error:
            raise error.at(field=name) from None

    def take(self, name: str, count: int, raw: bytes | memoryview) -> None:
        """Exactly `count` bytes."""
        if len(raw) != count:
            raise MalformedError(f"{count} bytes belong here, not {len(raw)}", field=name)
        self.data += raw

    def rest(self, name: str, raw: bytes | bytearray | memoryview) -> None:
        """Write bytes unchanged: to the end of the event, or of a length that another field gives."""
        self.data += raw

    def counted(self, name: str, raw: bytes | bytearray | memoryview) -> None:
        """Bytes after their length-encoded length."""
        self.lenenc(name, len(raw))
        self.data += raw

    def short(self, name: str, raw: bytes | memoryview) -> None:
        """Bytes after their one-byte length."""
        self.u8(name, len(raw))
        self.data += raw

    def nul(self, name: str) -> None:
        """The zero byte that ends a name."""
        self.data += b"\0"

    def until_nul(self, name: str, raw: bytes) -> None:
        """Bytes and a zero byte that ends them."""
        if 0 in raw:
            raise MalformedError("a zero-terminated name cannot contain a zero byte", field=name)
        self.data += raw
        self.nul(name)
