"""The files of the corpus that BINLAKE_CORPUS names; none where it is not set."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILES", "FOLDER", "Listed"]

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
    def types(self) -> Counter[int]:
        return Counter({int(k): int(v) for k, v in re.findall(r"(\d+):(\d+)", self.row["types"])})

    def matches(self, pattern: str) -> bool:
        """A pattern may end in @VERSION where several files have one name."""
        return bool(re.fullmatch(pattern, self.name)) or bool(
            re.fullmatch(pattern, f"{self.name}@{self.row['server_version']}")
        )


def _listed() -> Iterator[Listed]:
    for part in ("generated", "public"):
        manifest = FOLDER / part / "MANIFEST.csv"
        if manifest.exists():
            with manifest.open(newline="") as lines:
                yield from (Listed(part, row) for row in csv.DictReader(lines))


FILES = list(_listed())
