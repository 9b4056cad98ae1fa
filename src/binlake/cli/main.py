"""`binlake`: one command per question to a log. Parses, calls, prints; knows no format.

Exit codes: 0 fine, 1 the log has problems (or the work failed), 2 wrong use. A user's mistake
is one line on stderr; a traceback is always a bug of ours.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.exceptions import TyperException

from binlake.cli.flags import with_flags
from binlake.cli.hidden_arguments import hide_passwords
from binlake.cli.mysqlbinlog_server import password_asked_for
from binlake.errors import BinlogError, KeyringError, OptionError, SchemaError, SourceError

__all__ = ["COMMANDS", "app_of", "main"]

# name -> module:function. Only the module of the command that is called is imported; all of them
# for the help, so a module must import heavy libraries (pyspark) inside its function only.
COMMANDS = {
    "inspect": "binlake.cli.inspect:inspect",
    "rows": "binlake.cli.rows:rows",
    "stats": "binlake.cli.stats:stats",
    "gtid": "binlake.cli.gtid:gtid",
    "schema": "binlake.cli.schema:schema",
    "sql": "binlake.cli.sql:sql",
    "verify": "binlake.cli.verify:verify",
    "index": "binlake.cli.index:index",
    "mysqlbinlog": "binlake.cli.mysqlbinlog:mysqlbinlog",
    "archive": "binlake.cli.archive:archive",
    "export": "binlake.cli.export:export",
    "tail": "binlake.cli.tail:tail",
    "doctor": "binlake.cli.doctor:doctor",
    "serve": "binlake.cli.serve:serve",
}

# The tool whose options this command has means a host by -h.
_SETTINGS = {"mysqlbinlog": {"help_option_names": ["-?", "--help"]}}


def _version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"binlake {metadata.version('binlake')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


def app_of(given: Sequence[str]) -> typer.Typer:
    """The program as far as a command line needs it: the command that it calls, or all of them."""
    app = typer.Typer(
        name="binlake",
        help="MySQL and MariaDB binary logs: look inside, check, and export to lake tables.",
        epilog="Every command takes files, globs, directories, .index files, URIs (s3://…, mysql://…) or - for "
        "standard input, plain or .gz/.zst. Results go to stdout, messages to stderr.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    gc.disable()  # imports make a lot, and nothing of it is garbage
    for name in given[:1] if given and given[0] in COMMANDS else COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        command = getattr(import_module(module), function)
        if isinstance(command, typer.Typer):  # a command with commands of its own
            app.add_typer(command, name=name)
        else:
            app.command(name, context_settings=_SETTINGS.get(name))(command)
    gc.enable()
    return app


def _usage_line(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "binlake"
    message = " ".join(error.format_message().split()).rstrip(".")
    if message.startswith("Usage:"):  # the program without a command: its help is the answer
        return error.format_message()
    return f"{path}: {message}; see {path} --help"


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    if argv is None:
        hide_passwords(sys.argv)
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["mysqlbinlog"]:
        given = password_asked_for(given)
    try:
        code = app_of(given)(args=given, prog_name="binlake", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except TyperException as error:
        print(_usage_line(error), file=sys.stderr)
        return error.exit_code
    except (KeyringError, OptionError, SchemaError, SourceError) as error:
        print(f"binlake: {with_flags(str(error))}", file=sys.stderr)
        return 2
    except BinlogError as error:
        print(f"binlake: {with_flags(str(error))}", file=sys.stderr)
        return 1
    except (BrokenPipeError, SystemExit):
        # the reader of our output went away (head, less), which is nobody's error; Typer turns
        # that, and in this mode nothing else, into SystemExit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("binlake: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
