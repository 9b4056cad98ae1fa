r"""Text from outside as text that is safe to show: on a terminal, and in comments of a script.

A log, a server or a file name may contain anything: newlines that end a comment, escape
sequences that a terminal obeys, marks that reverse what a person reads. `printable` writes each
such character as its escape (`\n`, `\x1b`, `\u202e`) and leaves all others alone. Everything that people
read, and every name in a comment, goes through here; JSON has its own escapes.
"""

from __future__ import annotations

import re

# C0, DEL and C1 controls; invisible, bidirectional and line separators; halves of surrogate pairs
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_CONTROL_BYTE = re.compile(rb"[\x00-\x1f\x7f]")


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escaped(found: re.Match[str]) -> str:
    if found[0] in _SHORT:
        return _SHORT[found[0]]
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable(text: str) -> str:
    """One line of `text`, with control, invisible and bidirectional characters as escapes."""
    return _UNPRINTABLE.sub(_escaped, text)


def printable_bytes(raw: bytes) -> bytes:
    """Return one line of `raw` with control, invisible and bidirectional characters as escapes, in its character set.

    In bytes that are not UTF-8, only control characters of ASCII are escaped, because the character set is not known
    here.
    """
    try:
        return printable(raw.decode("utf-8")).encode("utf-8")
    except UnicodeDecodeError:
        return _CONTROL_BYTE.sub(lambda found: printable(found[0].decode()).encode(), raw)


def comment_lines(raw: bytes, lead: bytes) -> bytes:
    """A text of several lines as lines of a comment, each with `lead` in front, and a newline.

    Tabs, and carriage returns at the ends of lines, stay: texts of statements have them.
    """
    lines = raw.split(b"\n")
    if _CONTROL_BYTE.search(raw) or not raw.isascii():
        lines = [_comment_line(line) for line in lines]
    return b"".join(lead + line + b"\n" for line in lines)


def _comment_line(line: bytes) -> bytes:
    end = b"\r" if line.endswith(b"\r") else b""
    body = line.removesuffix(b"\r")
    return b"\t".join(map(printable_bytes, body.split(b"\t"))) + end


def for_terminal(raw: bytes) -> bytes:
    """Lines of bytes as a terminal may show them: all but newlines and tabs that is no printable
    character of UTF-8 is an escape.
    """
    text = raw.decode("utf-8", "surrogateescape")
    return _UNPRINTABLE.sub(_shown, text).encode("utf-8")


def _shown(found: re.Match[str]) -> str:
    if found[0] in "\n\t":
        return found[0]
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else _escaped(found)


def truncated(text: str, characters: int) -> str:
    """`text`, or its beginning and an ellipsis, with at most this number of characters."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def shortened(text: str, characters: int) -> str:
    """`text`, or its beginning and end with the number of characters that are left out."""
    if len(text) <= characters:
        return text
    head = characters * 3 // 4
    tail = characters - head
    return f"{text[:head]} […{len(text) - characters:,} characters…] {text[-tail:]}"
