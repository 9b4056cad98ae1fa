"""Numbers of keys: equal where the keys are equal, and in the order of the keys."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.iceberg.keys import Keys


@pytest.mark.parametrize("rows", [0, 1, 2, 500])
@pytest.mark.parametrize("highs", [1, 4, 1 << 63])
def test_ids_of_hashes(rows: int, highs: int) -> None:
    """Also where hashes share one half: then the other half decides."""
    chance = np.random.default_rng(rows + highs % 97)
    high = chance.integers(0, highs, rows).astype(np.uint64) * np.uint64(2)
    low = chance.integers(0, 3, rows).astype(np.uint64)
    pairs = list(zip(high.tolist(), low.tolist(), strict=True))
    numbers = {pair: number for number, pair in enumerate(sorted(set(pairs)))}
    assert Keys(high, low).ids().tolist() == [numbers[pair] for pair in pairs]
