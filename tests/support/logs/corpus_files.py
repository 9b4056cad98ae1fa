"""The files of the corpus that BINLAKE_CORPUS names; none where it is not set."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FILES", "FOLDER", "Listed", "keys_beside"]

FOLDER = Path(os.environ.get("BINLAKE_CORPUS", "/nonexistent"))


@dataclass(frozen=True)
class Listed:
    """A file of a manifest."""

    part: str
    row: dict[str, str]

    @property
    def path(self) -> Path:
        return FOLDER / self.part / self.row["path"]

    @property
    def name(self) -> str:
        return f"{self.part}/{self.row['path']}"

    @property
    def keys(self) -> dict[str, Any]:
        """The option that opens the file, if it is encrypted; empty if it is not."""
        return keys_beside(self.path)

    @property
    def types(self) -> Counter[int]:
        return Counter({int(k): int(v) for k, v in re.findall(r"(\d+):(\d+)", self.row["types"])})

    def matches(self, pattern: str) -> bool:
        """A pattern may end in @VERSION where several files have one name."""
        return bool(re.fullmatch(pattern, self.name)) or bool(
            re.fullmatch(pattern, f"{self.name}@{self.row['server_version']}")
        )


#: What the keyrings beside encrypted logs are called; keys2.txt is one of MariaDB's test suite.
_KEYRINGS = ("keyring", "file-keys.txt", "file-keys.enc", "keys2.txt")
_PASSWORD = "file-keys.password"


def keys_beside(log: Path) -> dict[str, Any]:
    """Option `keyring`, where one lies beside a log, and its password."""
    options: dict[str, Any] = {}
    for name in _KEYRINGS:
        if (log.parent / name).exists():
            options["keyring"] = str(log.parent / name)
    if (log.parent / _PASSWORD).exists():
        options["keyring_password_file"] = str(log.parent / _PASSWORD)
    return options


def _listed() -> Iterator[Listed]:
    for part in ("generated", "public"):
        manifest = FOLDER / part / "MANIFEST.csv"
        if manifest.exists():
            with manifest.open(newline="") as lines:
                yield from (Listed(part, row) for row in csv.DictReader(lines))


FILES = list(_listed())
