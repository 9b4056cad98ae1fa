"""The beginnings of objects in stores, kept while listings show the objects unchanged.

    heads = ObjectHeads()
    kept = heads.of(path, version)
    kept.data, kept.keep(data)

A stream reads the beginning of a log repeatedly: for its creation time, for the GTIDs before it, and
for the events that a checkpoint names. The beginning of a small log is the whole log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

_Key = tuple[str, str]


class ObjectHeads:
    """Keeps at most `most_bytes` of beginnings, and drops the least recently used ones first.

    Safe to use from several threads. Size and time tell two objects of one path apart. The driver
    therefore misses a replacement of equal size within the resolution of the store's clock. Tasks
    keep no beginnings, and compare the log that they read with the planned one.
    """

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: str, version: str) -> KeptHead:
        """Return the entry of an object; `version` is the version in its listing (`Listed`)."""
        return KeptHead(self, (path, version))

    def get(self, key: _Key) -> bytes | None:
        with self._lock:
            data = self._kept.get(key)
            if data is not None:
                self._kept.move_to_end(key)
            return data

    def put(self, key: _Key, data: bytes) -> None:
        with self._lock:
            self._bytes += len(data) - len(self._kept.pop(key, b""))
            self._kept[key] = data
            while self._bytes > self._most_bytes:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone)


@dataclass(frozen=True, slots=True)
class KeptHead:
    """The entry of one object."""

    heads: ObjectHeads
    key: tuple[str, str]

    @property
    def data(self) -> bytes | None:
        """The beginning of the object, None if it is not kept."""
        return self.heads.get(self.key)

    def keep(self, data: bytes) -> None:
        """Keep the beginning of the object."""
        self.heads.put(self.key, data)
