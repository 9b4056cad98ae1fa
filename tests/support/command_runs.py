"""Commands run in this process."""

from __future__ import annotations

import pytest

from binlake.cli.main import main

__all__ = ["run"]


def run(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Run a command; its exit code, and what it wrote to standard output and standard error."""
    code = main(list(argv))
    out, err = capfd.readouterr()
    return code, out, err
