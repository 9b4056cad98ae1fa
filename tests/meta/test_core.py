"""The core that runs is the one that is meant: compiled, unless pure was asked for."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest

import binlake.core

FOLDER = Path(binlake.core.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", MODULES)
def test_core_module_runs_as_meant(name: str) -> None:
    """BINLAKE_CORE says compiled (the default) or pure."""
    wanted = os.environ.get("BINLAKE_CORE", "compiled")
    assert wanted in ("compiled", "pure")
    file = importlib.import_module(f"binlake.core.{name}").__file__
    assert file is not None
    assert file.endswith(".py") == (wanted == "pure"), file


def test_compiled_modules_are_newer_than_their_source() -> None:
    """A stale module would pass the tests of code that nobody runs."""
    for module in FOLDER.glob("*.so"):
        source = module.with_name(module.name.partition(".")[0] + ".py")
        assert source.exists(), f"{module.name} has no source any more: make clean setup"
        assert module.stat().st_mtime >= source.stat().st_mtime, (
            f"{module.name} is stale: make setup"
        )


@pytest.mark.parametrize("name", MODULES)
def test_constants_of_the_core_are_c_constants(name: str) -> None:
    """`X: cython.int = 1` at module level declares nothing: X stays a Python object, slow."""
    text = (FOLDER / f"{name}.py").read_text()
    assert not re.findall(r"^\w+: cython\..*", text, re.MULTILINE)
