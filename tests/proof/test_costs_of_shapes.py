"""Every shape of costly logs with every command: minutes, for `make soak`. The shapes that cost most are in
`tests/truth/test_costs.py`, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.logs import costly_events, costly_tables
from support.logs.cost import COMMANDS, MOST_MEMORY_KB, cost, saved

pytestmark = pytest.mark.costs
SHAPES = (*costly_tables.SHAPES, *costly_events.SHAPES)
# 12 GB of text, rightly
UNBOUNDED = ("long_members",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shapes")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in UNBOUNDED])
def test_events_and_values_of_all_kinds_take_bounded_memory_and_time(
    folder: Path, name: str, command: tuple[str, ...]
) -> None:
    code, memory_kb, err = cost(folder, *command, saved(folder, name))
    assert memory_kb < MOST_MEMORY_KB
    assert code in (0, 1), err  # a signal: it took too long
    assert "Traceback" not in err
