"""Coverage-guided fuzzing of the core: `make fuzz-core`, `python -m dev.fuzz [SECONDS] [INPUT…]`.

libFuzzer mutates logs, keeps those that reach new code, and stops at the first that AddressSanitizer or
UndefinedBehaviorSanitizer objects to, that raises anything but a BinlogError, that takes a minute or
4 GB. It begins with the golden logs, cut into their transactions, and with what earlier runs found
(build/fuzz/corpus). Without SECONDS the mutations are the same in each run, as far as it gets: a change should
fail for what it did. A failing input is kept in build/fuzz/findings; `python -m dev.fuzz 0 FILE` reads it
again.

Needs clang with libFuzzer, and Python as a library.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
CORPUS = BUILD / "corpus"
FINDINGS = BUILD / "findings"
SANITIZERS = "address,undefined"
# Python calls functions of modules through pointers of other types, and its objects have no vptr
NOT_CHECKED = "-fno-sanitize=vptr,function"
FLAGS = (
    f"-fsanitize=fuzzer-no-link,{SANITIZERS} {NOT_CHECKED} -fno-sanitize-recover=undefined"
    " -fno-omit-frame-pointer -g1 -O1"
)
SECONDS = 60
SEED = 1
LARGEST_BYTES = 1 << 14
SNIPPET_BYTES = 1 << 13
HEADER_BYTES = 19
TABLE_MAP = 19
COMPILERS = ("clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang")
INSTALL = (
    "fuzzing needs clang with libFuzzer. Debian/Ubuntu: apt install clang-14 libclang-rt-14-dev"
    " (on newer releases clang and libclang-rt-dev)"
)


def compiler() -> str:
    """A clang that can link libFuzzer. Exits where there is none."""
    probe = "#include <stddef.h>\n#include <stdint.h>\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return 0; }\n"
    for name in COMPILERS:
        found = shutil.which(name)
        if found is None:
            continue
        command = [found, f"-fsanitize=fuzzer,{SANITIZERS}", "-x", "c", "-", "-o", os.devnull]
        if not subprocess.run(command, input=probe.encode(), capture_output=True).returncode:
            return found
    sys.exit(INSTALL)


def build_core(clang: str) -> Path:
    """Compile the core with sanitizers and counters, beside a copy of the package; its folder."""
    library = BUILD / "lib"
    cxx = clang.replace("clang", "clang++")
    environment = {
        **os.environ,
        "CC": clang,
        "CXX": cxx,
        "LDSHARED": f"{clang} -shared",
        "LDCXXSHARED": f"{cxx} -shared",
        "BINLAKE_CFLAGS": FLAGS,
    }
    command = [sys.executable, "setup.py", "--quiet", "build"]
    command += ["--build-base", str(BUILD), "--build-lib", str(library)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return library


def build_harness(clang: str) -> Path:
    """Link the fuzzer with Python; the program."""
    program = BUILD / "fuzzer"
    names = sysconfig.get_config_vars()
    library, folder = names["LDVERSION"], names["LIBDIR"]
    command = [clang, "-g1", "-O1", f"-fsanitize=fuzzer,{SANITIZERS}", NOT_CHECKED, "-rdynamic"]
    command += [str(Path(__file__).with_name("harness.c")), "-o", str(program)]
    command += [f"-I{sysconfig.get_paths()['include']}", f"-L{folder}", f"-lpython{library}"]
    command += [f"-Wl,-rpath,{folder}", "-ldl", "-lm", "-lpthread", "-lutil"]
    if subprocess.run(command, check=False).returncode:
        sys.exit(
            f"fuzzing needs Python as a library (libpython{library}) in {folder}: apt install python3-dev"
        )
    return program


def seeds() -> None:
    """Put the golden logs, cut into their transactions, into the corpus.

    Of transactions of the same events on columns of the same types, one will do: reading them all
    takes time from the mutations.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    from support.logs.mutations import frames, snippets

    CORPUS.mkdir(parents=True, exist_ok=True)
    seen = set()
    for path in sorted((ROOT / "tests" / "golden").glob("*/*/binlog.0*")):
        log = path.read_bytes()
        if log[:4] != b"\xfebin":  # encrypted: every byte is as good as any other
            continue
        for part in snippets(log):
            events = list(frames(part))
            types = frozenset(
                kind
                for at, _, code in events
                if code == TABLE_MAP
                for kind in column_types(part, at)
            )
            shape = (frozenset(code for _, _, code in events), types)
            if len(part) <= SNIPPET_BYTES and shape not in seen:
                seen.add(shape)
                (CORPUS / hashlib.sha1(part).hexdigest()).write_bytes(part)


def column_types(log: bytes, at: int) -> bytes:
    """The types of the columns in the TABLE_MAP event at an offset, of a table of up to 250."""
    at += HEADER_BYTES + 8  # table id, flags
    for _ in ("database", "table"):
        at += log[at] + 2
    return log[at + 1 : at + 1 + log[at]]


def main() -> int:
    """Build, then fuzz; returns the fuzzer's exit code."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    inputs = sys.argv[2:]
    clang = compiler()
    library = build_core(clang)
    program = build_harness(clang)
    seeds()
    FINDINGS.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "BINLAKE_FUZZ_PYTHON": sys.executable,
        "PYTHONPATH": f"{library}{os.pathsep}{ROOT}",
        "PYTHONHASHSEED": str(SEED),
        # Python's and Arrow's own allocators would hide what runs over a buffer
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PATH": f"{Path(clang).resolve().parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    command = [
        str(program),
        f"-artifact_prefix={FINDINGS}/",
        "-timeout=60",
        "-report_slow_units=30",
        "-rss_limit_mb=4096",
    ]
    if inputs:
        command += inputs
    else:
        command += [f"-max_total_time={seconds}", f"-max_len={LARGEST_BYTES}", "-len_control=0"]
        command += [] if len(sys.argv) > 1 else [f"-seed={SEED}"]
        command += ["-detect_leaks=0", "-print_final_stats=1", str(CORPUS)]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
