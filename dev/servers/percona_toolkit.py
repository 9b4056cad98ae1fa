"""Percona Toolkit, as Debian has it: pt-online-schema-change changes a table while it is written to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.servers.packages import install_debian

__all__ = ["PERCONA_TOOLKIT", "ToolRun", "online_schema_change", "provision_percona_toolkit"]

PERCONA_TOOLKIT = "percona-toolkit"

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_MODULES = ("usr/share/perl5", f"{_LIBRARIES}/perl5/5.36", "usr/share/perl/5.36",
            f"{_LIBRARIES}/perl/5.36", f"{_LIBRARIES}/perl-base")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A command line, and the environment that its program needs."""

    command: Sequence[str]
    environment: Mapping[str, str]


def provision_percona_toolkit() -> Path:
    """Where the programs are; downloads them when they are not there. Raises SetupError."""
    return install_debian(PERCONA_TOOLKIT, "bookworm", (PERCONA_TOOLKIT,))


def online_schema_change(
    socket: Path, database: str, table: str, alter: str, *more: str
) -> ToolRun:
    """Change a table of a server as root. `alter`: the end of ALTER TABLE; `more`: other options.

    Downloads the program when it is not there. Raises SetupError.
    """
    root = provision_percona_toolkit()
    # Debian's Perl, with its own loader and libraries, as the servers are run
    perl = [str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(root / _LIBRARIES),
            str(root / "usr/bin/perl")]  # fmt: skip
    options = ["--alter", alter, "--recursion-method", "none", "--no-version-check", *more]
    place = f"S={socket},u=root,D={database},t={table}"
    environment = {
        **os.environ,
        "PERL5LIB": ":".join(str(root / path) for path in _MODULES),
        "MARIADB_PLUGIN_DIR": str(root / _LIBRARIES / "libmariadb3/plugin"),
    }
    program = str(root / "usr/bin/pt-online-schema-change")
    return ToolRun([*perl, program, *options, "--execute", place], environment)
