"""Common parts of the commands of `binlake mirror`: their group, the arguments of a lake, Spark's
session.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from binlake.cli.common.command_help import HelpGroup
from binlake.cli.common.parameters import Argument, Option, flag_parameter, member, with_parameters
from binlake.cli.common.spark_errors import spark_errors
from binlake.errors import BinlogError, OptionError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HELP = """Keep lake tables equal to the tables of a server.

    `binlake mirror URL LAKE` copies the tables into Iceberg or Delta tables in LAKE, a directory or URI,
    and then follows the server's log, until Ctrl-C. When you start it again, it continues where it stopped. Spark reads
    the tables; PyIceberg and DuckDB also read those of Iceberg. `binlake mirror run --help` lists the options.

    Examples:
      binlake mirror mysql://repl@db1/ /lake --table 'shop.*'

      binlake mirror mysql://repl@db1/ /lake --once

      binlake mirror --config mirror.toml

      binlake mirror status /lake --json

      binlake mirror resync /lake shop.orders"""

_JVM = "-XX:+UseSerialGC"
# Where the system allows more than a billion, some programs would take long to close them all.
_OPEN_FILES = 1 << 16
_LOST = "the lake has the state of its last commit, and the next run continues there"
_SPARK_PANEL = "Spark"
RUN = "run"


_ORDER = (
    RUN, "status", "verify", "add", "remove", "resync", "pause", "resume", "compact", "history", "tag", "untag",
)  # fmt: skip


class _MirrorGroup(HelpGroup):
    """Passes anything but a command to `run`: `binlake mirror URL LAKE`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.commands, key=_ORDER.index)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return RUN, self.commands[RUN], args


mirror = _MirrorGroup(
    "mirror",
    help=cleandoc(_HELP),
    no_args_is_help=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)


def mirror_command(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function as a command of `binlake mirror`."""
    return member(mirror, name)


LakeArgument = Annotated[str, Argument(metavar="LAKE", help="The lake: a directory or a URI.")]
LogsOption = Annotated[
    str | None,
    Option(metavar="DIR", help="Read the changes from an archive instead of the server."),
]
StateOption = Annotated[
    str | None,
    Option(
        metavar="DIR",
        help="Where the row indexes are kept.",
        show_default="in the lake; for an object store, in ~/.cache/binlake",
    ),
]
_SPARK_FLAGS = (
    flag_parameter(
        "master",
        str | None,
        Option(metavar="URL", panel=_SPARK_PANEL, help="Spark master.", show_default="local[*]"),
    ),
    flag_parameter(
        "iceberg_jar",
        str | None,
        Option(
            metavar="FILE",
            panel=_SPARK_PANEL,
            help="Iceberg's jar for Spark.",
            show_default="Spark downloads it",
        ),
    ),
    flag_parameter(
        "catalog",
        str,
        Option(metavar="NAME", panel=_SPARK_PANEL, help="The catalog that --conf describes."),
    ).replace(default="lake"),
    flag_parameter(
        "conf",
        list[str] | None,
        Option(
            "--conf",
            metavar="KEY=VALUE",
            panel=_SPARK_PANEL,
            help="A setting of Spark; repeatable.",
        ),
    ),
)


#: The names of their parameters.
SPARK_FLAGS = tuple(flag.name for flag in _SPARK_FLAGS)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark."""

    master: str | None
    iceberg_jar: str | None
    catalog: str
    config: dict[str, str] = field(default_factory=dict)


def with_spark_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Replace the parameter `session` of a command by the flags that say how to start Spark."""
    return with_parameters(command, "session", _SPARK_FLAGS, _spark_settings)


def _spark_settings(given: dict[str, Any]) -> SparkSettings:
    master, iceberg_jar, catalog, conf = (given.pop(name) for name in SPARK_FLAGS)
    from binlake.spark.sessions import submitted_settings

    config = submitted_settings()
    master = master or config.pop("spark.master", None)
    for setting in conf or ():
        name, equals, value = setting.partition("=")
        if not equals:
            raise OptionError(f"--conf {setting}: expected KEY=VALUE", name="--conf")
        config[name] = value
    return SparkSettings(master, iceberg_jar, catalog, config)


def need_libraries() -> None:
    """Raise BinlogError unless the extra is installed."""
    try:
        import numpy  # noqa: F401
        import pymysql  # noqa: F401
        import pyroaring  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise BinlogError(
            f"mirror needs {error.name}", hint="pip install 'binlake[mirror]'"
        ) from None


def need_mirror(lake: str, settings: SparkSettings) -> None:
    """Raise SourceError, before Spark starts, if a directory of the default catalog contains no
    mirror.
    """
    from binlake.mirror.sessions import has_own_catalog

    if has_own_catalog(settings.config, settings.catalog) or "://" in lake:
        return
    if not Path(lake, "_binlake").is_dir():
        raise SourceError(f"{lake} has no mirror", hint="start one with `binlake mirror URL LAKE`")


@contextmanager
def lake_session(
    lake: str, session: SparkSettings, table_format: str = ""
) -> Iterator[SparkSession]:
    """Open a session, whose messages go to a file. `table_format`: for a lake that has none yet. Raises BinlogError."""
    from binlake.mirror.sessions import mirror_session

    allow_open_files()
    log_file = Path(tempfile.mkdtemp(prefix="binlake-")) / "spark.log"
    with spark_errors(log_file, _LOST):
        spark = mirror_session(
            lake,
            master=session.master or "local[*]",
            catalog=session.catalog,
            iceberg_jar=session.iceberg_jar,
            table_format=table_format,
            config={"spark.driver.extraJavaOptions": _JVM, **session.config},
            log_file=log_file,
        )
        try:
            yield spark
        finally:
            spark.stop()
    shutil.rmtree(log_file.parent, ignore_errors=True)


def allow_open_files() -> None:
    """Let this process, and those of Spark that it starts, have as many open files as the system lets it have.

    Services and shells often begin with a limit of 1,024, which a process may raise. A mirror of many tables needs
    connections, data files and files of Spark at the same time.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS refuses more than the kernel has for a process
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
