"""The ranges of each log of a chain that a read needs, found with the indexes beside the logs.

Indexes save reading and change no result. Without them, and where they do not fit, a log is read as a whole.
The module that reads them is only imported if there is one: most logs have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from binlake.format.magic import FIRST_EVENT
from binlake.source.bytes import is_read_once
from binlake.source.chain import LogPath
from binlake.source.log_file import LogFile
from binlake.source.replica.url import is_server_url
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.transactions import FileRange, TransactionReader
from binlake.stream.index.index_file import committed_between, from_index
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

if TYPE_CHECKING:
    from binlake.stream.index.key_index import KeyIndex
    from binlake.stream.index.key_lookup import LooksUpBlocks
    from binlake.stream.index.key_pairs import Blocks
    from binlake.stream.index.log_index import LogIndex
    from binlake.stream.index.passages import Passage


@dataclass(frozen=True, slots=True)
class _Found:
    """A key index, and the blocks that each wanted table needs."""

    index: KeyIndex
    blocks: dict[str, Blocks]

    @property
    def needed(self) -> Blocks:
        """The blocks that some table needs."""
        return reduce(or_, self.blocks.values(), 0)


class IndexedRanges:
    """The ranges of logs that one read needs. `lookup` knows the blocks; by default, the option where does."""

    def __init__(
        self,
        filters: TransactionFilter,
        options: ReadOptions,
        ledger: Ledger,
        lookup: LooksUpBlocks | None = None,
    ) -> None:
        self._filters = filters
        self._options = options
        self._ledger = ledger
        self._tables = TableFilter(options) if options.table or options.exclude_table else None
        self._lookup = lookup or _lookup(options)
        self._met: set[str] = set()
        self._last: tuple[str, _Found | None] = "", None

    def passed(self, path: LogPath) -> int | None:
        """The number of transactions of a log of which nothing has to be read, so that it need not be opened; None
        if it has to. Raises SourceError.
        """
        filters = self._filters
        if self._lookup is None or not filters.only_times:
            return None
        found = self._looked_up(path)
        if found is None or found.needed or not found.index.blocks.is_whole:
            return None
        count = sum(found.index.blocks.counts)
        if filters.everything:
            return count
        return committed_between(path, found.index.stamp, count, filters.since_us, filters.until_us)

    def of(
        self, log: LogFile, start: int | None, stop: int | None, reader: TransactionReader
    ) -> Iterator[FileRange]:
        """The parts of [start, stop) of an open log that have to be read, all of it without an index."""
        wanted = self._filters.byte_range(log.ordinal)
        if wanted is None or (passages := self._passages(log, start, stop)) is None:
            yield FileRange(log, start, stop)
            return
        end = wanted[1]
        opened: LogFile | None = log
        for passage in passages:
            if end is not None and passage.start >= end and not reader.expects_more:
                break
            # a file is closed after each of its ranges
            file = opened if opened is not None else log.reopen(log.size)
            opened = None
            yield FileRange(file, passage.start, passage.stop, passage.passed)
        if opened is not None:
            opened.close()

    def _passages(
        self, log: LogFile, start: int | None, stop: int | None
    ) -> Iterator[Passage] | None:
        if log.reader.in_one_request:
            return None
        keys = None
        if log.is_splittable and self._lookup is not None:
            keys = self._looked_up(LogPath(log.path, log.name, None, log.size))
        is_whole = start in (None, FIRST_EVENT) and stop is None
        if keys and self._filters.everything and is_whole:
            from binlake.stream.index.passages import passages_between

            return passages_between(keys.index.blocks.without(keys.needed), start, stop)
        if not keys and not self._options.chooses_rows and self._filters.everything:
            return None
        found = from_index(log, lambda index: self._ask(index, log.ordinal, start, stop, keys))
        if isinstance(found, str):
            self._ledger.warn(found)
            return None
        return None if found is None else iter(found)

    def _ask(
        self,
        index: LogIndex,
        ordinal: int,
        start: int | None,
        stop: int | None,
        keys: _Found | None,
    ) -> list[Passage]:
        """Ask an index for all passages at once: damage is found before the read uses the first one."""
        from binlake.stream.index.passages import ChosenBlocks, IndexQuery

        chosen = ChosenBlocks(keys.index.blocks.starts, keys.blocks) if keys else None
        query = IndexQuery(self._filters, ordinal, self._tables, chosen)
        return list(query.passages(index, start, stop))

    def _looked_up(self, path: LogPath) -> _Found | None:
        if self._last[0] != path.path:
            self._last = path.path, self._look_up(path)
        return self._last[1]

    def _look_up(self, path: LogPath) -> _Found | None:
        """The first block with a table that the read has not met is among the blocks to read: then the decoder
        reports what is wrong with the condition, whether a row matches or not.
        """
        assert self._lookup is not None
        if is_read_once(path.path) or is_server_url(path.path):
            return None
        from binlake.stream.index.key_file import read_key_index

        index = read_key_index(path)
        if index is None or isinstance(index, str):
            if index is not None:
                self._ledger.warn(index)
            return None
        if not index.blocks.starts:
            return None
        try:
            blocks = self._lookup.blocks(index)
        except ValueError as error:
            self._ledger.warn(f"ignored the key index of {path.path}: {error}")
            return None
        for name in blocks.keys() - self._met:
            blocks[name] |= 1 << index.tables[name].first
        self._met.update(blocks)
        return _Found(index, blocks)


def _lookup(options: ReadOptions) -> LooksUpBlocks | None:
    if options.where is None:
        return None
    from binlake.stream.index.key_lookup import KeyLookup

    lookup = KeyLookup(options)
    return lookup if lookup.can_help else None
