"""`make mirror-demo` fails above its goal, which does not include downloads."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")
pytest.importorskip("rich")
from dev import mirror_demo


@pytest.mark.parametrize(
    ("seconds", "code", "wanted", "line"),
    [
        (150, 0, 0, "Finished after 150 s; the goal is 180 s"),
        (181, 0, 1, "Failed: the demo took 181 s; the goal is 180 s"),
        (150, 1, 1, "Finished after 150 s; the goal is 180 s"),
    ],
)
def test_the_exit_code(
    seconds: int,
    code: int,
    wanted: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0

    def takes(duration: int) -> None:
        nonlocal now
        now += duration

    def watch(*_of: Any) -> int:
        takes(seconds)
        return code

    monkeypatch.setattr(mirror_demo, "download", lambda: takes(1000))
    monkeypatch.setattr(mirror_demo, "running", lambda *_of: nullcontext())
    monkeypatch.setattr(mirror_demo, "watch", watch)
    monkeypatch.setattr("dev.mirror_demo.time.monotonic", lambda: now)
    assert mirror_demo.main() == wanted
    assert capsys.readouterr().out.splitlines()[-1] == line
