"""Ask an advisory service whether the pinned packages have known vulnerabilities: `make audit`.

Every lock file is checked with pip-audit, against OSV (`ARGS='--service pypi'`: against the registry).
Exit code 1: a package has a vulnerability. 3: the service cannot be reached, so nothing is known; with
`--unless-unreachable` this is reported, but is no error.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (ROOT / "requirements.lock", *sorted((ROOT / "dev" / "locks").glob("*.lock")))
UNREACHABLE = 3
# pip-audit ends with 1 for both; its words and those of the libraries that it connects with
_CONNECTION = (
    *("ConnectionError", "Could not connect", "Max retries exceeded", "NameResolutionError"),
    *("ConnectTimeout", "Connection aborted", "ServiceError", "ReadTimeout"),
)


def audit(lock: Path, service: str) -> tuple[int, str]:
    """The exit code for a lock file, and what to print."""
    command = [
        *(sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--timeout", "30"),
        *("--require-hashes", "--disable-pip", "--vulnerability-service", service),
        *("--requirement", str(lock)),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode and any(word in run.stderr for word in _CONNECTION):
        return UNREACHABLE, "the advisory service cannot be reached: NOT CHECKED"
    return run.returncode, (run.stdout + run.stderr).strip()


def main() -> int:
    """Check all lock files, or until the service cannot be reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service", choices=("osv", "pypi"), default="osv")
    parser.add_argument("--unless-unreachable", action="store_true")
    parser.add_argument("locks", nargs="*", type=Path, default=LOCKS)
    given = parser.parse_args()
    worst = 0
    for lock in given.locks:
        code, text = audit(lock, given.service)
        print(f"{lock.name}: {text}", file=sys.stderr if code else sys.stdout)
        worst = max(worst, code)
        if code == UNREACHABLE:
            break
    return 0 if worst == UNREACHABLE and given.unless_unreachable else worst


if __name__ == "__main__":
    sys.exit(main())
