"""Commits of other programs between those of a mirror."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.follow.offsets import StreamOffset
from binlake.mirror.commits import reload_own, with_retries
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.values.position import Position

REINDEX = MirrorOptions(on_other_writer="reindex")


@dataclass
class Shared:
    """A lake table with the positions of two shards."""

    full_name: str = "shop.t"
    set_back: str = ""
    ends: dict[str, int] = field(default_factory=lambda: {"a": 100, "b": 200})
    later: dict[str, int] = field(default_factory=dict)

    def reload(self) -> None:
        self.ends = self.later

    def has_other_commits(self) -> bool:
        return True


class Shard(SimpleNamespace):
    """A shard of the lake table."""

    @property
    def lake_offset(self) -> StreamOffset | None:
        end = self.lake.ends.get(self.full_name)
        return None if end is None else StreamOffset(Position("", "binlog.000001", end))


def shards_of(lake: Shared) -> dict[str, Any]:
    shards: dict[str, Any] = {}
    for name, end in lake.ends.items():
        offset = StreamOffset(Position("", "binlog.000001", end))
        shards[name] = Shard(full_name=name, lake=lake, offset=offset, shards=shards, set_back="")
    return shards


def conflict(_attempt: int) -> None:
    raise CommitConflictError("another program has committed")


@pytest.mark.parametrize("how", ["a commit", "a comparison"])
def test_no_shard_continues_after_another_program_has_set_the_table_back(how: str) -> None:
    lake = Shared(later={"a": 100, "b": 150})
    shards = shards_of(lake)
    ways = {
        "a commit": lambda: with_retries(shards["a"], REINDEX, conflict),
        "a comparison": lambda: reload_own(shards["a"], REINDEX),
    }
    with pytest.raises(CommitConflictError, match=r"set the table back to .*:150; .* up to .*:200"):
        ways[how]()
    for shard in shards.values():  # none of them commits
        with pytest.raises(CommitConflictError, match="set the table back"):
            with_retries(shard, REINDEX, lambda _attempt: pytest.fail("it was called"))


@pytest.mark.parametrize("later", [{"a": 100, "b": 200}, {"a": 100, "b": 201}, {}])
def test_a_commit_after_the_newest_one_of_the_mirror(later: dict[str, int]) -> None:
    """Rewritten files; without any snapshot of the mirror if they have expired."""
    shards = shards_of(Shared(later=later))
    calls: list[int] = []

    def act(attempt: int) -> str:
        calls.append(attempt)
        if not attempt:
            conflict(attempt)
        return "done"

    assert with_retries(shards["a"], REINDEX, act) == "done"
    assert calls == [0, 1]
