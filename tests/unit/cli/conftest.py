"""Shared by the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def log(golden: Path) -> str:
    """A log with a few transactions."""
    return str(golden / "mysql-9.7/transactions/binlog.000001")
