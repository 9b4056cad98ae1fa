"""The version of binlake, and of the libraries that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

#: Distributions that determine what binlake reads and writes.
_LIBRARIES = ("pyarrow", "zstandard", "sqlglot", "PyMySQL", "cryptography", "pyspark")


def version_line() -> str:
    """Return the output of `binlake --version`."""
    return f"binlake {metadata.version('binlake')}"


def details_lines() -> Iterator[str]:
    """Return what `--verbose` adds: the library that computes checksums, Python, and the packages."""
    import platform

    from binlake.core.events.checksum import crc32_library

    yield f"CRC32: {crc32_library()}"
    yield f"Python: {platform.python_version()} on {platform.platform()}"
    for name in _LIBRARIES:
        try:
            yield f"{name}: {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield f"{name}: not installed"
