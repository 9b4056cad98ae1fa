"""The notebooks in examples/ run, and the page beside them lists all of them.

Those that need Spark run beside other tests with a session: `tests/spark/test_source.py`, `tests/mirror/test_mirror.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.notebooks import EXAMPLES, ROOT, run_notebook


def test_every_notebook_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for notebook in EXAMPLES.glob("*.ipynb"):
        assert f"]({notebook.name})" in page


@pytest.mark.parametrize("folder", [EXAMPLES, ROOT], ids=["examples", "root"])
def test_incident(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter runs a notebook in its own folder, other tools where they start."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert str(run_notebook("incident.ipynb")["gtid"]).endswith(":530")
