"""Find what building and running need, and say what to install.

    python3 dev/check_tools.py [python] [build] [libdeflate] [java]

Without arguments all four are checked. Exit code 1 when something is missing. `setup.py` uses
`missing_build_tools`, so a build that cannot work says the same, and `missing_libdeflate`, as the
build works without that library. Runs on any Python 3, before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

__all__ = [
    "main",
    "missing_build_tools",
    "missing_java",
    "missing_libdeflate",
    "missing_python",
]

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


def _version_of_python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def missing_python() -> list[str]:
    """Problems of the running Python."""
    problems = []
    if sys.version_info < OLDEST_PYTHON:
        problems.append(
            f"Python {_version_of_python()} is too old, 3.11 or newer is needed. "
            "Install one and say which: make PYTHON=python3.12 …"
        )
    try:
        import ensurepip  # noqa: F401 - what `python -m venv` needs
        import venv  # noqa: F401
    except ImportError:
        problems.append(
            "This Python cannot make virtual environments. Debian/Ubuntu: apt install "
            f"python{_version_of_python()}-venv"
        )
    return problems


_PYTHON_HEADERS = (
    "the C headers of Python {python}. Debian/Ubuntu: apt install python3-dev; "
    "Fedora: dnf install python3-devel; macOS: use the Python of python.org or Homebrew"
)
_ZLIB = (
    "zlib.h is missing; needed is libdeflate, or the C header of zlib. "
    "Debian/Ubuntu: apt install libdeflate-dev; Fedora: dnf install libdeflate-devel; "
    "macOS: xcode-select --install"
)
_COMPILER = (
    "a C compiler. Debian/Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc; "
    "macOS: xcode-select --install"
)
_CXX = (
    "a C++17 compiler that can write doubles is missing (GCC 11, Clang 14 or newer). Debian/Ubuntu: "
    "apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install"
)
_CXX_PROBE = """#include <charconv>
char* probe(char* at, double value) {
    return std::to_chars(at, at + 40, value, std::chars_format::scientific).ptr;
}
"""


def _compiler() -> list[str]:
    """The command that extension modules are compiled with."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    command = str(named).split()
    if shutil.which(command[0]) is None:
        for other in ("cc", "gcc", "clang"):
            if shutil.which(other) is not None:
                return [other]
    return command


def _compiles(command: list[str], source: str) -> bool:
    """Whether a source without `main` compiles."""
    return _runs_compiler(command, source, ["-c"])


def _runs_compiler(
    command: list[str], source: str, options: list[str], name: str = "probe.c"
) -> bool:
    includes = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    flags = ["-I" + path for path in sorted(includes)]
    flags += os.environ.get("CPPFLAGS", "").split() + os.environ.get("CFLAGS", "").split()
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, name)
        probe.write_text(source)
        run = subprocess.run(
            [*command, *flags, str(probe), "-o", str(probe.with_suffix(".out")), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    return run.returncode == 0


def missing_build_tools() -> list[str]:
    """Tools that the compiled core lacks: compilers, Python.h, a library for CRC32."""
    command = _compiler()
    if shutil.which(command[0]) is None or not _compiles(command, "int probe;\n"):
        return [f"{command[0]!r} does not work or is not there; needed is {_COMPILER}."]
    problems = []
    if not _runs_compiler(command, _CXX_PROBE, ["-c", "-std=c++17"], "probe.cc"):
        problems.append(_CXX)
    if not _compiles(command, "#include <Python.h>\nint probe;\n"):
        headers = _PYTHON_HEADERS.format(python=_version_of_python())
        problems.append(f"Python.h is missing; needed are {headers}.")
    if missing_libdeflate() and not _compiles(command, "#include <zlib.h>\nint probe;\n"):
        problems.append(_ZLIB)
    return problems


def missing_libdeflate() -> list[str]:
    """How to get libdeflate, if the compiler cannot link it: the core then uses zlib's CRC32."""
    source = (
        "#include <libdeflate.h>\n"
        'int main(void) { return libdeflate_crc32(0, "", 0) + LIBDEFLATE_VERSION_MAJOR; }\n'
    )
    options = [*os.environ.get("LDFLAGS", "").split(), "-ldeflate"]
    if _runs_compiler(_compiler(), source, options):
        return []
    remedy = (
        "libdeflate: binlake works without it, but verifies checksums at a fraction of the speed. "
        "Debian/Ubuntu: apt install libdeflate-dev; Fedora: dnf install libdeflate-devel; "
        "macOS: brew install libdeflate, and set CPPFLAGS and LDFLAGS"
    )
    return [remedy]


def _java_version(program: str) -> int | None:
    """The major version of a `java` program; None when it does not run."""
    try:
        run = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(match[1]) if run.returncode == 0 and match else None


def missing_java() -> list[str]:
    """Problems of Java, which Spark runs on: the one of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    version = _java_version(program)
    if version is not None and version >= OLDEST_JAVA:
        return []
    remedy = (
        f"Spark needs Java {OLDEST_JAVA} or newer. Debian/Ubuntu: apt install "
        "openjdk-17-jre-headless; Fedora: dnf install java-21-openjdk-headless; "
        "macOS: brew install openjdk@21, and set JAVA_HOME."
    )
    where = f"JAVA_HOME ({home})" if home else "PATH"
    found = f"{where} has Java {version}" if version else f"{where} has no Java that runs"
    return [f"{found}. {remedy}"]


CHECKS = {
    "python": missing_python,
    "build": missing_build_tools,
    "libdeflate": missing_libdeflate,
    "java": missing_java,
}


def main(names: list[str]) -> int:
    """Check the named things; print what is missing. Returns the exit code."""
    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        print("unknown check: {}; known: {}".format(", ".join(unknown), ", ".join(CHECKS)))
        return 2
    problems = [problem for name in names or CHECKS for problem in CHECKS[name]()]
    for problem in problems:
        print("missing: " + problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
