"""The interface that users can rely on: public names, commands, options, and that each is documented."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import binlake
from binlake import errors
from binlake.cli.main import COMMANDS, main
from binlake.values.options import READ_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    m.name for m in pkgutil.walk_packages(binlake.__path__, "binlake.") if ".core." not in m.name
]


def test_public_names_exist_and_nothing_else_is_meant() -> None:
    assert sorted(binlake.__all__) == list(binlake.__all__)
    for name in binlake.__all__:
        assert getattr(binlake, name) is not None
    assert {"open", "BinlogError"} <= set(binlake.__all__)


@pytest.mark.parametrize("name", ["binlake", "binlake.mirror", "binlake.spark"])
def test_the_reference_has_every_public_name(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(rf"^\.\. auto\w+:: {re.escape(name)}\.(\w+)$", page, re.MULTILINE))
    named = set(importlib.import_module(name).__all__) - {"BinlogError"}
    assert named <= documented


def test_every_error_is_a_binlog_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.BinlogError)


@pytest.mark.parametrize("room", sorted({name.split(".")[1] for name in MODULES}))
def test_names_in_all_exist(room: str) -> None:
    """The modules of a room, without those whose libraries are not here: these are skipped at the end."""
    problems, missing = [], set[str]()
    for name in MODULES:
        if name.split(".")[1] != room:
            continue
        if lacks := {library for library in _needs(name) if find_spec(library) is None}:
            missing |= lacks
            continue
        module = importlib.import_module(name)
        problems += [
            f"{module.__file__}: __all__ has {public}, which the module does not define"
            for public in getattr(module, "__all__", ())
            if not hasattr(module, public)
        ]
    assert not problems, "\n".join(problems)
    if missing:
        pytest.skip(f"modules of {room} need {', '.join(sorted(missing))}")


def _needs(name: str) -> tuple[str, ...]:
    """The libraries that a module cannot be imported without."""
    if ".spark" in name or ".lake" in name or ".mirror" in name:
        return ("pyspark",)
    if name in ("binlake.ui.app", "binlake.ui.guard", "binlake.ui.server"):
        return ("starlette", "uvicorn")
    return ("prompt_toolkit",) if name == "binlake.cli.query.prompt" else ()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"binlake {command}" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    pages = [(ROOT / "README.md").read_text(), (ROOT / "docs" / "commands.md").read_text()]
    assert all(f"binlake {command}" in page for page in pages)


@pytest.mark.parametrize("option", [spec.name for spec in READ_OPTIONS])
def test_every_option_is_documented(option: str) -> None:
    assert f"`{option}`" in (ROOT / "docs" / "options.md").read_text()


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "-m", "dev.gen_docs", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_importing_binlake_does_not_import_spark() -> None:
    code = "import sys, binlake; sys.exit('pyspark' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
