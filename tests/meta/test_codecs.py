"""Every codec has a property test: round trips, and bytes that no server wrote."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SRC = TESTS.parent / "src"

#: Rooms of codecs, and single modules of others.
CODECS = ("binlake/events", "binlake/core", "binlake/table/types", "binlake/values/gtid.py",
          "binlake/values/intervals.py", "binlake/values/charset_text.py")  # fmt: skip

#: What is in these rooms and neither reads nor writes values.
NO_CODECS = {
    "binlake.core.counting.change_sums": "sums of numbers",
    "binlake.core.counting.run_facts": "columns of known transactions",
    "binlake.core.events.checksum": "CRC32 of events, from libdeflate or zlib",
    "binlake.core.text.event_json": "events as lines of JSON",
    "binlake.core.text.event_kinds": "tables of the kinds of events",
    "binlake.core.text.event_lines": "events as lines of text",
    "binlake.core.text.replay_lines": "lines of that text",
    "binlake.core.text.replay_text": "transactions as text that a client replays",
}


_CIMPORT = re.compile(r"^from (\S+) c?import", re.MULTILINE)


def codec_modules() -> list[str]:
    found = []
    for place in CODECS:
        path = SRC / place
        files = [path] if path.suffix else sorted([*path.rglob("*.py"), *path.rglob("*.pyx")])
        found += [name_of(file) for file in files if file.name != "__init__.py"]
    return found


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SRC).with_suffix("").parts)


def imports_of(file: Path) -> set[str]:
    """The modules that a file imports, functions of theirs included."""
    if file.suffix == ".pyx":
        sides = [side for side in (file, file.with_suffix(".pxd")) if side.exists()]
        texts = [side.read_text(encoding="utf-8") for side in sides]
        return {name for text in texts for name in _CIMPORT.findall(text)}
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def property_tests() -> list[Path]:
    files = [file for file in TESTS.rglob("test_*.py") if "hypothesis" in file.read_text("utf-8")]
    return [file for file in files if "hypothesis" in imports_of(file)]


@cache
def exercised() -> set[str]:
    """Codec modules that property tests import, and what these are made of in their own rooms.

    The registries of events and of column types are such: their tests go through all classes.
    """
    modules = set(codec_modules())
    waiting = [m for file in property_tests() for m in helpers(imports_of(file)) if m in modules]
    reached: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            file = SRC / Path(*module.split("."))
            suffix = ".pyx" if file.with_suffix(".pyx").exists() else ".py"
            waiting += [m for m in imports_of(file.with_suffix(suffix)) if m in modules]
    return reached


def helpers(imported: set[str]) -> set[str]:
    """With what the tests' own helper modules import."""
    files = [TESTS / f"{name.replace('.', '/')}.py" for name in imported]
    return imported.union(*(imports_of(file) for file in files if file.exists()))


def test_each_has_a_property_test() -> None:
    modules = codec_modules()
    assert len(modules) > 100
    without = [name for name in modules if name not in exercised() and name not in NO_CODECS]
    assert not without, f"codecs without a property test: {', '.join(without)}"
    both = [name for name in modules if name in exercised() and name in NO_CODECS]
    assert not both, f"property tests import what NO_CODECS lists: {', '.join(both)}"
