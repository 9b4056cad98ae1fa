"""Print an undo of row changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeAlias

from binlake.cli.common.lines import script_output
from binlake.cli.common.parameters import Option
from binlake.cli.common.terminal import note
from binlake.errors import OptionError
from binlake.table.batches import Changes
from binlake.table.sql.undo_run import UndoChoices, UndoRun

#: Flags of the commands that can undo.
ForceFlag: TypeAlias = Annotated[
    bool,
    Option(
        "--force",
        help="With --undo: print the SQL for everything that can be reversed, even if some changes cannot.",
    ),
]
VerifyFlag: TypeAlias = Annotated[
    str | None,
    Option(
        "--verify",
        metavar="URL",
        help="With --undo: compare with this server first, and print nothing if a row differs.",
    ),
]


def require_undo(choices: UndoChoices) -> None:
    """Raise OptionError if a flag was given that has a meaning only with --undo."""
    flags = {
        "--generated": choices.generated,
        "--force": choices.force,
        "--verify": choices.verify,
    }
    given = [flag for flag, value in flags.items() if value]
    if given:
        verb = "requires" if len(given) == 1 else "require"
        raise OptionError(f"{' and '.join(given)} {verb} --undo", name="undo")


def print_script(run: UndoRun, seen: Callable[[Iterable[Changes]], Iterable[Changes]]) -> bool:
    """Print the statements; return whether the server of --verify differs. `seen` receives the
    progress.

    Raises BinlogError.
    """
    script = run.script(seen)
    for sentence in script.conflicts:
        note(sentence)
    begun = next(script.texts, None)
    if begun is not None:
        with script_output() as write:
            write(begun)
            for text in script.texts:
                write(text)
    return bool(script.conflicts)
