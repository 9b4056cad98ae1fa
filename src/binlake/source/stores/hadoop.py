"""One client of HDFS for all files of a cluster.

pyarrow makes a client for each URI. When Python drops a client, libhdfs closes it together with all files that it has
opened, also those that are still read or written.
"""

from __future__ import annotations

import re
import threading
from typing import Any
from urllib.parse import urlsplit

# Here the path is part of the URI. pyarrow parses all others.
_PLAIN_PATH = re.compile(r"/|(?:/[\w.~:@+=,!-]+)+", re.ASCII)

_lock = threading.Lock()
_kept: dict[tuple[str, str, str], Any] = {}


def shared_hadoop(uri: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a URI of HDFS and the path in it. Raises the errors of pyarrow.

    All calls for the same cluster return the same file system, which stays open until the process ends.
    """
    from pyarrow import fs

    parts = urlsplit(uri)
    key = parts.scheme, parts.netloc, parts.query
    with _lock:
        found = _kept.get(key)
        if found is not None and not parts.fragment and _PLAIN_PATH.fullmatch(parts.path):
            return found, parts.path
        file_system, path = fs.FileSystem.from_uri(uri)
        return _kept.setdefault(key, file_system), path
