"""Phrases that readers stumbled over do not come back into pages, help, docstrings and comments.

CONTRIBUTING.md says how binlake's texts are written.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from binlake.cli.main import PROGRAM

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
#: Pages that open in a way of their own.
OTHER_PAGES = [
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "examples").glob("*.md")),
    *sorted((ROOT / "examples").glob("*.ipynb")),
]
#: Pages that open with what binlake is, or with where to report a vulnerability.
INTRODUCTIONS = ("README.md", "SECURITY.md", "index.md")

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
    r"what (it|they|he) trusts",
    r"(is|are|was|were) summed up",
    r"who wrote how much",
    r"^(What|Who|Where) [^?|:]*\b(is|are|was|were) (not )?(shown|counted|listed|refused|read|ignored)\b",
    r"but for [A-Z]",
    r"as they are:",
    r"as it is:",
    r"is left as it is",
    r"to be had",
    r"one object a line",
    r"does not tell",
    r"takes sentences for people",
    r"(table|catalog) anew",
    r"what goes wrong",
    r"how (far|many) it came",
    r"make (each of )?them again",
    r"left as it is",
    r"for ever\b",
    r"is written over",
    r"of what (was|is) (there|here)",
    r"than memory should hold",
    r"each time when",
    r"rows of before",
    r"with(out)? it, never",
)
_PATTERN = re.compile("|".join(PHRASES), re.IGNORECASE | re.MULTILINE)
#: Phrases of pages and help, beside the ones above.
_OF_PAGES = re.compile(
    r"says? (so|more|why)\b|all the same\b|is nowhere|texts? in quotes|filters and policies"
    r"|, also (after|before|for|if|in|inside|those|to|when|while|with)\b",
    re.IGNORECASE,
)

#: Modules that belong to no room, and sources in Java.
OUTSIDE = [
    *sorted((ROOT / "src").glob("*.py")),
    *sorted((ROOT / "src").rglob("*.java")),
    *sorted((ROOT / "benchmarks").rglob("*.java")),
]
#: Phrases of docstrings, beside the ones above.
_OF_DOCSTRINGS = re.compile(
    r"whoever|somebody|\bof whose\b|is told what|as it says it|what (is|was) none|of nobody"
    r"|\bas ever\b|lets? go of|\bfor ever\b|looked (at|into)|of ours that|and said so"
    r"|throw each other|to be had|what is there of|no matter who|(made|begins?) anew|handed (on|over)|passed over"
    r"|\A\"*(What|The same|That of|Those of|Of|As|Like) |tells? (them|rows|it) apart as|look(ed)? at the (table|catalog) again|as it was said",
    re.IGNORECASE,
)
#: Phrases of messages, beside the ones of all texts.
_OF_MESSAGES = re.compile(
    r"\bgo(es)? on with|told apart|cannot be told|by other means|not hold it|in none of|of after\b|no end of what|(^|[.;:] )What is\b"
    r"|exclude each other|mutually exclusive|(more|a share\b.*|bytes) (is|are) expected"
    r"|of before\b|skips nothing|and is not there|allowed here|cannot tell .* apart|is no \w+ file",
    re.IGNORECASE,
)
#: Words in names of tests.
_OF_TEST_NAMES = re.compile(
    r"nobody|whoever|somebody|_anew|_go(es)?_on_|_told|passed_over|as_it_is|as_they_are|_of_ours|stands_for"
    r"|goes_wrong|summed|looked_(into|for|at|up)|for_ever|to_be_had"
)
#: Functions whose texts users read, beside the classes of errors and the functions with a `hint`.
_SPEAKERS = (
    "note",
    "print_message",
    "show",
    "warn",
    "warning",
    "Finding",
    "NotFound",
    "Form",
    "Option",
    "Argument",
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


def text_of(page: Path) -> str:
    """The text of a page; of a notebook, the cells with text."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    prose = _CODE.sub("", text_of(page))
    assert len(prose) > 300
    found = [match[0] for pattern in (_PATTERN, _OF_PAGES) for match in pattern.finditer(prose)]
    assert found == []


def test_help_is_made_of_sentences() -> None:
    """The text of a command, an argument and an option begins with a capital letter and ends with a full stop."""
    found = {}
    for name, text in help_texts():
        first = text.partition("\n\n")[0].strip()
        if first and not (re.match(r"[A-Z]", first) and first.endswith(".")):
            found[name] = first
    assert found == {}


def test_help() -> None:
    texts = dict(help_texts())
    assert len(texts) > 200
    found = {
        name: match[0]
        for name, text in texts.items()
        if (match := _PATTERN.search(text) or _OF_PAGES.search(text))
    }
    assert found == {}


def sources() -> list[Path]:
    """The modules of the package."""
    found = (ROOT / "src" / "binlake").rglob("*.p*")
    return sorted(path for path in found if path.suffix in (".py", ".pyx", ".pxd"))


class Texts(NamedTuple):
    """What a module says, each text with its line: docstrings and comments, messages, and names of functions.

    Comments are left out where none has a phrase.
    """

    prose: list[tuple[int, str]]
    messages: list[tuple[int, str]]
    functions: list[tuple[int, str]]


