"""Commands whose options are the fields of dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from click.testing import CliRunner

from binlake.cli.common.parameters import Argument, Option, command, with_fields


@dataclass(frozen=True, slots=True)
class Limits:
    rows: Annotated[int | None, Option("--rows", "-n", min=1, help="Rows to print.")] = None
    names: Annotated[list[str] | None, Option("--name", metavar="NAME", help="A name.")] = None


@dataclass(frozen=True, slots=True)
class Form:
    json: Annotated[bool, Option("--json", help="Print JSON.")] = False


@with_fields("limits", "form")
def shown(
    files: Annotated[list[str], Argument(metavar="FILE…", help="Files.")],
    limits: Limits,
    quiet: Annotated[bool, Option("--quiet", help="Print less.")] = False,
    *,
    form: Form,
) -> None:
    """Print what the command receives."""
    print(files, limits, quiet, form)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command("shown", shown), list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def test_each_parameter_receives_its_fields() -> None:
    given = run("a", "b", "--name", "x", "--name", "y", "-n", "2", "--json")
    assert given == f"['a', 'b'] {Limits(2, ['x', 'y'])} False {Form(json=True)}\n"


def test_fields_have_their_defaults() -> None:
    assert run("a", "--quiet") == f"['a'] {Limits()} True {Form()}\n"


def test_the_help_has_the_fields_in_the_place_of_their_parameter() -> None:
    help = run("--help")
    flags = ["FILE…", "--rows", "--name", "--quiet", "--json"]
    places = [help.index(f"  {flag}") for flag in flags[:1]] + [help.index(f) for f in flags[1:]]
    assert places == sorted(places)
    assert "Print what the command receives." in help


@pytest.mark.parametrize("wrong", [("a", "--rows", "0"), ("a", "--limits", "1"), ()])
def test_a_wrong_value_is_refused(wrong: tuple[str, ...]) -> None:
    assert "Error" in run(*wrong)
