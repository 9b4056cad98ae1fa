"""Who may import whom: the tree is the data flow, imports never point down it, and none form a cycle."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
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
    "metrics_port": {"binlake.errors", "binlake.printable"},
}
# Modules beside the rooms: which room they stand in for.
BESIDE = {"api": "state", "__init__": "lake"}

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
    return sorted(SOURCE.rglob("*.py"))


def _sources() -> list[Path]:
    """All files that import, compiled ones and their declarations (.pxd) included."""
    return sorted(
        path for path in SOURCE.rglob("*.p[yx]*") if path.suffix in (".py", ".pyx", ".pxd")
    )


def _room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return BESIDE.get(path.stem, path.stem) if first == path.name else first


def _imports(path: Path) -> Iterator[str]:
    if path.suffix != ".py":
        yield from (module for module, _ in _cython_imports(path.read_text(encoding="utf-8")))
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield node.module or ""


def _cython_imports(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each module that Cython code imports or cimports, and the names that it takes from it."""
    for found in _CYTHON_IMPORT.finditer(text):
        if found["module"]:
            uncommented = re.sub(r"#.*", "", found["names"])
            given = [one.split() for one in uncommented.strip("() ").split(",")]
            yield found["module"], [words[0] for words in given if words]
        else:
            yield from ((one.split()[0], []) for one in found["modules"].split(","))


def _id(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


modules = pytest.mark.parametrize("path", _modules(), ids=_id)
sources = pytest.mark.parametrize("path", _sources(), ids=_id)


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
        ("re", []),
        ("cython", []),
        ("libc.stdlib", ["calloc", "free"]),
        ("binlake.core.columns.column", ["Column", "put_null"]),
        ("binlake.core.memory", ["reader"]),
        ("binlake.values.plan", ["Kernel"]),
    ]


@sources
def test_imports_follow_the_way_of_a_byte(path: Path) -> None:
    room = _room(path)
    for name in _imports(path):
        parts = name.split(".")
        if room in FOR_ALL:
            assert parts[0] != "binlake" or name in FOR_ALL[room], f"{room} imports {name}"
            continue
        if parts[0] != "binlake" or name.removeprefix("binlake.") in FOR_ALL:
            continue
        other = BESIDE.get(parts[1], parts[1]) if len(parts) > 1 else "table"
        assert ROOMS.index(other) <= ROOMS.index(room), f"{room} may not import {name}"
        assert room != "format" or other == "format"


@sources
def test_libraries_stay_in_their_rooms(path: Path) -> None:
    room = _room(path)
    for name in _imports(path):
        first = LIBRARIES.get(name.split(".")[0])
        if first is not None and room not in FOR_ALL:
            assert ROOMS.index(room) >= ROOMS.index(first), f"{room} may not use {name}"


def _name(path: Path) -> str:
    parts = ("binlake", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _for_types_only(tree: ast.Module) -> set[ast.AST]:
    """The nodes below `if TYPE_CHECKING:`."""
    blocks = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {inner for block in blocks for inner in ast.walk(block)}


def _imported_modules(path: Path, modules: set[str]) -> set[str]:
    """The modules of binlake that a file imports when it runs or is compiled, at its top or later."""
    text = path.read_text(encoding="utf-8")
    found: set[str] = set()
    if path.suffix != ".py":
        for module, names in _cython_imports(text):
            found |= {module, *(f"{module}.{name}" for name in names)}
        return found & modules - {_name(path)}
    tree = ast.parse(text)
    left_out = _for_types_only(tree)
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & modules - {_name(path)}


def test_no_modules_import_each_other() -> None:
    """Late imports count, because they only hide a cycle. Imports for annotations do not: a window
    may name the type of its file. The declarations of a compiled module (.pxd) count as its own.
    """
    names = {_name(path) for path in _sources()}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for path in _sources():
        graph[_name(path)] |= _imported_modules(path, names)
    assert sum(map(len, graph.values())) > 1000
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


@modules
def test_modules_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    table = "Generated" in "\n".join(lines[:20]) or _room(path) == "format"
    assert table or len(lines) <= 550, f"{len(lines)} lines"


@modules
def test_libraries_that_a_module_needs_are_dependencies(path: Path) -> None:
    """A library that only happens to be installed with the tools of development is missing on a new machine."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    wanted += [
        one for name, extra in extras.items() if name not in ("dev", "docs") for one in extra
    ]
    declared = {re.split(r"[^\w-]", one)[0].lower().replace("-", "_") for one in wanted}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = _for_types_only(tree)
    needed: set[str] = set()
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            needed |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            needed.add((node.module or "").partition(".")[0])
    needed -= sys.stdlib_module_names | {"binlake", "binlake_program"}
    missing = {name for name in needed - declared if COMES_WITH.get(name) not in (declared | {""})}
    assert missing == set()
