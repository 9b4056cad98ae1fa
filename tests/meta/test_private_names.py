"""Tests set limits and collaborators by parameters, as callers do: they patch no private name of a module or class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
#: The private names that tests patch, and why they cannot be parameters.
PATCHED = {
    # Tests of the Python API with golden logs, which are smaller than these limits. As options of a read, the limits
    # would be public.
    "_LEAST_PORTION_BYTES",  # threads
    "_WORTH_A_JUMP_BYTES",  # indexes
    # Other projects have no public names: PySpark's connection to the JVM, PyMySQL's number of the next packet.
    "_gateway", "_next_seq_id",
}  # fmt: skip


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a test sets in other objects than `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _is_private(node.attr) and ast.unparse(node.value) not in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Call) and "setattr" in ast.unparse(node.func):
            for text in (one.value for one in node.args[:2] if isinstance(one, ast.Constant)):
                yield from filter(_is_private, str(text).split("."))


def test_private_names_are_found() -> None:
    code = """
monkeypatch.setattr(module, "_LIMIT", 1)
monkeypatch.setattr("binlake.module._OTHER", 1)
patch.setattr(module, "public", _value)
setattr(made, "_third", 1)
made._fourth, self._own = 1, 2
made.public, made.__dunder__ = 1, 2
"""
    assert list(private_names(ast.parse(code))) == ["_LIMIT", "_OTHER", "_third", "_fourth"]


def test_tests_patch_no_private_names() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for name in private_names(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(str(path.relative_to(TESTS)))
    assert {name: files for name, files in found.items() if name not in PATCHED} == {}
    assert found.keys() == PATCHED, "a name that no test patches now"
