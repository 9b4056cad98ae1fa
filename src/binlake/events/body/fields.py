"""Field tables: one description of a field's bytes, for both reading and writing.

An event whose body is a plain sequence of fields has no decoder and no encoder of its own: its
`layout` names the fields in the order of the wire, each with one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter


class FieldFormat(NamedTuple):
    """Reader and writer of a field; both take its name for errors."""

    read: Callable[[BodyReader, str], Any]
    write: Callable[[BodyWriter, str, Any], None]


U8 = FieldFormat(BodyReader.u8, BodyWriter.u8)
U16 = FieldFormat(BodyReader.u16, BodyWriter.u16)
U32 = FieldFormat(BodyReader.u32, BodyWriter.u32)
U64 = FieldFormat(BodyReader.u64, BodyWriter.u64)
#: Bytes up to the end.
REST = FieldFormat(BodyReader.rest, BodyWriter.rest)


def fixed(count: int) -> FieldFormat:
    """Exactly `count` bytes."""
    return FieldFormat(
        lambda reader, name: reader.take(name, count),
        lambda writer, name, raw: writer.take(name, count, raw),
    )


def counted(width: int) -> FieldFormat:
    """Bytes after their length in `width` bytes."""

    def write(writer: BodyWriter, name: str, raw: bytes) -> None:
        writer.le_uint(name, width, len(raw))
        writer.rest(name, raw)

    return FieldFormat(lambda reader, name: reader.counted_by(name, width), write)
