"""Common parts of the commands of `binlake mirror`: their group, the arguments of a lake, Spark's
session.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from binlake.cli.common.command_help import HelpCommand, HelpGroup
from binlake.cli.common.parameters import (
    Argument,
    Option,
    command,
    flag_parameter,
    member,
    with_parameters,
)
from binlake.cli.common.spark_errors import spark_errors
from binlake.errors import BinlogError, OptionError, SourceError
from binlake.source.bytes import is_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from binlake.mirror.configuration import MirrorConfiguration

_HELP = """Keep lake tables equal to the tables of a server.

    `binlake mirror URL LAKE` copies the tables into Iceberg or Delta tables in LAKE, a directory or URI,
    and then follows the server's log, until Ctrl-C. When you start it again, it continues where it stopped. Spark reads
    the tables; PyIceberg and DuckDB also read those of Iceberg. `binlake mirror run --help` lists the options.

    Examples:
      binlake mirror mysql://repl@db1/ /lake --table 'shop.*'

      binlake mirror mysql://repl@db1/ /lake --once

      binlake mirror --config mirror.toml

      binlake mirror status /lake --json

      binlake mirror status --config mirror.toml

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
        first = args[0] if args else ""
        if first in self.commands or _is_word(first):
            return super().resolve_command(ctx, args)
        return RUN, self.commands[RUN], args


def _is_word(text: str) -> bool:
    """Whether an argument can only be meant as the name of a command: it is no URL, option or path."""
    is_other = not text or text.startswith("-") or not text.replace("-", "").isalpha()
    return not (is_other or Path(text).exists())


mirror = _MirrorGroup(
    "mirror",
    help=cleandoc(_HELP),
    no_args_is_help=True,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)


def mirror_command(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function as a command of `binlake mirror`."""
    return member(mirror, name)


def lake_command(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function as a command of `binlake mirror` for the lake of a mirror.

    Its parameter `session` is replaced by the flags that say how to start Spark, and by `--config`.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        with_flags = with_parameters(
            function, "session", (_CONFIG_FLAG, *_SPARK_FLAGS), _configured_settings
        )
        mirror.add_command(command(name, with_flags, kind=_LakeCommand))
        return with_flags

    return add


#: The keys of the file that are defaults of options of the commands that name a lake.
_OF_FILE = ("state", "logs")


class _LakeCommand(HelpCommand):
    """A command that takes the lake, and the options that it has in common with the file, from the file of `--config`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; with `--config`, those after LAKE. Raises OptionError."""
        given = self.make_parser(ctx).parse_args(list(args))[0]
        file = given.get("config")
        asks_for_help = any(name in args for name in ctx.help_option_names)
        if not isinstance(file, str) or asks_for_help or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        from binlake.mirror.configuration import read_mirror_configuration

        read = read_mirror_configuration(file)
        last = [one for one in self.get_params(ctx) if isinstance(one, click.Argument)][-1]
        is_one_too_many = last.nargs == 1 and isinstance(given.get(last.name or ""), str)
        if is_one_too_many or _is_place(given.get("lake")):
            raise OptionError(
                f"LAKE cannot be combined with --config; it is set in {file}", name="config"
            )
        ctx.meta[_CONFIGURATION] = read
        # not `tables`: these commands have an argument of that name
        ctx.default_map = {name: read.values[name] for name in _OF_FILE if name in read.values}
        return super().parse_args(ctx, [_absolute(read.values["lake"]), *args])


def _is_place(text: Any) -> bool:
    """Whether an argument is the path of a directory or a URI: no pattern of tables or name of a moment is one."""
    return isinstance(text, str) and (is_uri(text) or text.startswith(("/", "./", "../")))


def _absolute(lake: str) -> str:
    """Return a lake as a text that cannot be taken for an option."""
    return lake if is_uri(lake) else str(Path(lake).absolute())


LakeArgument = Annotated[
    str, Argument(metavar="LAKE", help="The lake: a directory or a URI. Left out with --config.")
]
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

_CONFIG_FLAG = flag_parameter(
    "config",
    str | None,
    Option(
        metavar="FILE",
        help="Read LAKE and options from the TOML file of the mirror. Flags take precedence over the file.",
    ),
)
# Where a command has the contents of the file.
_CONFIGURATION = "binlake.mirror.configuration"

#: The names of their parameters.
SPARK_FLAGS = tuple(flag.name for flag in _SPARK_FLAGS)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark."""

    master: str | None
    iceberg_jar: str | None
    catalog: str
    config: dict[str, str] = field(default_factory=dict)

    def over(self, read: MirrorConfiguration) -> SparkSettings:
        """Return these settings, and those of a file that are not among them."""
        config = {**read.spark, **self.config}
        master = self.master or config.pop("spark.master", None)
        return replace(self, master=master, config=config)


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


def _configured_settings(given: dict[str, Any]) -> SparkSettings:
    del given["config"]
    settings = _spark_settings(given)
    read = click.get_current_context().meta.get(_CONFIGURATION)
    return settings if read is None else settings.over(read)


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


def need_mirror(lake: str, settings: SparkSettings, *, writes: bool = False) -> None:
    """Raise SourceError, before Spark starts, if a directory of the default catalog contains no mirror. `writes`: raise BinlogError if
    the user cannot commit to its control table, as on a file system that is read-only.
    """
    from binlake.mirror.sessions import has_own_catalog

    if has_own_catalog(settings.config, settings.catalog) or "://" in lake:
        return
    if not Path(lake, "_binlake").is_dir():
        raise SourceError(f"{lake} has no mirror", hint="start one with `binlake mirror URL LAKE`")
    for metadata in map(Path(lake, "_binlake", "rounds").joinpath, ("metadata", "_delta_log")):
        if writes and metadata.is_dir() and not _can_write(metadata):
            is_read_only = os.statvfs(metadata).f_flag & os.ST_RDONLY
            why = os.strerror(errno.EROFS if is_read_only else errno.EACCES)
            raise BinlogError(f"cannot write {metadata}: {why}")


def _can_write(directory: Path) -> bool:
    is_effective = os.access in os.supports_effective_ids
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=is_effective)


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
