"""Each known fault of other mirrors has tests, and they are there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dev.known_faults import KNOWN_FAULTS, Fault

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("fault", KNOWN_FAULTS, ids=lambda fault: fault.reports[0])
def test_its_tests_are_there(fault: Fault) -> None:
    assert fault.tests
    for test in fault.tests:
        file, _, function = test.partition("::")
        tree = ast.parse((TESTS / file).read_text())
        assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
