"""The core that runs is compiled, from the sources that are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import binlake.core
from binlake.format import event_header, event_types, flags
from binlake.format.event_types import EVENT_TYPES, QUERY_EVENT

FOLDER = Path(binlake.core.__file__).parent
PYTHON = sorted(path for path in FOLDER.glob("*/*.py") if path.stem != "__init__")
CYTHON = sorted(FOLDER.glob("*/*.pyx"))


def dotted(path: Path) -> str:
    """The name of a module below binlake.core."""
    return ".".join(path.relative_to(FOLDER).with_suffix("").parts)


@pytest.mark.parametrize("name", [dotted(path) for path in PYTHON + CYTHON])
def test_a_core_module_is_compiled(name: str) -> None:
    file = importlib.import_module(f"binlake.core.{name}").__file__
    assert file is not None
    assert not file.endswith(".py"), file


def test_compiled_modules_are_newer_than_their_source() -> None:
    """A stale module would pass the tests of code that no longer runs."""
    sources = {path.with_suffix(""): path for path in PYTHON + CYTHON}
    modules = list(FOLDER.rglob("*.so"))
    assert len(modules) >= len(sources)
    for module in modules:
        source = sources.get(module.with_name(module.name.partition(".")[0]))
        assert source is not None, f"{module.name} has no source any more: make clean setup"
        assert module.stat().st_mtime >= source.stat().st_mtime, (
            f"{module.name} is stale: make setup"
        )


@pytest.mark.parametrize("path", PYTHON, ids=dotted)
def test_constants_of_the_core_are_c_constants(path: Path) -> None:
    """`X: cython.int = 1` at module level declares nothing: X stays a Python object, slow."""
    text = path.read_text()
    assert not re.findall(r"^\w+: cython\..*", text, re.MULTILINE)


#: Constants of the core that format/ has in a table.
OTHER_CONSTANTS = {"QUERY_HEADER_BYTES": EVENT_TYPES[QUERY_EVENT].post_header_length}
#: The C constants of the core, by name.
C_CONSTANTS = {
    name: int(value, 0)
    for name, value in re.findall(
        r"^    (\w+) = (\w+)", (FOLDER / "events/format_constants.pxd").read_text(), re.MULTILINE
    )
}


@pytest.mark.parametrize("name", C_CONSTANTS)
def test_c_constants_are_those_of_the_format(name: str) -> None:
    tables = (vars(event_header), vars(event_types), vars(flags), OTHER_CONSTANTS)
    assert [table[name] for table in tables if name in table] == [C_CONSTANTS[name]]


def test_only_one_module_of_the_core_has_constants_of_the_format() -> None:
    again = re.compile(rf"^ *({'|'.join(C_CONSTANTS)}) = (?:0x)?\d+", re.MULTILINE)
    for path in FOLDER.rglob("*.p[yx]*"):
        if path.suffix in (".py", ".pyx", ".pxd") and path.name != "format_constants.pxd":
            assert not again.findall(path.read_text()), path
