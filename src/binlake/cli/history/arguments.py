"""Where the values of the key end and the files begin, in the arguments of `binlake history`.

    binlake history shop.orders 4711 binlog.000012 binlog.000013
    binlake history shop.lines 4711 1 /var/lib/mysql/
    binlake history shop.orders --key id=4711 /var/lib/mysql/

The number of columns in the key is in the logs, so it is not known yet. The first argument is a
value. The files begin at the first argument after it that names something to read.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from binlake.errors import OptionError
from binlake.table.row_history.keys import RowKey

_USE = "binlake history DB.TABLE KEY… FILE…, or with --key COLUMN=VALUE"


def key_and_files(arguments: Sequence[str], named: Sequence[str]) -> tuple[RowKey, list[str]]:
    """Return the key and the files. `named` are the texts of --key.

    Raises OptionError.
    """
    if named:
        return _named_key(named), list(arguments)
    for number, argument in enumerate(arguments):
        if number and _is_input(argument):
            return RowKey(tuple(arguments[:number])), list(arguments[number:])
    if len(arguments) == 1:
        what = "no FILE" if not _is_input(arguments[0]) else "no KEY"
        raise OptionError(f"{what} in the arguments", name="FILE", hint=_USE)
    raise OptionError(
        f"none of the arguments after the first value is a file or directory that exists:"
        f" {', '.join(arguments[1:])}",
        name="FILE",
        hint=_USE,
    )


def _named_key(named: Sequence[str]) -> RowKey:
    key: dict[str, object] = {}
    for text in named:
        column, equals, value = text.partition("=")
        if not equals or not column:
            raise OptionError(f"--key {text!r}: expected COLUMN=VALUE", name="key", value=text)
        if column in key:
            raise OptionError(f"--key {column}: given twice", name="key", value=text)
        key[column] = value
    return RowKey.of_columns(key)


def _is_input(argument: str) -> bool:
    """Whether an argument names something to read: a file, a directory, a glob, a URI, or stdin."""
    return (
        argument == "-"
        or "://" in argument
        or os.path.lexists(argument)
        or (glob.has_magic(argument) and next(glob.iglob(argument), None) is not None)  # noqa: PTH207
    )
