"""`binlake index FILE…`: an index beside each log, so that filters read only the bytes they need."""

from __future__ import annotations

from typing import Annotated

import typer

from binlake.cli.flags import with_options
from binlake.cli.terminal import note
from binlake.errors import OptionError, UnsupportedError
from binlake.source.bytes import write_whole
from binlake.source.chain import LogPath, resolve
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.stream.log_index import LogIndex, read_index
from binlake.table.indexing import index_of
from binlake.values.ledger import counted
from binlake.values.log_names import index_path
from binlake.values.options import ReadOptions

__all__ = ["index"]


@with_options("keyring", "keyring_password_file", "schema")
def index(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Logs to index.")],
    options: ReadOptions,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that have an index that fits.")
    ] = False,
) -> None:
    """Write an index beside each log: where its transactions are, and what they changed.

    With FILE.index.parquet beside a log, filters by time, GTID, table, server or thread read only
    the bytes that they need; results are the same. A log that has grown since is read without its
    index, and that is said. `binlake archive` makes the indexes itself. Compressed logs and relay
    logs have none.

    Examples:
      binlake index /backup/binlogs/

      binlake index binlog.000012 && binlake rows binlog.000012 --table shop.orders
    """
    if "-" in files:
        raise OptionError("standard input cannot have an index", name="FILE")
    written = left = 0
    for path in (path for chain in resolve(files) for path in chain.files):
        if not again and _has_index(path, options):
            left += 1
            continue
        try:
            found = index_of(path, options)
        except UnsupportedError as error:
            note(str(error))
            continue
        write_whole(index_path(path.path), found.to_bytes())
        written += 1
        rows = found.table.num_rows
        print(f"{index_path(path.path)}: {counted(rows, 'transaction')}")
    if left:
        note(f"{counted(left, 'log')} had an index already")
    if not written and not left:
        raise typer.Exit(1)


def _has_index(path: LogPath, options: ReadOptions) -> bool:
    with LogFile.open(path, keyring=Keyring.of(options)) as log:
        return isinstance(read_index(log), LogIndex)
