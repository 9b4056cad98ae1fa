"""`binlake completion`: the scripts, and what a shell that loaded one is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binlake.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(
    shell: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert "_BINLAKE_COMPLETE" in script
    if program := shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        assert subprocess.run([program, "-n", str(path)], check=False).returncode == 0


def test_an_unknown_shell(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "SHELL tcsh: expected one of bash, zsh, fish" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("binlake ver", ["plain,verify"]),
        ("binlake rows --exclude-t", ["plain,--exclude-table"]),
        ("binlake rows --op d", ["plain,delete"]),
        ("binlake rows --schema s", ["file,s"]),
        ("binlake rows /var/lib/mys", ["file,/var/lib/mys"]),
    ],
)
def test_completions_for_typed_words(typed: str, wanted: list[str]) -> None:
    words = typed.split()
    environment = {
        **os.environ,
        "_BINLAKE_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-m", "binlake.cli.main"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == wanted, done.stderr
