"""Open the rows that a state is computed from, whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from binlake.errors import OptionError
from binlake.source.access import Access
from binlake.source.chain import Chain
from binlake.source.replica.url import is_server_url
from binlake.state.base import Base, MissingTableError
from binlake.state.created import created_later
from binlake.state.dump import Dump
from binlake.state.live import LiveTable
from binlake.state.moments import from_origin
from binlake.state.origin import Origin
from binlake.state.parquet_rows import ParquetRows, is_parquet
from binlake.stream.positions.chosen_chains import the_only_chain
from binlake.values.options import ReadOptions

__all__ = ["opened"]


def _file(
    rows: str,
    names: Sequence[tuple[str, str]],
    given: Origin,
    chain: Chain,
    flavour: str,
    options: ReadOptions,
) -> Base:
    """Open rows in a file, or the table that the log creates later."""
    kind = ParquetRows if is_parquet(rows) else Dump
    missing: list[MissingTableError] = []
    for name in names:
        try:
            return kind(rows, *name, flavour, options)
        except MissingTableError as error:
            missing.append(error)
    origin = given if given.is_known else missing[0].origin
    if kind is Dump and origin.is_known:
        later = from_origin(chain, origin, f"the dump {rows}", options)
        for name in names:
            found = created_later(f"the dump {rows}", origin, name, chain, flavour, later)
            if found is not None:
                return found
    raise missing[0]


@contextmanager
def opened(
    rows: str,
    names: Sequence[tuple[str, str]],
    given: Origin,
    chains: Callable[[], Sequence[Chain]],
    options: ReadOptions,
) -> Iterator[tuple[Base, Chain]]:
    """Yield the rows, and the logs: of a live server as they are after its snapshot.

    `names` are the databases and tables that the name of the table may mean. `given` is the place of a file that
    a user gives. Raises BinlogError.
    """
    why = "a state covers one server"
    if is_server_url(rows):
        if given.is_known:
            raise OptionError(
                "--from-position and --from-gtid are for a dump: a server has its own position",
                name="from_position",
            )
        with LiveTable(rows, *names[0], options) as live:
            yield live, the_only_chain(chains(), why)
        return
    chain = the_only_chain(chains(), why)
    with Access.of(options).open(chain.files[0]) as log:
        flavour = "mysql" if log.format is None else log.format.flavour
    with _file(rows, names, given, chain, flavour, options) as file:
        if given.is_known:
            file.origin = given
        yield file, chain
