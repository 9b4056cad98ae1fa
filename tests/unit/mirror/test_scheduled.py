"""The comparisons that a running mirror makes on a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.mirror.equality.compare import VerifyOptions
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting.pulse import Pulse
from binlake.mirror.scheduled import ScheduledVerification
from binlake.mirror.verification import Verification

DAY_S = 86_400


def test_each_comparison_has_the_next_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the mirror was restarted in between."""
    numbers: list[int] = []
    notes: list[str] = []

    def compared(_mirror: Any, _names: Any, options: VerifyOptions) -> Verification:
        assert options.sample == 0.1
        numbers.append(options.sample_number)
        return Verification("binlog.000001", 4, "", (), options.sample_number)

    mirror: Any = None
    logs: Any = None
    for day in range(3):
        monkeypatch.setattr("time.time", lambda now=day * DAY_S + 1e9: now)
        pulse = Pulse(tmp_path, lambda: logs, lambda: None)
        options = MirrorOptions(verify_every_s=DAY_S, verify_sample=0.1)
        ScheduledVerification(options, pulse, notes.append, compared).work(mirror)
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    assert notes[0].endswith(f"(sample {numbers[0]}): 0 tables differ")
