"""A packed Python environment with binlake, for executors that have neither: `binlake spark-env`.

    bin/python             a shell script that starts the interpreter below, wherever it is unpacked
    bin/python3.11         the interpreter
    lib/                   its standard library, and the shared libraries that it needs
    packages/              binlake and what it requires

A virtual environment would not work: its interpreter is a link to one that the executors may lack.
The archive does not contain PySpark: Spark has its own on every executor.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from binlake.errors import OptionError, SourceError
from binlake.source.bytes import writing_whole

_ENDS = (".tar.gz", ".tgz")
_COMPRESSION = 3  # of 9: half the time of the default, for a few percent of size
_MODE = 0o644
#: Modules of binlake outside of its package.
_MODULES = ("pyspark_binlake", "binlake_program", "binlake_passwords")
_EXTRAS = ("server", "crypto")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
# Parts of the standard library that only developers use, and packages of other projects.
_LEFT_OUT = re.compile(
    r"(?:__pycache__|test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|site-packages|dist-packages"
    r"|config-.*|_tkinter.*)"
)
# The C library belongs to the machine.
_OF_THE_MACHINE = re.compile(
    r"(?:linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libutil|libresolv)\b.*"
)
_STARTER = """#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
PYTHONHOME=$here
PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$here/packages
LD_LIBRARY_PATH=$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
PYTHONNOUSERSITE=1
export PYTHONHOME PYTHONPATH LD_LIBRARY_PATH PYTHONNOUSERSITE
exec "$here/bin/{name}" "$@"
"""


def pack_environment(target: Path, packages: Sequence[str] = ()) -> int:
    """Write the environment of this process to a .tar.gz file; returns the file's size in bytes.

    `packages`: distributions to add, with what they require. Raises OptionError for another ending
    of the file and for packages that are not installed, SourceError if the file cannot be written.
    """
    if not target.name.endswith(_ENDS):
        raise OptionError(
            f"{target}: Spark recognises archives by their names; use {' or '.join(_ENDS)}",
            name="FILE",
        )
    if sys.platform != "linux":
        raise SourceError("run this on Linux, for executors on Linux")
    wanted = _with_requirements(["binlake", *packages])
    try:
        with (
            writing_whole(target, _MODE) as file,
            tarfile.open(
                fileobj=file, mode="w:gz", compresslevel=_COMPRESSION, dereference=True
            ) as archive,
        ):
            _add_interpreter(archive)
            for distribution in wanted:
                _add_distribution(archive, distribution)
        return target.stat().st_size
    except OSError as error:
        raise SourceError(
            f"cannot write {target}: {error.strerror or error}", errno=error.errno
        ) from error


# -- the interpreter -------------------------------------------------------------------------------


def _add_interpreter(archive: tarfile.TarFile) -> None:
    version = f"python{sysconfig.get_python_version()}"
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    _add_text(archive, "bin/python", _STARTER.format(name=version))
    archive.add(program, f"bin/{version}")
    library = Path(sysconfig.get_path("stdlib"))
    archive.add(library, f"lib/{version}", filter=_kept)
    extensions = [program, *library.glob("lib-dynload/*.so")]
    for name, path in sorted(_shared_libraries(extensions).items()):
        archive.add(path, f"lib/{name}")


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT.fullmatch(Path(entry.name).name) else entry


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o755
    archive.addfile(entry, io.BytesIO(text.encode()))


def _shared_libraries(programs: Sequence[Path]) -> dict[str, str]:
    """Return the shared libraries that programs are linked to, by name, except the C library."""
    command = ["ldd", *(str(path) for path in programs if not _LEFT_OUT.fullmatch(path.name))]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise SourceError(
            f"cannot run ldd: {error.strerror}", hint="install it with the C library"
        ) from None
    found = dict(re.findall(r"^\s+(\S+) => (/\S+)", listed, re.MULTILINE))
    return {name: path for name, path in found.items() if not _OF_THE_MACHINE.fullmatch(name)}


# -- packages --------------------------------------------------------------------------------------


def _with_requirements(names: Sequence[str]) -> list[metadata.Distribution]:
    """Return the distributions with all their requirements; of binlake's extras, the installed
    ones.

    Raises OptionError for a name that is not installed.
    """
    found: dict[str, metadata.Distribution] = {}
    seen: set[_Wanted] = set()
    waiting = [_Wanted(name, _EXTRAS if name == "binlake" else ()) for name in names]
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        try:
            distribution = metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            if wanted.name in names:
                raise OptionError(
                    f"the package {wanted.name} is not installed", name="--package"
                ) from None
            continue  # for another system or version of Python, or of an extra that is not installed
        found[distribution.metadata["Name"].lower()] = distribution
        waiting += _required(distribution, wanted.extras)
    return list(found.values())


class _Wanted(NamedTuple):
    """The name of a distribution, and the wanted extras."""

    name: str
    extras: tuple[str, ...]


def _required(distribution: metadata.Distribution, extras: Sequence[str]) -> Iterator[_Wanted]:
    for requirement in distribution.requires or ():
        found = _REQUIREMENT.match(requirement)
        extra = _EXTRA.search(requirement)
        if found and (extra is None or extra[1] in extras):
            own = tuple(name.strip() for name in (found["extras"] or "").split(",") if name.strip())
            yield _Wanted(found["name"], own)


def _add_distribution(archive: tarfile.TarFile, distribution: metadata.Distribution) -> None:
    files = [
        file
        for file in distribution.files or ()
        if ".." not in file.parts and "__pycache__" not in file.parts and file.suffix != ".pth"
    ]
    for file in files:
        path = Path(str(distribution.locate_file(file)))
        if path.is_file():
            archive.add(path, f"packages/{file.as_posix()}")
    if distribution.metadata["Name"] == "binlake" and not any(
        file.as_posix() == "binlake/__init__.py" for file in files
    ):
        _add_source_tree(archive)  # of an editable installation


def _add_source_tree(archive: tarfile.TarFile) -> None:
    """Add the package itself, from where this process imports it."""
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".so") and "__pycache__" not in path.parts:
            archive.add(path, f"packages/binlake/{path.relative_to(package).as_posix()}")
    for name in _MODULES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            archive.add(spec.origin, f"packages/{os.path.basename(spec.origin)}")  # noqa: PTH119
