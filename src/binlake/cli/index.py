"""`binlake index FILE…`: an index beside each log, so that filters read only the bytes they need."""

from __future__ import annotations

from typing import Annotated

from binlake.cli.common.flags import HOW_LOGS_ARE_OPENED, with_options
from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Exit, Option
from binlake.cli.common.terminal import note, skipping_nothing
from binlake.errors import OptionError, UnsupportedError
from binlake.source.access import Access
from binlake.source.bytes import mode_like, pipe_in, write_whole
from binlake.source.chain import LogPath
from binlake.source.resolve import resolve
from binlake.stream.index.index_file import from_index
from binlake.stream.index.key_file import read_key_index
from binlake.stream.index.log_index import LogIndex
from binlake.table.counting.indexing import index_of
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.schema_file import declared_schema
from binlake.table.where.key_indexing import key_index_of, note_ddl
from binlake.values.log_names import index_path, key_index_path
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted


@with_options("schema", "threads", *HOW_LOGS_ARE_OPENED)
def index(
    files: Annotated[list[str], Argument(metavar="FILE…", help="Logs to index.")],
    options: ReadOptions,
    keys: Annotated[
        bool,
        Option("--keys", help="Also write a key index: --where on a primary key reads less."),
    ] = False,
    again: Annotated[
        bool, Option("--again", help="Also index logs whose index is up to date.")
    ] = False,
) -> None:
    """Write an index beside each log: the positions of its transactions, and what they changed.

    With FILE.index.parquet beside a log, filters by time, GTID, table, server or thread read only the
    bytes that they need; results are the same. If a log has grown since, binlake reports it and reads
    the log without its index. `binlake archive` writes indexes by itself. Compressed logs and relay
    logs have no index.

    With --keys, FILE.keys.arrow lists the parts of the log in which each primary key value occurs.
    --where with such a value then reads only those parts.

    Examples:
      binlake index /backup/binlogs/

      binlake index --keys /backup/binlogs/ && binlake rows /backup/binlogs/ --where "id = 4711"
    """
    if (pipe := pipe_in(files)) is not None:
        raise OptionError(
            f"index writes a file beside each log, so it cannot read {pipe}", name="FILE"
        )
    written = left = 0
    for chain in resolve(files, options.index_directory):
        indexing = _Indexing(options, keys=keys)
        for path in chain.files:
            if not again and indexing.has_all(path):
                indexing.pass_over(path)
                left += 1
                continue
            with skipping_nothing():
                written += indexing.write(path)
    if left:
        note(f"{counted(left, 'log')} had an index already")
    if not written and not left:
        raise Exit(1)


class _Indexing:
    """Indexes the logs of a chain, in order. `keys`: with key indexes."""

    def __init__(self, options: ReadOptions, *, keys: bool) -> None:
        self._options = options
        self._keys = keys
        self._history = SchemaHistory(declared_schema(options)) if keys else None
        self._passed_over: list[LogPath] = []

    def has_all(self, path: LogPath) -> bool:
        """Whether the indexes of a log are up to date."""
        with Access.of(self._options).open(path) as log:
            is_known = isinstance(from_index(log, LogIndex.check), int)
            if is_known and self._keys and log.is_splittable:
                known = read_key_index(LogPath(log.path, log.name, None, log.size))
                is_known = not (known is None or isinstance(known, str))
        return is_known

    def pass_over(self, path: LogPath) -> None:
        """Go on after a log without writing anything."""
        self._passed_over.append(path)

    def write(self, path: LogPath) -> bool:
        """Write the indexes of a log and print a line about them; False if it cannot have one. Raises BinlogError."""
        try:
            found = index_of(path, self._options)
        except UnsupportedError as error:
            note(str(error))
            return False
        if self._history is not None:
            self._write_keys(path, found, self._history)
        write_whole(index_path(path.path), found.to_bytes(), mode_like(path.path))
        show(f"{index_path(path.path)}: {counted(found.rows, 'transaction')}")
        return True

    def _write_keys(self, path: LogPath, index: LogIndex, history: SchemaHistory) -> None:
        for before in self._passed_over:
            note_ddl(before, history, self._options)
        self._passed_over.clear()
        try:
            keys = key_index_of(path, index, self._options, history)
        except UnsupportedError as error:
            note(str(error))
            self.pass_over(path)
            return
        write_whole(key_index_path(path.path), keys.to_bytes(), mode_like(path.path))
        found = keys.keyed_tables
        lacking = sorted(keys.tables.keys() - found)
        show(f"{key_index_path(path.path)}: the keys of {counted(len(found), 'table')}")
        if lacking:
            few = ", ".join(lacking[:3]) + (", …" if len(lacking) > 3 else "")
            note(
                f"{path.name}: binlake knows no primary key that it can index for {counted(len(lacking), 'table')}: {few}"
            )
