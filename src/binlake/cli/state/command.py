"""`binlake state DB.TABLE --as-of MOMENT --from ROWS FILE…`: a table as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from binlake.cli.common.change_writer import format_option, open_target
from binlake.cli.common.flags import with_options
from binlake.cli.common.parameters import Argument, Exit, Option, OutputFile, with_fields
from binlake.cli.common.terminal import (
    names_zone,
    note,
    say_result,
    skipping_nothing,
    watching,
)
from binlake.cli.state.writer import FORMATS, row_writer
from binlake.errors import OptionError
from binlake.state.filtering import check_where, row_filter
from binlake.state.log_range import StateMoment
from binlake.state.origin import given_origin
from binlake.state.reading import StateRequest, read_state
from binlake.state.table_state import TableState, state_options, table_names
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted

if TYPE_CHECKING:
    import pyarrow as pa


_CoveringLogs: TypeAlias = Annotated[
    list[str],
    Argument(
        metavar="FILE…",
        help="Logs that cover the time between the rows of --from and the moment.",
    ),
]


@dataclass(frozen=True, slots=True)
class StateFlags:
    """The options of `binlake state` that are not options of a read."""

    as_of: Annotated[
        str | None,
        Option(
            "--as-of",
            metavar="TIME|GTID|FILE:POS",
            help="The moment: before this time (UTC unless it names a zone) or position, or after the transaction with this GTID.",
        ),
    ] = None
    rows: Annotated[
        str | None,
        Option(
            "--from",
            metavar="DUMP|PARQUET|URL",
            help="Rows to start from: a dump or Parquet file made before the moment, or mysql://… to go back from the live table.",
        ),
    ] = None
    from_position: Annotated[
        str | None,
        Option(
            "--from-position",
            metavar="FILE:POS",
            help="The log position of the rows of --from, if the dump does not contain it.",
        ),
    ] = None
    from_gtid: Annotated[
        str | None,
        Option(
            "--from-gtid",
            metavar="SET",
            help="The GTIDs that the rows of --from contain, instead of a position.",
        ),
    ] = None
    where: Annotated[
        str | None,
        Option(
            "--where",
            metavar="EXPR",
            help="Only rows for which this expression in MySQL's syntax is true.",
        ),
    ] = None
    form: Annotated[str, format_option(FORMATS)] = "json"
    output: OutputFile = None
    force: Annotated[
        bool,
        Option(
            "--force", help="Count rows that contradict the log, instead of stopping at the first."
        ),
    ] = False


@with_options(
    "source", "schema", "assume_charset", "binary", "nested", "invalid", "verify_checksum",
    "batch_bytes", "threads", "index_directory", "keyring", "keyring_password_file", "max_memory",
)  # fmt: skip
@with_fields("flags")
def state(
    table: Annotated[str, Argument(metavar="DB.TABLE", help="The table.")],
    files: _CoveringLogs,
    options: ReadOptions,
    flags: StateFlags,
) -> None:
    """Print the rows of a table as they were at a moment.

    The rows come from a dump that was made earlier, and binlake applies the changes of the log up to
    the moment. Or they come from a live server, and binlake undoes the changes since the moment, in
    memory: it writes nothing to the server. Generated columns are left out.

    Examples:
      binlake state shop.orders --as-of '2026-11-21 14:03' --from dump.sql /var/lib/mysql/

      binlake state shop.orders --as-of binlog.000012:4711 --from mysql://root@localhost/ /var/lib/mysql/

      binlake state shop.orders --as-of -1h --from mysql://db1/ mysql://db1/ --where 'id = 4711'

      binlake state shop.orders --as-of 0-1-4711 --from dump.sql.gz /archive/ --format sql > orders.sql
    """
    as_of = flags.as_of
    if as_of is None:
        raise OptionError("--as-of is missing: a time, a GTID or FILE:POS", name="as_of")
    if flags.rows is None:
        raise OptionError("--from is missing: a dump, or the URL of the live server", name="from")
    names = table_names(table)
    moment = StateMoment.parse(as_of)
    given = given_origin(flags.from_position, flags.from_gtid)
    check_where(flags.where)
    options = state_options(options)
    if moment.time_us is not None and not names_zone(as_of):
        note("times without a zone are UTC")
    logs, ledger = LogInput(files, options), Ledger()
    request = StateRequest(names, moment, flags.rows, given, flags.force)
    with (
        skipping_nothing(),
        read_state(request, logs, ledger, lambda chain: watching([chain], ledger)) as (found, base),
    ):
        keep = row_filter(flags.where, found.shape, options, ledger)
        _write(found, keep, flags)
    say_result(ledger)
    if base.shape.generated:
        note(f"generated columns are left out: {', '.join(sorted(base.shape.generated))}")
    if found.conflicts:
        note(f"{table}: {counted(found.conflicts, 'conflict')} between the log and {base.name}")
        raise Exit(1)


def _write(
    found: TableState, keep: Callable[[pa.RecordBatch], pa.RecordBatch], flags: StateFlags
) -> None:
    """Write the rows that a filter keeps. Raises BinlogError."""
    with open_target(flags.output, flags.form) as target:
        writer = row_writer(flags.form, target, found.shape, found.metadata)
        for batch in map(keep, found.batches()):
            if batch.num_rows:
                writer.write(batch)
        writer.close()
