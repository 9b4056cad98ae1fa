"""USER_VAR_EVENT (14): a user variable that the next statement reads.

Source: libs/mysql/binlog/event/statement_events.cpp, User_var_event; MariaDB sql/log_event.cc,
User_var_log_event. Since 4.1.
Body:
    4+n  name
    1    is_null        when it is set, nothing follows
    1    type           0 STRING, 1 REAL, 2 INT, 4 DECIMAL
    4    collation_id
    4+n  value          INT 8 bytes; REAL 8 bytes; DECIMAL precision, scale and its wire bytes
    rest tail           INT: flags, bit 0 unsigned (MySQL 5.5, MariaDB). MariaDB 11.8: chunks of
                        0 signed, 1 unsigned, 2 + length u8 + name of the data type
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Self

from binlake.core.columns.sink import make_sink
from binlake.errors import MalformedError
from binlake.events.base import HIDDEN, Event, text_or_hex
from binlake.events.body.collated_text import collation_text
from binlake.events.body.fields import FieldFormat, counted
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.column_types import MYSQL_TYPE_NEWDECIMAL
from binlake.values.frame import EventFormat, Frame
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

_STRING, _REAL, _INT, _DECIMAL = 0, 1, 2, 4
_TYPES = {_STRING: "STRING", _REAL: "REAL", _INT: "INT", 3: "ROW", _DECIMAL: "DECIMAL"}
_NUMBER_BYTES = 8

_COUNTED: FieldFormat = counted(4)
_SIGNED, _UNSIGNED, _DATA_TYPE = b"\x00", b"\x01", 2


@dataclass(slots=True)
class UserVarEvent(Event):
    """The name and value of a variable; `type_code`, `collation_id`, `value_raw` None for NULL."""

    renders = {
        "name_raw": HIDDEN,
        "type_code": HIDDEN,
        "value_raw": HIDDEN,
        "tail": HIDDEN,
    }
    extra_fields = ("variable", "type", "value", "unsigned", "data_type")

    name_raw: bytes
    type_code: int | None
    collation_id: int | None
    value_raw: bytes | None
    tail: bytes = b""

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        name = _COUNTED.read(reader, "name")
        if reader.u8("is_null"):
            return cls(frame, name, None, None, None)
        type_code = reader.u8("type")
        collation_id = reader.u32("collation_id")
        value = _COUNTED.read(reader, "value")
        if type_code in (_REAL, _INT) and len(value) != _NUMBER_BYTES:
            raise MalformedError(f"a number cannot have {len(value)} bytes", offset=reader.pos)
        if type_code == _DECIMAL:
            _decimal_text(value)
        return cls(frame, name, type_code, collation_id, value, reader.rest("tail"))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        _COUNTED.write(writer, "name", self.name_raw)
        writer.u8("is_null", self.value_raw is None)
        if self.value_raw is None:
            return
        writer.u8("type", self.type_code or 0)
        writer.u32("collation_id", self.collation_id or 0)
        _COUNTED.write(writer, "value", self.value_raw)
        writer.rest("tail", self.tail)

    @property
    def variable(self) -> str:
        """The variable's name, without @."""
        return text_or_hex(self.name_raw)

    @property
    def type(self) -> str | None:
        """STRING, REAL, INT or DECIMAL; None for NULL."""
        if self.type_code is None:
            return None
        return _TYPES.get(self.type_code, f"UNKNOWN_{self.type_code}")

    @property
    def value(self) -> str | int | float | None:
        """The value: a DECIMAL as its digits, a string as text or 0x… in hex."""
        raw = self.value_raw
        if raw is None:
            return None
        if self.type_code == _INT:
            return int.from_bytes(raw, "little", signed=not self.unsigned)
        if self.type_code == _REAL:
            number: float = struct.unpack("<d", raw)[0]
            return number if math.isfinite(number) else str(number)  # JSON has no infinity
        if self.type_code == _DECIMAL:
            return _decimal_text(raw)
        return collation_text(self.collation_id, raw)

    @property
    def unsigned(self) -> bool | None:
        """Whether an INT is unsigned; None if the log does not record it, which means signed."""
        said = self.tail[:1]
        return said == _UNSIGNED if said in (_SIGNED, _UNSIGNED) else None

    @property
    def data_type(self) -> str | None:
        """MariaDB's name of the variable's data type, if it is more specific than `type`."""
        tail = self.tail[1:] if self.unsigned is not None else self.tail
        if len(tail) < 2 or tail[0] != _DATA_TYPE:
            return None
        return text_or_hex(tail[2 : 2 + tail[1]])


def _decimal_text(raw: bytes) -> str:
    """The digits of a DECIMAL after its precision and scale. Raises FormatError."""
    if len(raw) < 2:
        raise MalformedError("a DECIMAL has no precision")
    plan = ColumnPlan(
        ColumnDefinition(0, "value", MYSQL_TYPE_NEWDECIMAL), Kernel.DECIMAL_TEXT, raw[0], raw[1]
    )
    return bytes(make_sink(plan).decode(raw[2:], 1).data).decode("ascii")
