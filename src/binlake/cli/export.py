"""`binlake export FILE… DIR`: one Parquet data set per table, by Spark."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlake.cli.flags import with_read_options
from binlake.cli.terminal import fail_if_lost, note, say_nothing_found, say_result, say_time_zone
from binlake.errors import BinlogError, OptionError
from binlake.source.bytes import refuse_secrets
from binlake.table.schema_file import declared_schema
from binlake.values.options import ReadOptions, parse_bytes

if TYPE_CHECKING:
    from binlake.lake.export import ExportResult
    from binlake.lake.jobs import Progress

__all__ = ["export"]

_CONFIG = {"spark.ui.enabled": "false"}


@with_read_options
def export(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to read.")],
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where the tables go; a path or URI.")
    ],
    options: ReadOptions,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier export in DIR.")
    ] = False,
    master: Annotated[
        str, typer.Option(help="Spark master, or sc://HOST for Spark Connect.", metavar="URL")
    ] = "local[*]",
    max_partition_bytes: Annotated[
        str | None,
        typer.Option(
            help="Bytes of log that one Spark task reads; by default a share for every core.",
            metavar="SIZE",
            show_default=False,
        ),
    ] = None,
    target_file_bytes: Annotated[
        str, typer.Option(help="Wanted size of a Parquet file.", metavar="SIZE")
    ] = "128MB",
) -> None:
    """Export row changes to DIR/<database>/<table>/*.parquet, with a ledger of what was read.

    Examples:
      binlake export /var/lib/mysql/binlog.0000* lake/

      binlake export s3://logs/shop/ lake/ --table 'shop.*' --since 2026-11-21

      binlake export binlog.index hdfs://nn/lake --master spark://host:7077 --overwrite
    """
    partition_size = None
    if max_partition_bytes is not None:
        partition_size = _size("--max-partition-bytes", max_partition_bytes)
    file_size = _size("--target-file-bytes", target_file_bytes)
    say_time_zone(options, sys.argv)
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise BinlogError("export needs PySpark", hint="pip install 'binlake[spark]'") from None
    from pyspark.errors import PySparkException

    declared_schema(options)  # a wrong one is told before Spark starts
    for path in (*files, directory):
        refuse_secrets(path)
    from binlake.lake.export import export as run
    from binlake.spark import session

    remote = master if master.startswith("sc://") else None
    log_file = Path(tempfile.mkdtemp(prefix="binlake-")) / "spark.log"
    spark = session(
        "binlake export",
        master=None if remote else master,
        remote=remote,
        config={} if remote else _CONFIG,
        log_file=log_file,
    )
    try:
        with _bar() as progress:
            result = run(
                spark,
                files,
                directory,
                options,
                if_exists="replace" if overwrite else "error",
                max_partition_bytes=partition_size,
                target_file_bytes=file_size,
                progress=progress,
            )
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise BinlogError(f"Spark failed: {first}", hint=f"its own log is {log_file}") from None
    finally:
        spark.stop()
    shutil.rmtree(log_file.parent, ignore_errors=True)
    _print_closing(result)
    if not result.rows:
        say_nothing_found(files, options)
    fail_if_lost(result.ledger)


def _size(flag: str, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise OptionError(f"{flag} {text}: {error}", name=flag, value=text) from None


@contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar over Spark's tasks, on stderr; nothing when that is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from binlake.cli.terminal import console

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console(), transient=True, disable=not sys.stderr.isatty()) as bar:
        shown = bar.add_task("decoding", total=None)
        yield lambda done, all_: bar.update(shown, completed=done, total=all_)


def _print_closing(result: ExportResult) -> None:
    ledger = result.ledger
    for line in ledger.lines():
        print(line)
    width = max((len(t.path) for t in result.tables), default=0)
    for table in result.tables:
        files = f"{len(table.files)} file" + ("s" if len(table.files) != 1 else "")
        print(f"{table.path:<{width}}  {table.rows:>12,} rows  {table.bytes:>14,} bytes  {files}")
        for remark in table.notes:
            note(remark)
    print(
        f"written to {result.directory}; the ledger is {result.directory.rstrip('/')}/_ledger.json"
    )
    say_result(ledger)
