"""The file in which a copy writes down what it has read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlake.errors import SourceError
from binlake.mirror.followed.copy_state import CopyState

CHUNKS = ["first", "second", "third"]


def answer(number: int, folder: Path) -> dict[str, Any]:
    file = folder / f"{number}.parquet"
    file.write_bytes(b"")
    return {"number": number, "files": [{"file-path": str(file)}], "rows": number}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "copy.jsonl"


@pytest.fixture
def state(path: Path, tmp_path: Path) -> CopyState:
    made = CopyState(path, "this copy")
    made.begin(CHUNKS)
    made.add([answer(0, tmp_path), answer(2, tmp_path)])
    return made


def test_it_is_read_back(state: CopyState, path: Path) -> None:
    again = CopyState(path, "this copy")
    assert (again.chunks, sorted(again.answers)) == (CHUNKS, [0, 2])
    assert again.answers == state.answers
    again.remove()
    assert (again.chunks, again.answers) == ([], {})
    assert (CopyState(path, "this copy").chunks, path.exists()) == ([], False)


def test_another_copy_does_not_continue_it(state: CopyState, path: Path, tmp_path: Path) -> None:
    other = CopyState(path, "another copy")
    assert (other.chunks, other.answers, other.other) == ([], {}, "this copy")
    assert not CopyState(path, "this copy").other
    other.begin(["only"])
    assert not other.other
    assert CopyState(path, "this copy").chunks == []


def test_a_chunk_whose_files_are_gone_is_read_again(
    state: CopyState, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "2.parquet").unlink()
    assert sorted(CopyState(path, "this copy").answers) == [0]


def test_a_store_that_fails_is_no_missing_file(path: Path, tmp_path: Path) -> None:
    """The copy continues when the store answers again."""
    state = CopyState(path, "this copy")
    state.begin(CHUNKS)
    unanswered = f"{tmp_path}/{'x' * 300}.parquet"  # no file system accepts the name
    state.add([{"number": 0, "files": [{"file-path": unanswered}], "rows": 0}])
    with pytest.raises(SourceError, match=r"cannot read .*File name too long"):
        CopyState(path, "this copy")


def test_cut_at_every_byte(state: CopyState, path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        cut = CopyState(path, "this copy")
        # a line is whole without its end, too
        kept = sum(size >= len(b"".join(lines[: n + 1])) - 1 for n in range(len(lines)))
        assert len(cut.answers) == max(0, kept - 1), size
        if kept:
            cut.add([answer(1, tmp_path)])
            assert len(CopyState(path, "this copy").answers) == kept
