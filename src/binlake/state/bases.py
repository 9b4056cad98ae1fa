"""Open the rows that a state is computed from, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from binlake.errors import BinlogError, OptionError
from binlake.source.access import Access
from binlake.source.bytes import refuse_pipes
from binlake.source.chain import Chain
from binlake.source.replica.url import is_server_url
from binlake.state.base import Base, MissingTableError, ambiguous_in
from binlake.state.created import CreatedLater, created_later
from binlake.state.dump import Dump
from binlake.state.live import LiveTable
from binlake.state.log_range import from_origin
from binlake.state.origin import Origin
from binlake.state.parquet_rows import ParquetRows, is_parquet
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions

#: The beginning of the error for logs of several servers.
ONE_SERVER = "a state covers one server"


def _file(
    rows: str,
    names: Sequence[tuple[str, str]],
    given: Origin,
    chain: Chain,
    flavour: str,
    options: ReadOptions,
) -> Base:
    """Open rows in a file, or the table that the log creates later. Raises OptionError if the name means several."""
    kind = ParquetRows if is_parquet(rows) else Dump
    where = f"the {'file' if kind is ParquetRows else 'dump'} {rows}"
    missing: list[MissingTableError] = []
    failed: list[BinlogError] = []
    there: list[tuple[str, str]] = []
    base: Base | None = None
    with ExitStack() as stack:
        for name in names:
            try:
                base = stack.enter_context(kind(rows, *name, flavour, options))
            except MissingTableError as error:
                missing.append(error)
                continue
            except BinlogError as error:
                failed.append(error)
            there.append(name)
        if base is None and failed:
            raise failed[0]
        if len(there) > 1:
            raise ambiguous_in(where, there)
        if base is not None:
            stack.pop_all()
            return base
    origin = given if given.is_known else missing[0].origin
    if kind is Dump and origin.is_known:
        later = from_origin(chain, origin, where, options)
        created = [created_later(where, origin, name, chain, flavour, later) for name in names]
        if (found := _the_only(created)) is not None:
            return found
    raise missing[0]


def _the_only(created: Sequence[CreatedLater | None]) -> CreatedLater | None:
    """Return the table of the only statement that creates one. Raises OptionError if there are several."""
    by_place: dict[object, CreatedLater] = {}
    for table in created:
        if table is not None:  # a statement that is not recognised may create any of them
            by_place.setdefault(table.created_at, table)
    if len(by_place) > 1:
        definitions = [table.shape.definition for table in by_place.values()]
        raise ambiguous_in("the log", [(one.database, one.table) for one in definitions])
    return next(iter(by_place.values()), None)


@contextmanager
def opened(
    rows: str, names: Sequence[tuple[str, str]], given: Origin, logs: LogInput
) -> Iterator[tuple[Base, Chain]]:
    """Yield the rows, and the logs: of a live server as they are after its snapshot.

    `names` are the databases and tables that the name of the table may mean. `given` is the place of a file that
    a user gives. Raises BinlogError.
    """
    if is_server_url(rows):
        if given.is_known:
            raise OptionError(
                "--from-position and --from-gtid are for a dump: a server has its own position",
                name="from_position",
            )
        with LiveTable(rows, *names[0], logs.options) as live:
            yield live, logs.again().only(ONE_SERVER)
        return
    chain = logs.only(ONE_SERVER)
    refuse_pipes(chain.paths, "the state of a table needs several reads of a log")
    with Access.of(logs.options).open(chain.files[0]) as log:
        flavour = "mysql" if log.format is None else log.format.flavour
    with _file(rows, names, given, chain, flavour, logs.options) as file:
        if given.is_known:
            file.origin = given
        yield file, chain
