"""Times of mysqlbinlog's options: local, unless they mean one moment in any zone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from binlake.cli.common.flags import local_moment
from binlake.cli.main import main
from binlake.cli.mysqlbinlog.values import local_seconds

MOMENT = 1_795_266_000  # 2026-11-21 13:00:00 UTC


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21 14:00:00",
        "2026-11-21T13:00:00Z",
        "2026-11-21 15:00+02:00",
        " 2026-11-21 08:00:00 -0500",
        f"@{MOMENT}",
    ],
)
def test_a_zone_is_respected(text: str) -> None:
    assert local_moment(text).timestamp() == MOMENT
    assert local_seconds("--start-datetime", text) == MOMENT


def test_both_surfaces_mean_the_same_moment(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """All transactions of the log are of less than an hour."""
    assert main(["rows", log]) == 0
    whole = capfd.readouterr().out
    times = [datetime.fromisoformat(json.loads(line)["ts"]) for line in whole.splitlines()]
    first, later = (moment.replace(microsecond=0) for moment in (times[0], times[-1]))
    later += timedelta(seconds=1)
    assert later - first < timedelta(hours=1)
    for text, finds in ((f"{first:%F %T}Z", True), (f"{later:%F %T}Z", False)):
        assert main(["rows", log, "--start-datetime", text]) == 0
        assert (capfd.readouterr().out == whole) is finds
        assert main(["mysqlbinlog", "--start-datetime", text, log]) == 0
        assert ("Table_map" in capfd.readouterr().out) is finds
