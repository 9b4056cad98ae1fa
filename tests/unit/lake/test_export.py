"""Mistakes that an export refuses before it starts; tests/spark checks its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import OptionError


@pytest.mark.parametrize("secret", ["path", "schema"])
def test_passwords_do_not_travel(secret: str, tmp_path: Path) -> None:
    """Tasks are pickled, and Spark keeps what it sends: a URL with a password is refused."""
    url = "mysql://ada:hush@127.0.0.1/"
    path = url if secret == "path" else "binlog.000001"
    options: dict[str, Any] = {"schema": url} if secret == "schema" else {}
    with pytest.raises(
        OptionError, match=f"option {secret}: the URL contains a password"
    ) as raised:
        binlake.export(path, tmp_path / "lake", engine="local", **options)
    assert "hush" not in str(raised.value)
    assert not (tmp_path / "lake").exists()
