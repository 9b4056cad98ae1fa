"""The one interface over everything that bytes come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from binlake.errors import BinlogError, SourceError

__all__ = [
    "TORN_TAIL",
    "ByteReader",
    "WrappedReader",
    "holds_secret",
    "source_error",
    "what",
    "without_secrets",
]

#: The `kind` of the error for a file that ends inside an event.
TORN_TAIL = "torn tail"


class ByteReader(ABC):
    """Random access to the bytes of one input. Safe to use from two threads.

    `name` is the path as given; `size` the length in bytes, None while it is unknown;
    `seekable` whether `read_at` may go back without `retain`; `sequential` whether a place inside is
    found only by walking there from the beginning; `lead_bytes` how many bytes of the file lie
    before the reader's first; `begins_at`, where not 0, is the place that a log is sent from: of what
    lies before it only the magic and the format description are here; `interactive` whether a read can
    wait for somebody (a pipe), so that nobody should read ahead; `window_bytes` how many bytes it is
    best read by at once: many where each request waits for a network. `damage` is set once the
    end has been reached, if the input ended badly (compressed data cut off, say): the bytes
    before it are good.
    """

    name: str
    size: int | None
    seekable: bool = True
    sequential: bool = False
    lead_bytes: int = 0
    begins_at: int = 0
    interactive: bool = False
    window_bytes: int = 8 << 20
    damage: BinlogError | None = None

    @abstractmethod
    def read_at(self, offset: int, size: int) -> bytes:
        """The bytes [offset, offset + size); fewer only at the end of the input.

        Memory is taken only for bytes that exist. Raises SourceError.
        """

    def retain(self, offset: int | None) -> None:
        """Ask a stream to keep all bytes from `offset` on until told otherwise; None: no wish."""
        # a seekable reader can always go back
        return

    def release(self, offset: int) -> None:
        """Tell a stream that sequential reading has passed `offset`."""
        return

    def damage_at(self, offset: int) -> BinlogError | None:
        """Why there is no event at `offset`, where the reader itself knows; else None."""
        return None

    def rejoin(self, offset: int) -> int | None:
        """Tell a reader that follows events that there is none at `offset`: look for the next.

        Returns where events begin again, None where that has to be found by their headers.
        """
        return None

    def pinned(self, size: int) -> int | None:
        """How much of the file holds its first `size` bytes; None where that cannot be told."""
        return size + self.lead_bytes

    @abstractmethod
    def close(self) -> None:
        """Give back what is held. Reading afterwards raises SourceError."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class WrappedReader(ByteReader):
    """A reader on another one's bytes; follows what that learns of its end."""

    def __init__(self, inner: ByteReader) -> None:
        self.name = inner.name
        self.seekable = inner.seekable
        self.interactive = inner.interactive
        self.window_bytes = inner.window_bytes
        self._inner = inner
        self._follow()

    def _follow(self) -> None:
        self.size = self._inner.size
        self.damage = self._inner.damage

    def close(self) -> None:
        self._inner.close()


def source_error(path: str, error: Exception) -> SourceError:
    """What the operating system or the store said, as one line."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{without_secrets(path)} does not exist")
    if isinstance(error, PermissionError):
        return SourceError(
            f"{without_secrets(path)} may not be read", hint="check its owner and mode"
        )
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{without_secrets(path)} is a directory")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else what(error, path)
    return SourceError(f"{without_secrets(path)} cannot be read: {reason}")


def what(error: Exception, uri: str) -> str:
    """The first line of an error's text (stores like to add pages), without credentials."""
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    return line.replace(uri, without_secrets(uri))


def without_secrets(uri: str) -> str:
    """A URI without user, password and query: they may hold credentials."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}://{_login_and_rest(scheme, rest)[1]}" if separator else uri


def holds_secret(uri: str) -> bool:
    """Whether the URI of a store, not that of a server, has credentials in it."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return False
    login, _ = _login_and_rest(scheme, rest)
    query = rest.partition("?")[2]
    names = (unquote(part.partition("=")[0]).lower() for part in query.split("&"))
    return ":" in login or any(word in name for name in names for word in _SECRET_NAMES)


# What names of options have in them whose values are nobody's business.
_SECRET_NAMES = ("secret", "password", "passwd", "token", "credential", "key", "sig")
# Their authority is a host and a port; everywhere else it is a bucket, and a colon ends a user.
_WITH_PORTS = ("hdfs", "viewfs", "http", "https")


def _login_and_rest(scheme: str, rest: str) -> tuple[str, str]:
    """What stands before the @ of an authority, and what comes after it, without the query.

    A key that is not percent-encoded may hold slashes.
    """
    before = rest.partition("?")[0]
    authority, slash, path = before.partition("/")
    login, at, host = authority.rpartition("@")
    if not at and ":" in authority and "@" in path and scheme.lower() not in _WITH_PORTS:
        login, _, after = before.rpartition("@")
        return login, after
    return login, f"{host}{slash}{path}"
