"""A directory of complete logs, for the tests of what becomes of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from binlake.archive.folder import Folder
from binlake.archive.folders import open_folder
from binlake.archive.writer import write_index_file


@pytest.fixture
def folder(golden: Path, tmp_path: Path) -> Folder:
    for path in sorted((golden / "mysql-9.7/rotation").glob("binlog.0*")):
        shutil.copy(path, tmp_path / path.name)
    found = open_folder(str(tmp_path))
    write_index_file(found)
    return found
