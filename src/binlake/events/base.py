"""What every typed event is: a frame, fields in the order of the wire, and their JSON.

A family's file declares a dataclass whose fields are the event's, and `decode`, which reads
them with a BodyReader. How its fields are shown is said there too (`renders`), so `to_fields`
is written once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from binlake.core.cursor import Cursor
from binlake.errors import MalformedError
from binlake.format.event_types import event_name
from binlake.format.flags import flag_names
from binlake.values.frame import EventFormat, Frame

__all__ = [
    "HIDDEN",
    "BodyReader",
    "Event",
    "Render",
    "bits",
    "file_name_text",
    "json_value",
    "text_or_hex",
]

Render = Callable[[Any], Any]

#: For `Event.renders`: `to_fields` leaves the field out.
HIDDEN = None


class BodyReader:
    """An event body, read field by field; `field` names what is being read, for errors.

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

    def u24(self, name: str) -> int:
        return self.at(name).u24()

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
        """An identifier: servers log them in utf8mb3 whatever the connection speaks."""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(
                f"the name {raw!r} is not UTF-8", offset=self.pos, field=name
            ) from error


def text_or_hex(raw: bytes) -> str:
    """Text whose character set the event does not tell: UTF-8, or 0x… when it is not that."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + raw.hex()


def file_name_text(raw: bytes) -> str:
    """A file name in the server's file system encoding; bytes outside UTF-8 are escaped."""
    return raw.decode("utf-8", "backslashreplace")


def json_value(value: Any) -> Any:
    """A field's value as JSON knows it: bytes as hex, sequences as lists, values by their text."""
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return str(value)


def bits(table: Mapping[int, str]) -> Render:
    """Shows a bit set as the list of the names of its bits."""
    return lambda value: flag_names(table, value)


@dataclass(slots=True)
class Event:
    """One decoded event. Subclasses add the body's fields in wire order.

    `renders` says how `to_fields` shows a field where `json_value` is not enough (HIDDEN: not
    at all, a property shows what it means); `extra_fields` names properties that it shows
    after the fields.
    """

    renders: ClassVar[Mapping[str, Render | None]] = {}
    extra_fields: ClassVar[tuple[str, ...]] = ()

    frame: Frame

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        """Read the body. Raises FormatError, UnsupportedError."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The type as the server's enumeration spells it."""
        return event_name(self.frame.type_code)

    def to_fields(self) -> dict[str, Any]:
        """The body's fields, ready for JSON: bytes as hex, bit sets as lists of names."""
        shown_fields: dict[str, Any] = {}
        for name, render in _renderers(type(self)):
            value = getattr(self, name)
            shown_fields[name] = None if value is None else render(value)
        return shown_fields


_RENDERERS: dict[type[Event], tuple[tuple[str, Render], ...]] = {}


def _renderers(cls: type[Event]) -> tuple[tuple[str, Render], ...]:
    """(field, how it is shown) of a class, in order; found once."""
    known = _RENDERERS.get(cls)
    if known is None:
        listed = [
            (item.name, cls.renders.get(item.name, json_value))
            for item in fields(cls)
            if item.name != "frame"
        ]
        listed += [(name, cls.renders.get(name, json_value)) for name in cls.extra_fields]
        known = tuple((name, render) for name, render in listed if render is not HIDDEN)
        _RENDERERS[cls] = known
    return known
