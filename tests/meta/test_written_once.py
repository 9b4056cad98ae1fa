"""A pattern, a table and a private function are written in one module, and others import them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src" / "binlake"

#: Functions and constants that are written twice, and the reasons.
REASONS = {
    "_u32": "the C compiler expands it in the loops of each compiled module",
    "_ESCAPE": "`serve` and the parser of schemas read texts of their own, and a room of commands imports no parser",
    "_NAMES": "each table of numbers names those of its own module",
}


def _named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of private functions and of patterns and tables of a module, with their code."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_private(node.name):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, "".join(map(ast.dump, [node.args, *body]))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _is_table(node.value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                assert node.value is not None
                yield target.id, ast.dump(node.value)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_table(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) == "re.compile"
    return isinstance(value, ast.DictComp) or (isinstance(value, ast.Dict) and bool(value.keys))


def test_no_private_function_pattern_or_table_is_written_twice() -> None:
    places: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for file in sorted(SRC.rglob("*.py")):
        for name, code in _named(ast.parse(file.read_text(encoding="utf-8"))):
            places[code].append((str(file.relative_to(SRC)), name))
    twice = [
        found
        for found in places.values()
        if len({file for file, _ in found}) > 1 and not {name for _, name in found} & REASONS.keys()
    ]
    assert twice == []
    assert {
        name for found in places.values() if len(found) > 1 for _, name in found
    } >= REASONS.keys()
