"""Phrases that readers stumbled over do not come back into pages, help, docstrings and comments.

CONTRIBUTING.md says how binlake's texts are written.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from binlake.cli.main import PROGRAM

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]

PHRASES = (
    r"nobody",
    r"somebody else",
    r"goes on (at|where|with)",
    r"is told\b(?! UTF-8)",
    r"what is none",
    r"to the letter",
    r"that mends?",
    r"what (is|was) (here|there) of",
    r"as it is there",
    r"who (reads|follows|writes|wants|asks|has) ",
    r"for whoever",
    r"of (it|them|which|whom) it (has|is|says)",
    r"numbered through",
    r"nothing (is )?doubled?",
    r"a way to read is",
    r"dates that are no",
    r"what matters of",
    r"are judged",
    r"takes? (it|them) along",
)
_PATTERN = re.compile("|".join(PHRASES), re.IGNORECASE)

#: Rooms of src/binlake whose docstrings and comments have been edited.
EDITED = (
    "api.py", "archive", "cli", "config", "core", "errors.py", "events", "format", "lake", "mirror",
    "printable.py", "query", "replay", "serve", "source", "spark", "stream", "table", "values",
)  # fmt: skip
#: Phrases of docstrings, beside the ones above.
_OF_DOCSTRINGS = re.compile(
    r"whoever|somebody|\bof whose\b|is told what|as it says it|what (is|was) none|of nobody"
    r"|\bas ever\b|lets? go of|\bfor ever\b|looked (at|into)|of ours that|and said so"
    r"|throw each other|to be had|what is there of|no matter who|(made|begins?) anew|handed (on|over)|passed over",
    re.IGNORECASE,
)
_CYTHON_PROSE = re.compile(r'"""[\s\S]*?"""|#[^\n]*')
_CODE = re.compile(r"^```[\s\S]*?^```$|^(?: {4}|\t).*$|`[^`\n]*`", re.MULTILINE)


def help_texts() -> Iterator[tuple[str, str]]:
    """The help of the program, its commands, their arguments and options."""
    waiting: list[tuple[str, click.Command]] = [("binlake", PROGRAM)]
    while waiting:
        name, command = waiting.pop()
        yield name, command.help or ""
        for parameter in command.params:
            yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
        if isinstance(command, click.Group):
            context = click.Context(command)
            for sub in command.list_commands(context):
                found = command.get_command(context, sub)
                assert found is not None
                waiting.append((f"{name} {sub}", found))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    prose = _CODE.sub("", page.read_text(encoding="utf-8"))
    assert len(prose) > 300
    assert [match[0] for match in _PATTERN.finditer(prose)] == []


def test_help() -> None:
    texts = dict(help_texts())
    assert len(texts) > 200
    found = {name: match[0] for name, text in texts.items() if (match := _PATTERN.search(text))}
    assert found == {}


def sources() -> list[Path]:
    """The modules of the rooms in EDITED."""
    package = ROOT / "src" / "binlake"
    found = [path for name in EDITED for path in [package / name, *(package / name).rglob("*.p*")]]
    return [path for path in found if path.suffix in (".py", ".pyx", ".pxd")]


def prose_of(path: Path) -> list[str]:
    """The docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [found[0] for found in _CYTHON_PROSE.finditer(text)]
    prose = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    with path.open("rb") as file:
        prose += [t.string for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT]
    return prose


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_docstrings_and_comments(path: Path) -> None:
    prose = prose_of(path)
    assert any(prose)
    found = [match[0] for one in prose for match in _PATTERN.finditer(_CODE.sub("", one))]
    found += [match[0] for one in prose for match in _OF_DOCSTRINGS.finditer(one)]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_opens_with_a_title_and_a_sentence(page: Path) -> None:
    first, empty, second, *_ = page.read_text(encoding="utf-8").splitlines()
    assert first.startswith("# ")
    assert empty == ""
    assert re.match(r"[A-Za-z`*_\[]|```|    ", second), second
