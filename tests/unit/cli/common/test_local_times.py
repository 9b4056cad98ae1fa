"""Times of mysqlbinlog's options: local, unless they mean one moment in any zone."""

from __future__ import annotations

import time
from collections.abc import Iterator

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
    """The first transaction of the log is of this second; an hour later is after its end."""
    assert main(["rows", log]) == 0
    whole = capfd.readouterr().out
    first = whole.partition('"ts":"')[2][:19]
    for text, finds in ((f"{first}Z", True), (f"{first}-23:00", False)):
        assert main(["rows", log, "--start-datetime", text]) == 0
        assert (capfd.readouterr().out == whole) is finds
        assert main(["mysqlbinlog", "--start-datetime", text, log]) == 0
        assert ("Table_map" in capfd.readouterr().out) is finds
