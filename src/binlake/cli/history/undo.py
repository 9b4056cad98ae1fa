"""The options of `binlake history --undo`."""

from __future__ import annotations

from dataclasses import replace

from binlake.errors import OptionError
from binlake.source.chain import Chain
from binlake.table.sql.undo_run import UndoChoices
from binlake.values.options import ReadOptions

__all__ = ["check_undo"]


def check_undo(
    point: str | None, chain: Chain, choices: UndoChoices, options: ReadOptions
) -> ReadOptions:
    """Return the options of a history that is undone, or of one that is not (`point` is None).

    Raises OptionError for choices without --undo, and for logs that can be read only once.
    """
    if point is None:
        if choices.force or choices.verify or choices.generated:
            raise OptionError("--generated, --force and --verify require --undo", name="undo")
        return options
    if any(file.path == "-" for file in chain.files):
        raise OptionError(
            "--undo reads the logs again, and standard input can be read only once", name="undo"
        )
    choices.exact(options)
    return replace(options, schema=options.schema or choices.verify)
