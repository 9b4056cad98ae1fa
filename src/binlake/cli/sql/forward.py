"""`binlake sql` without --undo: statements for the row changes, and with --ddl the statements
between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binlake.errors import BinlogError
from binlake.replay.ddl_script import SHOWN_KINDS, DdlScript
from binlake.stream.runs import Run
from binlake.table.batches import Changes
from binlake.table.decode import ChangeDecoder
from binlake.table.log_input import LogInput
from binlake.table.reading import as_they_are, read_changes
from binlake.table.schema.declared import DeclaredSchema, lacks_computed
from binlake.table.schema.history import SchemaHistory
from binlake.table.sql.sql_script import ForeignKeys, watched
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger


def changes_of(
    logs: LogInput, ledger: Ledger, schema: DeclaredSchema, keys: ForeignKeys
) -> Iterator[Changes]:
    """Yield the row changes of a chain. Raises BinlogError."""
    return read_changes(
        logs.chains, logs.options, ledger, Target.TEXT, schema, as_they_are,
        lacks=lacks_computed, watched=lambda reader: watched(reader, keys),
    )  # fmt: skip


def changes_with_ddl(
    logs: LogInput, ledger: Ledger, schema: DeclaredSchema, keys: ForeignKeys, script: DdlScript
) -> Iterator[Changes | bytes]:
    """Yield the row changes of a chain, with the statements of `script` between them. Raises BinlogError."""
    (chain,), (reader,) = logs.chains, logs.readers(ledger)
    history = SchemaHistory(schema.of_logs(chain.paths), lacks_computed)
    decoder = ChangeDecoder(logs.options, Target.TEXT, ledger, history=history)
    parts = _Parts(decoder.runs(watched(reader, keys, SHOWN_KINDS)), script)
    try:
        while not parts.ended:
            # at the end of a part the decoder yields everything that it holds
            for changes in decoder.decode(parts.next_part()):
                if changes.tables:
                    yield from _some(script.leave())
                    yield changes
            yield from _some(parts.statements())
    except BinlogError:
        yield from _some(script.leave())
        raise
    yield from _some(script.closing())


def _some(text: bytes) -> Iterator[bytes]:
    if text:
        yield text


class _Parts:
    """Yield runs, cut before each that may have statements of the script.

    The script is asked only after the row changes before the statements have been written: its
    answer depends on that.
    """

    def __init__(self, runs: Iterable[Run], script: DdlScript) -> None:
        self._runs = iter(runs)
        self._script = script
        self._next: Run | None = None
        self.ended = False

    def next_part(self) -> Iterator[Run]:
        """Yield the runs up to the next one that may have statements."""
        if self._next is not None:
            first, self._next = self._next, None
            yield first
        for run in self._runs:
            if self._script.may_concern(run):
                self._next = run
                return
            yield run
        self.ended = True

    def statements(self) -> bytes:
        """Return the statements to execute before the next part."""
        return b"" if self._next is None else self._script.before(self._next)
