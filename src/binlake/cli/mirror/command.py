"""`binlake mirror …`: lake tables that equal a server's tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import binlake.cli.mirror.compact
import binlake.cli.mirror.moments
import binlake.cli.mirror.requests
import binlake.cli.mirror.verify  # noqa: F401 - each adds commands
from binlake.cli.common.lines import script_output, show
from binlake.cli.common.parameters import Argument, Exit, Option, with_fields
from binlake.cli.common.server_flags import (
    ServerUrls,
    with_server_flags,
)
from binlake.cli.common.terminal import note
from binlake.cli.mirror.common import (
    RUN,
    SPARK_FLAGS,
    LakeArgument,
    LogsOption,
    SparkSettings,
    StateOption,
    lake_command,
    lake_session,
    mirror,
    mirror_command,
    need_libraries,
    need_mirror,
    with_spark_flags,
)
from binlake.cli.mirror.flags import naming_flags, reason_with_flags, with_mirror_options
from binlake.cli.mirror.progress import CopyBar
from binlake.errors import BinlogError, OptionError, SourceError
from binlake.interrupts import end_by_signal
from binlake.source.replica.url import holds_password, is_server_url
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.reporting.report import MirrorStatus, TableStatus

__all__ = ["mirror"]


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The options of `binlake mirror run` that a configuration also contains, without the options of MirrorOptions."""

    logs: LogsOption = None
    interval_seconds: Annotated[
        float | None,
        Option(
            "--interval",
            metavar="SECONDS",
            min=0.01,
            help="How often to check an idle log.",
            show_default="1",
        ),
    ] = None
    metrics_port: Annotated[
        int | None, Option(metavar="PORT", min=0, max=65535, help="Port for Prometheus metrics.")
    ] = None
    metrics_address: Annotated[
        str | None,
        Option(metavar="HOST", help="Address for Prometheus metrics.", show_default="127.0.0.1"),
    ] = None
    state: StateOption = None

    def values(self, lake: str | None) -> dict[str, Any]:
        """Return LAKE and the options that are given, by the names that a configuration has for them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)} | {"lake": lake}
        return {name: value for name, value in values.items() if value is not None}


@mirror_command(RUN)
@with_server_flags("--skip-replication", beside_config=("once", *SPARK_FLAGS))
@with_mirror_options
@with_spark_flags
@with_fields("flags")
def run(
    *,
    server: ServerUrls,
    lake: Annotated[
        str | None,
        Argument(metavar="LAKE", required=False, help="The lake: a directory or a URI."),
    ] = None,
    config: Annotated[
        str | None,
        Option(metavar="FILE", help="Read URL, LAKE and options from a TOML file."),
    ] = None,
    once: Annotated[bool, Option("--once", help="Bring the lake up to date and exit.")] = False,
    options: dict[str, Any],
    flags: RunFlags,
    session: SparkSettings,
) -> None:
    """Copy tables into the lake, and follow the log (the default).

    It runs until Ctrl-C. When you start it again, it continues where it stopped.

    If the mirror cannot follow a table, it quarantines the table and continues with the others. The exit
    code is 1 if a table is quarantined when the mirror ends, or if the mirror is paused and --once is given. The server's user needs SELECT, REPLICATION SLAVE and REPLICATION
    CLIENT (MariaDB: BINLOG MONITOR). On MySQL, the user also needs PROCESS, and from 8.0 on XA_RECOVER_ADMIN if
    applications use XA transactions.

    Examples:
      binlake mirror mysql://repl@db1/ /lake --table 'shop.*'

      binlake mirror mysql://repl@db1/ s3://bucket/lake --once --state /var/lib/binlake
    """
    values = options | flags.values(lake)
    if config is not None:
        from binlake.mirror.configuration import read_mirror_configuration

        read = read_mirror_configuration(config)
        values, session = dict(read.values), session.over(read)
    elif lake is None:
        raise OptionError("LAKE is missing: a directory or a URI", name="lake")
    else:
        if any(is_server_url(text) and holds_password(text) for text in sys.argv[1:]):
            raise OptionError(
                "the URL contains a password, which Spark's workers do not receive",
                name="url",
                hint="use its option password-file, ~/.my.cnf or BINLAKE_PASSWORD",
            )
        values["url"] = ",".join(map(str, server))
    with naming_flags() if config is None else nullcontext():
        _follow(values, session, once=once)


def _follow(values: dict[str, Any], session: SparkSettings, *, once: bool) -> None:
    need_libraries()
    from binlake.mirror.lake_state import index_directory, lake_location
    from binlake.mirror.lakes import open_lake
    from binlake.mirror.loop import Mirror
    from binlake.mirror.options import MirrorOptions
    from binlake.mirror.reporting.metrics import METRICS_ADDRESS, answering
    from binlake.mirror.reporting.report import mirror_status

    options = MirrorOptions.of(values)
    lake = lake_location(values["lake"])
    _check(values, lake, options)
    with ExitStack() as stack:
        indexes = index_directory(lake, values.get("state"))
        port, address = values.get("metrics_port"), values.get("metrics_address", METRICS_ADDRESS)
        with _no_wrong_use():
            exported = stack.enter_context(answering(port, address, indexes, note))
        spark = stack.enter_context(lake_session(values["lake"], session, options.format))
        stack.enter_context(_no_wrong_use())
        made = Mirror(
            spark,
            values["url"],
            lake,
            options,
            catalog=session.catalog,
            logs=values.get("logs"),
            state=values.get("state"),
            note=lambda sentence: note(reason_with_flags(sentence)),
            watch=stack.enter_context(CopyBar()),
            show=exported,
        )
        with closing(made):
            stack.enter_context(end_by_signal(made.stop))
            made.run(once=once, interval_s=values.get("interval_seconds", 1.0))
            if once:
                made.tidy()
        found = mirror_status(open_lake(spark, session.catalog, lake), indexes)
    stays_behind = once and found.paused
    if stays_behind:
        note(
            f"the mirror is paused, so the lake may lack changes; continue: binlake mirror resume {lake}"
        )
    elif not found.log_file:
        note(f"no table is in {lake} yet")
    else:
        note(f"everything before {found.log_file}:{found.log_pos} is in {lake}")
    _note_copies_left(found)
    if found.quarantined:
        note(f"quarantined: {', '.join(found.quarantined)}")
    if stays_behind or found.quarantined:
        raise Exit(1)


def _check(values: dict[str, Any], lake: str, options: MirrorOptions) -> None:
    """Raise the errors that can be found before Spark starts."""
    from binlake.mirror.lake_state import check_store
    from binlake.mirror.preflight import (
        check_logs,
        check_no_log,
        check_server,
        check_state,
        check_tables,
    )
    from binlake.mirror.tables.formats import check_format

    check_no_log(values["url"])
    options.column_rules.pinned()  # a missing key
    check_format(lake, options)
    check_store(lake)
    with _no_wrong_use():
        check_logs(values.get("logs"))
    check_server(values["url"], values.get("logs"))
    check_tables(values["url"], lake, options)
    check_state(lake, values.get("state"))


def _note_copies_left(found: MirrorStatus) -> None:
    """Report the tables that the lake does not show yet: the position does not concern them."""
    if names := found.to_copy:
        note(
            f"{counted(len(names), 'table')} still {'waits' if len(names) == 1 else 'wait'} for a copy: {names[0]}"
            f"{', …' if names[1:] else ''}. The next start continues the copies"
        )


@contextmanager
def _no_wrong_use() -> Iterator[None]:
    """Let errors of the lake, its catalog and the logs end the program with exit code 1: a later start can succeed."""
    try:
        yield
    except SourceError as error:
        raise BinlogError(str(error)) from error


@lake_command("status")
def status(
    *,
    lake: LakeArgument,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
    as_metrics: Annotated[
        bool, Option("--prometheus", help="Print the metrics in the text format of Prometheus.")
    ] = False,
    state: StateOption = None,
    session: SparkSettings,
) -> None:
    """Show a mirror's position, tables and quarantines.

    It does not contact the server. The exit code is 1 if a table is quarantined.

    Examples:
      binlake mirror status /lake

      binlake mirror status /lake --json | jq '.tables[] | select(.state == "quarantined")'
    """
    if as_json and as_metrics:
        raise OptionError("--json and --prometheus cannot be combined", name="--prometheus")
    need_libraries()
    from binlake.mirror.api import status as mirror_status

    need_mirror(lake, session)
    with lake_session(lake, session) as spark:
        found = mirror_status(lake, spark=spark, catalog=session.catalog, state=state)
    if as_json:
        show(json.dumps(found.to_json()))
    elif as_metrics:
        _show_metrics(found)
    else:
        _show_status(found)
    if found.quarantined:
        raise Exit(1)


def _show_metrics(found: MirrorStatus) -> None:
    """Write Prometheus's text unchanged: it has escaped the names itself."""
    from binlake.mirror.reporting.metrics import prometheus_text

    with script_output() as write:
        write(prometheus_text(found).encode())


