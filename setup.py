"""Build of the compiled core (Cython). Everything else is in pyproject.toml.

A build without a C and C++ compiler stops with a message: binlake does not run without its core.

BINLAKE_CFLAGS and BINLAKE_LDFLAGS are added to the compiler's and linker's flags.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
CORE = Path("src/binlake/core")

sys.path.insert(0, str(HERE))
from dev.check_tools import missing_build_tools, missing_libdeflate  # noqa: E402 - setup.py is run, never imported

# Bounds checks stay on: the core reads untrusted bytes.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
}

OPTIONS = ["-O3", "-g0"]
CXX = ("number_text",)  # the shortest digits of a double are in C++'s standard library


def extensions() -> list[Extension]:
    """One extension module for each module of the rooms of core/."""
    return [
        Extension(
            ".".join(path.relative_to("src").with_suffix("").parts),
            [path.as_posix()],
            extra_compile_args=[
                *OPTIONS,
                *(["-std=c++17"] if path.stem in CXX else []),
                *os.environ.get("BINLAKE_CFLAGS", "").split(),
            ],
            language="c++" if path.stem in CXX else "c",
            extra_link_args=os.environ.get("BINLAKE_LDFLAGS", "").split(),
        )
        for path in sorted([*CORE.rglob("*.py"), *CORE.rglob("*.pyx")])
        if path.name != "__init__.py"
    ]


class BuildCore(build_ext):
    """Checks the tools, then translates and compiles: metadata and archives need neither."""

    def finalize_options(self) -> None:
        """Compile on all cores unless told otherwise."""
        super().finalize_options()
        self.parallel: int | None = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        """Put the translated C sources in the place of the Python ones, and compile them."""
        problems = missing_build_tools()
        if problems:
            raise SystemExit("binlake: cannot compile its core.\n  " + "\n  ".join(problems))
        translated = cythonize(
            extensions(), compiler_directives=DIRECTIVES, build_dir="build/cython"
        )
        sources = {module.name: module.sources for module in translated}
        for module in self.extensions:
            module.sources = sources[module.name]
            if module.name == "binlake.core.events.checksum":
                self._choose_crc32(module)
        super().build_extensions()

    def _choose_crc32(self, checksum: Extension) -> None:
        """Link libdeflate for CRC32, or else zlib, which is several times slower."""
        missing = missing_libdeflate()
        for problem in missing:
            print(f"binlake: building with zlib's CRC32. Missing: {problem}", file=sys.stderr)
        checksum.libraries = ["z"] if missing else ["deflate"]
        checksum.define_macros = [] if missing else [("BINLAKE_LIBDEFLATE", "1")]


os.chdir(HERE)
setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildCore},
    # only in a source archive: `make build` writes them, because they need the compiled package
    data_files=[("share/man/man1", sorted(map(str, Path("man").glob("*.1"))))],
)
