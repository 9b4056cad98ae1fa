"""Read the transactions of a chain of files: the committed ones, in commit order.

    reader = TransactionReader(options, ledger)
    for run in reader.runs(ranges): …          # PlainRun | Transaction, see stream/runs.py

The reader yields committed transactions (with the option `uncommitted`, all), and counts the
others. The rules:

- A transaction counts at the event that ends it; see the grammar in `stream/groups/group.py`.
- XA: a prepared group waits for its XA COMMIT or XA ROLLBACK, which may be in a later file.
  Its changes then take commit time, GTID and order of that later group, and keep their own
  positions. If the XA PREPARE lies before the start of the read (a split, a `start` option), the
  reader searches the log before it. If it is not there, the XA COMMIT is counted as unshown.
- A transaction without an end is torn: the log ends inside it, or another transaction
  starts. In relay logs it may continue in the next file.

`Ledger.transactions` counts by outcome those that pass the filters. A prepared one counts where
its XA PREPARE is, and no longer once it is decided, so that ledgers of splits add up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlake.errors import FormatError, IncompleteError
from binlake.format.magic import FIRST_EVENT
from binlake.format.sql_names import TableName
from binlake.source.access import Access
from binlake.source.chain import LogPath
from binlake.source.log_file import Damage, LogFile
from binlake.stream.filters import TransactionFilter
from binlake.stream.groups.at_position import AtPosition
from binlake.stream.groups.group import Group
from binlake.stream.groups.grouper import Ended, Grouper, every_group_alone, plain_runs
from binlake.stream.groups.plain_transaction import plain_transactions
from binlake.stream.groups.transaction_frames import HELD_BYTES
from binlake.stream.groups.transaction_of import transaction_of
from binlake.stream.runs import Outcome, PlainRun, Run, Transaction
from binlake.stream.sql.ddl import TakesDdl, ignore_ddl
from binlake.stream.sql.ddl_targets import changed_tables, may_change_any
from binlake.stream.sql.statements import (
    ACCOUNT,
    CHANGE_KINDS,
    DDL,
    INCIDENT,
    ORPHAN_XA_COMMIT,
    ROLLED_BACK_STATEMENT,
    TRUNCATE,
    Xid,
)
from binlake.values.ledger import Ledger, SkippedRange
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition
from binlake.values.table_filter import TableFilter

if TYPE_CHECKING:
    from binlake.source.window import Window
    from binlake.stream.groups.elsewhere import Elsewhere


@dataclass(frozen=True, slots=True)
class FileRange:
    """Frames to read: those of `file` that start in [start, stop), whole transactions.

    `start` is None or the start of a transaction (or of the file). `stop` is None (the end of the
    file) or such a start. `passed` counts the wanted committed transactions before it that, by an
    index, do not change the tables to read.
    """

    file: LogFile
    start: int | None = None
    stop: int | None = None
    passed: int = 0


class TransactionReader:
    """Reads ranges of one chain, in order, and follows transactions from one to the next.

    `elsewhere` searches the rest of the chain for XA transactions; None if there is no rest.
    Each open transaction holds at most `held_bytes` of windows; the reader reads larger ones again.
    `reached` is the offset of the byte after the last event read of the current range.
    """

    def __init__(
        self,
        options: ReadOptions,
        ledger: Ledger,
        *,
        filters: TransactionFilter | None = None,
        elsewhere: Elsewhere | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self._options = options
        self._ledger = ledger
        self._filters = filters or TransactionFilter()
        at = self._filters.at
        self._at = None if at is None else AtPosition(at, ledger)
        self._elsewhere = elsewhere
        self._held_bytes = held_bytes
        self._prepared: dict[Xid, Group] = {}
        self._decided_here: set[Xid] = set()
        skips = options.on_error == Damage.SKIP
        self._on_damage = self._note_damage if skips else None
        self._grouper = Grouper()
        self._on_ddl: TakesDdl = ignore_ddl
        self._tables = TableFilter(options)
        self._shown_kinds: Container[str] = ()
        self._takes_all_ddl = True
        self._ordinal = 0
        self.reached = 0

    @property
    def inside_relay(self) -> bool:
        """Whether a transaction of a relay log is open, which may continue in the next file."""
        return self._grouper.open is not None and self._grouper.open.file.is_relay

    def prove_border(self, log: LogPath, ordinal: int, end: int) -> None:
        """Raise IncompleteError if the last range, which stopped at byte `end` of a log, ends
        inside an event or a transaction.

        The start of a transaction was found without reading the bytes before it (source.resync).
        Bytes made to mislead that search would make a split that tears a transaction. The proof of
        the driver detects that too, but not every reader of splits has such a proof.
        """
        group = self._grouper.open
        if self.reached <= end:
            if group is None:
                return
            with Access.of(self._options).open(log, ordinal) as file:
                skip = Damage(self._options.on_error)
                if not self._grouper.goes_on(file.windows(end, verify=False, on_damage=skip)):
                    return  # torn in the log itself
        raise IncompleteError(
            f"the split that ends at byte {end} ends inside a transaction",
            file=log.name,
            event_pos=None if group is None else group.start.offset,
            hint="the log contains bytes that look like the start of a transaction; read the file"
            " as one split (max_partition_bytes)",
        )

    @property
    def expects_more(self) -> bool:
        """Whether a wanted transaction may continue in a file in which none starts.

        That is a transaction of a relay log, or the XA COMMIT of the transaction at the option
        `at`.
        """
        at = self._at
        return self.inside_relay or (
            at is not None and any(at.may_be(group) for group in self._prepared.values())
        )

    def runs(
        self,
        ranges: Iterable[FileRange],
        on_ddl: TakesDdl = ignore_ddl,
        shown_kinds: Container[str] = (),
        *,
        all_ddl: bool = True,
    ) -> Iterator[Run]:
        """Yield plain runs and single transactions, in commit order. Raises BinlogError.

        Committed statements of `shown_kinds` are neither counted nor refused as changes that rows
        cannot show: the caller shows or counts them. With ROLLED_BACK_STATEMENT the same holds for
        statements that were rolled back, so that rolled back transactions with them are yielded,
        too. The reader calls `on_ddl` for the DDL of all
        transactions, including filtered ones (without `all_ddl`: of the wanted ones), before the
        runs that follow it (and before the rows of its own transaction). It closes a file when its range has been read and no open or
        prepared transaction needs it.
        """
        self._shown_kinds = shown_kinds
        self._takes_all_ddl = all_ddl
        yield from self._read(ranges, on_ddl)

    def transactions(
        self, ranges: Iterable[FileRange], on_ddl: TakesDdl = ignore_ddl
    ) -> Iterator[Transaction]:
        """Yield every transaction on its own, in commit order. Raises BinlogError."""
        self._shown_kinds = ()
        self._takes_all_ddl = True
        for run in self._read(ranges, on_ddl):
            if isinstance(run, PlainRun):
                yield from plain_transactions(run)
            else:
                yield run

    def groups(self, ranges: Iterable[FileRange]) -> Iterator[Ended]:
        """Yield every wanted group of the log: an XA PREPARE and the group that decides it stay
        two groups.

        The order is that of the log, for any outcome; only bytes and events are counted. Raises
        BinlogError, also for changes that rows cannot show if the options refuse them.
        """
        grouper = self._grouper = Grouper(every_group_alone, self._on_damage, self._held_bytes)
        for part in ranges:
            with part.file as file:
                stop_at = None if self._at is not None else self._stops_at(file)
                for window in self._windows(part, verify=self._options.verify_checksum):
                    for item in grouper.window(window):
                        if isinstance(item, Ended):
                            yield from self._group(item)
                    if stop_at is not None and window.end >= stop_at and grouper.open is None:
                        break
                else:
                    self._warn_of_tail(file)
        for ended in grouper.finish():
            yield from self._group(ended)

    def _group(self, ended: Ended) -> Iterator[Ended]:
        if self._wants(ended.group):
            yield ended
        self._refuse_unshown([ended])

    def _refuse_unshown(self, items: Iterable[PlainRun | Ended]) -> None:
        """Raise IncompleteError for a change that rows cannot show, if the options refuse it.

        This applies even where it is read as an event or a statement.
        """
        if self._options.on_unshown == "error":
            for item in items:
                if isinstance(item, Ended):
                    deque(self._ended(*item), maxlen=0)

    def windows(self, ranges: Iterable[FileRange]) -> Iterator[Window]:
        """Yield all events of the ranges, without verifying checksums. Raises BinlogError, as
        `groups`.
        """
        refuses = self._options.on_unshown == "error"
        grouper = self._grouper = Grouper(plain_runs, self._on_damage, self._held_bytes)
        for part in ranges:
            with part.file:
                for window in self._windows(part, verify=False):
                    yield window
                    if refuses:
                        self._refuse_unshown(grouper.window(window))
                self._warn_of_tail(part.file)
        if refuses:
            self._refuse_unshown(grouper.finish())

    def _read(self, ranges: Iterable[FileRange], on_ddl: TakesDdl) -> Iterator[Run]:
        self._on_ddl = on_ddl
        grouper = self._grouper = Grouper(plain_runs, self._on_damage, self._held_bytes)
        self._prepared = {}
        self._decided_here = set()
        files: list[LogFile] = []
        try:
            for part in ranges:
                files.append(part.file)
                yield from self._read_range(grouper, part)
                files = self._close_passed(files)
            for ended in grouper.finish():
                yield from self._ended(*ended)
            yield from self._still_prepared()
        except FormatError:
            if grouper.open is not None and self._wants(grouper.open):
                self._ledger.transactions[Outcome.TORN] += 1
            raise
        finally:
            for file in files:
                file.close()

    def _note_damage(self, window: Window, index: int, error: FormatError) -> None:
        """Skip an event that is whole but cannot be decoded (option on_error=skip)."""
        frame = window.frame(index)
        self._ledger.skipped.append(
            SkippedRange(window.file.shown, frame.offset, frame.end, str(error))
        )

    def _close_passed(self, files: list[LogFile]) -> list[LogFile]:
        """Close the files that no waiting group needs; returns the others."""
        waiting = self._waiting()
        kept = []
        for file in files:
            if any(group.frames.start_in(file) is not None for group in waiting):
                kept.append(file)
            else:
                file.close()
        return kept

    def _waiting(self) -> list[Group]:
        """Groups whose frames may be read again: prepared or open ones."""
        opened = self._grouper.open
        return [*self._prepared.values(), *([opened] if opened is not None else [])]

    def _read_range(self, grouper: Grouper, part: FileRange) -> Iterator[Run]:
        file = part.file
        stop_at = self._stops_at(file)
        self._ordinal = file.ordinal
        if part.passed:
            self._ledger.transactions[Outcome.COMMITTED] += part.passed
        for window in self._windows(part, verify=self._options.verify_checksum):
            for item in grouper.window(window):
                yield from self._item(item)
            passed = stop_at is not None and window.end >= stop_at
            if passed and grouper.open is None and not self.expects_more:
                return
        self._warn_of_tail(file)

    def _stops_at(self, file: LogFile) -> int | None:
        """Return the offset from which on no wanted transaction starts in a file; None: none before its end."""
        wanted = self._filters.byte_range(file.ordinal)
        return FIRST_EVENT if wanted is None else wanted[1]

    def _warn_of_tail(self, file: LogFile) -> None:
        """Warn about the torn tail of a file in use. Any other torn tail is an error, or a skipped
        range.
        """
        if file.tail is not None and file.tail.in_use:
            self._ledger.warn(f"{file.shown}: {file.tail.message}")

    def _windows(self, part: FileRange, *, verify: bool) -> Iterator[Window]:
        """Yield the windows of a range.

        A stream keeps the bytes that may be read again: the current window, and those of open and
        prepared groups.
        """
        file = part.file
        if self._at is not None:
            self._at.reading(file)
        file.reader.retain(FIRST_EVENT if part.start is None else part.start)
        windows = file.windows(
            part.start,
            part.stop,
            verify=verify,
            ledger=self._ledger,
            on_damage=Damage(self._options.on_error),
        )
        self.reached = FIRST_EVENT if part.start is None else part.start
        for window in windows:
            self.reached = window.end
            yield window
            self._retain(file, window.end)

    def _retain(self, file: LogFile, end: int) -> None:
        """Report to a stream the offset from which bytes may still be read again."""
        starts = [group.frames.start_in(file) for group in self._waiting()]
        file.reader.retain(min((start for start in starts if start is not None), default=end))

    def _item(self, item: PlainRun | Ended) -> Iterator[Run]:
        if isinstance(item, Ended):
            yield from self._ended(item.group, item.outcome)
        elif self._filters.everything:
            yield self._counted(item)
        else:
            wanted, unknown_threads = self._filters.select(item)
            for run in wanted:
                meant = run if self._at is None else self._at.narrowed(run)
                if meant is not None:
                    yield self._counted(meant)
            if unknown_threads:
                self._ledger.warn(_NO_THREAD)

    def _counted(self, run: PlainRun) -> PlainRun:
        self._ledger.transactions[Outcome.COMMITTED] += run.groups
        return run

    # -- groups one by one ----------------------------------------------------------------------

    def _ended(self, group: Group, outcome: Outcome) -> Iterator[Transaction]:
        for sentence in group.warnings:
            self._ledger.warn(sentence)
        if outcome is Outcome.COMMITTED:
            statements = (*group.ddl, *group.truncates)
            if statements and (self._takes_all_ddl or self._wants(group)):
                for statement in statements:
                    self._on_ddl(statement)
        if group.decides is not None:
            yield from self._decided(group, *group.decides)
        elif outcome is Outcome.PREPARED and group.xid is not None:
            group.frames.release()
            self._prepared[group.xid] = group
            self._decided_here.discard(group.xid)
            self._ledger.transactions[Outcome.PREPARED] += self._wants(group)
        elif self._wants(group):
            yield from self._shown(group, outcome, group)

    def _wants(self, group: Group, rows: Group | None = None) -> bool:
        at = self._at
        if self._filters.wants(group) and (
            at is None or at.means(group) or (rows is not None and at.means(rows))
        ):
            return True
        if self._filters.thread_ids and group.thread_id is None:
            self._ledger.warn(_NO_THREAD)
        return False

    def _decided(self, group: Group, xid: Xid | None, outcome: Outcome) -> Iterator[Transaction]:
        """Show or count the prepared transaction of an XA COMMIT or XA ROLLBACK in a group of its
        own.
        """
        rows = self._prepared_as(xid) if xid is not None else None
        if rows is None:
            if self._wants(group):
                if outcome is Outcome.COMMITTED:
                    self._unshown(ORPHAN_XA_COMMIT, group)
                yield from self._shown(group, outcome, group)
            return
        self._ledger.transactions[Outcome.PREPARED] -= self._wants(rows)
        if self._wants(group, rows):
            yield from self._shown(rows, outcome, group)

    def _prepared_as(self, xid: Xid) -> Group | None:
        """Return the last group that this XID prepared, unless it has been decided since."""
        rows = self._prepared.pop(xid, None)
        if rows is None and xid not in self._decided_here and self._elsewhere is not None:
            rows = self._elsewhere.prepared_before(xid)
        self._decided_here.add(xid)
        return rows

    def _still_prepared(self) -> Iterator[Transaction]:
        if not self._options.uncommitted:
            return
        end = ChainPosition(self._ordinal, "", self.reached)
        for xid, group in self._prepared.items():
            decided = self._elsewhere is not None and self._elsewhere.decided_after(xid, end)
            if not decided and self._wants(group):
                yield self._transaction(group, Outcome.PREPARED, group)

    def _shown(self, rows: Group, outcome: Outcome, decider: Group) -> Iterator[Transaction]:
        """Count a wanted transaction, and yield it if transactions of its outcome are shown."""
        self._ledger.transactions[outcome] += 1
        shows_undone, has_undone = ROLLED_BACK_STATEMENT in self._shown_kinds, False
        for statement in rows.statements:
            if outcome is not Outcome.COMMITTED or statement.undone:
                if statement.kind in CHANGE_KINDS and not shows_undone:
                    self._unshown(ROLLED_BACK_STATEMENT, rows, statement.table)
                elif statement.kind in CHANGE_KINDS:
                    has_undone = True
            elif statement.kind in self._shown_kinds:
                continue
            elif statement.kind in CHANGE_KINDS or statement.kind == INCIDENT:
                self._unshown(statement.kind, rows, statement.table)
        is_shown = outcome is Outcome.COMMITTED or (outcome is Outcome.ROLLED_BACK and has_undone)
        if is_shown or self._options.uncommitted:
            yield self._transaction(rows, outcome, decider)

    def _unshown(self, kind: str, group: Group, table: TableName | None = None) -> None:
        """Count or refuse a change that rows cannot show; `table`: as in `Statement`.

        A change of other tables than the wanted ones is only counted, as far as its text names the
        tables.
        """
        of_others = self._is_of_others(kind, group, table)
        if self._options.on_unshown == "error" and not of_others:
            if table is None and (texts := [*group.ddl, *group.truncates]):
                changed = changed_tables(texts[0])
                table = changed[0] if changed else None
            raise IncompleteError(
                f"the log contains a change that rows cannot show: {kind}",
                file=group.start.file,
                event_pos=group.start.offset,
                hint=COUNT_UNSHOWN,
                table=table,
            )
        self._ledger.unshown[kind] += 1
        self._ledger.unshown_of_others += of_others

    def _is_of_others(self, kind: str, group: Group, table: TableName | None) -> bool:
        """Whether the statements of this kind in a group change no wanted table, or the one that changes `table`."""
        if not (self._options.table or self._options.exclude_table):
            return False
        if table is not None:
            return not self._tables.may_want(*table)
        if kind not in (DDL, TRUNCATE):
            return kind == ACCOUNT
        statements = [s for s in group.statements if s.kind in (DDL, TRUNCATE)]
        texts = [*group.ddl, *group.truncates]
        if len(statements) != len(texts):  # failed statements are not among them
            return False
        return not any(may_change_any(statement, self._tables) for statement in texts)

    def _transaction(self, rows: Group, outcome: Outcome, decider: Group) -> Transaction:
        undone = () if self._options.uncommitted else tuple(rows.undone)
        return transaction_of(rows, outcome, decider, undone)


#: The hint of the error for a change that rows cannot show.
COUNT_UNSHOWN = "use on_unshown=count to continue and count such changes"
_NO_THREAD = "option thread excluded transactions whose thread the log does not record"
