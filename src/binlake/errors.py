"""Every error binlake raises on purpose, as one tree.

BinlogError                     context: file, event_pos, event_type, offset, field
├─ FormatError                  the bytes do not follow the format
│  ├─ TruncatedError            the input ends inside an event (need, have)
│  ├─ ChecksumError             stored and computed CRC32 differ (expected, actual)
│  └─ MalformedError            an impossible length, count or code
├─ UnsupportedError             valid, but this version cannot decode it
├─ MissingContextError          rows cannot be read without a TABLE_MAP event, schema or key
├─ KeyringError                 an encrypted log without the key that opens it
├─ SchemaError                  a supplied schema disagrees with the log, or a name collides
├─ SourceError                  a file, directory, URI or stream cannot be read
├─ IncompleteError              binlake cannot prove that a read is complete
├─ ServerError                  a live server refused (code, sqlstate)
│  ├─ AuthError                 the server refused the login
│  ├─ ConnectionLostError       no connection to the server, or it was lost; retryable
│  └─ PositionLostError         the server or directory no longer has the requested log
├─ PeerGoneError                a client of `binlake serve` has gone
├─ QueryError(ValueError)       SQL that cannot be run (line, column)
└─ OptionError(ValueError)      a wrong option (name, value, hint)

The text of an error is one printable line of bounded length; `message` is the whole sentence.
Errors survive pickling (Spark tasks raise them on another machine) and print as one
line: the problem, its position, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from binlake.printable import printable, shortened

__all__ = [
    "AuthError",
    "BinlogError",
    "ChecksumError",
    "ConnectionLostError",
    "FormatError",
    "IncompleteError",
    "KeyringError",
    "MalformedError",
    "MissingContextError",
    "OptionError",
    "PeerGoneError",
    "PositionLostError",
    "QueryError",
    "SchemaError",
    "ServerError",
    "SourceError",
    "TruncatedError",
    "UnsupportedError",
]

_MOST_CHARACTERS = 2000  # of a message: what it quotes may be a whole statement
_WHERE = ("file", "event_pos", "event_type", "offset", "field")


class BinlogError(Exception):
    """Root of all errors of this package.

    `message` is one sentence; the keyword context says where: `file` (base name), `path` (of the same file, if
    a command knows it: its text shows it instead of the base name),
    `event_pos` (byte offset of the event in the file), `event_type` (the server's name),
    `offset` (inside the event body) and `field`; `errno` is that of the system, where it refused
    something; `hint` says what to do. Layers that know
    more of the context add it with `at()` while the error travels up.
    """

    retryable = False

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context: dict[str, Any] = {k: v for k, v in context.items() if v is not None}

    def at(self, **context: Any) -> BinlogError:
        """Add context that is not known yet, and return the same error (to re-raise it)."""
        for key, value in context.items():
            if value is not None:
                self.context.setdefault(key, value)
        return self

    def hinted(self, hint: str) -> BinlogError:
        """Add a hint if the error has none, and return the same error (to re-raise it)."""
        self.hint = self.hint or hint
        return self

    def __getattr__(self, name: str) -> Any:
        # context as attributes: error.file, error.event_pos, error.need …
        context = self.__dict__.get("context")
        if context is None or name.startswith("__"):
            raise AttributeError(name)
        return context.get(name)

    def __str__(self) -> str:
        parts = []
        for key in _WHERE:
            is_said = key == "file" and str(self.context.get(key)) in self.message
            if key in self.context and not is_said:
                label = {"event_pos": "event at", "event_type": "type"}.get(key, key)
                shown = self.context.get("path") if key == "file" else None
                parts.append(f"{label} {shown or self.context[key]}")
        where = f" ({', '.join(parts)})" if parts else ""
        # messages quote texts of a server or a log, which go to terminals and logs
        said = shortened(printable(f"{self.message}{where}"), _MOST_CHARACTERS)
        return said + (f"; {self.hint}" if self.hint else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.message, hint=self.hint, **self.context), ()


class FormatError(BinlogError):
    """The bytes do not follow the format."""


class TruncatedError(FormatError):
    """The input ends inside an event. Context: need, have (bytes)."""


class ChecksumError(FormatError):
    """Stored and computed CRC32 differ. Context: expected (stored), actual (computed)."""


class MalformedError(FormatError):
    """A length, count or code that cannot be."""


class UnsupportedError(BinlogError):
    """Valid input that this version cannot decode (old versions, unknown types)."""


class MissingContextError(BinlogError):
    """Something earlier in the log, or beside it, is needed and is not there."""


class KeyringError(BinlogError):
    """The key of an encrypted log is not given, not in the keyring, or not the right one."""


class SchemaError(BinlogError):
    """A supplied schema disagrees with the log, or column names collide."""


class SourceError(BinlogError):
    """A file, directory, URI or stream cannot be read."""


class IncompleteError(BinlogError):
    """The read is not provably complete: ranges do not join, or counts differ."""


class ServerError(BinlogError):
    """A live server refused. Context: code, sqlstate; waited_s, for how long it was asked again; is_passing, if it is likely
    to answer later; is_of_rows, if it sent rows of a table that cannot be read.
    """


class AuthError(ServerError):
    """The server refused the login."""


class ConnectionLostError(ServerError):
    """The server is not there, or not any more; it may be again."""

    retryable = True


class PositionLostError(ServerError):
    """The wanted log position is no longer on the server; with `is_passing`, the server may have it later."""


class TornLogError(ServerError):
    """A server cannot send the end of a log, which a crash has left inside of an event. Context: file."""


class PeerGoneError(BinlogError):
    """A client's connection has ended: closed, broken, or too slow. The message gives the reason."""


class QueryError(BinlogError, ValueError):
    """SQL that cannot be run. Context: line, column (of the statement, 1-based)."""


class OptionError(BinlogError, ValueError):
    """A wrong option. Context: name, value; the hint names the valid ones."""


@contextmanager
def needing(
    what: str, extra: str, kind: type[BinlogError] = BinlogError, otherwise: str = ""
) -> Iterator[None]:
    """Raise an error where a library that is imported here is missing.

    `what`: the message. `extra`: the extra of binlake that has the library; `otherwise`: what else the user can do.
    """
    try:
        yield
    except ImportError:
        raise kind(what, hint=f"pip install 'binlake[{extra}]'{otherwise}") from None
