"""Passwords of URLs on the command line, taken out of what other users see of this process.

Everybody may read the arguments of a process (ps, /proc/PID/cmdline). As the servers' own
clients do, the bytes are overwritten as soon as the program runs. Linux only; a password file
or the environment shows nothing at any time.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["hide_passwords"]

_PASSWORD = re.compile(
    rb"(?i)\b(?:mysql|mariadb)://[^:/@\x00]*:([^\x00]+)@|[?&]passw(?:or)?d=([^&\x00]+)"
    # stores: refused at once, and seen by nobody meanwhile
    rb"|\b(?!mysql|mariadb)[a-z][a-z0-9+]*://[^:/@\x00]*:([^@\x00]+)@"
    rb"|[?&][\w-]*(?:secret|token|credential|access[-_]?key|sig)[\w-]*=([^&\x00]+)"
)
# What `mysqlbinlog` takes, as the servers' own tools do.
_TOOL_PASSWORD = re.compile(rb"\x00(?:--password=|-p)([^\x00]+)")
# Fields 48 and 49 of /proc/self/stat, counted behind the name in parentheses.
_ARG_START, _ARG_END = 48 - 3, 49 - 3


def hide_passwords(arguments: Sequence[str]) -> None:
    """Overwrite the passwords among the arguments that the system shows; never raises.

    `arguments` are looked at first: without a URL in them, or `mysqlbinlog`, nothing is touched.
    """
    is_tool = arguments[1:2] == ["mysqlbinlog"]
    if sys.platform != "linux" or not (is_tool or any("://" in one for one in arguments)):
        return
    try:
        stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        shown = Path("/proc/self/cmdline").read_bytes()
        start, end = int(stat[_ARG_START]), int(stat[_ARG_END])
    except (OSError, ValueError, IndexError):
        return
    if not start or end - start != len(shown):
        return  # the system does not say where they lie
    for found in (_TOOL_PASSWORD if is_tool else _PASSWORD).finditer(shown):
        for group in range(1, found.re.groups + 1):
            low, high = found.span(group)
            if 0 <= low < high <= len(shown):
                ctypes.memset(start + low, ord("x"), high - low)
