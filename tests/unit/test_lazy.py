"""Public names of packages are imported when they are first used."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = ("binlake", "binlake.spark", "binlake.mirror")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_public_names(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'opne'"):
        module.opne  # noqa: B018 - the access is what raises


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_makes_its_names_lazy(package: str) -> None:
    code = (
        f"import sys, {package}; print(*sorted(m for m in sys.modules if m.startswith('binlake')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed = {"binlake", "binlake.errors", "binlake.lazy", "binlake.printable"}
    assert set(done.stdout.split()) == needed | {package}
