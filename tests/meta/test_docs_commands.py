"""The commands on the pages run, and print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from binlake.cli.main import PROGRAM
from support.pages import NOT_RUN, blocks_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("[A-Z]*.md"), *(ROOT / "docs").glob("*.md")])
#: Pages whose Python blocks are programs of their own; python.md is tested as one program. All blocks that
#: need servers or Spark run in tests/spark/test_pages.py, test_shop_pages.py and tests/mirror/test_pages.py.
SHORT = ("start.md", "incident.md", "history.md", "query.md")

_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CONTINUED = re.compile(r"\\\n\s*")
#: What stands for something else in a usage line or an example.
_USAGE = re.compile(r"…|\.\.\.|\bCOMMAND\b|\bOPTIONS?\b|\[")


def demo_sessions() -> Iterator[tuple[str, str, str]]:
    """Page, command and expected output of the examples on the demo logs."""
    for page in PAGES:
        for block in _CONSOLE.findall(page.read_text(encoding="utf-8")):
            for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = session.partition("\n")
                if "demo/" in command:
                    yield page.name, command, output


def code_lines(text: str) -> Iterator[str]:
    """The lines of code blocks, fenced or indented, with continued lines joined."""
    text = _CONTINUED.sub(" ", text)
    inside, language = False, ""
    for line in text.splitlines():
        fence = re.match(r"^ *```(\w*)", line)
        if fence:
            inside, language = not inside, fence[1]
        elif (inside and language in ("", "console", "sh")) or line.startswith("    "):
            yield line.strip().removeprefix("$ ")


def commands() -> Iterator[tuple[str, str]]:
    """Page and command line of every `binlake …` in a code block."""
    for page in PAGES:
        for line in code_lines(page.read_text(encoding="utf-8")):
            for part in re.split(r" \| | && | > | #|;", line):
                command = part.strip()
                if re.match(r"binlake [a-z]+ ", command) and not _USAGE.search(part):
                    yield page.name, command


def parse(words: list[str]) -> None:
    """Parse a command line without running it. Raises click's UsageError."""
    command: click.Command = PROGRAM
    context = click.Context(PROGRAM, info_name="binlake")
    # `mirror` takes options for its own command
    while (
        isinstance(command, click.Group)
        and words
        and (command is not PROGRAM or words[0][0] != "-")
    ):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
        context = click.Context(command, parent=context, info_name=command.name)
    command.make_parser(context).parse_args(args=list(words))


def test_commands_parse() -> None:
    listed = list(commands())
    assert len(listed) > 100
    problems = []
    for page, line in listed:
        try:
            parse(shlex.split(line)[1:])
        except (click.ClickException, ValueError) as error:
            problems.append(f"{page}: {line}: {error}")
    assert problems == []


def _matches(pattern: str, text: str) -> bool:
    """Whether a text is the pattern, in which `…` stands for anything."""
    parts = [re.escape(part) for part in pattern.rstrip().split("…")]
    return re.fullmatch(".*".join(parts), text.rstrip(), re.DOTALL) is not None


@pytest.mark.parametrize(
    ("page", "command", "output"), [pytest.param(*one, id=one[1]) for one in demo_sessions()]
)
def test_examples_print_the_output_on_the_pages(
    page: str, command: str, output: str, tmp_path: Path
) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PATH": path}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, f"{page}: {run.stderr}"
    assert _matches(output, run.stdout), f"{page}: {command}\n{run.stdout[:2000]}"


@pytest.mark.parametrize("name", SHORT)
def test_python_of_the_guides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = _PYTHON.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {"__name__": name})  # noqa: S102


def test_each_command_that_no_test_runs_is_on_its_page() -> None:
    for page, part, _ in NOT_RUN:
        assert any(part in block.code for block in blocks_of(page)), (page, part)
