"""Read the state of a table: open the rows to begin with, and read the log, under all names that the table has.

    with read_state(request, logs, ledger, reading) as state:
        for batch in state.batches(): ...

A first attempt takes the rows of the table that was asked for. If the log gives its name to another table, or
the rows lack the table, binlake searches the log for the names of the table that had the name at the moment. A second
attempt begins with the rows of that table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from binlake.errors import SourceError
from binlake.source.chain import Chain
from binlake.source.replica.url import is_server_url
from binlake.state.base import Base, MissingTableError
from binlake.state.bases import ONE_SERVER, opened
from binlake.state.log_changes import Seen
from binlake.state.log_range import StateMoment, range_after, range_before
from binlake.state.names import (
    NameMovedError,
    TableNames,
    names_from_beginning,
    names_until_end,
)
from binlake.state.origin import Origin
from binlake.state.table_state import TableState
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger


@dataclass(frozen=True, slots=True)
class StateRequest:
    """A table at a moment. `names` are the databases and tables that its name may mean; `rows` is the path or URL of
    the rows to begin with, and `given` their place if they do not contain it.
    """

    names: Sequence[tuple[str, str]]
    moment: StateMoment
    rows: str
    given: Origin
    force: bool

    @property
    def is_back(self) -> bool:
        """Whether the rows are from after the moment."""
        return is_server_url(self.rows)


@contextmanager
def read_state(
    request: StateRequest,
    logs: LogInput,
    ledger: Ledger,
    reading: Callable[[Chain], AbstractContextManager[Seen]] = lambda _chain: nullcontext(
        lambda batches: batches
    ),
) -> Iterator[tuple[TableState, Base]]:
    """Yield the state after `TableState.read_log`, and the rows that it begins with. `reading` shows the progress.

    Raises BinlogError.
    """
    with ExitStack() as stack:
        found = _attempt(request, None, stack, logs, ledger, reading)
        if isinstance(found, TableNames):
            stack.close()
            ledger.take()
            found = _attempt(request, found, stack, logs, ledger, reading)
        if isinstance(found, TableNames):
            raise SourceError("the table was renamed again while binlake read it", hint="try again")
        yield found


def _attempt(
    request: StateRequest,
    names: TableNames | None,
    stack: ExitStack,
    logs: LogInput,
    ledger: Ledger,
    reading: Callable[[Chain], AbstractContextManager[Seen]],
) -> tuple[TableState, Base] | TableNames:
    """Return the state; or the names of the table, if these are others than `names`."""
    asked = request.names
    if names is not None:
        asked = [names.last if request.is_back else names.first]
    try:
        base, chain = stack.enter_context(opened(request.rows, asked, request.given, logs))
    except MissingTableError as error:
        if names is not None:
            raise _missing_under_other_name(request, names, error) from None
        if (found := _names(request, error, logs)) is None:
            raise
        return found
    state = TableState(
        chain, logs.options, ledger, base, request.moment, names=names, force=request.force
    )
    try:
        with reading(chain) as seen:
            state.read_log(seen)
    except NameMovedError:
        find = names_from_beginning if request.is_back else names_until_end
        return find(
            chain, state.options, state.names.first if request.is_back else state.names.last
        )
    return state, base


def _missing_under_other_name(
    request: StateRequest, names: TableNames, error: MissingTableError
) -> SourceError:
    """Return the error for rows that lack the table under the name that it has there."""
    (earlier, later), (position, _) = (names.first, names.last), names.later[-1]
    return SourceError(
        f"{error.message}: {position} renames {'.'.join(earlier)} to {'.'.join(later)}",
        hint="give --from a dump that was made before the moment"
        if request.is_back
        else "use a dump made after this statement",
    )


def _names(request: StateRequest, missing: MissingTableError, logs: LogInput) -> TableNames | None:
    """Return the names of a table that the rows lack under the name that was asked for; None if it has no others."""
    origin = request.given if request.given.is_known else missing.origin
    if not origin.is_known:
        return None
    chain = logs.only(ONE_SERVER)
    limits = range_before if request.is_back else range_after
    read = limits(chain, origin, missing.base, request.moment, logs.options)
    if read.start is not None and read.start == read.stop:
        return None  # the rows are those of the moment
    find = names_from_beginning if request.is_back else names_until_end
    found = [names for name in request.names if (names := find(chain, read, name)).later]
    return found[0] if len(found) == 1 else None
