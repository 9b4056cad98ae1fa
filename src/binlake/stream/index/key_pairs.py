"""The sorted list of a key column: pairs of a hash and the number of a block, in pages that are checked as they are read.

A lookup reads one page, seldom two. Each page has a CRC32, because a list that is damaged on a disk would hide rows.
The first pair of each page and the checksums are kept apart from the list.
"""

from __future__ import annotations

from array import array as machine_array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from binlake.stream.index.key_forms import HASH_BITS

BLOCK_BITS = 32 - HASH_BITS
#: A set of blocks: bit n is block n.
Blocks = int

_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class KeyPairs:
    """The pairs of a column in ascending order, as 32-bit numbers. `firsts` and `checksums` have one number a page."""

    pairs: memoryview
    firsts: Sequence[int]
    checksums: Sequence[int]

    @classmethod
    def of_file(cls, pairs: memoryview, firsts: bytes, checksums: bytes) -> KeyPairs:
        """Take what `pages` has made. Raises ValueError if the lengths do not fit."""
        made = cls(pairs, machine_array("I", firsts), machine_array("I", checksums))
        pages = -(-len(pairs) // _PAGE_BYTES)
        if len(pairs) % 4 or {len(made.firsts), len(made.checksums)} != {pages}:
            raise ValueError("it is damaged")
        return made

    @staticmethod
    def pages(pairs: bytes) -> dict[str, bytes]:
        """The first pair and the checksum of each page of a list, for the file."""
        pages = [pairs[at : at + _PAGE_BYTES] for at in range(0, len(pairs), _PAGE_BYTES)]
        checksums = machine_array("I", map(crc32, pages))
        return {"firsts": b"".join(page[:4] for page in pages), "checksums": checksums.tobytes()}

    def blocks(self, hashed: int) -> Blocks:
        """The blocks in which a hash occurs. Raises ValueError for a damaged list."""
        found = 0
        for pair in self._from(hashed << BLOCK_BITS):
            if pair >> BLOCK_BITS != hashed:
                break
            found |= 1 << (pair & (1 << BLOCK_BITS) - 1)
        return found

    def _from(self, least: int) -> Iterator[int]:
        """The pairs that are not less than `least`."""
        for number in range(max(bisect_left(self.firsts, least) - 1, 0), len(self.firsts)):
            page = self.pairs[number * _PAGE_BYTES : (number + 1) * _PAGE_BYTES]
            if crc32(page) != self.checksums[number]:
                raise ValueError(f"page {number} of a list is damaged")
            pairs = page.cast("I")
            yield from pairs[bisect_left(pairs, least) :]
