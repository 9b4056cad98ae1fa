"""Arrow arrays as SQL literals, whole columns at a time.

Every function of literals takes an array and returns a large_string array; null stays null. A
literal is right in the session that `SESSION` sets up: strings are utf8mb4 with backslash escapes,
and contain no byte that a command-line client would change (NUL, CR, LF, Ctrl-Z), so that every
statement is one line.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import scalar
from binlake.table.text.json_text import hex_text, join, used_data

# 0 is a value of AUTO_INCREMENT columns, and zero, partial and invalid dates are values
ANY_VALUE_MODE = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"
#: A value that its column cannot hold is an error, never changed.
STRICT_MODE = f"STRICT_ALL_TABLES,{ANY_VALUE_MODE}"
#: Not for the server: the client reads strings and names in UTF-8, whatever the encoding of the
#: terminal. In gbk, big5 or sjis it would take a quote for the second byte of a character.
CLIENT_CHARSET = "/*!999999 \\C utf8mb4 */;"
#: The statements before all others.
SESSION = (
    CLIENT_CHARSET,
    "SET NAMES utf8mb4;",
    f"SET SESSION time_zone = '+00:00', sql_mode = '{STRICT_MODE}';",
)

_TEXT = pa.large_string()
_ESCAPES = (("'", "''"), ("\0", "\\0"), ("\n", "\\n"), ("\r", "\\r"), ("\x1a", "\\Z"))


def string_text(text: str) -> str:
    """One text as a string literal."""
    text = text.replace("\\", "\\\\")
    for char, escape in _ESCAPES:
        text = text.replace(char, escape)
    return f"'{text}'"


def string_literal(values: pa.Array) -> pa.Array:
    """Any text as string literals."""
    text = values.cast(_TEXT)
    data = used_data(text)
    if b"\\" in data:  # first, since the other escapes bring backslashes
        text = pc.replace_substring(text, "\\", "\\\\")
    for char, escape in _ESCAPES:
        if char.encode() in data:
            text = pc.replace_substring(text, char, escape)
    return join("'", text, "'")


def plain_string(values: pa.Array) -> pa.Array:
    """Text that is known to need no escapes (digits, dates) as string literals."""
    return join("'", values.cast(_TEXT), "'")


def bytes_literal(values: pa.Array) -> pa.Array:
    """Binary values as hexadecimal literals, of which also the empty one exists."""
    return join("x'", hex_text(values), "'")


def float_literal(values: pa.Array) -> pa.Array:
    """Floats as approximate-value literals that read back the same, bit for bit.

    A single is written as the equal double: a server compares it as one. Only a string preserves
    the sign of -0. NaN and infinities, which no server stores, become strings that every server
    refuses.
    """
    doubles = values.cast(pa.float64())
    text = doubles.cast(_TEXT)
    text = pc.if_else(pc.match_substring(text, "e"), text, join(text, "e0"))
    odd = pc.or_(pc.invert(pc.is_finite(doubles)), pc.equal(text, scalar("-0e0")))
    if pc.any(odd).as_py():
        text = pc.if_else(odd, join("'", doubles.cast(_TEXT), "'"), text)
    return text
