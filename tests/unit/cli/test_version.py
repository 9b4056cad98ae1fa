"""`binlake --version`, and what `--verbose` adds."""

from __future__ import annotations

from importlib import metadata

import pytest

from binlake.cli.main import main
from binlake.core.events.checksum import crc32_library

VERSION = f"binlake {metadata.version('binlake')}"


def test_the_version_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.splitlines() == [VERSION]


@pytest.mark.parametrize("given", [["--version", "--verbose"], ["--verbose", "--version"]])
def test_verbose_names_the_library_of_the_checksums(
    given: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == [VERSION, f"CRC32: {crc32_library()}"]
    assert f"pyarrow: {metadata.version('pyarrow')}" in lines


def test_verbose_alone_is_wrong_use(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--verbose"]) == 2
    assert "--verbose requires --version" in capfd.readouterr().err
