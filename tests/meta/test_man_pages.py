"""Every command has a man page that says what its help says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from binlake.cli.main import COMMANDS
from dev.man_pages import write_man_pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("man")
    return {path.stem: path.read_text(encoding="utf-8") for path in write_man_pages(folder)}


def test_every_command_has_a_page(pages: dict[str, str]) -> None:
    assert {f"binlake-{name}" for name in COMMANDS} | {"binlake", "binlake-gtid-locate"} <= set(
        pages
    )
    for name, text in pages.items():
        title = text.partition("\n")[0].replace("-", " ")
        assert title.startswith(f'.TH "{name.upper().replace("-", " ")}" "1"'), name
        assert ".SH DESCRIPTION" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_examples_and_options(pages: dict[str, str], name: str) -> None:
    text = pages[f"binlake-{name}"]
    assert f"\nbinlake {name}" in text.partition(".SH EXAMPLES")[2]
    assert ".SH OPTIONS" in text


def test_a_summary_is_no_sentence(pages: dict[str, str]) -> None:
    """`man` and `apropos` put the name of the command before it."""
    for name, text in pages.items():
        summary = text.partition(".SH NAME\n")[2].partition("\n")[0].partition(r" \- ")[2]
        assert re.match(r"[a-z]+ ", summary), name
        assert not summary.endswith("."), name


def test_no_line_of_text_is_a_request(pages: dict[str, str]) -> None:
    """A help text that begins with a dot would otherwise disappear."""
    known = {".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi"}
    for text in pages.values():
        lines = [line for line in text.splitlines() if line[:1] in (".", "'")]
        assert {line.split()[0] for line in lines} <= known
