"""The output of commands about a server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from binlake.cli.main import main


def said(
    capfd: pytest.CaptureFixture[str], command: Sequence[str], inputs: Sequence[str]
) -> tuple[int, str]:
    code = main([*command, *inputs])
    return code, capfd.readouterr().out
