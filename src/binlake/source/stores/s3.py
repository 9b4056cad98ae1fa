"""One client of S3 for all objects of a bucket.

pyarrow makes a client for each URI. That takes a request for the region of the bucket, one after the other even for threads,
and each client has connections of its own.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Any

_ATTEMPTS = 4  # of one request

# A client looks for credentials in files and of roles when it is made, at the latest.
_KEPT_SECONDS = 60.0
_MOST_KEPT = 16

# Here the path is part of the URI. pyarrow parses all others.
_PLAIN = re.compile(r"s3://([a-z0-9.-]+)(?:/[\w.~/:@+=,!-]*)?", re.ASCII)

_lock = threading.Lock()
_kept: dict[tuple[Any, ...], tuple[float, Any]] = {}


def shared_s3(uri: str) -> tuple[Any, str]:
    """Return the pyarrow file system of an S3 URI and the path in it. Raises the errors of pyarrow.

    All calls for the same bucket within a minute return the same file system.
    """
    from pyarrow import fs

    plain = _PLAIN.fullmatch(uri)
    if plain is None:
        file_system, path = fs.FileSystem.from_uri(uri)
        return _with_few_attempts(file_system), path
    key = plain[1], os.getpid(), _variables()
    now = time.monotonic()
    with _lock:
        made, found = _kept.pop(key, (0.0, None))
        if found is None or now - made > _KEPT_SECONDS:
            file_system, _ = fs.FileSystem.from_uri(f"s3://{plain[1]}")
            made, found = now, _with_few_attempts(file_system)
        while len(_kept) >= _MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = made, found
    return found, uri.removeprefix("s3://").rstrip("/")


def _variables() -> tuple[tuple[str, str], ...]:
    """The variables of the environment that a client obeys."""
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))


def _with_few_attempts(file_system: Any) -> Any:
    """Return a copy of a file system that gives up after a few attempts.

    That of a URI asks 31 times for an object that is shorter than the store says, and waits 3 seconds
    each time if the store keeps the connection open.
    """
    from pyarrow import fs

    _, (settings,) = file_system.__reduce__()  # a URI cannot name the attempts
    if not settings["proxy_options"].get("host"):
        settings = {**settings, "proxy_options": None}
    attempts = fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
    return fs.S3FileSystem(**settings, retry_strategy=attempts)
