"""`binlake index FILE…`: an index beside each log, so that filters read only the bytes they need."""

from __future__ import annotations

from typing import Annotated

from binlake.cli.common.flags import HOW_LOGS_ARE_OPENED, with_options
from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Exit, Option
from binlake.cli.common.terminal import note
from binlake.errors import OptionError, UnsupportedError
from binlake.source.access import Access
from binlake.source.bytes import mode_like, write_whole
from binlake.source.chain import LogPath, resolve
from binlake.stream.index.index_file import read_index
from binlake.stream.index.log_index import LogIndex
from binlake.table.counting.indexing import index_of
from binlake.values.ledger import counted
from binlake.values.log_names import index_path
from binlake.values.options import ReadOptions

__all__ = ["index"]


@with_options("schema", "threads", *HOW_LOGS_ARE_OPENED)
def index(
    files: Annotated[list[str], Argument(metavar="FILE…", help="Logs to index.")],
    options: ReadOptions,
    again: Annotated[
        bool, Option("--again", help="Also index logs whose index is up to date.")
    ] = False,
) -> None:
    """Write an index beside each log: the positions of its transactions, and what they changed.

    With FILE.index.parquet beside a log, filters by time, GTID, table, server or thread read only the
    bytes that they need; results are the same. If a log has grown since, binlake reports it and reads
    the log without its index. `binlake archive` writes indexes by itself. Compressed logs and relay
    logs have no index.

    Examples:
      binlake index /backup/binlogs/

      binlake index binlog.000012 && binlake rows binlog.000012 --table shop.orders
    """
    if "-" in files:
        raise OptionError("standard input cannot have an index", name="FILE")
    written = left = 0
    for path in (path for chain in resolve(files, options.index_directory) for path in chain.files):
        if not again and _has_index(path, options):
            left += 1
            continue
        try:
            found = index_of(path, options)
        except UnsupportedError as error:
            note(str(error))
            continue
        write_whole(index_path(path.path), found.to_bytes(), mode_like(path.path))
        written += 1
        rows = found.table.num_rows
        show(f"{index_path(path.path)}: {counted(rows, 'transaction')}")
    if left:
        note(f"{counted(left, 'log')} had an index already")
    if not written and not left:
        raise Exit(1)


def _has_index(path: LogPath, options: ReadOptions) -> bool:
    with Access.of(options).open(path) as log:
        return isinstance(read_index(log), LogIndex)
