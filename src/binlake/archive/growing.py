"""A file that grows at its end. A thread writes it, so that the caller does not wait.

    file = GrowingFile(descriptor, size)
    file.append(data)                # soon written; pieces keep their order
    file.flush()                     # now all of it is
    file.sync()                      # and durable, while another thread may append

The caller's thread writes small pieces: passing them on would take longer. Large pieces, which are
common in a bulk copy, leave the system's cache as soon as they are on the disk (Linux 6.14 and
later). Making room for them in the cache is most of the cost of writing, and evicts the data of
other programs.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections import deque
from collections.abc import Callable

from binlake.source.durable import sync_data, sync_file

# Copying so much into the system's memory takes longer than waking a thread.
_LARGE_BYTES = 64 << 10
# A caller that appends faster than the system writes waits when this much is held.
_MOST_HELD_BYTES = 16 << 20

# RWF_DONTCACHE, for which os has no name: https://man7.org/linux/man-pages/man2/readv.2.html
_DONTCACHE = 0x80
# Errors of kernels and file systems that do not know it.
_UNKNOWN_FLAG = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
# A page that leaves the cache must not be written again, so only whole pages do.
_PAGE_BYTES = 64 << 10  # the largest that a kernel is built with


#: Writes some bytes of a piece at an offset of a descriptor, and returns how many.
Write = Callable[[int, memoryview, int], int]


def write_cached(descriptor: int, data: memoryview, at: int) -> int:
    """Write into the system's cache."""
    return os.pwrite(descriptor, data, at)


def write_uncached(descriptor: int, data: memoryview, at: int) -> int:
    """Write whole pages, which leave the cache (Linux). Raises OSError, NotImplementedError where that is unknown."""
    return os.pwritev(descriptor, [data], at, _DONTCACHE)


_UNCACHED = write_uncached if sys.platform == "linux" and hasattr(os, "pwritev") else write_cached


class GrowingFile:
    """The file of an open descriptor, which it closes. `size` is its length including all appended
    bytes. One thread appends; any may `sync`. `write_pages` writes whole pages of large pieces, and `write` the
    rest, and also whole pages once `write_pages` has failed as an unknown call does.

    Every method raises OSError. After one failure every call fails: the system drops the bytes
    that it could not write, and reports that once.
    """

    def __init__(
        self,
        descriptor: int,
        size: int,
        write: Write = write_cached,
        write_pages: Write = _UNCACHED,
    ) -> None:
        self.size = size
        self._descriptor = descriptor
        self._written = size
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._closed = False
        self._write_some = write
        self._write_pages = write_pages

    def append(self, data: bytes) -> None:
        """Write at the end, immediately or soon."""
        with self._changed:
            self._changed.wait_for(self._has_room)
            self._check()
            if self._waiting or self._written != self.size or len(data) >= _LARGE_BYTES:
                self._start()  # on failure nothing has changed
                self._waiting.append(data)
                self.size += len(data)
                self._changed.notify_all()
                return
            self.size += len(data)
        # nothing is in progress, and only this thread appends
        self._write(data)
        self._check()

    def flush(self) -> None:
        """Wait until all appended bytes are written."""
        with self._changed:
            self._await(self.size)

    def sync(self) -> int:
        """Make the bytes appended so far durable; return that length of the file."""
        with self._changed:
            size = self.size
            self._await(size)
        try:
            sync_data(self._descriptor)
        except OSError as error:
            self._fail(error)
            raise
        return size

    def truncate(self, size: int) -> None:
        """Drop everything from byte `size` on, durably."""
        self.flush()
        os.ftruncate(self._descriptor, size)
        sync_file(self._descriptor)
        self.size = self._written = size

    def close(self) -> None:
        """Close the file. Bytes that are not written (`flush`) are lost."""
        if self._closed:
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        os.close(self._descriptor)

    # -- waiting bytes -------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self._error is not None or self.size - self._written < _MOST_HELD_BYTES

    def _await(self, size: int) -> None:
        self._changed.wait_for(lambda: self._error is not None or self._written >= size)
        self._check()

    def _check(self) -> None:
        if isinstance(self._error, OSError):
            raise self._error
        if self._error is not None:
            what = f"{type(self._error).__name__} {self._error}".strip()
            raise OSError(f"the writer thread has ended: {what}") from self._error

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    # -- writing -------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name="binlake-write", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # of Python, for whatever the system said
            raise OSError(errno.EAGAIN, str(error)) from error
        self._thread = thread

    def _run(self) -> None:
        try:
            self._write_what_waits()
        except BaseException as error:  # noqa: BLE001 - it would be lost, and the callers wait
            self._fail(error)

    def _write_what_waits(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                data = self._waiting[0]
            self._write(data)
            with self._changed:
                self._waiting.popleft()
                if self._error is not None:
                    return

    def _write(self, data: bytes) -> None:
        """Record that bytes are written."""
        at = self._written
        end = at + len(data)
        first, last = -(-at // _PAGE_BYTES) * _PAGE_BYTES, end // _PAGE_BYTES * _PAGE_BYTES
        try:
            with memoryview(data) as view:
                if first < last:
                    _write_all(self._descriptor, view[: first - at], at, self._write_some)
                    self._write_whole_pages(view[first - at : last - at], first)
                    _write_all(self._descriptor, view[last - at :], last, self._write_some)
                else:
                    _write_all(self._descriptor, view, at, self._write_some)
        except BaseException as error:
            self._fail(error)  # else `sync` would wait for these bytes without an end
            if not isinstance(error, Exception):
                raise
            return
        with self._changed:
            self._written = end
            self._changed.notify_all()

    def _write_whole_pages(self, data: memoryview, at: int) -> None:
        try:
            _write_all(self._descriptor, data, at, self._write_pages)
        except (OSError, NotImplementedError) as error:
            # Python knows the call, but was built where the C library has no flags for it
            unknown = isinstance(error, NotImplementedError) or error.errno in _UNKNOWN_FLAG
            if self._write_pages is self._write_some or not unknown:
                raise
            self._write_pages = self._write_some
            _write_all(self._descriptor, data, at, self._write_some)


def _write_all(descriptor: int, data: memoryview, at: int, write: Write) -> None:
    while data:
        count = write(descriptor, data, at)
        data, at = data[count:], at + count
