"""How long a command takes to its first line of output: first_line.py COMMAND…."""

from __future__ import annotations

import json
import subprocess
import sys
import time


def main() -> None:
    """Measure and print."""
    started = time.perf_counter()
    with subprocess.Popen(
        sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - started
        process.kill()
    if not line:
        raise SystemExit(f"{' '.join(sys.argv[1:])}: no output")
    print(json.dumps({"seconds": seconds, "bytes": len(line)}))


if __name__ == "__main__":
    main()
