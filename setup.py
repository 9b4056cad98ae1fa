"""Build of the compiled core (Cython, pure-Python mode). Everything else is in pyproject.toml.

A build without a C compiler stops with a message: uncompiled, the core gives the same results
a hundred times slower, and nobody should get that by accident.

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
from dev.check_tools import missing_build_tools  # noqa: E402 - setup.py is run, never imported

# Bounds checks stay on: the core reads untrusted bytes.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
}


def extensions() -> list[Extension]:
    """One extension module per module of core/."""
    return [
        Extension(
            f"binlake.core.{path.stem}",
            [path.as_posix()],
            libraries=["z"] if path.stem == "checksum" else [],
            extra_compile_args=["-O3", *os.environ.get("BINLAKE_CFLAGS", "").split()],
            extra_link_args=os.environ.get("BINLAKE_LDFLAGS", "").split(),
        )
        for path in sorted(CORE.glob("*.py"))
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
        super().build_extensions()


os.chdir(HERE)
setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore})
