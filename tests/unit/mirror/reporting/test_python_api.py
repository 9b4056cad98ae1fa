"""`binlake.mirror.mirror` without Spark and a server: what it does beside the mirror itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")
pytest.importorskip("prometheus_client", reason="needs the extra [server]")
from binlake.errors import OptionError
from binlake.mirror import api, moments
from binlake.mirror.reporting.report import MirrorStatus

STATUS = MirrorStatus("mysql://db1/", False, 7, "binlog.000003", 4711, "", "", "", ())
PREFIX = "metrics: "


class _Mirror:
    """A mirror that shows its status once, and follows the log until Ctrl-C."""

    def __init__(
        self, *_of: Any, show: Callable[[MirrorStatus], None] | None, **_named: Any
    ) -> None:
        self._show = show
        self.scraped: list[str] = []
        self._stop = threading.Event()

    def run(self, *, once: bool, interval_s: float) -> None:
        assert (once, interval_s) == (False, 0.5)
        assert self._show is not None
        self._show(STATUS)
        signal.raise_signal(signal.SIGINT)
        assert self._stop.wait(60)

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        [url] = _notes
        self.scraped += urlopen(url.removeprefix(PREFIX), timeout=60).read().decode().splitlines()


_notes: list[str] = []


def test_the_call_ends_in_order_at_ctrl_c_and_serves_metrics_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_Mirror] = []

    def mirror(*of: Any, **named: Any) -> _Mirror:
        made.append(_Mirror(*of, **named))
        return made[-1]

    monkeypatch.setattr(api, "Mirror", mirror)
    monkeypatch.setattr(api, "open_lake", lambda *_of: None)
    monkeypatch.setattr(api, "mirror_status", lambda *_of: STATUS)
    _notes.clear()
    session: Any = object()
    ended = api.mirror(
        "mysql://db1/", tmp_path, once=False, interval_s=0.5, spark=session, metrics_port=0, note=_notes.append,
    )  # fmt: skip
    assert ended is STATUS
    assert 'binlake_mirror_rounds{source="mysql://db1/"} 7.0' in made[0].scraped
    assert _notes[0].startswith(f"{PREFIX}http://127.0.0.1:")
    with pytest.raises(URLError):
        urlopen(_notes[0].removeprefix(PREFIX), timeout=60)


def test_a_misspelled_parameter(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        api.mirror("mysql://db1/", tmp_path, metrics_prt=9107)
    assert caught.value.hint == "did you mean metrics_port?"


def _connected() -> Any:
    """A session of Spark Connect, without its server."""
    from pyspark.sql.connect.session import SparkSession

    return object.__new__(SparkSession)


@pytest.mark.parametrize(
    "call",
    [
        lambda lake, spark: api.mirror("mysql://db1/", lake, spark=spark),
        lambda lake, spark: api.status(lake, spark=spark),
        lambda lake, spark: api.resync(lake, ["shop.t"], spark=spark),
        lambda lake, spark: api.compact(lake, spark=spark),
        lambda lake, spark: api.verify(lake, spark=spark),
        lambda lake, spark: moments.history(lake, spark=spark),
    ],
    ids=["mirror", "status", "resync", "compact", "verify", "history"],
)
def test_a_session_of_spark_connect(tmp_path: Path, call: Callable[[Path, Any], Any]) -> None:
    """Its errors were PySpark's: that `_jvm` is not supported."""
    with pytest.raises(OptionError, match="a mirror needs a classic session") as raised:
        call(tmp_path / "lake", _connected())
    assert raised.value.context["name"] == "spark"


def test_the_active_session_is_one_of_spark_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `spark`, the mirror would use it."""
    monkeypatch.setattr("pyspark.sql.SparkSession.active", _connected)
    with pytest.raises(OptionError, match="a mirror needs a classic session"):
        api.status(tmp_path / "lake")
