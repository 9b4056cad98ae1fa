"""The DDL of the logs that a read is about, which the driver reads for all tasks.

    ddl = LogDdl.of(paths, options, most_bytes)
    ddl.up_to(split.log)

A task sees a part of a log, and its rows must not depend on where that part begins. So it gets the DDL
statements before its part, and knows of each table what a read from the beginning knows there.

The driver reads them where that is cheap: from local files, and no more than `most_bytes`. Of a log with an
index it reads what the index does not show to be row changes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from binlake.errors import BinlogError
from binlake.source.bytes import is_read_once, is_uri, local_path
from binlake.source.chain import Chain, LogPath
from binlake.source.replica.url import is_server_url
from binlake.source.resolve import resolve
from binlake.stream.log_reader import ddl_of
from binlake.stream.positions.chosen_chains import chosen_chains
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.ledger import Ledger
from binlake.values.log_names import index_path
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition

# The cost of reading the DDL of a log with an index, in bytes of a log without one.
_INDEXED_BYTES = 1 << 20

_ChainKey = tuple[str, str]


@dataclass
class LogDdl:
    """The statements of each chain (`LogPath.chain`), by the names of its logs in their order. Chains whose DDL
    tasks do not use are not in it.
    """

    chains: dict[_ChainKey, dict[str, list[DdlStatement]]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[str], options: ReadOptions, most_bytes: int) -> LogDdl:
        """Read the DDL of the logs that `paths` mean, as `of_chains`. Raises SourceError, OptionError."""
        found = resolve(paths, options.index_directory)
        return cls.of_chains(chosen_chains(found, options), options, most_bytes)

    @classmethod
    def of_chains(cls, chains: Sequence[Chain], options: ReadOptions, most_bytes: int) -> LogDdl:
        """Read the DDL of chains; of none of them if it takes more than `most_bytes`."""
        logs = [log for chain in chains for log in chain.files]
        if not all(map(_is_local, logs)) or sum(map(_cost, logs)) > most_bytes:
            return cls()
        try:
            return cls({chain.files[0].chain: _of_chain(chain, options) for chain in chains})
        except BinlogError:  # a task meets it, too, and reports it; or the keyring is on its host
            return cls()

    def up_to(self, log: LogPath) -> list[DdlStatement]:
        """The statements before the end of a log, in order; none of a chain whose DDL is not used."""
        found: list[DdlStatement] = []
        for name, statements in self.chains.get(log.chain, {}).items():
            found += statements
            if name == log.name:
                break
        return found


def before_split(
    statements: Iterable[DdlStatement], first: ChainPosition
) -> Iterator[DdlStatement]:
    """Yield the statements before the first transaction of a split; `statements` reach to the end of its log."""
    for ddl in statements:
        if ddl.position.file != first.file or ddl.position.offset < first.offset:
            yield ddl


def _is_local(log: LogPath) -> bool:
    """Whether a log is a file of this machine. A pipe is not: the task could not read it again."""
    return not (is_server_url(log.path) or is_uri(log.path) or is_read_once(log.path))


def _cost(log: LogPath) -> int:
    """How many bytes reading the DDL of a log counts for."""
    size = log.size or 0
    is_read_whole = log.path.endswith((".gz", ".zst"))
    indexed = not is_read_whole and Path(local_path(index_path(log.path))).exists()
    return min(size, _INDEXED_BYTES) if indexed else size


def _of_chain(chain: Chain, options: ReadOptions) -> dict[str, list[DdlStatement]]:
    found: dict[str, list[DdlStatement]] = {log.name: [] for log in chain.files}
    # tasks verify checksums, and report damage
    unchecked = replace(options, verify_checksum=False)
    for ddl in ddl_of(chain, None, unchecked, Ledger()):
        found[ddl.position.file].append(ddl)
    return found
