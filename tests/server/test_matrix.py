"""server × type × character set × the settings that change a log: every value is SELECT's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from dev.servers import Server
from server.matrix import AXES, Matrix
from support.values.pairwise import covering, pairs_of

pytestmark = pytest.mark.server

SEED = 1


def test_every_two_settings_meet() -> None:
    for axes in AXES.values():
        rows = covering(axes)
        for one, other in pairs_of(axes):
            assert any(one in row.items() and other in row.items() for row in rows)


def test_values_are_the_servers(server: Server, figure: Callable[..., None]) -> None:
    compared: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    problems: list[str] = []
    collations: set[str] = set()
    combinations = 0
    for found in Matrix(server, SEED).run():
        combinations += 1
        problems += found.problems
        collations |= set(found.collations)
        for family, count, wrong in found.values():
            compared[family] += count
            differing[family] += wrong
        assert found.text.values == found.typed.values
    for family, count in compared.items():
        figure("values", server=server.name, family=family, compared=count, differing=differing[family])  # fmt: skip
    version = server.rows("SELECT VERSION()")[0][0]
    figure("matrix", server=server.name, version=version, combinations=combinations, collations=len(collations))  # fmt: skip
    assert problems[:20] == []
    assert compared.total() > 100_000
