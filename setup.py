"""Build of the compiled core (Cython, pure-Python mode). Everything else is in pyproject.toml."""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CORE = Path("src/binlake/core")

# Bounds checks stay on: the core reads untrusted bytes (design D1).
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
}

extensions = [
    Extension(
        f"binlake.core.{path.stem}",
        [str(path)],
        libraries=["z"] if path.stem == "checksum" else [],
        extra_compile_args=["-O3", *os.environ.get("BINLAKE_CFLAGS", "").split()],
        extra_link_args=os.environ.get("BINLAKE_LDFLAGS", "").split(),
    )
    for path in sorted(CORE.glob("*.py"))
    if path.name != "__init__.py"
]

setup(ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, build_dir="build/cython"))
