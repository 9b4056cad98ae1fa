"""`--help`: examples that can be copied, options in groups, none that the command ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from binlake.cli.common.command_help import sentence
from binlake.cli.main import COMMANDS, PROGRAM, main

#: Of commands that decode no values, or show them in one way.
_OF_VALUES = ("--zero-date", "--metadata-prefix", "--nested", "--binary", "--invalid", "--query")


def shown(capfd: pytest.CaptureFixture[str], *command: str) -> str:
    assert main([*command, "--help"]) == 0
    return capfd.readouterr().out


def examples_of(command: str) -> list[str]:
    found = PROGRAM.get_command(click.Context(PROGRAM), command)
    assert found is not None
    text = found.help or ""
    return [line.strip() for line in text.partition("Examples:")[2].splitlines() if line.strip()]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_is_a_line_that_can_be_copied(
    capfd: pytest.CaptureFixture[str], command: str
) -> None:
    examples = examples_of(command)
    assert examples
    lines = shown(capfd, command).splitlines()
    start = lines.index("Examples:") + 1
    assert lines[start : start + len(examples)] == [f"  {example}" for example in examples]


def test_the_program_lists_each_command_on_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    lines = shown(capfd).splitlines()
    for command, summary in COMMANDS.items():
        assert f"  {command:<11}  {sentence(summary)}" in lines


def test_read_options_have_their_defaults(capfd: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(capfd, "rows").split())
    for words in (
        "(stop|skip). [default: stop]",
        "in memory. [default: 8MB]",
        "every event. [default: on]",
    ):
        assert words in text
    assert "default: None" not in text
    assert "default: off" not in text


@pytest.mark.parametrize("group", ["gtid", "mirror"])
def test_summaries_are_not_cut(capfd: pytest.CaptureFixture[str], group: str) -> None:
    commands = shown(capfd, group).partition("\nCommands:\n")[2]
    assert "..." not in commands


def test_options_are_in_groups(capfd: pytest.CaptureFixture[str]) -> None:
    text = shown(capfd, "rows")
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles[:4] == ["Examples", "Arguments", "Options", "Filters"]
    assert text.index("Filters:") < text.index("--since TIME")
    assert text.index("--limit N") < text.index("Filters:")


@pytest.mark.parametrize(
    ("command", "ignored"),
    [("stats", (*_OF_VALUES, "--columns")), ("tail", ("--zero-date", "--metadata-prefix"))],
)
def test_a_command_has_no_option_that_it_ignores(
    capfd: pytest.CaptureFixture[str], command: str, ignored: tuple[str, ...]
) -> None:
    text = shown(capfd, command)
    assert not [option for option in ignored if re.search(rf"{option}\b(?!-)", text)]


def helps(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[str, str]]:
    """The help of a command and of its commands, by name."""
    context = click.Context(command, info_name=name, parent=parent)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from helps(below, context, word)


def test_a_number_without_a_limit_has_no_range() -> None:
    found = dict(helps(PROGRAM, None, "binlake"))
    assert "binlake mirror verify" in found
    assert [name for name, text in found.items() if re.search(r"<=?None|None<", text)] == []


def test_tables_that_can_be_left_out_are_in_brackets(capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("verify", "compact"):
        assert "LAKE [DB.TABLE…]" in shown(capfd, "mirror", command)
