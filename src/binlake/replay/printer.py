"""Prints the events of a log as text that a `mysql` client replays, in the flavour's own words.

    printer = MysqlPrinter(options, write, load_files, warn)
    printer.begin()
    for event in log_events: printer.show(event)
    printer.end()

MySQL logs come out as MySQL's mysqlbinlog prints them, MariaDB logs as mariadb-binlog does. There is one
short method for each type of event. The printers of the flavours override methods, and add those for
events that only their server prints.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from binlake.core.text.event_kinds import KindTable
from binlake.core.text.replay_lines import base64_lines
from binlake.core.text.replay_text import ReplayText
from binlake.errors import FormatError
from binlake.events.base import Event
from binlake.events.body.encoding import encode_event
from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.format_description import FormatDescriptionEvent
from binlake.events.common.incident import IncidentEvent
from binlake.events.common.load_blocks import FileBlockEvent, LoadedFileEvent
from binlake.events.common.query import QueryEvent
from binlake.events.common.rotate import RotateEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.statement_context import IntvarEvent, RandEvent
from binlake.events.common.stop import StopEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.common.user_var import UserVarEvent
from binlake.events.common.xa_prepare import XaPrepareEvent
from binlake.events.common.xid import XidEvent
from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mariadb.binlog_checkpoint import BinlogCheckpointEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mariadb.partial_row_data import PartialRowDataEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.events.mysql.tagged_gtid import GtidTaggedEvent
from binlake.events.mysql.transaction_payload import COMPRESSIONS, TransactionPayloadEvent
from binlake.events.old.load_data import CreateFileEvent, LoadEvent
from binlake.events.old.start_v3 import StartV3Event
from binlake.format import flags
from binlake.format.event_types import (
    EVENT_TYPES,
)
from binlake.printable import printable, printable_bytes
from binlake.replay.event_text import (
    END,
    clock_text,
)
from binlake.replay.load_printer import LoadPrinter
from binlake.replay.row_events import rows_flags_text, table_name
from binlake.replay.shown import Shown, shown_event
from binlake.replay.statement_events import (
    ends_group,
    starts_group,
    xa_prepare_text,
)
from binlake.stream.log_events import LogEvent

_ROWS_WORDS = {"insert": "Write_rows", "update": "Update_rows", "delete": "Delete_rows"}


class Printer(LoadPrinter):
    """The common part of both flavours' printers."""

    def show(self, log_event: LogEvent) -> None:
        """Print one event. Raises BinlogError."""
        shown = shown_event(log_event)
        if log_event.inner is None:
            self._leave_payload()
        self._log = log_event
        event = shown.event
        self._before(event)
        self._at(shown.at)
        method = getattr(self, _METHODS.get(type(event), ""), None)
        if method is None:
            self._unknown(shown)
        else:
            method(shown, event)

    # -- what core.replay_text writes in the printer's place

    @property
    def is_between_statements(self) -> bool:
        """Whether no event is waiting for a later one."""
        return not (self.statement.is_open or self._variables or self._inside_payload)

    @property
    def wants_changes(self) -> bool:
        """Whether row changes are decoded: to be shown, or to be counted."""
        return self._decodes_rows or self._counts_rows

    @abstractmethod
    def replay_text(self, table: KindTable) -> ReplayText:
        """The compiled writer of plain events in the flavour's format."""

    def lend(self, text: ReplayText) -> None:
        """Return the session state before the next events."""
        text.in_transaction = self.in_transaction

    def take_back(self, text: ReplayText) -> None:
        """Set the session state to that after the written events."""
        self.in_transaction = text.in_transaction

    def _write_start(
        self, shown: Shown, event: FormatDescriptionEvent | StartV3Event, created: int
    ) -> None:
        server = f"binlog v {event.binlog_version}, server v {printable(event.server_version)}"
        startup = " at startup" if event.created else ""
        words = f"\tStart: {server} created {clock_text(created)}{startup}\n"
        self.write(self.header(shown, words.encode()))

    def _format(self, shown: Shown, event: FormatDescriptionEvent) -> None:
        self._write_start(shown, event, shown.frame.timestamp)
        if event.frame.flags & flags.LOG_EVENT_BINLOG_IN_USE_F and not self.options.short_form:
            self.write(b"# Warning: this binlog is either in use or was not closed properly.\n")
        if event.created and not event.frame.flags & flags.LOG_EVENT_ARTIFICIAL_F:
            self.write(b"ROLLBACK" + END)  # a crash before the start ended all transactions
        if self.options.prints_base64:
            self.write(b"BINLOG '\n" + base64_lines(shown.raw) + b"'" + END)

    def _start_v3(self, shown: Shown, event: StartV3Event) -> None:
        self._write_start(shown, event, event.created or shown.frame.timestamp)
        if event.created:
            self.write(b"ROLLBACK" + END)

    def _rotate(self, shown: Shown, event: RotateEvent) -> None:
        self.write(
            self.header(
                shown, f"\tRotate to {printable(event.next_file)}  pos: {event.position}\n".encode()
            )
        )

    def _stop(self, shown: Shown, _event: StopEvent) -> None:
        self.write(self.header(shown, b"\tStop\n"))

    def _query(self, shown: Shown, event: QueryEvent) -> None:
        database = self.options.renamed(event.database)
        if self._is_hidden(event):
            self._pass_over(event.database)
            return
        self._flush_variables()
        compressed = EVENT_TYPES[event.frame.type_code].compressed
        self._print_query(shown, event, b"\tQuery" + b"_compressed" * compressed, database)
        self._print_statement(shown, event)
        if ends_group(event):
            self._group_ends()
        elif starts_group(event):
            self.in_transaction = True
        elif not self.in_transaction:
            self._group_ends()

    def _print_statement(self, shown: Shown, event: QueryEvent) -> None:
        self._print_sql(event.sql_raw, shown.format.flavour)

    @abstractmethod
    def _variable(self, shown: Shown, event: Event) -> None:
        """The variables of the next statement."""

    def _xid(self, shown: Shown, event: XidEvent) -> None:
        self.write(self.header(shown, f"\tXid = {event.xid}\n".encode()) + b"COMMIT" + END)
        self._group_ends()

    def _xa_prepare(self, shown: Shown, event: XaPrepareEvent) -> None:
        words = f"\t{self.xa_word} {event.xid}\n".encode()
        self.write(self.header(shown, words) + xa_prepare_text(event) + b"\n" + END)
        self._group_ends()

    # -- rows

    def _table_map(self, shown: Shown, event: TableMapEvent) -> None:
        if not self._shows(event.database):
            self.hidden_tables.add(event.table_id)
            return
        self.hidden_tables.discard(event.table_id)
        shown = self._renamed(shown, event)
        words = b"\tTable_map: " + self._name_in_comment(event)
        words += f" mapped to number {event.table_id}".encode()
        self._print_table_map(shown, event, words)
        self.statement.add(shown)
        if self._decodes_rows or self._counts_rows:
            log = self._place
            self.pseudo.take_table(log.window, log.index)

    def _name_in_comment(self, event: TableMapEvent) -> bytes:
        return printable_bytes(table_name(event, self.options))

    @property
    def _decodes_rows(self) -> bool:
        return bool(self.options.verbose) and not self.options.short_form

    @property
    def _counts_rows(self) -> bool:
        return False

    def _renamed(self, shown: Shown, event: TableMapEvent) -> Shown:
        """The event with its database renamed, also in what the server gets."""
        database = self.options.renamed(event.database)
        if database == event.database:
            return shown
        renamed = replace(event, description=replace(event.description, database=database))
        return shown._replace(raw=encode_event(renamed, shown.format))

    @abstractmethod
    def _print_table_map(self, shown: Shown, event: TableMapEvent, words: bytes) -> None:
        """The comment about a table."""

    def _rows(self, shown: Shown, event: RowsEvent) -> None:
        if event.table_id in self.hidden_tables:
            if event.is_statement_end:
                self._statement_ends()
            return
        self._refuse_rows()
        words = f"\t{self._rows_word(event)}: table id {event.table_id}"
        words += rows_flags_text(event.flags, shown.format.flavour)
        self._print_rows(shown, words.encode() + b"\n")
        self.statement.add(shown)
        if self._decodes_rows or self._counts_rows:
            self._decode(event)
        if event.is_statement_end:
            self._statement_ends()

    def _decode(self, event: RowsEvent) -> None:
        """Count row changes, and comment them if wanted.

        A value that cannot be decoded does not suppress the statement: a server can still apply it.
        """
        log = self._place
        try:
            for changes in self.pseudo.changes(log.window, log.index, event):
                self.statement.rows += changes.rows
                if self._decodes_rows:
                    self.statement.add_comments(changes.comments)
        except FormatError as error:
            if self._decodes_rows:
                self.warn(str(error.at(file=log.file, event_pos=log.pos)))
                self.statement.add_comments(f"### {printable(error.message)}\n".encode())

    def _refuse_rows(self) -> None:
        """Print the message of MySQL's tool: with --base64-output=never rows cannot be printed."""

    def _statement_ends(self) -> None:
        self.hidden_tables.clear()
        if self.statement.is_open:
            self.statement.finish(self.write)

    def _rows_word(self, event: RowsEvent) -> str:
        return _ROWS_WORDS[event.operation]

    def _fragment(self, shown: Shown, event: PartialRowDataEvent) -> None:
        """A piece of a rows event; after the last, that event as if it had been in the log.

        A server of any version takes the whole event.
        """
        words = f"\tPartial_row_data: {event.sequence} of {event.total}\n"
        self.write(self.header(shown, words.encode()))
        place = self._place
        whole = self._fragments.add(place.window, place.index)
        if whole is None:
            return
        self._log = LogEvent(whole.window, 0, place.checksum, None, None)
        joined = shown_event(self._log)
        assert isinstance(joined.event, RowsEvent), "that is what fragments join to"
        self._rows(joined._replace(at=shown.at, end_log_pos=shown.end_log_pos), joined.event)

    @abstractmethod
    def _print_rows(self, shown: Shown, words: bytes) -> None:
        """The comment about row changes."""

    # -- others

    def _incident(self, shown: Shown, event: IncidentEvent) -> None:
        words = f"\n# Incident: {event.incident}\nRELOAD DATABASE; # Shall generate syntax error\n"
        self.write(self.header(shown, words.encode()))

    def _payload(self, shown: Shown, event: TransactionPayloadEvent) -> None:
        words = f"\tTransaction_Payload\t\tpayload_size={event.payload_size}"
        words += f"\tcompression_type={COMPRESSIONS.get(event.compression, event.compression)}"
        words += f"\tuncompressed_size={event.uncompressed_size}\n"
        if not self.options.short_form:
            self.write(self.header(shown, words.encode()) + b"# Start of compressed events.\n")
        self._inside_payload = True

    def _unknown(self, shown: Shown) -> None:
        """Report an event without a text form if it may change data."""
        event = shown.event
        ignorable = shown.frame.flags & flags.LOG_EVENT_IGNORABLE_F
        if shown.frame.type_code not in EVENT_TYPES and not ignorable:
            place = self._place
            self.warn(f"{event.name} at {place.file}:{place.pos} has no text, and is left out")
        name = shown.event.name.removesuffix("_EVENT").capitalize()
        self.write(self.header(shown, f"\t{name}\n".encode()))


