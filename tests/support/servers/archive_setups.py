"""Servers with small logs, and the directory that an archive makes."""

from __future__ import annotations

from pathlib import Path

import pytest

SMALL_LOGS = ["--max-binlog-size=65536"]


BOTH = pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])


RESET = {"mysql-9.7": "RESET BINARY LOGS AND GTIDS", "mariadb-11.8": "RESET MASTER"}


def only_directory(root: Path) -> Path:
    (folder,) = [path for path in root.iterdir() if path.is_dir()]
    return folder
