"""Who may import whom: the tree is the data flow, and imports never point down it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "binlake"

# Each room may import itself and those before it; everyone may import errors.
ROOMS = [
    "format",
    "values",
    "core",
    "events",
    "source",
    "stream",
    "table",
    "replay",
    "archive",
    "serve",
    "spark",
    "lake",
    "cli",
]
# Modules beside the rooms: which room they stand in for.
BESIDE = {"api": "table", "__init__": "table"}

# Third-party libraries that a room may use; all others are for the rooms after it.
LIBRARIES = {
    "cython": "core",
    "zstandard": "events",
    "pyarrow": "source",
    "pymysql": "source",
    "prometheus_client": "archive",
    "sqlglot": "table",
    "pandas": "table",
    "pyspark": "spark",
    "typer": "cli",
    "rich": "cli",
}


def _modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def _room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return BESIDE.get(path.stem, path.stem) if first == path.name else first


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield node.module or ""


def _cimports(path: Path) -> Iterator[str]:
    for line in path.with_suffix(".pxd").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["from"] and "cimport" in words:
            yield words[1]


modules = pytest.mark.parametrize(
    "path", _modules(), ids=lambda path: path.relative_to(SOURCE).as_posix()
)


@modules
def test_imports_follow_the_way_of_a_byte(path: Path) -> None:
    room = _room(path)
    names = list(_imports(path))
    if path.with_suffix(".pxd").exists():
        names += _cimports(path)
    for name in names:
        parts = name.split(".")
        if parts[0] != "binlake" or parts[1:2] == ["errors"] or room == "errors":
            assert parts[0] != "binlake" or room != "errors", f"errors imports {name}"
            continue
        other = BESIDE.get(parts[1], parts[1]) if len(parts) > 1 else "table"
        assert ROOMS.index(other) <= ROOMS.index(room), f"{room} may not import {name}"
        assert room != "format" or other == "format"


@modules
def test_libraries_stay_in_their_rooms(path: Path) -> None:
    room = _room(path)
    for name in _imports(path):
        first = LIBRARIES.get(name.split(".")[0])
        if first is not None and room != "errors":
            assert ROOMS.index(room) >= ROOMS.index(first), f"{room} may not use {name}"


def test_every_room_is_known() -> None:
    found = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert found == set(ROOMS)


@modules
def test_modules_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    table = "Generated" in "\n".join(lines[:20]) or _room(path) == "format"
    assert table or len(lines) <= 550, f"{len(lines)} lines"
