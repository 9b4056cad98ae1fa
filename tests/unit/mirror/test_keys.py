"""Numbers of keys: equal where the keys are equal, and in the order of the keys."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.tables.keys import Keys, keys_of, row_hashes
from binlake.mirror.tables.schema import conformed, iceberg_schema, storage_schema

_TIMES = [datetime.datetime(1970, 1, 1), datetime.datetime(2026, 11, 23, 18, 0, 0, 123456)]
VALUES: list[tuple[pa.DataType, Sequence[object]]] = [
    *((kind, [0, 1, 127]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())),
    (pa.uint32(), [0, (1 << 32) - 1]),
    (pa.uint64(), [0, (1 << 64) - 1]),
    (pa.int64(), [-(1 << 63), 0]),
    (pa.decimal128(12, 4), [Decimal("0.0000"), Decimal("-12345678.9000")]),
    (pa.decimal128(38, 0), [Decimal(0), Decimal(10**37)]),
    (pa.float32(), [0.0, -0.0, 0.1]),
    (pa.float64(), [0.0, -0.0, 0.1]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "Zürich", "a,b"]),
    (pa.large_string(), ["", "Zürich"]),
    (pa.dictionary(pa.int32(), pa.string()), ["new", "paid", "new"]),
    (pa.binary(), [b"", b"\0\xff"]),
    (pa.date32(), [datetime.date(1000, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.timestamp("us"), list(_TIMES)),
    (pa.timestamp("us", "UTC"), list(_TIMES)),
    (pa.list_(pa.string()), [["a", "b"], []]),
]


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


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda value: str(value)[:20])
def test_the_key_of_a_decoded_value_is_that_of_the_value_in_the_lake(
    kind: pa.DataType, values: list[object]
) -> None:
    """Keys of changes are looked up among keys of the rows of data files, which have other types."""
    decoded = pa.table({"a": pa.array(values, kind), "b": pa.array(range(len(values)), pa.uint8())})
    stored = conformed(decoded, storage_schema(iceberg_schema(decoded.schema)))
    for names in (["a"], ["a", "b"]):
        keys, same = (keys_of([rows[name] for name in names], names) for rows in (decoded, stored))
        assert keys.high.tolist() == same.high.tolist()
        assert (keys.low is None) == (same.low is None)
        if keys.low is not None and same.low is not None:
            assert keys.low.tolist() == same.low.tolist()


def test_rows_of_one_column_with_null_and_an_empty_value_differ() -> None:
    """A table without a key tells its rows apart by these numbers."""
    texts = pa.chunked_array([["", None, "a"], [], [None, ""]], pa.string())
    sliced = pa.table({"a": texts}).slice(1)
    assert row_hashes(pa.table({"a": texts})).ids().tolist() in permutations_of([0, 1, 2, 1, 0])
    assert row_hashes(sliced).ids().tolist() in permutations_of([1, 2, 1, 0])
    assert len(row_hashes(pa.table({"a": pa.chunked_array([], pa.string())}))) == 0


def permutations_of(groups: list[int]) -> list[list[int]]:
    """All numberings of the same groups."""
    return [[order[group] for group in groups] for order in itertools.permutations(range(3))]


def test_hashes_of_large_rows_are_made_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns of a row are joined for its hash, and an array of Arrow has at most 2 GiB."""
    texts = ["x" * 10_000 + str(number) for number in range(4000)]
    rows = pa.table({"a": texts, "b": texts, "n": range(4000)})
    join, sizes = pc.binary_join_element_wise, list[int]()

    def recorded(*of: object) -> object:
        joined = join(*of)
        sizes.append(joined.nbytes)
        return joined

    monkeypatch.setattr(pc, "binary_join_element_wise", recorded)
    whole = row_hashes(rows)
    assert max(sizes) < 70 << 20
    parts = Keys.joined([row_hashes(rows.slice(at, 1000)) for at in range(0, 4000, 1000)])
    assert whole.low is not None
    assert parts.low is not None
    assert whole.high.tolist() == parts.high.tolist()
    assert whole.low.tolist() == parts.low.tolist()
