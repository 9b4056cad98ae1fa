"""Make the content of a file survive a loss of power.

On macOS `fsync` only hands the bytes to the drive, which may keep them in its cache. So binlake
also asks the drive to flush that cache.
https://developer.apple.com/library/archive/documentation/System/Conceptual/ManPages_iPhoneOS/man2/fsync.2.html
"""

from __future__ import annotations

import errno
import fcntl
import os

# Errors of file systems, mostly of the network, that cannot flush a drive.
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
    """Whether everything is durable already, because the system itself flushes the drive."""
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
