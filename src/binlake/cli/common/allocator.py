"""How the C library gives memory back, in commands that decode many rows."""

from __future__ import annotations

import os

__all__ = ["keep_freed_memory"]

# parameters of mallopt() (malloc.h)
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_MAPPED = 32 << 20  # glibc before 2.35 takes no more
_MOST_KEPT = 128 << 20
_OWN_SETTINGS = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> None:
    """Let malloc keep the memory of a finished batch for the next one, in this process from now on.

    glibc returns it to the system after each batch where several threads decode, and the system clears
    every page again: a third of the time for narrow tables. Other C libraries, and settings of the user's
    own, stay as they are.
    """
    if not _is_glibc() or any(name in os.environ for name in _OWN_SETTINGS):
        return
    import ctypes

    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_THRESHOLD, _MOST_MAPPED)
    library.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def _is_glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (ValueError, OSError):  # another C library does not know the name
        return False
