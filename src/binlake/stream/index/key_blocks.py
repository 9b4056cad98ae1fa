"""The parts of a log that its key index distinguishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import le, lt
from typing import Any, Self

from binlake.format.magic import FIRST_EVENT
from binlake.stream.index.key_pairs import BLOCK_BITS, Blocks

MOST_BLOCKS = 1 << BLOCK_BITS


@dataclass(frozen=True, slots=True)
class KeyBlocks:
    """Block n has `counts[n]` transactions in bytes [starts[n], ends[n]) of the log, all of them plain.

    A read needs everything outside the blocks: DDL, statements, XA, short ranges of plain
    transactions between those. `reads_head`: also before the first block there is more than the
    events that begin a log;
    `reads_tail`: also after the last one there is more than the event that ends it.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    counts: Sequence[int]
    reads_head: bool
    reads_tail: bool

    @property
    def all(self) -> Blocks:
        """Every block."""
        return (1 << len(self.starts)) - 1

    @property
    def is_whole(self) -> bool:
        """Whether a read that needs no block needs nothing of the log."""
        adjacent = bool(self.starts) and self.ends[:-1] == self.starts[1:]
        return adjacent and not (self.reads_head or self.reads_tail)

    def without(self, needed: Blocks) -> Iterator[tuple[int, int, int]]:
        """The ranges of blocks that are not needed, as `passages_between` takes them."""
        first = end = count = 0
        for number, start in enumerate(self.starts):
            if needed >> number & 1:
                continue
            if start != end:
                if count:
                    yield first, end, count
                first = FIRST_EVENT if number == 0 and not self.reads_head else start
                count = 0
            end = self.ends[number]
            count += self.counts[number]
        if count:
            yield first, end, count

    def to_json(self) -> list[Any]:
        """Return the blocks as JSON for `of_json`."""
        lists = (list(self.starts), list(self.ends), list(self.counts))
        return [*lists, self.reads_head, self.reads_tail]

    @classmethod
    def of_json(cls, values: list[Any]) -> Self:
        """Raises ValueError or TypeError for values that `to_json` does not make."""
        starts, ends, counts, reads_head, reads_tail = values
        made = cls(starts, ends, counts, bool(reads_head), bool(reads_tail))
        are_numbers = {int}.issuperset(map(type, (*starts, *ends, *counts)))
        are_blocks = len(counts) == len(ends) == len(starts) <= MOST_BLOCKS
        in_order = all(map(lt, starts, ends)) and all(map(le, ends, starts[1:]))
        if not (are_numbers and are_blocks and in_order):
            raise ValueError("it is damaged")
        return made
