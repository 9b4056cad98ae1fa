"""Logs in parts in an object store: a log that is cut keeps the bytes before the cut, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.archive.store import StoreFolder

NAME = "binlog.000001"
PARTS = (b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 10)
WHOLE = b"".join(PARTS)


class Killed(BaseException):
    """The process ends here."""


class MortalFolder(StoreFolder):
    """A store whose process is killed before it changes the parts for the `left + 1`st time."""

    left = 1 << 30

    def _live(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1

    def write_part(self, name: str, start: int, data: bytes) -> None:
        self._live()
        super().write_part(name, start, data)

    def delete_part(self, path: str) -> None:
        self._live()
        super().delete_part(path)

    def forget_parts(self, name: str) -> None:
        self._live()
        super().forget_parts(name)


def content(folder: StoreFolder) -> bytes:
    reader = folder.open_log(NAME).reader()
    assert reader.size is not None
    return reader.read_at(0, reader.size)


@pytest.mark.parametrize("size", [0, 5, 10, 15, 30, 35])
@pytest.mark.parametrize("steps", range(6))
def test_a_killed_cut_keeps_the_bytes_before_it(tmp_path: Path, size: int, steps: int) -> None:
    folder = MortalFolder(tmp_path.as_uri())
    log = folder.open_log(NAME)
    for part in PARTS:
        log.append(part)
        log.sync()
    folder.left = steps
    try:
        log.truncate(size)
    except Killed:
        left = content(StoreFolder(tmp_path.as_uri()))
        assert left == WHOLE[: max(size, len(left))]
    again = StoreFolder(tmp_path.as_uri())
    log = again.open_log(NAME)
    log.truncate(size)
    assert content(again) == WHOLE[:size]
    # parts of the same lengths as before: no old part joins them
    for at in range(size, 40, 5):
        log.append(b"%05d" % at)
        log.sync()
        assert content(again) == WHOLE[:size] + b"".join(
            b"%05d" % n for n in range(size, at + 5, 5)
        )
    log.finish()
    assert again.read(NAME) == WHOLE[:size] + b"".join(b"%05d" % n for n in range(size, 40, 5))


@pytest.mark.parametrize(
    ("size", "kept"), [(15, b"aaaaaaaaaabbbbb"), (10, b"a" * 10), (5, b"aaaaa")]
)
def test_a_cut_keeps_bytes_that_wait(tmp_path: Path, size: int, kept: bytes) -> None:
    folder = StoreFolder(tmp_path.as_uri())
    log = folder.open_log(NAME)
    log.append(PARTS[0])
    log.sync()
    log.append(PARTS[1])
    log.truncate(size)
    assert log.size == size
    log.append(b"!")
    log.sync()
    assert content(folder) == kept + b"!"