def _show_status(found: MirrorStatus) -> None:
    show(f"source     {found.source}{'  (paused)' if found.paused else ''}")
    position = f"{found.log_file}:{found.log_pos}  {found.gtid_set}".rstrip()
    show(f"position   {position if found.log_file else 'none: there is no round yet'}")
    show(f"committed  {found.commit_time or 'unknown'}; written down {found.written_at or 'never'}")
    for line in _freshness(found):
        show(line)
    width = max((len(table.table) for table in found.tables), default=0)
    for table in found.tables:
        for line in _table_lines(table, width):
            show(line)


def _freshness(found: MirrorStatus) -> Iterator[str]:
    """The status that the mirror itself has written on this machine; elsewhere, only the age of the last transaction."""
    lag = "unknown" if found.lag_seconds is None else f"{found.lag_seconds:,.0f} s"
    if not found.checked_at:
        age = "" if found.lag_seconds is None else f"; last transaction {lag} old"
        yield f"lag        known on the mirror's machine only{age}"
        return
    behind = "an unknown number of" if found.behind_bytes is None else f"{found.behind_bytes:,}"
    yield (
        f"lag        {lag}, {behind} bytes of log at {found.checked_at}; "
        f"{found.changes_per_second or 0:,.0f} rows/s in the last minute"
    )
    if found.verified_at:
        equal = "all compared tables equal" if found.not_compared else "all tables equal"
        different = equal + _of_sample(found.sample_number)
        if found.different:
            samples = found.different_samples
            names = [f"{name}{_of_sample(samples.get(name))}" for name in found.different]
            different = f"{', '.join(names)} differ"
        later = "; none while the mirror is paused" if found.paused else ""
        yield f"verified   {found.verified_at}: {different}{later}"
        for name, reason in found.not_compared.items():
            yield f"    not compared: {name}: {reason_with_flags(reason)}"
    elif found.verify_due_at:
        yield f"verified   never: the first comparison has been due since {found.verify_due_at}"
    for column, count in sorted(found.zero_dates.items()):
        yield f"zero dates {column}: {count:,} read as null"


