"""`binlake mirror`: mistakes are found before Spark starts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from binlake.cli.main import main
from binlake.cli.mirror import progress as mirror_progress

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")
from rich.console import Console

from binlake.mirror.first_copy import CopyProgress


@pytest.mark.parametrize(
    "words", [("status",), ("verify",), ("compact",), ("pause",), ("resume",), ("resync", "shop.orders")], ids=" ".join
)  # fmt: skip
def test_a_directory_without_a_mirror(
    words: tuple[str, ...],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setenv("PATH", str(tmp_path))
    command, *rest = words
    assert main(["mirror", command, str(tmp_path), *rest]) == 2
    out, err = capfd.readouterr()
    assert (out, "has no mirror" in err) == ("", True)
    assert list(tmp_path.iterdir()) == []


COPY = (
    CopyProgress("shop.orders", 0, 4, 0, 4000, 0),
    CopyProgress("shop.orders", 2, 4, 2000, 4000, 3_000_000),
)


def test_a_copy_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    drawn = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(mirror_progress, "is_watched", lambda: True)
    monkeypatch.setattr(mirror_progress, "console", lambda: drawn)
    with mirror_progress.CopyBar() as bar:
        for seen in COPY:
            bar(seen)
    for part in ("shop.orders", "2/4", "2,000 rows", "3 MB"):
        assert part in screen.getvalue()


def test_a_copy_is_not_drawn_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with mirror_progress.CopyBar() as bar:
        for seen in COPY:
            bar(seen)
    assert capsys.readouterr() == ("", "")
