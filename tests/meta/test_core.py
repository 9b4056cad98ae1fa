"""The core that runs is compiled, from the sources that are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import binlake.core
from binlake.format import flags
from binlake.format.flags import (
    FLAG_MAY_HAVE_SBR,
    LOG_EVENT_ARTIFICIAL_F,
    LOG_EVENT_IGNORABLE_F,
    ROWS_STMT_END_F,
)

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


#: What the core has as C constants, and format/ as the one definition.
COPIES = {
    ("events/steps.py", "_IGNORABLE"): LOG_EVENT_IGNORABLE_F,
    ("events/steps.py", "_STMT_END"): ROWS_STMT_END_F,
    ("events/packets.py", "ARTIFICIAL"): LOG_EVENT_ARTIFICIAL_F,
    ("text/replay_text.pyx", "STMT_END"): ROWS_STMT_END_F,
    ("text/replay_text.pyx", "MAY_HAVE_SBR"): FLAG_MAY_HAVE_SBR,
    **{
        ("text/replay_text.pyx", name): getattr(flags, name)
        for name in (
            "FL_STANDALONE",
            "FL_GROUP_COMMIT_ID",
            "FL_TRANSACTIONAL",
            "FL_ALLOW_PARALLEL",
            "FL_WAITED",
            "FL_DDL",
            "FL_EXTRA_THREAD_ID",
        )
    },
}


@pytest.mark.parametrize(("file", "name"), COPIES, ids=" ".join)
def test_c_constants_are_those_of_the_format(file: str, name: str) -> None:
    pattern = rf"^ *{name} = (?:cython\.declare\(cython\.int, )?(\w+)"
    found = re.findall(pattern, (FOLDER / file).read_text(), re.MULTILINE)
    assert [int(value, 0) for value in found] == [COPIES[file, name]]
