"""Who may import whom: the tree is the data flow, imports never point down it, and none form a cycle."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2] / "src"
SOURCE = ROOT / "binlake"

# Each room may import itself and those before it; everyone may import errors.
ROOMS = [
    "format",
    "values",
    "core",
    "events",
    "source",
    "stream",
    "table",
    "query",
    "replay",
    "archive",
    "serve",
    "config",
    "follow",
    "snapshot",
    "state",
    "spark",
    "lake",
    "mirror",
    "ui",
    "cli",
]
# Modules that everyone may import, and what they import of binlake themselves.
FOR_ALL = {
    "errors": {"binlake.printable"},
    "printable": set[str](),
    "lazy": set[str](),
    "background": set[str](),
    "interrupts": set[str](),
    "metrics_port": {"binlake.errors", "binlake.printable"},
    "binlake_passwords": set[str](),
}
# Modules beside the rooms, and beside the package: which room they stand in for.
BESIDE = {
    "api": "state",
    "__init__": "lake",
    "__main__": "cli",
    "binlake_program": "cli",
    "pyspark_binlake": "spark",
}

# Third-party libraries that a room may use; all others are for the rooms after it.
LIBRARIES = {
    "cython": "core",
    "zstandard": "events",
    "pyarrow": "source",
    "pymysql": "source",
    "prometheus_client": "archive",
    "sqlglot": "values",
    "pandas": "table",
    "duckdb": "query",
    "polars": "query",
    "pyspark": "spark",
    "numpy": "mirror",
    "pyroaring": "mirror",
    "anyio": "ui",
    "starlette": "ui",
    "uvicorn": "ui",
    "click": "cli",
    "prompt_toolkit": "cli",
    "rich": "cli",
}


# Modules of dependencies, modules that exist only while the core is compiled, and modules that users install themselves.
COMES_WITH = {
    "anyio": "starlette",
    "cython": "",
    "google": "pyspark",
    "nacl": "pymysql",
    "pandas": "",
    "py4j": "pyspark",
}


# An import in Cython: the module and its names, or the modules.
_CYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+(?P<module>[\w.]+)[ ]+c?import[ ]+(?P<names>\([^)]*\)|[^(\n]+)"
    r"|c?import[ ]+(?P<modules>[\w., ]+))",
    re.MULTILINE,
)


def _modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _sources() -> list[Path]:
    """All files that import: those of the package, compiled ones and their declarations (.pxd) included, and those beside it."""
    return sorted(path for path in ROOT.rglob("*.p[yx]*") if path.suffix in (".py", ".pyx", ".pxd"))


def _room(path: Path) -> str:
    if path.parent in (ROOT, SOURCE):
        return BESIDE.get(path.stem, path.stem)
    return path.relative_to(SOURCE).parts[0]


class Import(NamedTuple):
    """A module, the names that are imported from it, and where; `is_for_types` is below `if TYPE_CHECKING:`."""

    module: str
    names: tuple[str, ...]
    line: int
    is_for_types: bool = False


@cache
def _imports(path: Path) -> tuple[Import, ...]:
    """All imports of a file, those inside of functions included."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return tuple(_cython_imports(text))
    tree = ast.parse(text)
    for_types = _for_types_only(tree)
    found: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(n.name, (), node.lineno, node in for_types) for n in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_at(path, node.lineno)}: a relative import"
            names = tuple(alias.name for alias in node.names)
            found.append(Import(node.module or "", names, node.lineno, node in for_types))
    return tuple(found)


def _cython_imports(text: str) -> Iterator[Import]:
    """Yield each module that Cython code imports or cimports, and the names that it takes from it."""
    for found in _CYTHON_IMPORT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["module"]:
            uncommented = re.sub(r"#.*", "", found["names"])
            given = [one.split() for one in uncommented.strip("() ").split(",")]
            yield Import(found["module"], tuple(words[0] for words in given if words), line)
        else:
            yield from (Import(one.split()[0], (), line) for one in found["modules"].split(","))


def _at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def test_imports_of_cython_are_found() -> None:
    code = """
import re
cimport cython
from libc.stdlib cimport calloc, free
from binlake.core.columns.column cimport (  # of a column
    Column,
    put_null as put,  # at a row
)
from binlake.core.memory cimport reader
def late():
    from binlake.values.plan import Kernel
"""
    assert list(_cython_imports(code)) == [
        Import("re", (), 2),
        Import("cython", (), 3),
        Import("libc.stdlib", ("calloc", "free"), 4),
        Import("binlake.core.columns.column", ("Column", "put_null"), 5),
        Import("binlake.core.memory", ("reader",), 9),
        Import("binlake.values.plan", ("Kernel",), 11),
    ]


