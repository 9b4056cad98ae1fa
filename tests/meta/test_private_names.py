"""Tests set limits and collaborators by parameters, as callers do.

They patch no private name of a module or class, no constant, and no default of a function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
#: The private names and constants that tests patch, and why they cannot be parameters.
PATCHED = {
    # Tests of the Python API with golden logs, which are smaller than these limits. As options of a read, the limits
    # would be public.
    "_LEAST_PORTION_BYTES",  # threads
    "_WORTH_A_JUMP_BYTES",  # indexes
    # Other projects have no public names: PySpark's connection to the JVM, PyMySQL's number of the next packet.
    "_gateway", "_next_seq_id",
    # A constant of fcntl that macOS has and Linux lacks.
    "F_FULLFSYNC",
    # The time that a copy waits for a locked table: there are six signatures between a mirror and the session of a
    # copy, and an option of mirrors would be public.
    "LOCK_WAIT_S",
    # A flag that binlake always sends to MariaDB. The test shows what the server leaves out without it.
    "BINLOG_SEND_ANNOTATE_ROWS",
}  # fmt: skip

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
_DEFAULTS = ("__defaults__", "__kwdefaults__")


def _is_private(name: str) -> bool:
    return (name.startswith("_") and not name.startswith("__")) or name in _DEFAULTS


def _is_fixed(name: str) -> bool:
    return _is_private(name) or _CONSTANT.fullmatch(name) is not None


def fixed_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names, constants and defaults that a test sets in other objects than `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _is_fixed(node.attr) and ast.unparse(node.value) not in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Call) and "setattr" in ast.unparse(node.func):
            for text in (one.value for one in node.args[:2] if isinstance(one, ast.Constant)):
                *owners, name = str(text).split(".")
                yield from filter(_is_private, owners)
                if _is_fixed(name):
                    yield name


def test_fixed_names_are_found() -> None:
    code = """
monkeypatch.setattr(module, "_LIMIT", 1)
monkeypatch.setattr("binlake.module._OTHER", 1)
patch.setattr(module, "public", _value)
setattr(made, "_third", 1)
made._fourth, self._own = 1, 2
made.public, made.__dunder__ = 1, 2
monkeypatch.setattr("binlake.module.MOST_BYTES", 1)
monkeypatch.setattr("binlake.module.PROGRAM.invoke", failed)
monkeypatch.setattr("binlake.module.made.__kwdefaults__", {})
module.LEAST_BYTES = 1
"""
    assert set(fixed_names(ast.parse(code))) == {
        "_LIMIT", "_OTHER", "_third", "_fourth", "MOST_BYTES", "__kwdefaults__", "LEAST_BYTES",
    }  # fmt: skip


def test_tests_patch_no_private_names_or_constants() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for name in fixed_names(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(str(path.relative_to(TESTS)))
    assert {name: files for name, files in found.items() if name not in PATCHED} == {}
    assert found.keys() == PATCHED, "a name that no test patches now"
