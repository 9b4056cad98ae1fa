"""Transactions as pages of a list, and one with its statements and row changes; JSON-ready."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from threading import Event
from typing import Any

import pyarrow.compute as pc

from binlake.errors import OptionError
from binlake.source.arrays import scalar
from binlake.source.chain import Chain
from binlake.stream.log_reader import LogReader
from binlake.stream.sql.redaction import without_passwords
from binlake.stream.views import VIEWS, statements, transaction_rows
from binlake.table.batches import OPERATIONS
from binlake.table.counting.counted import CountedBatch
from binlake.table.counting.row_counts import RowCounter
from binlake.table.counting.run_counts import RunCounter
from binlake.ui.change_objects import MOST_ROWS, row_objects
from binlake.ui.opened_logs import LogSession, stoppable
from binlake.ui.request_options import Selection
from binlake.values.ledger import Ledger
from binlake.values.option_texts import parse_file_position
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition
from binlake.values.times import utc_text

PAGE_TRANSACTIONS = 50
_MOST_STATEMENTS = 200
_SQL_CHARACTERS = 20_000


def transaction_page(
    session: LogSession, selection: Selection, after: str, stop: Event
) -> dict[str, Any]:
    """Return the transactions of a selection, in the order of the log, from the position `after` on
    ("" is the beginning). `next` is where the next page begins, None after the last.

    Raises BinlogError, Stopped.
    """
    if selection.where is not None:
        raise OptionError("a condition selects row changes, not transactions", name="where")
    ledger = Ledger()
    found = list(
        islice(_transactions(session, selection, after, ledger, stop), PAGE_TRANSACTIONS + 1)
    )
    following = found[PAGE_TRANSACTIONS] if len(found) > PAGE_TRANSACTIONS else None
    return {
        "transactions": found[:PAGE_TRANSACTIONS],
        "next": following and f"{following['file']}:{following['pos']}",
        "remarks": ledger.remarks() if following is None else [],
    }


def _transactions(
    session: LogSession, selection: Selection, after: str, ledger: Ledger, stop: Event
) -> Iterator[dict[str, Any]]:
    place = _position(after)
    for chain, options in session.parts(selection):
        if place is not None:
            if not _is_in(place, chain):
                continue
            options = replace(options, start=place)
            place = None  # the chains that follow are read from their beginning
        for reader in LogReader.of_chains([chain], options, ledger):
            counter = RunCounter(options, ledger)
            for run in stoppable(stop)(reader.runs(counter.on_ddl)):
                for batch in counter.add(run):
                    yield from _rows(batch)
            for batch in counter.finish():
                yield from _rows(batch)


def _position(text: str) -> FilePosition | None:
    if not text:
        return None
    try:
        return parse_file_position(text)
    except ValueError as error:
        raise OptionError(f"after {text!r}: {error}", name="after", value=text) from None


def _is_in(position: FilePosition, chain: Chain) -> bool:
    return position.file in chain.names and position.directory in ("", chain.source)


def _rows(batch: CountedBatch) -> Iterator[dict[str, Any]]:
    """Yield the transactions of a batch, a slice of a page at a time."""
    count = batch.transactions.num_rows
    order = pc.sort_indices(batch.changes["transaction"])
    changes = batch.changes.take(order)
    for low in range(0, count, PAGE_TRANSACTIONS):
        rows = batch.transactions.slice(low, PAGE_TRANSACTIONS).to_pylist()
        mine = changes.filter(
            pc.and_(
                pc.greater_equal(changes["transaction"], scalar(low)),
                pc.less(changes["transaction"], scalar(low + len(rows))),
            )
        )
        by_row: list[list[dict[str, int]]] = [[] for _ in rows]
        for change in mine.to_pylist():
            by_row[change["transaction"] - low].append(change)
        for row, found in zip(rows, by_row, strict=True):
            yield _transaction(row, found, batch.tables)


def _transaction(
    row: dict[str, Any], changes: list[dict[str, int]], names: tuple[str, ...]
) -> dict[str, Any]:
    counts = dict.fromkeys((f"{op}s" for op in OPERATIONS), 0)
    tables: dict[str, dict[str, int]] = {}
    for change in changes:
        op = f"{OPERATIONS[change['op']]}s"
        counts[op] += change["rows"]
        of_table = tables.setdefault(names[change["table"]], dict.fromkeys(counts, 0))
        of_table[op] += change["rows"]
    return {
        "file": row["file"],
        "pos": row["pos"],
        "end_pos": row["end_pos"],
        "bytes": row["bytes"],
        "commit_ts": utc_text(row["commit_us"]),
        "duration_us": row["duration_us"],
        "server_id": row["server_id"],
        "thread_id": row["thread_id"],
        "gtid": row["gtid"],
        **(counts if row["counted"] else dict.fromkeys(counts)),
        "tables": dict(sorted(tables.items())),
    }


def one_transaction(session: LogSession, at: str, offset: int, stop: Event) -> dict[str, Any]:
    """Return the transaction at a position or with a GTID: its facts, statements, and the row
    changes from number `offset` on.

    Raises BinlogError, Stopped.
    """
    options = options_of_one(session.options, at)
    chains = session.meant(options)
    if len(chains) > 1:
        raise OptionError(f"several sources may have the transaction {at}", name="at", value=at)
    ledger = Ledger()
    facts = _facts(chains[0], options, stop)
    if facts is None:
        raise OptionError(f"the logs have no transaction {at}", name="at", value=at)
    # its first byte is known now: `at` could also mean the one that ends there
    name = facts["file"].rpartition("/")[2]
    start, stop_at = (FilePosition(name, facts["pos"] + more) for more in (0, 1))
    options = replace(options, at=None, start=start, stop=stop_at, query=True)
    said, more = _statements(chains[0], options, stop)
    changes = session.changes(chains[0], options, ledger, stop)
    with closing(changes):
        rows, more_rows = row_objects(changes, options, offset, MOST_ROWS)
    return {
        **facts,
        "statements": said,
        "more_statements": more,
        "offset": offset,
        "rows": rows,
        "more_rows": more_rows,
        "remarks": ledger.remarks(),
    }


def options_of_one(base: ReadOptions, at: str) -> ReadOptions:
    """Return the options of a read of one transaction, whatever the filters of the command are."""
    parsed = ReadOptions.parse({"at": at})
    return replace(base.unfiltered(), source=base.source, table=(), at=parsed.at)


def _facts(chain: Chain, options: ReadOptions, stop: Event) -> dict[str, Any] | None:
    ledger = Ledger()
    view = VIEWS["transactions"]
    for reader in LogReader.of_chains([chain], options, ledger):
        counter = RowCounter(options, ledger)
        found = stoppable(stop)(reader.transactions(counter.on_ddl))
        for row in transaction_rows(found, counter, options):
            facts = {column.name: column.value(row) for column in view.columns}
            for name in ("commit_ts", "original_commit_ts"):
                facts[name] = utc_text(facts[name])
            facts["duration_us"] = facts.pop("duration")
            facts["file"] = row.transaction.file.shown
            facts["tables"] = list(facts["tables"])
            for name in ("xid", "commit_id"):  # 64 bits: more than a number of JavaScript holds
                facts[name] = None if facts[name] is None else str(facts[name])
            return facts
    return None


def _statements(
    chain: Chain, options: ReadOptions, stop: Event
) -> tuple[list[dict[str, Any]], bool]:
    """Return the statements of the first transaction, and whether there are more."""
    columns = {column.name: column.value for column in VIEWS["statements"].columns}
    wanted = ("ts", "user", "database", "sql", "kind", "error_code", "thread_id", "file", "pos")
    found: list[dict[str, Any]] = []
    for reader in LogReader.of_chains([chain], options, Ledger()):
        # the reader would go on to the end of the log
        for row in statements(islice(stoppable(stop)(reader.groups()), 1)):
            if len(found) == _MOST_STATEMENTS:
                return found, True
            entry = {name: columns[name](row) for name in wanted}
            if entry["sql"] is None:
                continue
            entry["ts"] = utc_text(entry["ts"])
            entry["cut"] = len(entry["sql"]) > _SQL_CHARACTERS
            entry["sql"] = without_passwords(entry["sql"][:_SQL_CHARACTERS])
            found.append(entry)
    return found, False
