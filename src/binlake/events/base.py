"""The base of all typed events: a frame, the fields in wire order, and their JSON form.

A family's file declares a dataclass whose fields are the event's, and how they lie on the wire:
a `layout` where they simply follow one another, else `decode` and `encode`, side by side. The class
also defines how fields are shown (`renders`), so `to_fields` exists once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from binlake.events.body.fields import FieldFormat
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.event_types import event_name
from binlake.format.flags import flag_names
from binlake.values.frame import EventFormat, Frame

Render = Callable[[Any], Any]

#: For `Event.renders`: `to_fields` leaves the field out.
HIDDEN = None


def text_or_hex(raw: bytes) -> str:
    """Decode text of unknown character set: as UTF-8, or as 0x… in hex if it is not valid UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + raw.hex()


def file_name_text(raw: bytes) -> str:
    """A file name in the server's file system encoding; bytes outside UTF-8 are escaped."""
    return raw.decode("utf-8", "backslashreplace")


def json_value(value: Any) -> Any:
    """Convert a field to a JSON value: bytes to hex, sequences to lists, other values to their text."""
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
    """Render a bit set as a list of bit names."""
    return lambda value: flag_names(table, value)


@dataclass(slots=True)
class Event:
    """One decoded event. Subclasses add the body's fields in wire order.

    `trailing` are the bytes after the last known field: padding, or fields of a later server.
    `layout` describes how the fields are read and written, unless the class has methods for that.
    `renders` defines how `to_fields` shows a field if `json_value` is not enough (HIDDEN: not at
    all, a property shows what it means); `extra_fields` names properties that it shows after the fields.
    """

    layout: ClassVar[Mapping[str, FieldFormat]] = {}
    renders: ClassVar[Mapping[str, Render | None]] = {}
    extra_fields: ClassVar[tuple[str, ...]] = ()

    frame: Frame
    trailing: bytes = field(default=b"", kw_only=True)

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        """Read the body. Raises FormatError, UnsupportedError."""
        return cls(frame, *(wire.read(reader, name) for name, wire in cls.layout.items()))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        """Write the fields that `decode` reads. Raises MalformedError if a value does not fit its field."""
        for name, wire in self.layout.items():
            wire.write(writer, name, getattr(self, name))

    @property
    def name(self) -> str:
        """The event type, spelled as in the servers' source: `WRITE_ROWS_EVENT`."""
        return event_name(self.frame.type_code)

    def to_fields(self) -> dict[str, Any]:
        """The body's fields, ready for JSON: bytes as hex, bit sets as lists of names."""
        shown_fields: dict[str, Any] = {}
        for name, render in _renderers(type(self)):
            value = getattr(self, name)
            shown_fields[name] = None if value is None else render(value)
        return shown_fields


_RENDERERS: dict[type[Event], tuple[tuple[str, Render], ...]] = {}
_NO_FIELDS = ("frame", "trailing")


def _renderers(cls: type[Event]) -> tuple[tuple[str, Render], ...]:
    """(field, how it is shown) of a class, in order; found once."""
    known = _RENDERERS.get(cls)
    if known is None:
        listed = [
            (item.name, cls.renders.get(item.name, json_value))
            for item in fields(cls)
            if item.name not in _NO_FIELDS
        ]
        listed += [(name, cls.renders.get(name, json_value)) for name in cls.extra_fields]
        known = tuple((name, render) for name, render in listed if render is not HIDDEN)
        _RENDERERS[cls] = known
    return known
