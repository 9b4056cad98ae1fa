"""Digests of a column: those of hashlib, for values of each length, and for offsets that lie."""

from __future__ import annotations

import hashlib
import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.columns.value_digests import DIGEST_BYTES, value_digests


def expected(values: list[bytes]) -> bytes:
    return b"".join(hashlib.blake2b(v, digest_size=DIGEST_BYTES).digest() for v in values)


def digests(values: list[bytes], before: bytes = b"") -> bytes:
    ends = np.cumsum([len(before), *map(len, values)]).astype(np.int32)
    return bytes(value_digests(ends, before + b"".join(values)))


def test_as_hashlib() -> None:
    """Around each block of 128 bytes, too."""
    chance = random.Random(1)
    values = [chance.randbytes(length) for length in (*range(400), 1023, 1024, 1025, 100_000)]
    assert digests(values) == expected(values)
    assert digests(values, b"others") == expected(values)


@given(st.lists(st.binary(max_size=300)), st.binary(max_size=5))
def test_as_hashlib_for_any_values(values: list[bytes], before: bytes) -> None:
    assert digests(values, before) == expected(values)


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-1, 9)), st.binary(max_size=8))
def test_any_offsets(offsets: list[int], data: bytes) -> None:
    """They are of the data, or an error."""
    if not offsets or (offsets == sorted(offsets) and offsets[0] >= 0 and offsets[-1] <= len(data)):
        values = [data[low:high] for low, high in itertools.pairwise(offsets)]
        assert bytes(value_digests(np.array(offsets, np.int32), data)) == expected(values)
    elif len(offsets) > 1:
        with pytest.raises(IndexError):
            value_digests(np.array(offsets, np.int32), data)


def test_without_values() -> None:
    assert digests([]) == b""
    assert bytes(value_digests(np.empty(0, np.int32), b"")) == b""
    assert digests([b"", b""]) == expected([b"", b""])


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1, 3], [0, 3, 2], [0, 9, 3]])
def test_offsets_outside_of_the_data(offsets: list[int]) -> None:
    with pytest.raises(IndexError):
        value_digests(np.array(offsets, np.int32), b"abc")
