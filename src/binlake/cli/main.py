"""`binlake`: one command per question about a log. Parses, calls, prints; knows no format.

Exit codes: 0 fine, 1 the log has problems (or the work failed), 2 wrong usage, 3 the log no longer has the
wanted position. A user's mistake is one line on stderr; a traceback is always a bug of binlake.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise

import click

from binlake.cli.common.command_help import HelpGroup, sentence
from binlake.cli.common.lines import print_message
from binlake.errors import (
    BinlogError,
    KeyringError,
    OptionError,
    PositionLostError,
    QueryError,
    SchemaError,
    SourceError,
)

#: The variable with which a shell requests completions.
COMPLETION_VARIABLE = "_BINLAKE_COMPLETE"

#: Every command and its line in `binlake --help`. `rows` is the function `rows` of
#: `binlake.cli.rows` (`spark-env`: `spark_env`), or of the module `command` of a folder of that name; the module is
#: imported only when the command is called.
COMMANDS = {
    "inspect": "show the events of a log, including compressed transactions",
    "rows": "print row changes as JSON lines, CSV, Arrow or Parquet",
    "history": "show every change of one row, and who made it",
    "state": "print the rows of a table as they were at a moment",
    "stats": "report write volume and the largest transactions",
    "ui": "show logs as a page in the browser",
    "query": "run SQL over row changes, transactions and events",
    "gtid": "find a transaction by GTID, and calculate with GTID sets",
    "schema": "write the table definitions that the DDL in a log contains",
    "sql": "print row changes as SQL, or the SQL that undoes them",
    "verify": "check checksums, framing, and the chain of files",
    "index": "write an index beside each log, for faster filters",
    "mysqlbinlog": "print a log as the servers' own tools do, ready to replay",
    "archive": "copy a live server's logs, byte for byte, as they are written",
    "export": "write one Parquet data set per table",
    "mirror": "keep lake tables equal to the tables of a live server",
    "tail": "print row changes of a live server as they commit",
    "doctor": "check a live server's settings, with the SQL to fix them",
    "serve": "serve an archive to replicas, in place of the server",
    "spark-env": "pack Python and binlake for the executors of a Spark cluster",
    "completion": "print the script for completion in bash, zsh or fish",
}

#: Commands in whose process Spark may run, which needs NumPy.
_NUMPY_COMMANDS = frozenset(("export", "mirror"))

# The text of click for a value that is not among the choices of an option.
_WRONG_CHOICE = re.compile(
    r"Invalid value for '(?P<flag>[^']+)': '(?P<value>.*)' is not one of (?P<choices>.+)"
)

# New objects until the next search for garbage. Little of what a command makes is garbage in cycles, and a search looks
# at every table and column that is known.
_GARBAGE_OBJECTS = 50_000

_WRONG_USE = (KeyringError, OptionError, QueryError, SchemaError, SourceError)
# A full or broken disk is not a mistake on the command line.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# In the tool whose options this command has, -h means a host.
_SETTINGS = {"mysqlbinlog": {"help_option_names": ["-?", "--help"]}}


class _Program(HelpGroup):
    """Imports the module of a command only when it is called, so the help imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from binlake.cli.common.parameters import command

        gc.disable()  # imports make many objects, and none of them is garbage
        try:
            name = cmd_name.replace("-", "_")
            module = import_module(f"binlake.cli.{name}")
            if hasattr(module, "__path__"):  # a folder
                module = import_module(f"{module.__name__}.command")
            found = getattr(module, name)
            gc.freeze()  # they stay alive: later collections skip them
            gc.set_threshold(_GARBAGE_OBJECTS)
        finally:
            gc.enable()
        if isinstance(found, click.Command):  # a command that has commands of its own
            return found
        return command(cmd_name, found, _SETTINGS.get(cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence(summary)) for name, summary in COMMANDS.items()])


@click.pass_context
def _run(context: click.Context, version: bool, verbose: bool) -> None:
    """Show the version: the action of the program without a command."""
    if version:
        from binlake.cli.version import details_lines, version_line

        print("\n".join([version_line(), *(details_lines() if verbose else ())]))
        context.exit()
    if verbose:
        raise click.UsageError("--verbose requires --version", context)
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


PROGRAM = _Program(
    "binlake",
    help="Read, check, undo, archive and mirror MySQL and MariaDB binary logs.",
    epilog="Commands that read logs take files, globs, directories, .index files, URIs (s3://…, mysql://…) or - for "
    "standard input, plain or .gz/.zst. Results go to stdout, messages to stderr.",
    callback=_run,
    invoke_without_command=True,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        click.Option(["--version"], is_flag=True, help="Show the version."),
        click.Option(
            ["--verbose"],
            is_flag=True,
            help="With --version: show the versions of the libraries that binlake uses.",
        ),
    ],
)


def _shown(message: str, arguments: Sequence[str]) -> str:
    """Return a message without the passwords of the arguments. Most runs need none of this, so it is imported late."""
    from binlake.cli.common.argument_passwords import without_passwords

    return without_passwords(message, arguments)


