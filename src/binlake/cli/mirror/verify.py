"""`binlake mirror verify LAKE`: compare the lake with the source, down to the differing rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Exit, Option, with_fields
from binlake.cli.common.terminal import note
from binlake.cli.mirror.common import (
    LakeArgument,
    LogsOption,
    SparkSettings,
    StateOption,
    lake_command,
    lake_session,
    need_libraries,
    need_mirror,
)
from binlake.cli.mirror.flags import reason_with_flags
from binlake.errors import OptionError
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from binlake.mirror.verification import TableVerification, Verification


@dataclass(frozen=True, slots=True)
class VerifyFlags:
    """The options of `binlake mirror verify` that are not options of Spark."""

    sample: Annotated[
        float,
        Option(
            metavar="SHARE",
            help="Compare this share of the rows, above 0 and up to 1: 0.1 is a tenth. Server and lake read all rows "
            "of the tables anyway.",
        ),
    ] = 1.0
    sample_number: Annotated[
        int | None,
        Option(
            metavar="N",
            min=0,
            help="With --sample: compare the rows of sample N again. By default the sample is random.",
        ),
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print the result as one JSON object.")] = False
    logs: LogsOption = None
    state: StateOption = None

    def check(self) -> None:
        """Raise OptionError for a share outside of its range, and for the number of a sample of all rows."""
        if not 0 < self.sample <= 1:
            raise OptionError(
                f"--sample {self.sample}: expected a share above 0 and up to 1", name="sample"
            )
        if self.sample_number is not None and self.sample == 1:
            raise OptionError("--sample-number requires --sample", name="sample_number")


@lake_command("verify")
@with_fields("flags")
def verify(
    *,
    lake: LakeArgument,
    tables: Annotated[
        list[str] | None,
        Argument(
            metavar="[DB.TABLE…]",
            required=False,
            help="Tables to compare; * and ? are wildcards; default: all.",
        ),
    ] = None,
    flags: VerifyFlags,
    session: SparkSettings,
) -> None:
    """Compare the lake's tables with the server's.

    The command compares both sides of a table at one position of the log.

    Stop the mirror first: verify brings the lake up to date itself, up to the position of a consistent
    snapshot of the server. It then compares checksums, and reads the rows of parts that differ. The
    server keeps accepting writes. The exit code is 1 if a table differs or cannot be compared, or if the mirror is paused.

    Examples:
      binlake mirror verify /lake

      binlake mirror verify /lake shop.orders --sample 0.1

      binlake mirror verify /lake 'crm.*'

      binlake mirror verify /lake --json | jq '.tables[] | select(.state != "equal")'
    """
    flags.check()
    need_libraries()
    from binlake.mirror.api import verify as verified
    from binlake.mirror.preflight import check_logs, check_state
    from binlake.mirror.selection import checked_patterns

    if tables:
        checked_patterns(tables)  # before Spark starts
    need_mirror(lake, session)
    check_logs(flags.logs)
    check_state(lake, flags.state)
    with lake_session(lake, session) as spark:
        found = verified(
            lake,
            tables or (),
            sample=flags.sample,
            sample_number=flags.sample_number,
            spark=spark,
            catalog=session.catalog,
            logs=flags.logs,
            state=flags.state,
            note=note,
        )
    _show(found, flags)
    if not found.is_equal:
        raise Exit(1)


def _show(found: Verification, flags: VerifyFlags) -> None:
    if flags.as_json:
        show(json.dumps(found.to_json(), default=str))
    else:
        width = max((len(table.table) for table in found.tables), default=0)
        for table in found.tables:
            for line in _lines(table, width, found):
                show(line)
    note(f"compared at {found.log_file}:{found.log_pos}")
    if flags.sample < 1:
        note(
            f"to compare the same rows again: --sample {flags.sample} --sample-number {found.sample_number}"
        )


def _lines(table: TableVerification, width: int, found: Verification) -> list[str]:
    start = f"{table.table:<{width}}  {table.state:<12}"
    if table.reason:
        return [f"{start}  {reason_with_flags(table.reason)}"]
    is_later = (table.log_file, table.log_pos) != (found.log_file, found.log_pos)
    later = f" at {table.log_file}:{table.log_pos}" if is_later else ""
    parts = f"{table.differing_parts:,} of {counted(table.parts, 'part')} differ"
    rows = f"{table.source_rows:,} rows on the server, {table.lake_rows:,} in the lake"
    more = ["    …"] if table.is_cut else []
    return [f"{start}  {rows}; {parts}{later}", *(f"    {one}" for one in table.differences), *more]
