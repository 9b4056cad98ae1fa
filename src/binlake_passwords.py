"""Hide the passwords on the command line of this process.

All users of the machine can read the arguments of a process (ps, /proc/PID/cmdline). As the servers' own
clients do, binlake overwrites the bytes. It does so before it imports anything of its own, because
imports take a hundred times as long; that is why this module stands outside of the package and imports none of
it. Linux only; a password file or the environment shows nothing at any time.
"""

from __future__ import annotations

import re
import sys

# Between two words of a name, also percent-encoded.
_BETWEEN = "(?:[-_.]|%5f|%2d|%2e)?"
#: What the name of an option, a setting or a part of a URL contains if its value is a secret.
SECRET_NAME = (
    r"pass|pwd|secret|token|credential|signature|\bsig\b|\bsas\b"
    rf"|(?:api|access|account|private|encryption){_BETWEEN}key"
)
#: What it ends with if the value is the name of a file with a secret.
FILE_NAME = r"[-_.]file"
# A name with a secret as its value; it may have percent-encoded characters.
_NAME = rf"[\w.%-]{{0,128}}(?:{SECRET_NAME})[\w.%-]{{0,128}}(?<!{FILE_NAME})".encode()
_PASSWORD = re.compile(
    rb"(?i)\b(?:mysql|mariadb)://[^:/@\x00]*:([^\x00]+)@"
    # object stores: binlake refuses the URL; other users must not see it until then
    rb"|\b(?!mysql|mariadb)[a-z][a-z0-9+]*://[^:/@\x00]*:([^@\x00]+)@"
    rb"|[?&]" + _NAME + rb"=([^&\x00]+)"
    # a setting, as in --conf NAME=VALUE, and an option with its value in the next argument
    rb"|(?<![\w.%?&-])" + _NAME + rb"=([^\x00]+)"
    rb"|(?<=\x00)-" + _NAME + rb"\x00([^\x00]+)"
)
# What `mysqlbinlog` takes, as the servers' own tools do.
_TOOL_PASSWORD = re.compile(rb"\x00(?:--password=|-p)([^\x00]+)")
# Fields 48 and 49 of /proc/self/stat, counted behind the name in parentheses.
_ARG_START, _ARG_END = 48 - 3, 49 - 3


def hide_passwords(arguments: list[str]) -> None:
    """Overwrite the passwords and keys among the arguments that the system shows; never raises."""
    is_tool = arguments[1:2] == ["mysqlbinlog"]
    if sys.platform != "linux" or len(arguments) < 2:
        return
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib is an import
            stat = file.read().rpartition(b")")[2].split()
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            shown = file.read()
        start, end = int(stat[_ARG_START]), int(stat[_ARG_END])
    except (OSError, ValueError, IndexError):
        return
    if not start or end - start != len(shown):
        return  # the system does not report their address
    spans = [
        found.span(group)
        for pattern in (_PASSWORD, _TOOL_PASSWORD)[: 1 + is_tool]
        for found in pattern.finditer(shown)
        for group in range(1, found.re.groups + 1)
    ]
    for low, high in spans:
        if 0 <= low < high <= len(shown):
            _overwrite(start + low, high - low)


def _overwrite(address: int, size: int) -> None:
    try:
        with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
            memory.seek(address)
            memory.write(b"x" * size)
    except OSError:  # the system does not allow it
        import ctypes

        ctypes.memset(address, ord("x"), size)
