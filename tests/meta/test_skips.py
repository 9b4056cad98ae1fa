"""Nothing is skipped in silence where everything must be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SKIPPING = """
import pytest

def test_that_skips():
    pytest.skip("of this or that")

@pytest.mark.skipif(True, reason="by a mark")
def test_with_a_mark():
    pass

@pytest.mark.parametrize("none", [])
def test_of_nothing(none):
    pass

@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail():
    raise ValueError

@pytest.mark.parametrize("server", ["one", "two"])
@pytest.mark.not_on("two")
def test_not_everywhere(server):
    assert server == "one"
"""
WHOLE_FILE = "import pytest\npytest.importorskip('no_such_module_anywhere')\n"


@pytest.mark.parametrize(
    ("required", "text", "told"),
    [
        ("1", SKIPPING, ["1 failed", "2 errors", "1 passed", "1 xfailed", "1 deselected"]),
        ("0", SKIPPING, ["3 skipped", "1 passed", "1 xfailed", "1 deselected"]),
        ("1", WHOLE_FILE, ["1 error", "could not import 'no_such_module_anywhere'"]),
        ("0", WHOLE_FILE, ["1 skipped"]),
    ],
)
def test_a_skip_is_a_failure_where_everything_must_be(
    tmp_path: Path, required: str, text: str, told: list[str]
) -> None:
    (tmp_path / "test_it.py").write_text(text)
    path = os.pathsep.join((str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "test_it.py"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "BINLAKE_REQUIRE": required, "PYTHONPATH": path},
    )  # fmt: skip
    for words in told:
        assert words in done.stdout, done.stdout
    if required == "1" and text is SKIPPING:
        for why in ("of this or that", "by a mark", "got empty parameter set"):
            assert why in done.stdout


def test_tests_with_servers_are_marked() -> None:
    """Else `make test`, which needs no server, runs them where there is one and skips them elsewhere."""
    modules = sorted((TESTS / "server").rglob("test_*.py"))
    assert len(modules) > 10
    assert [path.name for path in modules if "pytest.mark.server" not in path.read_text()] == []
