"""The task that logs in to the server before a mirror begins."""

from __future__ import annotations

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.lake.engine import UnwantedError
from binlake.mirror.source.task_login import _Login


def test_an_engine_may_give_up_a_login() -> None:
    login = _Login("mysql://db1/")
    login.give_up()
    with pytest.raises(UnwantedError):
        login.check_wanted()
