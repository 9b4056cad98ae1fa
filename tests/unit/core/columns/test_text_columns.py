"""Whole text columns: whether they are UTF-8, and texts spread over rows."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.core.columns.text_columns import is_ascii, is_utf8, spread
from binlake.table.text.shared_texts import spread_texts


def _offsets(texts: list[bytes]) -> bytes:
    return array("i", accumulate(map(len, texts), initial=0)).tobytes()


def _is_utf8(texts: list[bytes], most_bytes: int = 4) -> bool:
    return is_utf8(b"".join(texts), _offsets(texts), len(texts), most_bytes)


def _decodes(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# what is UTF-8, what nearly is, and long plain stretches around both
_pieces = st.one_of(
    st.text(max_size=6).map(str.encode),
    st.binary(max_size=4),
    st.integers(0, 130).map(lambda size: b"x" * size),
    st.sampled_from(
        [b"\xc0\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80"]
    ),
)
_texts = st.lists(st.lists(_pieces, max_size=4).map(b"".join), max_size=8)


@given(texts=_texts)
def test_texts_are_utf8_if_python_decodes_each_of_them(texts: list[bytes]) -> None:
    assert _is_utf8(texts) == all(map(_decodes, texts))


@given(text=st.text())
def test_three_bytes_end_at_the_basic_plane(text: str) -> None:
    assert _is_utf8([text.encode("utf-8", "replace")], 3) == all(ord(c) <= 0xFFFF for c in text)


def test_a_character_does_not_continue_in_the_next_text() -> None:
    assert _is_utf8(["é".encode()])
    assert not _is_utf8([b"\xc3", b"\xa9"])


@given(data=st.binary(max_size=200), size=st.integers(0, 200))
def test_ascii(data: bytes, size: int) -> None:
    assert is_ascii(data) == data.isascii()
    plain = b"a" * size
    assert is_ascii(plain)
    assert not is_ascii(plain + b"\x80")


def test_offsets_beyond_the_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="end at 2"):
        is_utf8(b"ab", array("i", [0, 3]).tobytes(), 1, 4)
    with pytest.raises(ValueError, match="no offsets"):
        is_utf8(b"ab", array("i", [0, 2]).tobytes(), 2, 4)
    with pytest.raises(ValueError, match="end at 2"):
        spread(b"ab", array("i", [0, 3]).tobytes(), b"\0", 1)
    with pytest.raises(ValueError, match="do not grow"):
        spread(b"ab", array("i", [2, 0]).tobytes(), b"\0", 1)
    with pytest.raises(ValueError, match="no index"):
        spread(b"ab", array("i", [0, 2]).tobytes(), b"\0\0\0", 1)
    with pytest.raises(IndexError, match="row 1"):
        spread(b"ab", array("i", [0, 2]).tobytes(), b"\0\1", 2)


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int32(), pa.uint64()])
@given(texts=st.lists(st.text(max_size=90), min_size=1, max_size=6), data=st.data())
def test_spread_texts_are_those_that_arrow_takes(
    kind: pa.DataType, texts: list[str], data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.none() | st.integers(0, len(texts) - 1), max_size=20))
    values = pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())
    index = pa.array(numbers, kind)
    made = spread_texts(values, index)
    made.validate(full=True)
    assert made.equals(values.take(index))


def test_the_number_of_a_null_may_be_any() -> None:
    numbers = pa.py_buffer(array("i", [0, 99]))
    index = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\1"), numbers])
    assert spread_texts(pa.array(["a"]), index).to_pylist() == ["a", None]


def test_a_number_that_no_text_has_is_refused() -> None:
    with pytest.raises(pa.ArrowIndexError):
        spread_texts(pa.array(["a"]), pa.array([1], pa.int32()))
