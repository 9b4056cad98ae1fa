"""Prints the events of a log as text that a `mysql` client replays, in the flavour's own words.

    printer = MysqlPrinter(options, write, load_files, warn)
    printer.begin()
    for event in log_events: printer.show(event)
    printer.end()

MySQL logs come out as MySQL's mysqlbinlog prints them, MariaDB logs as mariadb-binlog does. Long,
because it has one short method for each type of event, which the flavours' printers override.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from binlake.errors import FormatError
from binlake.events.annotate_rows import AnnotateRowsEvent
from binlake.events.base import Event
from binlake.events.binlog_checkpoint import BinlogCheckpointEvent
from binlake.events.encoding import encode_event
from binlake.events.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.format_description import FormatDescriptionEvent
from binlake.events.gtid_list import GtidListEvent
from binlake.events.gtid_mariadb import MariadbGtidEvent
from binlake.events.gtid_mysql import GtidEvent
from binlake.events.gtid_tagged import GtidTaggedEvent
from binlake.events.incident import IncidentEvent
from binlake.events.load_blocks import FileBlockEvent, LoadedFileEvent
from binlake.events.load_data import CreateFileEvent, LoadEvent
from binlake.events.partial_row_data import PartialRowDataEvent
from binlake.events.previous_gtids import PreviousGtidsEvent
from binlake.events.query import QueryEvent
from binlake.events.rotate import RotateEvent
from binlake.events.rows import RowsEvent
from binlake.events.rows_query import RowsQueryEvent
from binlake.events.start_v3 import StartV3Event
from binlake.events.statement_context import IntvarEvent, RandEvent
from binlake.events.stop import StopEvent
from binlake.events.table_map import TableMapEvent
from binlake.events.transaction_payload import TransactionPayloadEvent
from binlake.events.user_var import UserVarEvent
from binlake.events.xa_prepare import XaPrepareEvent
from binlake.events.xid import XidEvent
from binlake.format.event_types import (
    BEGIN_LOAD_QUERY_EVENT,
    DELETE_FILE_EVENT,
    EVENT_TYPES,
)
from binlake.format.flags import (
    LOG_EVENT_ARTIFICIAL_F,
    LOG_EVENT_BINLOG_IN_USE_F,
    LOG_EVENT_IGNORABLE_F,
)
from binlake.replay.load_files import LoadFiles
from binlake.replay.old_load import old_load_statement
from binlake.replay.rows import PseudoSql, RowStatement, rows_flags_text, table_name
from binlake.replay.session import Session, is_transaction_word
from binlake.replay.shown import Shown, shown_event
from binlake.replay.statements import (
    ends_group,
    intvar_text,
    load_statement,
    rand_text,
    starts_group,
    statement_text,
    user_variable,
    xa_prepare_text,
)
from binlake.replay.text import (
    DELIMITER,
    TextOptions,
    base64_lines,
    clock_text,
)
from binlake.stream.log_events import LogEvent

__all__ = ["END", "Printer"]

#: Ends a statement and its line.
END = DELIMITER + b"\n"
_ROWS_WORDS = {"insert": "Write_rows", "update": "Update_rows", "delete": "Delete_rows"}


class Printer:
    """What both flavours have in common. `write` takes bytes; `warn` a sentence for the user."""

    session_class: ClassVar[type[Session]] = Session
    hex_literal: ClassVar[str]
    xa_word: ClassVar[str]

    def __init__(
        self,
        options: TextOptions,
        write: Callable[[bytes], object],
        load_files: LoadFiles,
        warn: Callable[[str], None],
    ) -> None:
        self.options = options
        self.write = write
        self.load_files = load_files
        self.warn = warn
        self.session = self.session_class(short_form=options.short_form)
        self.statement = RowStatement(options)
        self.pseudo = PseudoSql(options, lambda event: table_name(event, options))
        self.hidden_tables: set[int] = set()
        self.in_transaction = False
        self._variables: list[Shown] = []
        self._old_loads: dict[int, LoadEvent] = {}
        self._inside_payload = False
        self._log: LogEvent | None = None

    # -- the frame of it all

    def begin(self) -> None:
        """What comes before all events."""
        for line in self._preamble():
            self.write(line)
        self.write(b"DELIMITER /*!*/;\n")

    def _preamble(self) -> Iterator[bytes]:
        yield b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n"
        yield from self._own_preamble()
        if self.options.disable_log_bin:
            yield b"/*!32316 SET @OLD_SQL_LOG_BIN=@@SQL_LOG_BIN, SQL_LOG_BIN=0*/;\n"
        yield b"/*!50003 SET @OLD_COMPLETION_TYPE=@@COMPLETION_TYPE,COMPLETION_TYPE=0*/;\n"
        if self.options.set_charset:
            yield b"\n"
            for name in _CHARSET_VARIABLES:
                yield f"/*!40101 SET @OLD_{name}=@@{name} */;\n".encode()
            yield f"/*!40101 SET NAMES {self.options.set_charset} */;\n".encode()

    def _own_preamble(self) -> Iterator[bytes]:
        yield from ()

    def end(self) -> None:
        """What comes after all events, also when reading them ended in an error."""
        self.end_file()
        self.write(b"DELIMITER ;\n# End of log file\n")
        self._end_torn()
        self.write(b"/*!50003 SET COMPLETION_TYPE=@OLD_COMPLETION_TYPE*/;\n")
        if self.options.disable_log_bin:
            self.write(b"/*!32316 SET SQL_LOG_BIN=@OLD_SQL_LOG_BIN*/;\n")
        if self.options.set_charset:
            for name in _CHARSET_VARIABLES:
                self.write(f"/*!40101 SET {name}=@OLD_{name} */;\n".encode())
        self.write(b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=0*/;\n")

    def _end_torn(self) -> None:
        """What undoes a transaction that has no end."""

    def next_file(self) -> None:
        """The next log of the chain begins."""
        self.end_file()

    def end_file(self) -> None:
        """A log ends: what it began and did not end is closed."""
        self._leave_payload()
        if self.statement.is_open:
            self.warn(
                "the events end inside a statement of row changes, which is left out: its last"
                " part is missing"
            )
            self.statement.drop(self.write)
        if self._variables:
            self.warn("the events end before the statement that a variable was set for")
            self._variables = []

    # -- events

    def show(self, log_event: LogEvent) -> None:
        """Print one event. Raises BinlogError."""
        shown = shown_event(log_event)
        if log_event.inner is None:
            self._leave_payload()
        self._log = log_event
        event = shown.event
        self._before(event)
        self._at(shown.at)
        method = _METHODS.get(type(event))
        if method is None:
            self._unknown(shown)
        else:
            getattr(self, method)(shown, event)

    def hide(self, log_event: LogEvent) -> None:
        """Pass over an event whose GTID leaves it out."""

    def _before(self, event: Event) -> None:
        """What has to be said before an event's place is."""

    def _at(self, position: int) -> None:
        if not self.options.short_form:
            self.write(f"# at {position}\n".encode())

    def _leave_payload(self) -> None:
        if self._inside_payload:
            self._inside_payload = False
            if not self.options.short_form:
                self.write(b"# End of compressed events.\n")

    def header(self, shown: Shown, words: bytes) -> bytes:
        """The comment about an event: its header, its bytes if wanted, and `words`."""
        if self.options.short_form:
            return b""
        dump = b"".join(self._dump(shown)) if self.options.hexdump else b""
        return shown.line() + dump + words

    def _dump(self, shown: Shown) -> Iterator[bytes]:
        raise NotImplementedError

    def _format(self, shown: Shown, event: FormatDescriptionEvent) -> None:
        created = clock_text(shown.frame.timestamp)
        words = f"\tStart: binlog v {event.binlog_version}, server v {event.server_version}"
        words += f" created {created}"
        words += " at startup\n" if event.created else "\n"
        self.write(self.header(shown, words.encode()))
        if event.frame.flags & LOG_EVENT_BINLOG_IN_USE_F and not self.options.short_form:
            self.write(b"# Warning: this binlog is either in use or was not closed properly.\n")
        if event.created and not event.frame.flags & LOG_EVENT_ARTIFICIAL_F:
            self.write(b"ROLLBACK" + END)  # a crash before the start ended all transactions
        if self.options.prints_base64:
            self.write(b"BINLOG '\n" + base64_lines(shown.raw) + b"'" + END)

    def _start_v3(self, shown: Shown, event: StartV3Event) -> None:
        words = f"\tStart: binlog v {event.binlog_version}, server v {event.server_version}"
        words += f" created {clock_text(event.created or shown.frame.timestamp)}"
        words += " at startup\n" if event.created else "\n"
        self.write(self.header(shown, words.encode()))
        if event.created:
            self.write(b"ROLLBACK" + END)

    def _rotate(self, shown: Shown, event: RotateEvent) -> None:
        self.write(
            self.header(shown, f"\tRotate to {event.next_file}  pos: {event.position}\n".encode())
        )

    def _stop(self, shown: Shown, _event: StopEvent) -> None:
        self.write(self.header(shown, b"\tStop\n"))

    def _query(self, shown: Shown, event: QueryEvent) -> None:
        database = self.options.renamed(event.database)
        if self._is_hidden(event):
            self._variables = []
            return
        self._flush_variables()
        compressed = EVENT_TYPES[event.frame.type_code].compressed
        self._say_query(shown, event, b"\tQuery" + b"_compressed" * compressed, database)
        self._say_statement(shown, event)
        if ends_group(event):
            self._group_ends()
        elif starts_group(event):
            self.in_transaction = True
        elif not self.in_transaction:
            self._group_ends()

    def _say_statement(self, shown: Shown, event: QueryEvent) -> None:
        self.write(statement_text(event))

    def _is_hidden(self, event: QueryEvent) -> bool:
        """Whether a statement is of a database that is not shown."""
        if is_transaction_word(event):
            return False
        return not self.options.shows(self.options.renamed(event.database))

    def _group_ends(self) -> None:
        self.in_transaction = False

    def _say_query(self, shown: Shown, event: QueryEvent, name: bytes, database: str) -> None:
        words = f"\tthread_id={event.thread_id}\texec_time={event.exec_time}"
        words += f"\terror_code={event.error_code}{self._xid_word(event)}\n"
        self.write(self.header(shown, name + words.encode()))
        for line in self.session.prepare(event, database):
            self.write(line)

    def _xid_word(self, event: QueryEvent) -> str:
        raise NotImplementedError

    def _variable(self, shown: Shown, event: Event) -> None:
        raise NotImplementedError

    def _flush_variables(self) -> None:
        for shown in self._variables:
            self._say_variable(shown)
        self._variables = []

    def _say_variable(self, shown: Shown) -> None:
        event = shown.event
        if isinstance(event, IntvarEvent):
            self.write(self.header(shown, b"\tIntvar\n") + intvar_text(event))
        elif isinstance(event, RandEvent):
            self.write(self.header(shown, b"\tRand\n") + rand_text(event))
        elif isinstance(event, UserVarEvent):
            self._say_user_variable(shown, event)

    def _say_user_variable(self, shown: Shown, event: UserVarEvent) -> None:
        self.write(self.header(shown, b"\tUser_var\n"))
        self.write(user_variable(event, self.hex_literal, shown.format.flavour))

    def _xid(self, shown: Shown, event: XidEvent) -> None:
        self.write(self.header(shown, f"\tXid = {event.xid}\n".encode()) + b"COMMIT" + END)
        self._group_ends()

    def _xa_prepare(self, shown: Shown, event: XaPrepareEvent) -> None:
        words = f"\t{self.xa_word} {event.xid}\n".encode()
        self.write(self.header(shown, words) + xa_prepare_text(event) + b"\n" + END)
        self._group_ends()

    # -- rows

    def _table_map(self, shown: Shown, event: TableMapEvent) -> None:
        if not self.options.shows(self.options.renamed(event.database)):
            self.hidden_tables.add(event.table_id)
            return
        self.hidden_tables.discard(event.table_id)
        shown = self._renamed(shown, event)
        words = b"\tTable_map: " + self._name_in_comment(event)
        words += f" mapped to number {event.table_id}".encode()
        self._say_table_map(shown, event, words)
        self.statement.add(shown)
        if self._decodes_rows or self._counts_rows:
            log = self._place
            self.pseudo.take_table(log.window, log.index)

    def _name_in_comment(self, event: TableMapEvent) -> bytes:
        return table_name(event, self.options)

    @property
    def _place(self) -> LogEvent:
        assert self._log is not None
        return self._log

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

    def _say_table_map(self, shown: Shown, event: TableMapEvent, words: bytes) -> None:
        raise NotImplementedError

    def _rows(self, shown: Shown, event: RowsEvent) -> None:
        if event.table_id in self.hidden_tables:
            if event.is_statement_end:
                self._statement_ends()
            return
        self._refuse_rows()
        words = f"\t{self._rows_word(event)}: table id {event.table_id}"
        words += rows_flags_text(event.flags, shown.format.flavour)
        self._say_rows(shown, words.encode() + b"\n")
        self.statement.add(shown)
        if self._decodes_rows or self._counts_rows:
            self._decode(event)
        if event.is_statement_end:
            self._statement_ends()

    def _decode(self, event: RowsEvent) -> None:
        """Count row changes, and comment them if wanted.

        A value that cannot be told is no reason to leave out the statement, which a server applies.
        """
        log = self._place
        try:
            changes = self.pseudo.changes(log.window, log.index, event)
            self.statement.rows += changes.rows
            if self._decodes_rows:
                self.statement.add_comments(changes.lines)
        except FormatError as error:
            if self._decodes_rows:
                self.warn(str(error.at(file=log.file, event_pos=log.pos)))
                self.statement.add_comments(iter((f"### {error.message}\n".encode(),)))

    def _refuse_rows(self) -> None:
        """With --base64-output=never rows cannot be printed: what MySQL's tool says."""

    def _statement_ends(self) -> None:
        self.hidden_tables.clear()
        if self.statement.is_open:
            self.statement.finish(self.write)

    def _rows_word(self, event: RowsEvent) -> str:
        return _ROWS_WORDS[event.operation]

    def _say_rows(self, shown: Shown, words: bytes) -> None:
        raise NotImplementedError

    def _annotate(self, shown: Shown, event: AnnotateRowsEvent) -> None:
        raise NotImplementedError

    def _rows_query(self, shown: Shown, event: RowsQueryEvent) -> None:
        raise NotImplementedError

    # -- LOAD DATA

    def _block(self, shown: Shown, event: FileBlockEvent) -> None:
        begins = event.frame.type_code == BEGIN_LOAD_QUERY_EVENT
        word = "Begin_load_query" if begins else "Append_block"
        words = f"\n#{word}: file_id: {event.file_id}  block_len: {event.block_bytes}\n"
        self.write(self.header(shown, words.encode()))
        if begins:
            self.load_files.begin(event.file_id, event.block)
        elif not self.load_files.append(event.file_id, event.block):
            self._file_without_beginning(event.file_id)

    def _file_without_beginning(self, file_id: int) -> None:
        self.warn(f"the beginning of the file {file_id} of LOAD DATA is not in the events shown")

    def _loaded_file(self, shown: Shown, event: LoadedFileEvent) -> None:
        deleted = event.frame.type_code == DELETE_FILE_EVENT
        word = "Delete_file" if deleted else "Exec_load"
        self.write(self.header(shown, f"\n#{word}: file_id={event.file_id}\n".encode()))
        load = self._old_loads.pop(event.file_id, None)
        if deleted:
            self.load_files.drop(event.file_id)
            return
        file = self.load_files.take(event.file_id)
        if load is None or file is None:
            self._file_without_beginning(event.file_id)
        else:
            self._say_old_load(load, file)

    def _old_load(self, shown: Shown, event: LoadEvent) -> None:
        """LOAD DATA of a file of the server's, which is not in the log."""
        self.write(self.header(shown, f"\tLoad\tthread_id={event.thread_id}\n".encode()))
        self._say_old_load(event, None)

    def _create_file(self, shown: Shown, event: CreateFileEvent) -> None:
        words = f"\n#Create_file: file_id: {event.file_id}  block_len: {event.block_bytes}\n"
        self.write(self.header(shown, words.encode()))
        self.load_files.begin(event.file_id, event.block)
        self._old_loads[event.file_id] = event

    def _say_old_load(self, event: LoadEvent, file: Path | None) -> None:
        database = self.options.renamed(event.database)
        if not self.options.shows(database):
            self._variables = []
            return
        self._flush_variables()
        if file is None:
            self.warn(f"LOAD DATA reads {event.file} on the server, which is not in the log")
        for line in self.session.prepare_load(event, database):
            self.write(line)
        self.write(old_load_statement(event, file))

    def _execute_load(self, shown: Shown, event: ExecuteLoadQueryEvent) -> None:
        database = self.options.renamed(event.database)
        file = self.load_files.take(event.file_id)
        if not self.options.shows(database):
            self._variables = []
            return
        # what the statement's INSERT_ID is must be said here, too
        self._flush_variables()
        if file is None:
            self._file_without_beginning(event.file_id)
            return
        self._say_query(shown, event, b"\tExecute_load_query", database)
        self.write(load_statement(event, file))
        if not self.options.short_form:
            self.write(f"# file_id: {event.file_id} \n".encode())

    # -- others

    def _incident(self, shown: Shown, event: IncidentEvent) -> None:
        words = f"\n# Incident: {event.incident}\nRELOAD DATABASE; # Shall generate syntax error\n"
        self.write(self.header(shown, words.encode()))

    def _payload(self, shown: Shown, event: TransactionPayloadEvent) -> None:
        words = f"\tTransaction_Payload\t\tpayload_size={event.payload_size}"
        words += f"\tcompression_type={_COMPRESSIONS.get(event.compression, event.compression)}"
        words += f"\tuncompressed_size={event.uncompressed_size}\n"
        if not self.options.short_form:
            self.write(self.header(shown, words.encode()) + b"# Start of compressed events.\n")
        self._inside_payload = True

    def _previous_gtids(self, shown: Shown, event: PreviousGtidsEvent) -> None:
        self._unknown(shown)

    def _gtid(self, shown: Shown, event: GtidEvent) -> None:
        self._unknown(shown)

    def _mariadb_gtid(self, shown: Shown, event: MariadbGtidEvent) -> None:
        self._unknown(shown)

    def _gtid_list(self, shown: Shown, event: GtidListEvent) -> None:
        self._unknown(shown)

    def _checkpoint(self, shown: Shown, event: BinlogCheckpointEvent) -> None:
        self._unknown(shown)

    def _unknown(self, shown: Shown) -> None:
        """An event that has no text: said where it may change data."""
        event = shown.event
        ignorable = shown.frame.flags & LOG_EVENT_IGNORABLE_F
        if isinstance(event, PartialRowDataEvent) or (
            shown.frame.type_code not in EVENT_TYPES and not ignorable
        ):
            place = self._place
            self.warn(f"{event.name} at {place.file}:{place.pos} has no text, and is left out")
        name = shown.event.name.removesuffix("_EVENT").capitalize()
        self.write(self.header(shown, f"\t{name}\n".encode()))


_CHARSET_VARIABLES = ("CHARACTER_SET_CLIENT", "CHARACTER_SET_RESULTS", "COLLATION_CONNECTION")
_COMPRESSIONS = {0: "ZSTD", 255: "NONE"}

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