def _of_sample(number: int | None) -> str:
    """The sample whose rows were compared, in brackets; empty if all rows were."""
    return "" if number is None else f" (sample {number})"


def _table_lines(table: TableStatus, width: int) -> Iterator[str]:
    share = f"({100 * table.deleted_share:.0f} %)"
    yield (
        f"{table.table:<{width}}  {table.state:<11}  {table.rows:>14,} rows  "
        f"{table.deleted_rows:>12,} deleted {share:>7}  {table.files:>6,} files  {table.bytes:>16,} bytes  "
        f"{table.index_bytes:>14,} of index"
    )
    if table.lake_table not in ("", table.table):
        yield f"    in the lake: {table.lake_table}"
    if table.shards:
        yield f"    rows of {', '.join(table.shards)}"
    if table.compaction_due:
        yield f"    compaction due: {counted(table.compaction_due, 'data file')}"
    if table.mode != "mirror":
        yield f"    {table.mode}"
    treated = (
        ("left out", table.left_out),
        ("hashed", table.hashed),
        ("as text", table.as_text),
        ("earlier values", table.kept),
    )
    for what, columns in treated:
        if columns:
            yield f"    {what}: {', '.join(columns)}"
    if table.reason:
        reason = reason_with_flags(table.reason)
        yield f"    {table.since}: {reason}" if table.since else f"    {reason}"
