"""An undo of row changes: its refusals, comparisons and reports before its first statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain as chained
from typing import TYPE_CHECKING

from binlake.errors import FormatError, IncompleteError, OptionError
from binlake.format.sql_names import TableName
from binlake.source.chain import Chain
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Outcome
from binlake.table.batches import Changes
from binlake.table.decode import ChangeDecoder
from binlake.table.row_history.undoing import UndonePositions
from binlake.table.schema.declared import DeclaredSchema, ForeignKey, lacks_computed
from binlake.table.schema.history import SchemaHistory
from binlake.table.sql.later_changes import ChosenChanges, UndoneChanges
from binlake.table.sql.row_sql import Undo, UndoGuard
from binlake.table.sql.sql_script import ForeignKeys, backward_script, watched
from binlake.table.sql.undo_guards import Cascades, ServerComparison
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class UndoChoices:
    """The options `--generated`, `--rewrite-db`, `--force`, `--check-later` and `--verify`."""

    generated: tuple[str, ...] = ()
    databases: Mapping[str, str] = field(default_factory=dict)
    force: bool = False
    check_later: bool = True
    verify: str | None = None

    def exact(self, options: ReadOptions) -> ReadOptions:
        """Return the options of an undo: no change between the undone ones may be missing.

        Raises OptionError.
        """
        if options.on_error == "skip":
            raise OptionError(
                "--undo and --on-error skip cannot be combined: later changes may depend on"
                " skipped ones",
                name="on_error",
            )
        if self.verify is not None and not is_server_url(self.verify):
            raise OptionError(
                f"--verify {self.verify!r} is not a server",
                name="verify",
                hint="mysql://USER@HOST/",
            )
        return options if self.force else replace(options, on_unshown="error")


@dataclass(frozen=True, slots=True)
class UndoScript:
    """The statements of an undo, and sentences about rows in which the server differs (`--verify`)."""

    texts: Iterator[pa.Buffer | bytes]
    conflicts: tuple[str, ...]


class UndoRun:
    """One undo of some logs. There is no statement before everything is read and checked.

    `places` are the row changes to undo; by default those that the options choose.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        options: ReadOptions,
        choices: UndoChoices,
        schema: DeclaredSchema,
        ledger: Ledger,
        places: UndonePositions | None = None,
    ) -> None:
        self._places = places
        self._chains = chains
        self._options = options
        self._choices = choices
        self._schema = schema
        self._ledger = ledger
        self._keys = ForeignKeys()
        self._history = SchemaHistory(schema, lacks_computed)
        self._undone: list[tuple[Chain, UndoneChanges]] = []
        self._comparison: ServerComparison | None = None
        if choices.verify is not None:
            self._comparison = ServerComparison(ServerUrl.parse_all(choices.verify))

    def script(self, seen: Callable[[Iterable[Changes]], Iterable[Changes]]) -> UndoScript:
        """Read and check everything, and return the statements: none if rows of the server differ.
        `seen` receives the progress.

        Raises BinlogError.
        """
        guards: list[UndoGuard] = [
            Cascades(self._references, self._ledger.warn if self._choices.force else None)
        ]
        guards += [] if self._comparison is None else [self._comparison]
        faces = Undo(self._choices.generated, self._choices.databases, guards)
        script = backward_script(seen(self._of_one_transaction()), faces, self._keys)
        try:
            head = next(script, None)  # everything has been read by then
        except (IncompleteError, FormatError) as error:
            error.hint = "choose the changes before or after it with --start, --stop or --at"
            if self._places is not None:
                error.hint = "choose a point after it, or read the logs up to it with --stop"
            if isinstance(error, IncompleteError):
                if error.file is not None and self._may_be_of_server(error.table):
                    error.hint += (
                        ", or leave out tables of the server itself with --exclude-table 'mysql.*'"
                    )
                error.hint += "; use --force to undo everything else"
            raise
        conflicts = () if self._comparison is None else tuple(self._comparison.conflicts())
        self._report(faces)
        if head is None or (conflicts and not self._choices.force):
            return UndoScript(iter(()), conflicts)
        return UndoScript(chained((head,), script), conflicts)

    def _may_be_of_server(self, table: TableName | None) -> bool:
        """Whether a refused statement, on this table if that is known, may be one that the server logs for itself."""
        if self._options.table or self._options.exclude_table:
            return False
        return table is None or table[0].lower() == "mysql"

    def _report(self, faces: Undo) -> None:
        if faces.sequences:
            listed = [
                f"{name} ({counted(n, 'change')})" for name, n in sorted(faces.sequences.items())
            ]
            self._ledger.warn(f"undo does not set back sequences: {', '.join(listed)}")
        for sentence in () if self._comparison is None else self._comparison.triggers:
            self._ledger.warn(sentence)
        if self._choices.check_later:
            for chain, undone in self._undone:
                history = self._new_history(chain)
                known = self._ledger.warnings
                for sentence in undone.later(chain, history, self._history.references, known):
                    self._ledger.warn(sentence)

    def _references(self, database: str, table: str) -> Sequence[tuple[str, ForeignKey]]:
        """Return the foreign keys that refer to a table, if the log lacks their effects."""
        return () if self._keys.are_logged else self._history.references(database, table)

    def _new_history(self, chain: Chain) -> SchemaHistory:
        return SchemaHistory(self._schema.of_logs(chain.paths), lacks_computed)

    def _changes(self) -> Iterator[Changes]:
        options = self._options
        readers = LogReader.of_chains(self._chains, options, self._ledger)
        # the user has chosen the transactions, and a hole may lie anywhere
        by_transaction = options.at is not None or options.gtid is not None
        for chain, reader in zip(self._chains, readers, strict=True):
            if not by_transaction and not self._choices.force:
                reader.pass_holes_to(_refuse_hole)
            self._history = self._new_history(chain)
            rows = None if self._places is None else self._places.rows
            decoder = ChangeDecoder(
                self._options, Target.TEXT, self._ledger, history=self._history, rows=rows
            )
            chosen = ChosenChanges() if self._chooses_rows else None
            undone = UndoneChanges(self._options, self._choices.generated, chosen)
            self._undone.append((chain, undone))
            changes = decoder.read(watched(reader, self._keys))
            yield from undone.watch(changes if self._places is None else self._places.only(changes))

    @property
    def _chooses_rows(self) -> bool:
        """Whether the undo may leave out rows of a transaction and table that it reverts."""
        options = self._options
        by_values = options.where is not None and not options.whole_transaction
        return self._places is not None or bool(options.op) or by_values

    def _of_one_transaction(self) -> Iterator[Changes]:
        """Yield the changes. Raises OptionError at the end if --at means several transactions."""
        yield from self._changes()
        at, count = self._options.at, self._ledger.transactions[Outcome.COMMITTED]
        if at is not None and count > 1:
            raise OptionError(
                f"--at {at} means {count} transactions, and --undo would undo all of them",
                name="at",
                value=at,
                hint="give the position of one as FILE:POS (binlake stats --statements lists them)",
            )


def _refuse_hole(hole: str) -> None:
    """Raise IncompleteError: rows that missing changes have changed do not have the values to undo."""
    raise IncompleteError(f"{hole}: the undo would lack changes")