@cache
def texts_of(path: Path) -> Texts:
    """The texts of a module; of a compiled one, its docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        found = _CYTHON_PROSE.finditer(text)
        return Texts([(text.count("\n", 0, one.start()) + 1, one[0]) for one in found], [], [])
    nodes = list(ast.walk(ast.parse(text)))
    prose = [
        (node.body[0].lineno, ast.get_docstring(node) or "")
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
    ]
    if _may_have_phrases_in_comments(text) or not any(docstring for _, docstring in prose):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        prose += [(one.start[0], one.string) for one in tokens if one.type == tokenize.COMMENT]
    functions = [(node.lineno, node.name) for node in nodes if isinstance(node, ast.FunctionDef)]
    return Texts(prose, list(messages_in(nodes)), functions)


def _may_have_phrases_in_comments(text: str) -> bool:
    """Whether a phrase follows a `#`. Only then are the comments needed: to find them takes longer than all else."""
    lines = [line for line in text.splitlines() if "#" in line]
    after = [line[at:] for line in lines for at, sign in enumerate(line) if sign == "#"]
    bare = (text for _, text in without_code((0, one) for one in after))
    return any(map(_PATTERN.search, bare)) or any(map(_OF_DOCSTRINGS.search, after))


def found_in(
    path: Path, texts: Iterable[tuple[int, str]], *patterns: re.Pattern[str]
) -> Iterator[str]:
    """The phrases in the texts of a file, with their file and line."""
    for line, text in texts:
        for pattern in patterns:
            for match in pattern.finditer(text):
                at = line + text.count("\n", 0, match.start())
                yield f"{path.relative_to(ROOT)}:{at}: {match[0]!r}"


def without_code(texts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The texts, with empty lines for the lines of code."""
    for line, text in texts:
        yield line, _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)


def others() -> list[Path]:
    """The modules of the tests, the tools and the benchmarks, without this one."""
    found = [
        path for folder in ("tests", "dev", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    ]
    return sorted(path for path in found if path != Path(__file__))


def test_docstrings_and_comments() -> None:
    modules = {path: texts_of(path).prose for path in (*sources(), *others())}
    assert len(modules) > 1000
    without = [path for path in sources() if not any(text for _, text in modules[path])]
    assert not without, f"neither docstrings nor comments: {without}"
    found: list[str] = []
    for path, prose in modules.items():
        found += found_in(path, without_code(prose), _PATTERN)
        found += found_in(path, prose, _OF_DOCSTRINGS)
    assert not found, "\n".join(found)


def test_names_of_functions() -> None:
    """A name gives the action or the result, not that somebody is told something. `tell` is a method of files."""
    speech = re.compile(r"_?(told|said|tells?|says)(_\w+)?|\w+_(told|said)")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for line, name in texts_of(path).functions
        if speech.fullmatch(name)
    ]
    assert [re.sub(r".*/|:\d+", "", one) for one in found] == ["index_columns.py: tell"], found


def test_names_of_tests() -> None:
    """`dev/known_faults.py` and reports of failures show them to readers."""
    names = [
        (name, f"{path.relative_to(ROOT)}:{line}: {name}")
        for path in others()
        for line, name in texts_of(path).functions
        if name.startswith("test_")
    ]
    assert len(names) > 2500
    found = [place for name, place in names if _OF_TEST_NAMES.search(name)]
    assert not found, "\n".join(found)


def messages_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The texts of the errors, hints, notes and options of a module."""
    for node in nodes:
        match node:
            case ast.Raise(exc=ast.expr() as spoken):
                pass
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) as spoken:
                if not (name in _SPEAKERS or name.endswith("Error") or _has_hint(node)):
                    continue
            case _:
                continue
        for part in ast.walk(spoken):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value


def _has_hint(call: ast.Call) -> bool:
    return any(keyword.arg == "hint" for keyword in call.keywords)


def test_messages() -> None:
    modules = [path for path in (*sources(), *OUTSIDE) if path.suffix == ".py"]
    messages = {path: texts_of(path).messages for path in modules}
    assert sum(map(len, messages.values())) > 3000
    found = [
        one
        for path, texts in messages.items()
        for one in found_in(path, texts, _PATTERN, _OF_MESSAGES)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.name)
def test_files_outside_the_rooms(path: Path) -> None:
    """The program, and the sources in Java."""
    prose = texts_of(path).prose if path.suffix == ".py" else prose_of_java(path)
    assert prose
    found = list(found_in(path, prose, _PATTERN))
    assert not found, "\n".join(found)


def prose_of_java(path: Path) -> list[tuple[int, str]]:
    """The comments and texts of a source in Java."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"//.*|/\*[\s\S]*?\*/|\"[^\"\n]*\"", text)
    return [(text.count("\n", 0, one.start()) + 1, one[0]) for one in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_opens_with_its_purpose(page: Path) -> None:
    """A title, then a sentence to the reader."""
    first, empty, second, *_ = page.read_text(encoding="utf-8").splitlines()
    assert first.startswith("# ")
    assert empty == ""
    if page.name not in INTRODUCTIONS:
        assert re.match(r"(After (reading )?this page|On this page),? you (can|know) ", second), (
            second
        )
