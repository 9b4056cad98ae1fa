"""Logs of the golden folder as a server sends them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from support.servers.serving import (
    CHECKSUMS,
    NON_BLOCK,
    by_file,
    client,
    dump,
    rows,
)

ALL = NON_BLOCK | 2  # of MariaDB: ANNOTATE_ROWS events too


def logs_of(golden: Path, case: str, folder: Path) -> list[Path]:
    """The logs of a golden case in a directory of their own."""
    folder.mkdir()
    for log in sorted((golden / case).glob("binlog.0*")):
        shutil.copy(log, folder)
    return sorted(folder.iterdir())


def sent(server: Any, file: str, position: int = 4) -> dict[str, bytes]:
    with client(server) as connection:
        rows(connection, CHECKSUMS)
        return by_file(dump(connection, file, position, flags=ALL))
