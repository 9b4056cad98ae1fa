"""MySQL's binary JSON to the text that the server prints for it.

A document is a type byte and a value. A container holds, after its element count and its size,
fixed-width entries (keys, then values) that point at what follows by offsets from its start,
or hold a small value themselves. The text is that of `CAST(j AS CHAR)`: ", " and ": " between
things, doubles in the shortest digits that read back the same, dates and times with six
fractional digits in quotes, other SQL values as "base64:type<code>:…".
Source: sql-common/json_binary.cc, json_dom.cc (wrapper_to_string), strings/dtoa.cc (my_gcvt).

Offsets come from outside and may lie. Each byte of a document belongs to one value, so a
rendering may use up as many bytes as the document has, and no more: a document whose values
overlap, which could otherwise grow without end, is malformed. One long module: its small functions
are inlined into the loop over a container, which C does only inside of one.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from typing import TYPE_CHECKING

import cython

from binlake.core.buffers import ByteBuffer
from binlake.core.cursor import Cursor
from binlake.core.decimals import DecimalReader
from binlake.core.number_text import write_double, write_number
from binlake.core.temporal_text import write_date, write_time
from binlake.errors import MalformedError

if TYPE_CHECKING:
    from binlake.core.cursor import Buffer

__all__ = ["MAX_DEPTH", "JsonRenderer", "render"]

MAX_DEPTH = 100  # JSON_DOCUMENT_MAX_DEPTH: nested containers that a server accepts

_DEPTH = cython.declare(cython.int, 100)

# value types (json_binary.cc)
_LARGE_OBJECT = cython.declare(cython.int, 0x01)
_LARGE_ARRAY = cython.declare(cython.int, 0x03)
_LITERAL = cython.declare(cython.int, 0x04)
_INT16 = cython.declare(cython.int, 0x05)
_UINT16 = cython.declare(cython.int, 0x06)
_INT32 = cython.declare(cython.int, 0x07)
_UINT32 = cython.declare(cython.int, 0x08)
_INT64 = cython.declare(cython.int, 0x09)
_UINT64 = cython.declare(cython.int, 0x0A)
_DOUBLE = cython.declare(cython.int, 0x0B)
_STRING = cython.declare(cython.int, 0x0C)
_OPAQUE = cython.declare(cython.int, 0x0F)

# the SQL types that an opaque value is printed as itself; all others are base64
_SQL_TIMESTAMP = cython.declare(cython.int, 7)
_SQL_DATE = cython.declare(cython.int, 10)
_SQL_TIME = cython.declare(cython.int, 11)
_SQL_DATETIME = cython.declare(cython.int, 12)
_SQL_NEWDECIMAL = cython.declare(cython.int, 246)

_ESCAPES = b"btn fr"  # of the characters 0x08 to 0x0D; 0x0B has none
_HEX = b"0123456789abcdef"
_BASE64_LINE = 76  # characters between the line feeds that the server puts in
# what may follow a string, its quotes, and a word written beyond its end
_ROOM = cython.declare(cython.Py_ssize_t, 16)
# eight characters in a word; C constants, as larger literals than int holds would be objects
_QUOTES = cython.declare(cython.ulonglong, 0x2222222222222222)
_SLASHES = cython.declare(cython.ulonglong, 0x5C5C5C5C5C5C5C5C)
_SPACES = cython.declare(cython.ulonglong, 0x2020202020202020)
_ONES = cython.declare(cython.ulonglong, 0x0101010101010101)
_HIGH_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)
_ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class JsonRenderer:
    """Renders documents, one after the other, at the end of a ByteBuffer."""

    def __init__(self) -> None:
        self.c = Cursor(b"")
        self.out = ByteBuffer()
        self.left = 0
        self.at = 0

    def render(self, c: Cursor, size: cython.Py_ssize_t, out: ByteBuffer) -> cython.int:
        """Append the text of the document in the next `size` bytes of `c`, stepping over them.

        An empty document is JSON's null, as the server has it. The text is valid UTF-8.
        Raises MalformedError, and TruncatedError when `c` has fewer bytes.
        """
        start: cython.Py_ssize_t = c.pos
        if size < 0 or c.end - start < size:
            c.need(size)
        self.c = c
        self.out = out
        self.left = size
        if size == 0:
            out.put(b"null")
        else:
            self._value(c.data[start], start + 1, start + size, 0)
        c.pos = start + size
        return 0

    def _refuse(self, pos: cython.Py_ssize_t, why: str) -> MalformedError:
        return MalformedError(f"malformed JSON: {why}", offset=pos - self.c.start)

    def _refuse_use(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
    ) -> cython.int:
        if count < 0 or count > end - pos:
            raise self._refuse(pos, "a value goes beyond its container")
        raise self._refuse(pos, "values overlap")

    def _uint(
        self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, width: cython.int
    ) -> cython.Py_ssize_t:
        """Unsigned, little-endian, 1, 2 or 4 bytes, not used up here."""
        if end - pos < width:
            raise self._refuse(pos, "a value goes beyond its container")
        return _read(self.c, pos, width)

    def _value(
        self,
        kind: cython.int,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        depth: cython.int,
    ) -> cython.int:
        """Render the value of a type at `pos`; it ends before `end`."""
        if kind == _STRING:
            size: cython.Py_ssize_t
            if end > pos and self.c.data[pos] < 0x80:  # a length of one byte, as most are
                size = self.c.data[pos]
                self.at = pos + 1
                _use(self, pos, end, size + 1)
            else:
                size = self._length(pos, end)
            return _string(self, self.c, self.out, self.at, size)
        if kind <= _LARGE_ARRAY:
            return self._container(kind, pos, end, depth)
        if kind == _DOUBLE:
            _use(self, pos, end, 8)
            return self._double(pos)
        if kind == _OPAQUE:
            _use(self, pos, end, 1)
            return self._opaque(self._uint(pos, end, 1), pos + 1, end)
        width: cython.int = _width(kind)
        if width == 0:
            raise self._refuse(pos, f"no value has type 0x{kind:02X}")
        _use(self, pos, end, width)
        return self._scalar(kind, pos)

    def _container(
        self,
        kind: cython.int,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        depth: cython.int,
    ) -> cython.int:
        """Render an object or array whose element count is at `start`."""
        if depth >= _DEPTH:
            raise self._refuse(start, f"more than {MAX_DEPTH} containers inside each other")
        c: Cursor = self.c
        out: ByteBuffer = self.out
        is_object: cython.bint = kind <= _LARGE_OBJECT
        width: cython.int = 4 if kind & 1 else 2  # of counts, sizes and offsets
        key_entry: cython.Py_ssize_t = width + 2 if is_object else 0
        value_entry: cython.Py_ssize_t = width + 1
        if end - start < 2 * width:
            raise self._refuse(start, "a value goes beyond its container")
        count: cython.Py_ssize_t = _read(c, start, width)
        size: cython.Py_ssize_t = _read(c, start + width, width)
        head: cython.Py_ssize_t = 2 * width + count * (key_entry + value_entry)
        if size > end - start or head > size:
            raise self._refuse(start, "a container is larger than what holds it")
        end = start + size
        _use(self, start, end, head)
        key: cython.Py_ssize_t = start + 2 * width
        value: cython.Py_ssize_t = key + count * key_entry
        _mark(out, 123 if is_object else 91)
        i: cython.Py_ssize_t
        offset: cython.Py_ssize_t
        for i in range(count):
            if i:
                _pair(out, 44, 32)
            if is_object:  # an entry of a key: offset, length u16
                offset = _read(c, key, width)
                size = _read(c, key + width, 2)
                if offset < head:
                    raise self._refuse(key, "a key lies inside the entries")
                _use(self, start + offset, end, size)
                _string(self, c, out, start + offset, size)
                _pair(out, 58, 32)
                key += key_entry
            # of a value: type u8, then the offset, or a value that fits there
            kind = c.data[value]
            if kind == _STRING or kind < _LITERAL or kind > _UINT32 or _width(kind) > width:
                offset = _read(c, value + 1, width)
                if offset < head:
                    raise self._refuse(value, "a value lies inside the entries")
                self._value(kind, start + offset, end, depth + 1)
            else:
                self._scalar(kind, value + 1)
            value += value_entry
        return _mark(out, 125 if is_object else 93)

    def _scalar(self, kind: cython.int, pos: cython.Py_ssize_t) -> cython.int:
        """Render a literal or an integer; its bytes are there."""
        bits: cython.ulonglong = self._bits(pos, _width(kind))
        if kind == _LITERAL:
            if bits > 2:
                raise self._refuse(pos, f"{bits} is none of null, true, false")
            return self.out.put(b"null" if bits == 0 else b"true" if bits == 1 else b"false")
        if kind & 1 == 0:  # the unsigned types have even numbers
            return write_number(self.out, bits)
        sign: cython.ulonglong = 1
        sign <<= 8 * _width(kind) - 1
        if bits & sign:
            _mark(self.out, 45)
            bits = (sign - 1 - (bits & (sign - 1))) + 1
        return write_number(self.out, bits)

    def _bits(self, pos: cython.Py_ssize_t, width: cython.int) -> cython.ulonglong:
        """Unsigned, little-endian, up to 8 bytes that are there."""
        value: cython.ulonglong = 0
        i: cython.int
        for i in range(width):
            value |= cython.cast(cython.ulonglong, self.c.data[pos + i]) << (8 * i)
        return value

    def _length(self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read a length (7 bits a byte, the high bit: more), use up its data; `at`: the data."""
        size: cython.Py_ssize_t = 0
        byte: cython.int
        i: cython.int
        for i in range(5):
            _use(self, pos + i, end, 1)
            byte = self.c.data[pos + i]
            size |= cython.cast(cython.Py_ssize_t, byte & 0x7F) << (7 * i)
            if byte < 0x80:
                self.at = pos + i + 1
                _use(self, self.at, end, size)
                return size
        raise self._refuse(pos, "a length has more than 5 bytes")

    def _long_string(self, pos: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        """Render `size` bytes of UTF-8 as a JSON string, eight plain characters at a time."""
        c: Cursor = self.c
        out: ByteBuffer = self.out
        end: cython.Py_ssize_t = pos + size
        checked: cython.Py_ssize_t = pos  # up to here it is UTF-8
        stop: cython.Py_ssize_t
        _make_room(out, size + _ROOM)  # enough if nothing needs an escape
        at: cython.Py_ssize_t = out.size
        out.view[at] = 34
        at += 1
        while pos < end:
            stop = end if end - pos < 8 else pos + 8
            if c.end - pos >= 8:
                word: cython.ulonglong = _load(c, pos)
                if _special(word) << (64 - 8 * (stop - pos)) & _ALL_ONES == 0:
                    _store(out, at, word)  # what it writes beyond `stop` is written over
                    at += stop - pos
                    pos = stop
                    continue
            while pos < stop:
                byte: cython.int = c.data[pos]
                if byte >= 0x80 and pos >= checked:
                    checked = pos + self._character(pos, end)
                if byte >= 0x20 and byte != 34 and byte != 92:
                    out.view[at] = cython.cast(cython.uchar, byte)
                    at += 1
                else:
                    out.size = at
                    self._escape(byte)
                    _make_room(out, end - pos + _ROOM)
                    at = out.size
                pos += 1
        out.view[at] = 34
        out.size = at + 1
        return 0

    def _escape(self, byte: cython.int) -> cython.int:
        """Render a quote, a backslash or a control character."""
        _mark(self.out, 92)
        if byte >= 0x20:
            return _mark(self.out, byte)
        if 8 <= byte <= 13 and byte != 11:
            return _mark(self.out, _ESCAPES[byte - 8])
        self.out.put(b"u00")
        return _pair(self.out, _HEX[byte >> 4], _HEX[byte & 15])

    def _character(self, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """How many bytes the character beyond ASCII at `pos` has; refuses what is not UTF-8."""
        first: cython.int = self.c.data[pos]
        width: cython.int = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        if first < 0xC2 or first > 0xF4 or end - pos < width:
            raise self._refuse(pos, "a string is not UTF-8")
        second: cython.int = self.c.data[pos + 1]
        # longer than needed, a surrogate, beyond U+10FFFF
        lowest: cython.int = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        highest: cython.int = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < lowest or second > highest:
            raise self._refuse(pos, "a string is not UTF-8")
        i: cython.int
        for i in range(2, width):
            if self.c.data[pos + i] & 0xC0 != 0x80:
                raise self._refuse(pos, "a string is not UTF-8")
        return width

    def _double(self, pos: cython.Py_ssize_t) -> cython.int:
        """Render the double at `pos`, whose 8 bytes are there."""
        value: cython.double = 0.0
        if cython.compiled:
            memcpy(  # noqa: F821 - cimported in json_binary.pxd
                cython.address(value), cython.address(self.c.data[pos]), 8
            )
        else:
            value = struct.unpack_from("<d", self.c.view, pos)[0]
        if value - value != 0:
            raise self._refuse(pos, "a number is infinite or none")
        if self.c.data[pos + 7] & 0x80:
            _mark(self.out, 45)
            value = -value
        return write_double(self.out, value)

    def _opaque(
        self, sql_type: cython.int, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Render a value of an SQL type that JSON lacks; its length is at `pos`."""
        size: cython.Py_ssize_t = self._length(pos, end)
        self.c.pos = self.at
        if sql_type == _SQL_NEWDECIMAL:
            return self._decimal(size)
        if size == 8 and (sql_type in (_SQL_DATE, _SQL_TIME, _SQL_DATETIME, _SQL_TIMESTAMP)):
            return self._temporal(sql_type)
        text = b2a_base64(self.c.take(size), newline=False)
        self.out.put(b'"base64:type%d:' % sql_type)
        start: cython.Py_ssize_t
        for start in range(0, len(text), _BASE64_LINE):
            if start:
                _pair(self.out, 92, 110)
            self.out.put(text[start : start + _BASE64_LINE])
        return _mark(self.out, 34)

    def _decimal(self, size: cython.Py_ssize_t) -> cython.int:
        """Render a DECIMAL: precision u8, scale u8, and its wire bytes."""
        pos: cython.Py_ssize_t = self.c.pos
        precision: cython.int = self._uint(pos, pos + size, 1)
        scale: cython.int = self._uint(pos + 1, pos + size, 1)
        try:
            wire: DecimalReader = DecimalReader(precision, scale)
        except MalformedError as error:
            raise error.at(offset=pos - self.c.start) from None
        if wire.width != size - 2:
            raise self._refuse(pos, "the digits of a DECIMAL are not as many as it says")
        self.c.pos = pos + 2
        wire.read(self.c)
        wire.write(self.out)
        return 0

    def _temporal(self, sql_type: cython.int) -> cython.int:
        """Render a packed date or time (core/temporal_wire.py), i64, with six digits."""
        pos: cython.Py_ssize_t = self.c.pos
        packed: cython.Py_ssize_t = self.c.i64()
        is_time: cython.bint = sql_type == _SQL_TIME
        self.out.reserve(32)
        _mark(self.out, 34)
        if is_time and packed < 0:
            _mark(self.out, 45)
            packed = -packed
        # TIME has its hours, up to 838, where the others have days and hours
        hour: cython.Py_ssize_t = packed >> 36 if is_time else packed >> 36 & 31
        if (
            packed < 0
            or hour > (838 if is_time else 23)
            or (packed >> 30 & 63) > 59
            or (packed >> 24 & 63) > 59
            or (packed & 0xFFFFFF) > 999_999
            or packed >> 46 >= 10_000 * 13
        ):
            raise self._refuse(pos, "the bytes are not a date or time")
        if not is_time:
            write_date(self.out, packed)
        if sql_type in (_SQL_DATETIME, _SQL_TIMESTAMP):
            _mark(self.out, 32)
        if sql_type != _SQL_DATE:
            write_time(self.out, packed & 0x3FFFFFFFFFFF if is_time else packed & 0x1FFFFFFFFFF, 6)
        return _mark(self.out, 34)


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _use(
    self: JsonRenderer, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> cython.int:
    """Check that `count` bytes are at `pos`, before `end`, and use them up."""
    if count < 0 or count > end - pos or count > self.left:
        return self._refuse_use(pos, end, count)
    self.left -= count
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _string(
    self: JsonRenderer, c: Cursor, out: ByteBuffer, pos: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.int:
    """Render `size` bytes of UTF-8 as a JSON string; at once if they are few and plain."""
    if 0 < size <= 8 and c.end - pos >= 8:
        word: cython.ulonglong = _load(c, pos)
        if _special(word) << (64 - 8 * size) & _ALL_ONES == 0:
            at: cython.Py_ssize_t = out.size
            _make_room(out, _ROOM)
            out.view[at] = 34
            _store(out, at + 1, word)  # what it writes beyond the string is written over
            out.view[at + 1 + size] = 34
            out.size = at + size + 2
            return 0
    return self._long_string(pos, size)


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _make_room(out: ByteBuffer, count: cython.Py_ssize_t) -> cython.int:
    if out.size + count > out.capacity:
        out.reserve(count)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _mark(out: ByteBuffer, character: cython.int) -> cython.int:
    """Append one ASCII character."""
    at: cython.Py_ssize_t = out.size
    _make_room(out, 1)
    out.view[at] = cython.cast(cython.uchar, character)
    out.size = at + 1
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _pair(out: ByteBuffer, first: cython.int, second: cython.int) -> cython.int:
    """Append two ASCII characters."""
    at: cython.Py_ssize_t = out.size
    _make_room(out, 2)
    out.view[at] = cython.cast(cython.uchar, first)
    out.view[at + 1] = cython.cast(cython.uchar, second)
    out.size = at + 2
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _special(word: cython.ulonglong) -> cython.ulonglong:
    """The lowest bit set is the high bit of the first of eight characters, the least significant
    first, that cannot stand in a JSON string as it is: not ASCII, control, quote, backslash.
    """
    quotes: cython.ulonglong = word ^ _QUOTES
    slashes: cython.ulonglong = word ^ _SLASHES
    return (
        word
        | ((word - _SPACES) & ~word)
        | ((quotes - _ONES) & ~quotes)
        | ((slashes - _ONES) & ~slashes)
    ) & _HIGH_BITS


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _load(c: Cursor, pos: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes that are there, the first least significant."""
    word: cython.ulonglong = 0
    if cython.compiled:
        memcpy(cython.address(word), cython.address(c.data[pos]), 8)  # noqa: F821 - cimported
        return word
    else:  # noqa: RET505 - only one branch is compiled
        return int.from_bytes(c.view[pos : pos + 8], "little")


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _store(out: ByteBuffer, at: cython.Py_ssize_t, word: cython.ulonglong) -> cython.int:
    """Write eight bytes where there is room for them."""
    if cython.compiled:
        if at + 8 > out.capacity:
            raise IndexError(at)
        memcpy(cython.address(out.view[at]), cython.address(word), 8)  # noqa: F821 - cimported
    else:
        out.view[at : at + 8] = word.to_bytes(8, "little")
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _read(c: Cursor, pos: cython.Py_ssize_t, width: cython.int) -> cython.Py_ssize_t:
    """Unsigned, little-endian, 1, 2 or 4 bytes that are there."""
    half: cython.ushort = 0
    word: cython.uint = 0
    if cython.compiled:
        if width == 2:
            memcpy(cython.address(half), cython.address(c.data[pos]), 2)  # noqa: F821 - cimported
            return half
        if width == 1:
            return c.data[pos]
        memcpy(cython.address(word), cython.address(c.data[pos]), 4)  # noqa: F821 - cimported
        return word
    else:  # noqa: RET505 - only one branch is compiled
        return int.from_bytes(c.view[pos : pos + width], "little")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _width(kind: cython.int) -> cython.int:
    """Bytes of a literal or integer; 0 for other types."""
    if kind == _LITERAL:
        return 1
    if kind in (_INT16, _UINT16):
        return 2
    if kind in (_INT32, _UINT32):
        return 4
    return 8 if kind in (_INT64, _UINT64) else 0


def render(data: Buffer, start: int, end: int) -> bytes:
    """The text of the binary document in bytes `start` to `end` of `data`, as UTF-8.

    Raises MalformedError.
    """
    renderer: JsonRenderer = JsonRenderer()
    out: ByteBuffer = ByteBuffer()
    renderer.render(Cursor(data, start, end), end - start, out)
    return bytes(out.detach())
