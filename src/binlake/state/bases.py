"""Open the rows that a state is computed from, whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from binlake.errors import OptionError
from binlake.source.access import Access
from binlake.source.chain import Chain
from binlake.source.replica.url import is_server_url
from binlake.state.base import Base
from binlake.state.dump import Dump
from binlake.state.live import LiveTable
from binlake.state.origin import Origin
from binlake.state.parquet_rows import ParquetRows, is_parquet
from binlake.stream.positions.chosen_chains import the_only_chain
from binlake.values.options import ReadOptions

__all__ = ["opened"]


@contextmanager
def opened(
    rows: str,
    name: tuple[str, str],
    given: Origin,
    chains: Callable[[], Sequence[Chain]],
    options: ReadOptions,
) -> Iterator[tuple[Base, Chain]]:
    """Yield the rows, and the logs: of a live server as they are after its snapshot.

    `given` is the place of a file that a user gives. Raises BinlogError.
    """
    why = "a state is that of one server"
    if is_server_url(rows):
        if given.is_known:
            raise OptionError(
                "--from-position and --from-gtid are for a dump: a server has its own position",
                name="from_position",
            )
        with LiveTable(rows, *name, options) as live:
            yield live, the_only_chain(chains(), why)
        return
    chain = the_only_chain(chains(), why)
    with Access.of(options).open(chain.files[0]) as log:
        flavour = "mysql" if log.format is None else log.format.flavour
    kind = ParquetRows if is_parquet(rows) else Dump
    with kind(rows, *name, flavour, options) as file:
        if given.is_known:
            file.origin = given
        yield file, chain
