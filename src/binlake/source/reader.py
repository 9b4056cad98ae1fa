"""The one interface of all sources of bytes."""

from __future__ import annotations

from abc import abstractmethod
from urllib.parse import unquote

from binlake.errors import BinlogError, SourceError
from binlake.source.stores.errors import hint_of_store
from binlake.values.closing import Closing

#: The `kind` of the error for a file that ends inside an event.
TORN_TAIL = "torn tail"


class ByteReader(Closing):
    """Random access to the bytes of one input. Safe to use from two threads.

    - `name`: the path as given.
    - `size`: the length in bytes, None while it is unknown.
    - `seekable`: whether `read_at` may go back without `retain`.
    - `sequential`: whether a place inside is found only by walking there from the beginning.
    - `lead_bytes`: how many bytes of the file lie before the reader's first byte.
    - `begins_at`: if not 0, the place from which the log is sent. Of the bytes before it only the magic
      and the format description are available.
    - `interactive`: whether a read can wait for a user (a pipe), so that reading ahead is wrong.
    - `window_bytes`: the best size of a read: large if each request waits for a network.
    - `in_one_request`: whether the first request to a store brings all bytes, so that an index saves
      nothing.
    - `damage`: set at the end if the input ended badly (for example cut compressed data); the bytes
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
    in_one_request: bool = False
    damage: BinlogError | None = None

    @property
    def packed_bytes(self) -> int | None:
        """How many compressed bytes have been read so far; None if the input is not compressed."""
        return None

    @abstractmethod
    def read_at(self, offset: int, size: int) -> bytes:
        """The bytes [offset, offset + size); fewer only at the end of the input.

        Allocates memory only for bytes that exist. Raises SourceError.
        """

    def retain(self, offset: int | None) -> None:
        """Ask a stream to keep all bytes from `offset` on until the next call; None: keep nothing."""
        # a seekable reader can always go back
        return

    def release(self, offset: int) -> None:
        """Tell a stream that sequential reading has passed `offset`."""
        return

    def damage_at(self, offset: int) -> BinlogError | None:
        """Return why there is no event at `offset`, if the reader itself knows; else None."""
        return None

    def rejoin(self, offset: int) -> int | None:
        """Report to a reader that follows events that there is none at `offset`: look for the
        next.

        Returns where events begin again, None if their headers have to be searched for.
        """
        return None

    def pinned(self, size: int) -> int | None:
        """Return how much of the file holds its first `size` bytes; None if that is unknown."""
        return size + self.lead_bytes

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Reading afterwards raises SourceError."""


class WrappedReader(ByteReader):
    """A reader on the bytes of another one, which adopts its size and damage."""

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

    @property
    def packed_bytes(self) -> int | None:
        return self._inner.packed_bytes

    def retain(self, offset: int | None) -> None:
        self._inner.retain(None if offset is None else self.lead_bytes + offset)

    def release(self, offset: int) -> None:
        self._inner.release(self.lead_bytes + offset)

    def close(self) -> None:
        self._inner.close()


def source_error(path: str, error: Exception) -> SourceError:
    """Return the error of the operating system or the store as one line."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{without_secrets(path)} does not exist")
    if isinstance(error, PermissionError):
        return SourceError(
            f"no permission to read {without_secrets(path)}", hint="check its owner and mode"
        )
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{without_secrets(path)} is a directory")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else what(error, path)
    return SourceError(
        f"cannot read {without_secrets(path)}: {reason}", hint=hint_of_store(path, reason)
    )


def what(error: Exception, uri: str) -> str:
    """Return the first line of an error's text (stores like to add pages), without credentials."""
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    return line.replace(uri, without_secrets(uri))


def without_secrets(uri: str) -> str:
    """Return a URI without user, password and query, which may contain credentials."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}://{_login_and_rest(scheme, rest)[1]}" if separator else uri


def holds_secret(uri: str) -> bool:
    """Whether a text is the URI of a store, not of a server, and contains credentials."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return False
    login, _ = _login_and_rest(scheme, rest)
    query = rest.partition("?")[2]
    names = (unquote(part.partition("=")[0]).lower() for part in query.split("&"))
    return ":" in login or any(word in name for name in names for word in _SECRET_NAMES)


# Parts of the names of options whose values are secret.
_SECRET_NAMES = ("secret", "password", "passwd", "token", "credential", "key", "sig")
# Their authority is a host and a port; in all others it is a bucket, and a colon ends a user.
_WITH_PORTS = ("hdfs", "viewfs", "http", "https")


def _login_and_rest(scheme: str, rest: str) -> tuple[str, str]:
    """Return the part before the @ of an authority, and the part after it, without the query.

    A key that is not percent-encoded may contain slashes.
    """
    before = rest.partition("?")[0]
    authority, slash, path = before.partition("/")
    login, at, host = authority.rpartition("@")
    if not at and ":" in authority and "@" in path and scheme.lower() not in _WITH_PORTS:
        login, _, after = before.rpartition("@")
        return login, after
    return login, f"{host}{slash}{path}"
