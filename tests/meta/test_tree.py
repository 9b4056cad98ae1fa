"""The tree holds what it says, and nothing of the machine that it was made on."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


#: What is made here and never tracked (.gitignore), for a tree without git.
MADE = {".so", ".c", ".pyc", ".whl", ".jar", ".class"}
#: C that is written by hand.
WRITTEN = {ROOT / "dev" / "fuzz" / "harness.c"}
FOLDERS = (".ci", "benchmarks", "demo", "deploy", "dev", "docs", "examples", "src", "tests")


def _tracked() -> list[Path]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # no git, or no checkout
        return _there()
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _there() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    parts = {"target", "__pycache__"}
    return [
        path
        for path in (*ROOT.glob("*.*"), *found)
        if path.is_file()
        and (path.suffix not in MADE or path in WRITTEN)
        and path.name != ".git"
        and not parts & set(path.parts)
        and not any(part.endswith(".egg-info") for part in path.parts)
    ]


def test_the_folders_are_those_that_are_tracked() -> None:
    assert _there()
    assert {path for path in _tracked() if path.parent != ROOT} <= set(_there())


def test_no_path_of_a_machine_is_tracked() -> None:
    # written so that this file does not match itself
    path = re.compile(rb"(?<![\w.])/(?:work|root|farm|home/\w+|tmp/[a-z]{2,})" + rb"/")
    found = []
    for file in _tracked():
        if file.suffix != ".gz" and "LICENSE" not in file.name:
            found += [(file.name, m[0]) for m in path.finditer(file.read_bytes())]
    assert found == []


def test_no_large_file_is_tracked() -> None:
    assert [file.name for file in _tracked() if file.stat().st_size > 1 << 20] == []


def test_the_source_contains_no_todo_marks() -> None:
    mark = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
    for file in _tracked():
        if "src" in file.parts and file.suffix in (".py", ".pxd"):
            assert not mark.search(file.read_text(encoding="utf-8")), file


def test_architecture_lists_existing_files() -> None:
    """ARCHITECTURE.md has a line for every room and every folder, and for nothing else."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(
        re.findall(r"`((?:src|tests|dev|docs|demo|deploy|examples|benchmarks)/[\w./-]*)`", text)
    )
    for name in named:
        assert (ROOT / name).exists(), f"ARCHITECTURE.md names {name}"
    rooms = {init.parent for init in (ROOT / "src/binlake").glob("**/__init__.py")}
    rooms -= {ROOT / "src/binlake"}
    assert {f"{room.relative_to(ROOT).as_posix()}/" for room in rooms} <= named


def test_internals_lists_existing_files() -> None:
    """A file name without a folder is in the last folder that the section names before it."""
    text = (ROOT / "docs/internals.md").read_text(encoding="utf-8")
    missing = []
    for section in text.split("\n## "):
        folder = ""
        for path, name in re.findall(r"`((?:\w+/)*)(\w+\.(?:py|pyx|pxd)|(?<=/))`", section):
            folder = path or folder
            root = ROOT if folder.startswith("tests/") else ROOT / "src/binlake"
            if not (root / folder / name).exists() and name != "setup.py":
                missing.append(f"{section.splitlines()[0]}: {folder}{name}")
    assert missing == []


def test_the_source_cites_available_documents() -> None:
    """A page that is not in the tree, or a paragraph of one, does not help a reader."""
    pages = {file.name for file in _tracked() if file.suffix == ".md"}
    page = re.compile(r"(?<!Docs/replication/)\b[\w-]+\.md\b")  # those are MariaDB's
    paragraph = re.compile(r"\bdesign (?:§|D)\d")
    found = []
    for file in _tracked():
        if file.suffix in (".py", ".pxd") and file != Path(__file__).resolve():
            text = file.read_text(encoding="utf-8")
            named = {name for name in page.findall(text) if name not in pages}
            found += [(file.name, name) for name in sorted(named) + paragraph.findall(text)]
    assert found == []


def test_no_room_is_crowded() -> None:
    """A folder of modules fits on a screen."""
    crowded = {}
    suffixes = (".py", ".pyx", ".pxd", ".pyi")  # the declarations of a module count, too
    files = Counter(file.parent for file in _tracked() if file.suffix in suffixes)
    for folder, count in files.items():
        if count > 24:
            crowded[folder.relative_to(ROOT).as_posix()] = count
    assert crowded == {}


def test_no_function_is_long() -> None:
    """A function of more than 60 lines does several things, or lists options that a dataclass can declare."""
    long = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > 60:
                    long[f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"] = lines
    assert long == {}


def test_the_glossary_lists_existing_names() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    names = re.findall(r"`(binlake(?:\.\w+)+)`", text)
    assert len(names) > 30
    for name in names:
        module, _, last = name.rpartition(".")
        parent = importlib.import_module(module)
        assert hasattr(parent, last) or importlib.util.find_spec(name) is not None, name