def test_imports_follow_the_way_of_a_byte() -> None:
    found = [(path, one) for path in _sources() for one in _imports(path)]
    assert len(found) > 3000
    wrong = [
        f"{_at(path, one.line)}: {_room(path)} may not import {one.module}"
        for path, one in found
        if not _may_import(_room(path), one.module)
    ]
    assert not wrong, "\n".join(wrong)


def _may_import(room: str, name: str) -> bool:
    parts = name.split(".")
    if room in FOR_ALL:
        return "binlake" not in parts[0] or name in FOR_ALL[room]
    if "binlake" not in parts[0] or name.removeprefix("binlake.") in FOR_ALL:
        return True
    module = parts[0] if parts[0] != "binlake" else parts[1] if len(parts) > 1 else "table"
    other = BESIDE.get(module, module)
    return ROOMS.index(other) <= ROOMS.index(room) and (room != "format" or other == "format")


def test_libraries_stay_in_their_rooms() -> None:
    found = [
        (path, one, first)
        for path in _sources()
        for one in _imports(path)
        if (first := LIBRARIES.get(one.module.split(".")[0])) and _room(path) not in FOR_ALL
    ]
    assert len(found) > 100
    wrong = [
        f"{_at(path, one.line)}: {_room(path)} may not use {one.module}"
        for path, one, first in found
        if ROOMS.index(_room(path)) < ROOMS.index(first)
    ]
    assert not wrong, "\n".join(wrong)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _for_types_only(tree: ast.Module) -> set[ast.AST]:
    """The nodes below `if TYPE_CHECKING:`."""
    blocks = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )
    return {inner for block in blocks for inner in ast.walk(block)}


def _imported_modules(path: Path, modules: set[str]) -> set[str]:
    """The modules of binlake that a file imports: at its top, later, or for annotations."""
    found = list(_imports(path))
    named = {f"{one.module}.{name}" for one in found for name in one.names}
    return ({one.module for one in found} | named) & modules - {_name(path)}


def test_no_modules_import_each_other() -> None:
    """Late imports count, because they only hide a cycle, and imports for annotations, because a reader has to know both
    modules. The declarations of a compiled module (.pxd) count as its own.
    """
    names = {_name(path) for path in _sources()}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for path in _sources():
        graph[_name(path)] |= _imported_modules(path, names)
    assert sum(map(len, graph.values())) > 1000
    assert graph["binlake_program"] == {"binlake_passwords", "binlake.cli.main"}
    assert "binlake_passwords" in graph["binlake.cli.main"]
    assert {"binlake.core.columns.column", "binlake.core.memory.reader"} <= {
        *graph["binlake.core.columns.row_values"]
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_every_room_is_known() -> None:
    found = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert found == set(ROOMS)


def test_modules_are_short() -> None:
    texts = {path: path.read_text(encoding="utf-8").splitlines() for path in _modules()}
    assert len(texts) > 500
    wrong = [
        f"{_at(path, len(lines))}: {len(lines)} lines"
        for path, lines in texts.items()
        if len(lines) > 550 and "Generated" not in "\n".join(lines[:20]) and _room(path) != "format"
    ]
    assert not wrong, "\n".join(wrong)


def test_libraries_that_a_module_needs_are_dependencies() -> None:
    """A library that only happens to be installed with the tools of development is missing on a new machine."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    wanted += [
        one for name, extra in extras.items() if name not in ("dev", "docs") for one in extra
    ]
    declared = {re.split(r"[^\w-]", one)[0].lower().replace("-", "_") for one in wanted}
    own = sys.stdlib_module_names | {path.stem for path in ROOT.iterdir()}
    needed = [
        (name, _at(path, one.line))
        for path in _modules()
        for one in _imports(path)
        if not one.is_for_types and (name := one.module.partition(".")[0]) not in own
    ]
    assert len(needed) > 100
    wrong = [
        f"{place}: {name}"
        for name, place in needed
        if name not in declared and COMES_WITH.get(name) not in (declared | {""})
    ]
    assert not wrong, "\n".join(wrong)
