"""Tests of untrusted bytes with the core compiled under sanitizers: `make test-asan`.

AddressSanitizer finds reads and writes outside of buffers, UndefinedBehaviorSanitizer shifts, overflows
and conversions that C does not define. Both stop the test that meets them.

Arguments go to pytest. BINLAKE_FUZZ_CASES (here 2,000 unless set) says how many mutations.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "asan"
SANITIZERS = "-fsanitize=address,undefined"
# -O0: with sanitizers, optimised code takes 2.5 times as long to compile, which was nearly half of a run
FLAGS = f"{SANITIZERS} -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 -O0"
TESTS = ("tests/unit/core", "tests/truth/test_damage.py", "tests/truth/test_golden.py")


def build() -> Path:
    """Compile the core with the sanitizer, beside a copy of the package; its folder."""
    library = BUILD / "lib"
    flags = {"BINLAKE_CFLAGS": FLAGS, "BINLAKE_LDFLAGS": SANITIZERS}
    command = [sys.executable, "setup.py", "--quiet", "build"]
    command += ["--build-base", str(BUILD), "--build-lib", str(library)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **flags}, check=True)
    return library


def runtime() -> str:
    """The sanitizer's library, which must be loaded before Python."""
    compiler = os.environ.get("CC", "cc").split()
    asked = subprocess.run(
        [*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    found = asked.stdout.strip()
    if not Path(found).is_absolute():
        sys.exit("the compiler has no AddressSanitizer; Debian/Ubuntu: apt install libasan8")
    return found


def main() -> int:
    """Build, then run the tests; returns pytest's exit code."""
    library = build()
    environment = {
        "BINLAKE_FUZZ_CASES": "2000",
        **os.environ,
        "PYTHONPATH": str(library),
        "LD_PRELOAD": runtime(),
        # Python's own allocator would hide what runs over a buffer
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
    }
    command = [sys.executable, "-m", "pytest", *(sys.argv[1:] or TESTS)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
