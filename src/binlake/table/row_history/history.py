"""Read the history of a row from logs: the one way for the Python API and the command.

    history = HistoryReader(chain, options, schema, ledger, "shop.orders", key).read()

The first reading finds the changes of rows with the key, and all changes of keys. If a row had other
keys, a second reading finds its changes under those. Columns that are not of the key are decoded only
for these rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from binlake.errors import OptionError, UnsupportedError
from binlake.source.bytes import pipe_in
from binlake.source.chain import Chain
from binlake.table.batches import Changes
from binlake.table.checks.ambiguous_name import ambiguous_name
from binlake.table.reading import read_changes
from binlake.table.row_history.entries import RowChange, RowHistory, TableStatement
from binlake.table.row_history.found import HistoryChange, HistoryChanges
from binlake.table.row_history.keys import KeyRows, RowKey
from binlake.table.row_history.lives import KeyChange, keys_of_others, lives_of, other_keys
from binlake.table.row_history.table_statements import StatementsOfTable, TableEnd
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.option_texts import parse_table_pattern, possible_names
from binlake.values.options import ReadOptions

#: Row changes, the columns of the key, and the databases and tables of the changes.
_Batch = tuple[list[HistoryChange], tuple[str, ...], frozenset[tuple[str, str]]]


def history_options(options: ReadOptions, table: str) -> ReadOptions:
    """Return the options that a history of a table is read with.

    Raises OptionError for a name that is not one table, and for options that choose changes by
    anything but their transaction.
    """
    try:
        parse_table_pattern(table)
        if set("*?") & set(table):
            raise ValueError("a history covers one table")
    except ValueError as error:
        raise OptionError(f"table {table!r}: {error}", name="table", value=table) from None
    for name in ("where", "op", "columns", "exclude_column"):
        if getattr(options, name):
            raise OptionError(
                f"option {name} cannot be combined with a history, which has all changes of a row",
                name=name,
            )
    return replace(
        options, table=(table,), exclude_table=(), query=True, thread_id=True, uncommitted=False
    )


class HistoryReader:
    """Reads the history of the row that has a key now, or had it before, or gets it later.

    `options` are those of `history_options`. After `read`, `places` has where the changes of the
    history are, by their number less 1; `rows` chooses them among others; `taken_keys` are keys that
    other rows have now. `change_bytes` is the memory of a change as an object, with the values of a few
    columns: the option max_memory limits the number of changes.
    """

    def __init__(
        self,
        chain: Chain,
        options: ReadOptions,
        schema: DeclaredSchema,
        ledger: Ledger,
        key: RowKey,
        change_bytes: int = 2048,
    ) -> None:
        self._change_bytes = change_bytes
        self.chain = chain
        self.options = options
        self.schema = schema
        self.ledger = ledger
        self._key = key
        self._name = options.table[0]
        self._tables: set[tuple[str, str]] = set()
        self.places: list[HistoryChange] = []
        self.rows = KeyRows(key, frozenset())
        self.taken_keys: frozenset[str] = frozenset()

    def read(
        self, seen: Callable[[Iterable[_Batch]], Iterable[_Batch]] = lambda batches: batches
    ) -> RowHistory:
        """Read the logs. `seen` receives the progress. Raises BinlogError."""
        statements = StatementsOfTable(self._name)
        found, names = self._found(seen, statements, None)
        others = other_keys([one.keys for one in found])
        if others and (pipe := pipe_in(self.chain.paths)) is not None:
            self.ledger.warn(
                f"the row had other keys, too; binlake cannot follow them: {pipe} can be read only once"
            )
        elif others:
            self.rows = KeyRows(self._key, others)
            first = self.ledger.take()
            found, _ = self._found(seen, StatementsOfTable(self._name), others)
            for sentence in first.warnings:
                self.ledger.warn(sentence)
        else:
            found = [one for one in found if one.keys.had or one.keys.has]
        database, table = self._database_and_table()
        self.places = []
        changes: list[tuple[tuple[int, ...], RowChange]] = []
        keys = [one.keys for one in found]
        lives = self._lives(found, keys, statements.ends_of(database, table))
        self.taken_keys = keys_of_others(keys, lives)
        for one, life in zip(found, lives, strict=True):
            if life and one.change is not None:
                self.places.append(one)
                number = len(self.places)
                changes.append((one.order, replace(one.change, number=number, life=life)))
        entries = _merged(changes, statements.of(database, table))
        return RowHistory(database, table, self._asked(names), tuple(entries))

    def _lives(
        self, found: Sequence[HistoryChange], keys: Sequence[KeyChange], ends: Sequence[TableEnd]
    ) -> list[int]:
        """The rows of changes, by number. Warns where an end of the table that is not certain makes a difference."""
        orders = [one.order[:2] for one in found]
        certain = [bisect_left(orders, end.place) for end in ends if not end.doubt]
        others = [end for end in ends if end.doubt]
        indices = [bisect_left(orders, end.place) for end in others]
        unbroken = lives_of(keys, certain)

        def breaks(count: int) -> bool:
            return lives_of(keys, certain + indices[:count]) != unbroken

        # An end only divides rows, so the first ones that make a difference are found by bisection.
        count = bisect_left(range(len(others) + 1), True, key=breaks)
        if count > len(others):
            return unbroken
        first = others[count - 1]
        self.ledger.warn(
            f"{first.statement.place}: binlake cannot know whether {self._name} is the same table after this"
            f" statement: {first.doubt}. The history counts the rows after it as other rows"
        )
        return lives_of(keys, certain + indices)

    def _database_and_table(self) -> tuple[str, str]:
        """The database and the table of the changes. Raises OptionError if the name means several."""
        if len(self._tables) > 1:
            raise ambiguous_name(
                "the logs contain changes of",
                sorted(self._tables),
                "read logs with changes of only one of them",
            )
        return next(iter(self._tables), possible_names(self._name)[0])

    def _found(
        self,
        seen: Callable[[Iterable[_Batch]], Iterable[_Batch]],
        statements: StatementsOfTable,
        others: frozenset[str] | None,
    ) -> tuple[list[HistoryChange], tuple[str, ...]]:
        rows = HistoryChanges(self._key, self.ledger.warn, all_rows=others is not None)

        most = self.options.max_memory // self._change_bytes

        def shape(changes: Changes) -> _Batch:
            _refuse_more(changes.count, most)
            definitions = [table.types.definition for table in changes.tables]
            tables = frozenset((one.database, one.table) for one in definitions)
            return rows.of(changes), rows.names(changes.tables[-1].types), tables

        batches = read_changes(
            [self.chain], self.options, self.ledger, Target.TEXT, self.schema, shape,
            watched=statements.watch, rows=KeyRows(self._key, others),
        )  # fmt: skip
        found: list[HistoryChange] = []
        names: tuple[str, ...] = ()
        for batch, names, tables in seen(batches):  # noqa: B007 (the newest definition names the key)
            found += batch
            self._tables |= tables
            _refuse_more(len(found), most)
        return found, names

    def _asked(self, names: Sequence[str]) -> dict[str, Any]:
        return dict(zip(names or self._key.columns, self._key.values, strict=False))


def _refuse_more(count: int, most: int) -> None:
    if count > most:
        raise UnsupportedError(
            f"the row, and rows that changed their keys, have more than {most:,} changes together",
            hint="read less of the log (since, until), or set the option max_memory to more",
        )


def _merged(
    changes: Sequence[tuple[tuple[int, ...], RowChange]],
    statements: dict[tuple[int, int], TableStatement],
) -> Iterator[RowChange | TableStatement]:
    """The changes, and the statements on the table from the first change on: up to the last change,
    or as long as a row is left.
    """
    waiting = deque(sorted(statements.items()))
    left: set[int] = set()
    for number, (order, change) in enumerate(changes):
        while waiting and waiting[0][0] < order[:2]:
            statement = waiting.popleft()[1]
            if number:
                yield statement
                left = set() if statement.ends_rows else left
        left = left - {change.life} if change.op == "delete" else left | {change.life}
        yield change
    while waiting and left:
        statement = waiting.popleft()[1]
        yield statement
        left = set() if statement.ends_rows else left