def _print_usage_error(error: click.ClickException, arguments: Sequence[str]) -> None:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _command_path(arguments)
    message = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.MissingParameter):
        message = _what_is_expected(error) or message
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        from binlake.values.similar_names import did_you_mean, question_of

        near = sorted(error.possibilities)
        question = did_you_mean(error.option_name, near) or question_of(near)
        message = f"No such option {error.option_name!r}; {question}"
    if found := _WRONG_CHOICE.fullmatch(message):
        choices = found["choices"].replace("'", "")
        message = f"{found['flag']} {found['value']}: expected one of {choices}"
    if isinstance(error, click.BadOptionUsage) and message.endswith("does not take a value"):
        flag = error.option_name
        message = f"Option {flag!r} takes no value: write {flag}, or leave it out"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # the help is the answer
        print(error.format_message(), file=sys.stderr)
    else:
        message = _shown(message, arguments)
        print_message(
            f"{path}: {message}{' See' if message.endswith('?') else '; see'} {path} --help"
        )


def _command_path(arguments: Sequence[str]) -> str:
    """Return the command of an error for which click does not name it."""
    return f"binlake {arguments[0]}" if arguments and arguments[0] in COMMANDS else "binlake"


def _what_is_expected(error: click.MissingParameter) -> str:
    """Return all arguments, if one may be repeated and others follow: then the missing one is
    ambiguous; else "".
    """
    context = error.ctx
    if context is None or not isinstance(error.param, click.Argument):
        return ""
    arguments = [p for p in context.command.get_params(context) if isinstance(p, click.Argument)]
    if error.param.nargs != -1 or error.param is arguments[-1]:
        return ""
    return f"expected {' '.join(p.make_metavar(context) for p in arguments)}"


def _prepare_output() -> None:
    """Make results UTF-8, wherever they go: JSON requires it, and no other set contains all names. And make
    writes whole: without a buffer (`PYTHONUNBUFFERED`), a disk that becomes full takes a part of one without
    an error.

    Characters that UTF-8 lacks (half of a surrogate pair) are written as their escapes.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        raw = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), line_buffering=True)
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _give_up_output() -> None:
    """Drop unwritten output, so that the interpreter does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _problem(error: OSError) -> str:
    """Return an error of the system. Without a file's name it is the output: sources name theirs."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"cannot write the output: {reason}"
    return f"{os.fsdecode(error.filename)}: {reason}"


def _exit_code(error: BinlogError) -> int:
    """Return the exit code of an error: 3 if each later start meets it too, because the log has lost the position."""
    if isinstance(error, _WRONG_USE) and error.errno not in _NO_ROOM:
        return 2
    return 3 if isinstance(error, PositionLostError) and not error.is_passing else 1


def _needs_numpy(given: list[str]) -> bool:
    """Whether Spark may run in the process of these arguments."""
    engines = [
        word.removeprefix("--engine=") if word.startswith("--engine=") else after
        for word, after in pairwise([*given, ""])
        if word.partition("=")[0] == "--engine"
    ]
    is_local = given[0] == "export" and engines[-1:] == ["local"]
    return given[0] in _NUMPY_COMMANDS and not is_local


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns its exit code.

    Without `argv` the process is the program's own, and its arguments are those of the command line.
    """
    given = sys.argv[1:] if argv is None else argv
    if argv is None:
        # Arrow's own allocator keeps up to half as much again for the same work, and saves no time.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if argv is None and given and given[0] in COMMANDS and not _needs_numpy(given):
        from binlake.values.lean import leave_out_numpy

        leave_out_numpy()
    if argv is None and (asked := os.environ.get(COMPLETION_VARIABLE)):
        from click.shell_completion import shell_complete

        return shell_complete(PROGRAM, {}, "binlake", COMPLETION_VARIABLE, asked)
    if given[:1] == ["mysqlbinlog"]:
        from binlake.cli.mysqlbinlog.server import password_asked_for

        given = password_asked_for(given)
    _prepare_output()
    try:
        with PROGRAM.make_context("binlake", list(given)) as context:
            PROGRAM.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as end:
        sys.stdout.flush()
        return end.exit_code
    except click.ClickException as error:
        _print_usage_error(error, given)
        return error.exit_code
    except BinlogError as error:
        with suppress(OSError):  # print the results before the damage ahead of the message
            sys.stdout.flush()
        from binlake.cli.common.flags import with_flags

        print_message(f"binlake: {with_flags(_shown(str(error), given))}")
        return _exit_code(error)
    except BrokenPipeError:  # the program that reads the output (head, less) has ended
        _give_up_output()
        return 0
    except OSError as error:
        _give_up_output()
        print_message(f"binlake: {_shown(_problem(error), given)}")
        return 1
    except KeyboardInterrupt:
        print("binlake: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    from binlake_passwords import hide_passwords

    hide_passwords(sys.argv)
    sys.exit(main())
