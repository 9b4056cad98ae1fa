"""The reports of `dev/check_tools.py`: the build needs a compiler, and runs without libdeflate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dev.check_tools import main, missing_build_tools, missing_libdeflate


def compiler_without(tmp_path: Path, word: str) -> str:
    """A compiler that fails when its source contains `word`."""
    program = tmp_path / "cc"
    program.write_text(
        f"""#!/bin/sh
for argument; do
  case "$argument" in *.c) grep -q {word} "$argument" && exit 1;; esac
done
exec cc "$@"
"""
    )
    program.chmod(0o755)
    return os.fspath(program)


def test_without_libdeflate_the_build_continues_and_the_check_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", compiler_without(tmp_path, "deflate"))
    assert missing_build_tools() == []
    assert len(missing_libdeflate()) == 1
    assert main(["libdeflate"]) == 1
    assert "apt install libdeflate-dev" in capfd.readouterr().err


def test_without_libdeflate_and_zlib_the_build_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler_without(tmp_path, "lib"))
    (problem,) = missing_build_tools()
    assert "libdeflate-dev" in problem
