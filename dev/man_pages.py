"""Write man pages of `binlake` and its commands: man_pages.py DIR.

The text is the text of `--help`. The build of a wheel puts them into `share/man/man1`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click_man.man import ManPage

from binlake.cli.main import COMMANDS, PROGRAM
from binlake.cli.version import version_line

__all__ = ["write_man_pages"]

_CONTROL = re.compile(r"^(?=[.'])", re.MULTILINE)  # what troff takes for a request


def _text(text: str) -> str:
    return _CONTROL.sub(r"\\&", text.replace("\\", r"\e"))


def _description(command: click.Command) -> str:
    """The help text; examples keep their lines."""
    prose, _, examples = inspect.cleandoc(command.help or "").partition("\nExamples:\n")
    lines = [line.strip() for line in examples.splitlines()]
    block = [".SH EXAMPLES", ".nf", *(_text(line) for line in lines if line), ".fi"]
    return "\n".join([_text(prose.strip()), *(block if lines else [])])


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield name, command


def _summary(name: str, command: click.Command) -> str:
    """The text of the section NAME: it begins with a small letter, and ends without a full stop."""
    first = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    text = COMMANDS.get(name) or " ".join(first.split()).rstrip(".")
    return text[0].lower() + text[1:]


def _page(context: click.Context, summary: str) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version = version_line()
    page.short_help = _text(summary)
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.description = _description(command)
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    page.options = [(name, _text(text)) for name, text in filter(None, records)]
    page.commands = [(name, _text(_summary(name, sub))) for name, sub in _commands(context)]
    return str(page)


def write_man_pages(folder: Path) -> list[Path]:
    """Write `binlake.1`, `binlake-rows.1` and so on to a directory; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [(click.Context(PROGRAM, info_name="binlake"), "read MySQL and MariaDB binary logs")]
    written = []
    while waiting:
        context, summary = waiting.pop()
        path = folder / f"{context.command_path.replace(' ', '-')}.1"
        path.write_text(_page(context, summary), encoding="utf-8")
        written.append(path)
        waiting += [
            (click.Context(sub, parent=context, info_name=name), _summary(name, sub))
            for name, sub in _commands(context)
        ]
    return sorted(written)


if __name__ == "__main__":
    for file in write_man_pages(Path(sys.argv[1])):
        print(file)
