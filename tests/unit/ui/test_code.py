"""The programs that the page shows, for tables and files whose names attack users that run them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Sequence

import click
import pytest

from binlake.cli.main import PROGRAM
from binlake.errors import OptionError
from binlake.ui.code import KINDS, program
from binlake.values.options import ReadOptions

#: Names of a table: each part may contain anything.
NAMES = (
    "shop.t\x1b[201~\nrm -rf ~\n",
    "shop.t'; rm -rf ~ #",
    "shop.$(rm -rf ~)`rm`\\",
    'shop.t")\nimport os  # "',
    "shop.\u202egnp.exe\u2028\x7f\x9b",
    "shop.💣\\'\x01",
    "shop.t\r",
)


def shell_words(text: str) -> list[str]:
    """The arguments that bash passes to binlake."""
    script = f'binlake() {{ printf "%s\\0" "$@"; }}\n{text}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", [(), ("id=1",)], ids=["rows", "history"])
def test_a_name_stays_in_its_literal(name: str, key: Sequence[str]) -> None:
    options = ReadOptions(table=(name,))
    files = ["logs/binlog.000001", name, "logs/\udcff"]
    command = program("command", files, options, key)
    words = shell_words(command)
    assert words[0] == ("history" if key else "rows")
    assert [word for word in words if word in (name, *files)] == (
        [name, *files] if key else [*files, name]
    )
    python, spark = (ast.parse(program(kind, files, options, key)) for kind in ("python", "spark"))
    for tree in (python, spark):
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert {name, *files} <= set(texts)
        assert [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names] == (
            ["binlake"] if tree is python else []
        )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_pasted_programs_execute_no_hostile_names(name: str, kind: str) -> None:
    text = program(kind, [name, "\udcff"], ReadOptions(table=(name,)), (f"{name}=1",))
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert "rm -rf ~" not in text.splitlines()


@pytest.mark.parametrize("table", ["--html=/srv/precious.t", "-h.x"])
def test_a_table_is_no_option_of_the_command(table: str) -> None:
    text = program("command", ["binlog.000001"], ReadOptions(table=(table,)), ("id=1",))
    history = PROGRAM.get_command(click.Context(PROGRAM), "history")
    assert history is not None
    context = history.make_context("history", shell_words(text)[1:])
    assert context.params["html"] is None
    assert context.params["table"] == table


@pytest.mark.parametrize("kind", ["command", "python"])
@pytest.mark.parametrize(
    ("table", "key"), [((), "id=1"), (("a.b", "a.c"), "id=1"), (("a.b",), "1"), (("a.b",), "=1")]
)
def test_a_row_needs_one_table_and_the_columns_of_its_key(
    kind: str, table: tuple[str, ...], key: str
) -> None:  # fmt: skip
    with pytest.raises(OptionError):
        program(kind, ["binlog.000001"], ReadOptions(table=table), (key,))
