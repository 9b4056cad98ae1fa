"""Making what was written to a file survive a loss of power.

On macOS `fsync` hands it to the drive, which may keep it in a cache of its own: there the drive is
asked to empty that. https://developer.apple.com/library/archive/documentation/System/Conceptual/ManPages_iPhoneOS/man2/fsync.2.html
"""

from __future__ import annotations

import errno
import fcntl
import os

__all__ = ["sync_data", "sync_file"]

# What file systems say, of the network mostly, that cannot ask a drive.
_CANNOT_ASK = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)


def sync_file(descriptor: int) -> None:
    """Make a file, or the names in a directory, durable. Raises OSError."""
    if not _emptied_the_drives_cache(descriptor):
        os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Make the bytes of a file durable, and its length, but not its times. Raises OSError."""
    if not _emptied_the_drives_cache(descriptor):
        getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has no fdatasync


def _emptied_the_drives_cache(descriptor: int) -> bool:
    """Whether everything is durable already, because the system knows how to say that to a drive."""
    command = getattr(fcntl, "F_FULLFSYNC", None)
    if command is None:
        return False
    try:
        fcntl.fcntl(descriptor, command)
    except OSError as error:
        if error.errno not in _CANNOT_ASK:
            raise
        return False
    return True
