"""The tree holds what it says, and nothing of the machine that it was made on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


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


def test_nothing_is_left_to_do_in_the_source() -> None:
    mark = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
    for file in _tracked():
        if "src" in file.parts and file.suffix in (".py", ".pxd"):
            assert not mark.search(file.read_text(encoding="utf-8")), file


def test_architecture_names_what_is_there() -> None:
    """ARCHITECTURE.md has a line for every room and every folder, and for nothing else."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:src|tests|dev|docs|demo|benchmarks)/[\w./-]*)`", text))
    for name in named:
        assert (ROOT / name).exists(), f"ARCHITECTURE.md names {name}"
    folders = {f"src/binlake/{p.name}/" for p in (ROOT / "src/binlake").iterdir() if p.is_dir()}
    folders -= {"src/binlake/__pycache__/"}
    assert folders <= named


def test_the_source_cites_what_a_reader_has() -> None:
    """A page that is not in the tree, or a paragraph of one, tells nobody anything."""
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
