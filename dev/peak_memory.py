"""The most memory that a command takes, without that of who starts it.

Linux counts the memory of the starting process towards `ru_maxrss` of its child (until `exec`, they
share it). This small process between the two keeps it out.

    python dev/peak_memory.py REPORT COMMAND …

writes `{"code": …, "peak_memory_bytes": …, "cpu_seconds": …}` to the file REPORT. `code` is negative
if a signal ended the command.
"""

import json
import os
import sys
from pathlib import Path

__all__: list[str] = []


def main(report: str, *command: str) -> None:
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(pid, 0)
    with Path(report).open("w", encoding="utf-8") as file:
        json.dump(
            {
                "code": os.waitstatus_to_exitcode(status),
                "peak_memory_bytes": used.ru_maxrss * 1024,
                "cpu_seconds": used.ru_utime + used.ru_stime,
            },
            file,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
