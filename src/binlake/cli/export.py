"""`binlake export FILE… DIR`: one Parquet data set per table, by Spark or on this machine."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from binlake.cli.common.flags import EXPORT_OPTIONS, size_flag, with_read_options
from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Option, with_fields
from binlake.cli.common.spark_errors import spark_errors
from binlake.cli.common.terminal import (
    console,
    fail_if_lost,
    is_watched,
    note,
    say_excluded,
    say_if_nothing_matched,
    say_result,
    say_time_zone,
)
from binlake.errors import OptionError, needing
from binlake.interrupts import Interrupts
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from binlake.lake.engine import Engine, Progress
    from binlake.lake.export import Export, ExportResult
    from binlake.lake.export_directory import IfExists

# The JVM only distributes tasks and collects a few lines of JSON; Python does the decoding. The
# quick compiler and the serial collector start in half the processor time of the defaults.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A session whose work takes about as long as its start needs no UI.
_WORTH_A_UI_BYTES = 256 << 20
_LOST = "no table was written: run the export again"
# The masters that Spark accepts: a JVM that is started with another one ends with a stack trace.
_MASTER = re.compile(
    r"local|local\[(\d+|\*)(,\s*\d+)?\]|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+"
)


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """The options of `binlake export` that are not options of a read."""

    overwrite: Annotated[bool, Option("--overwrite", help="Replace an earlier export in DIR.")] = (
        False
    )
    engine: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Engine: spark, or local (on this machine, without Spark and Java).",
            show_default="spark",
            one_of=("spark", "local"),
        ),
    ] = None
    master: Annotated[
        str | None,
        Option(
            help="Spark master, or sc://HOST for Spark Connect.",
            metavar="URL",
            show_default="local[*]",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Tasks that --engine local runs at once.",
            show_default="one per core",
        ),
    ] = None
    max_partition_bytes: Annotated[
        str | None,
        Option(
            help="Bytes of log per task; by default a share for every core.",
            metavar="SIZE",
            show_default=False,
        ),
    ] = None
    target_file_bytes: Annotated[
        str, Option(help="Target size of a Parquet file.", metavar="SIZE")
    ] = "128MB"

    def job(self, logs: LogInput, directory: str) -> Export:
        """Return the export of these logs. Raises OptionError."""
        from binlake.lake.export import Export

        most, target = self.max_partition_bytes, self.target_file_bytes
        partition_size = None if most is None else size_flag("--max-partition-bytes", most)
        file_size = size_flag("--target-file-bytes", target)
        if_exists: IfExists = "replace" if self.overwrite else "error"
        return Export(logs, directory, if_exists, partition_size, file_size)

    @property
    def is_local(self) -> bool:
        """Whether the local engine is selected. Raises OptionError."""
        if self.master is not None and not _MASTER.fullmatch(self.master):
            raise OptionError(
                f"--master {self.master}: expected local[N], spark://HOST:PORT, yarn, k8s://URL or sc://HOST",
                name="--master",
            )
        if self.engine == "local" and self.master is not None:
            raise OptionError("--master requires --engine spark", name="--master")
        if self.engine != "local" and self.workers is not None:
            raise OptionError("--workers requires --engine local", name="--workers")
        return self.engine == "local"


@with_read_options(EXPORT_OPTIONS)
@with_fields("flags")
def export(
    files: Annotated[list[str], Argument(metavar="FILE…", help="Logs to read.")],
    directory: Annotated[str, Argument(metavar="DIR", help="Target directory or URI.")],
    options: ReadOptions,
    flags: ExportFlags,
) -> None:
    """Export row changes to DIR/<database>/<table>/*.parquet, with a ledger of what was read.

    Spark does the work, on this machine or on a cluster. --engine local uses the cores of this machine
    and starts faster; the rows are the same.

    Examples:
      binlake export /var/lib/mysql/binlog.0000* lake/

      binlake export /var/lib/mysql/ lake/ --engine local

      binlake export s3://logs/shop/ lake/ --table 'shop.*' --since 2026-11-21

      binlake export binlog.index hdfs://nn/lake --master spark://host:7077 --overwrite
    """
    logs = LogInput(files, options)
    job = flags.job(logs, directory)
    is_local = flags.is_local
    say_time_zone(options)
    job.check()  # mistakes are reported before Spark starts
    with (
        Interrupts(),
        _local(flags.workers) if is_local else _spark(flags.master or "local[*]", logs) as chosen,
        _bar() as progress,
    ):
        result = job.run(chosen, progress)
    _print_closing(result)
    say_excluded(logs)
    say_if_nothing_matched(logs, result.ledger)
    fail_if_lost(result.ledger)


@contextmanager
def _local(workers: int | None) -> Iterator[Engine]:
    from binlake.lake.local import LocalEngine

    yield LocalEngine(workers)


@contextmanager
def _spark(master: str, logs: LogInput) -> Iterator[Engine]:
    """Open a session. Raises BinlogError."""
    with needing("export needs PySpark", "spark", otherwise=", or use --engine local"):
        import pyspark  # noqa: F401
    log_file = Path(tempfile.mkdtemp(prefix="binlake-")) / "spark.log"
    start = _on_this_machine if master.startswith("local") else _on_a_cluster
    with spark_errors(log_file, _LOST), start(master, _config(logs), log_file) as engine:
        yield engine
    shutil.rmtree(log_file.parent, ignore_errors=True)


@contextmanager
def _on_this_machine(master: str, config: dict[str, str], log_file: Path) -> Iterator[Engine]:
    from binlake.lake.jobs import ContextEngine
    from binlake.spark.sessions import local_context

    context = local_context(
        "binlake export",
        master=master,
        config={**config, "spark.driver.extraJavaOptions": _QUICK_JVM},
        log_file=log_file,
    )
    try:
        yield ContextEngine(context)
    finally:
        context.stop()


@contextmanager
def _on_a_cluster(master: str, config: dict[str, str], log_file: Path) -> Iterator[Engine]:
    from binlake.lake.jobs import SparkEngine
    from binlake.spark.sessions import start

    remote = master if master.startswith("sc://") else None
    spark = start(
        "binlake export",
        master=None if remote else master,
        remote=remote,
        config={} if remote else config,
        log_file=log_file,
    )
    try:
        yield SparkEngine(spark)
    finally:
        spark.stop()


def _config(logs: LogInput) -> dict[str, str]:
    """Settings of a classic session that runs one export."""
    sizes = [chain.known_bytes for chain in logs.chains]
    lasts = None in sizes or sum(size or 0 for size in sizes) >= _WORTH_A_UI_BYTES
    return {"spark.ui.enabled": "true" if lasts else "false"}


@contextmanager
def _bar() -> Iterator[Progress]:
    """A progress bar over tasks, on stderr; nothing if that is not a terminal."""
    if not is_watched():
        yield lambda _done, _all: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console(), transient=True) as bar:
        shown = bar.add_task("decoding", total=None)
        yield lambda done, all_: bar.update(shown, completed=done, total=all_)


def _print_closing(result: ExportResult) -> None:
    ledger = result.ledger
    for line in ledger.lines():
        show(line)
    width = max((len(t.path) for t in result.tables), default=0)
    for table in result.tables:
        files = counted(len(table.files), "file")
        show(f"{table.path:<{width}}  {table.rows:>12,} rows  {table.bytes:>14,} bytes  {files}")
        for remark in table.notes:
            note(remark)
    show(
        f"written to {result.directory}; the ledger is {result.directory.rstrip('/')}/_ledger.json"
    )
    say_result(ledger)