# A printer without the method prints only the name of the event.
_METHODS: dict[type[Event], str] = {
    FormatDescriptionEvent: "_format",
    StartV3Event: "_start_v3",
    RotateEvent: "_rotate",
    StopEvent: "_stop",
    QueryEvent: "_query",
    IntvarEvent: "_variable",
    RandEvent: "_variable",
    UserVarEvent: "_variable",
    XidEvent: "_xid",
    XaPrepareEvent: "_xa_prepare",
    TableMapEvent: "_table_map",
    RowsEvent: "_rows",
    PartialRowDataEvent: "_fragment",
    AnnotateRowsEvent: "_annotate",
    RowsQueryEvent: "_rows_query",
    FileBlockEvent: "_block",
    LoadedFileEvent: "_loaded_file",
    LoadEvent: "_old_load",
    CreateFileEvent: "_create_file",
    ExecuteLoadQueryEvent: "_execute_load",
    IncidentEvent: "_incident",
    TransactionPayloadEvent: "_payload",
    PreviousGtidsEvent: "_previous_gtids",
    GtidEvent: "_gtid",
    GtidTaggedEvent: "_gtid",
    MariadbGtidEvent: "_mariadb_gtid",
    GtidListEvent: "_gtid_list",
    BinlogCheckpointEvent: "_checkpoint",
}
